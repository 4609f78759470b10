"""Faults of single metadata endpoints."""

import asyncio

from fairwarning.engine.faults import ActiveFault
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.fleet import machine_body


async def set_fault(
    context: OperatorContext, name: str, request: schemas.FaultRequest
) -> schemas.MachineBody:
    """Make a machine's endpoint misbehave, for a while or until the fault is cleared."""
    ref = context.engine.directory.machine(name)
    now = asyncio.get_running_loop().time()
    fault = ActiveFault.parse(request.fault, request.lasts, request.delay, now)
    await context.engine.faults.set(ref, fault, request.actor)
    return machine_body(context, ref)


async def clear_fault(
    context: OperatorContext, name: str, request: schemas.ActorRequest
) -> schemas.MachineBody:
    """Make a machine's endpoint work again."""
    ref = context.engine.directory.machine(name)
    await context.engine.faults.clear(ref, request.actor)
    return machine_body(context, ref)
