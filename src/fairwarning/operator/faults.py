"""Faults of single endpoints."""

import asyncio

from fairwarning.engine.faults import ActiveFault
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.fleet import machine_shape


async def put(desk: OperatorContext, name: str, asked: schemas.FaultWanted) -> schemas.MachineBody:
    """Let a machine's endpoint misbehave, for a while or until it is healed."""
    ref = desk.engine.directory.machine(name)
    now = asyncio.get_running_loop().time()
    fault = ActiveFault.parse(asked.fault, asked.lasts, asked.delay, now)
    await desk.engine.faults.set(ref, fault, asked.who)
    return machine_shape(desk, ref)


async def heal(desk: OperatorContext, name: str, asked: schemas.Asker) -> schemas.MachineBody:
    """Let a machine's endpoint work again."""
    ref = desk.engine.directory.machine(name)
    await desk.engine.faults.clear(ref, asked.who)
    return machine_shape(desk, ref)
