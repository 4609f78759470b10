"""The fleet's clock: reading it and moving it."""

from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import OPERATOR
from fairwarning.engine.clock import ManualClock
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext


async def clock(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.ClockBody:
    """Return the fleet's time."""
    return await _clock_body(context)


async def advance(context: OperatorContext, _: str, request: schemas.AdvanceRequest) -> schemas.ClockBody:
    """Move manual time forward, stopping at every deadline on the way."""
    await context.control.advance(OPERATOR, parse_duration(request.by, "by"))
    return await _clock_body(context)


async def next_deadline(context: OperatorContext, _: str, request: schemas.ActorRequest) -> schemas.ClockBody:
    """Move manual time to the next deadline, if there is one."""
    await context.control.to_next_deadline(OPERATOR)
    return await _clock_body(context)


async def set_speed(context: OperatorContext, _: str, request: schemas.SpeedRequest) -> schemas.ClockBody:
    """Change how fast durations pass from now on."""
    await context.control.set_speed(OPERATOR, request.speed)
    return await _clock_body(context)


async def _clock_body(context: OperatorContext) -> schemas.ClockBody:
    engine = context.engine
    if isinstance(engine.clock, ManualClock):
        await engine.rest()
    return schemas.ClockBody(
        mode="manual" if isinstance(engine.clock, ManualClock) else "real",
        now=engine.clock.now(),
        speed=engine.policy.speed,
        next_deadline=engine.next_deadline(),
        zone=str(context.zone),
    )
