"""Faults of single metadata endpoints."""

from fairwarning.core.model import OPERATOR
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.fleet import machine_body


async def set_fault(
    context: OperatorContext, name: str, request: schemas.FaultRequest
) -> schemas.MachineBody:
    """Make a machine's endpoint misbehave, for a while or until the fault is cleared."""
    ref = await context.control.set_fault(OPERATOR, name, request.fault, request.lasts, request.delay)
    return machine_body(context, ref)


async def clear_fault(
    context: OperatorContext, name: str, request: schemas.ActorRequest
) -> schemas.MachineBody:
    """Make a machine's endpoint work again."""
    return machine_body(context, await context.control.clear_fault(OPERATOR, name))
