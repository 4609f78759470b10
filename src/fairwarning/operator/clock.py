"""What time it is for the fleet, and moving it."""

from fairwarning.core.inputs import parse_duration
from fairwarning.engine.clock import ManualClock
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext


async def clock(desk: OperatorContext, _: str, asked: schemas.Nothing) -> schemas.ClockBody:
    """Return what time it is."""
    engine = desk.engine
    return schemas.ClockBody(
        mode="manual" if isinstance(engine.clock, ManualClock) else "real",
        now=engine.clock.now(),
        speed=engine.policy.speed,
        next_deadline=engine.next_deadline(),
    )


async def advance(desk: OperatorContext, _: str, asked: schemas.Advance) -> schemas.ClockBody:
    """Move manual time on, stopping at every deadline on the way."""
    await desk.journeys.advance(parse_duration(asked.by, "by"), schemas.recorded(asked.who, "who"))
    return await clock(desk, "", schemas.Nothing())


async def next_deadline(desk: OperatorContext, _: str, asked: schemas.Asker) -> schemas.ClockBody:
    """Move manual time to the next deadline; where nothing is due, time stays."""
    await desk.journeys.to_next_deadline(asked.who)
    return await clock(desk, "", schemas.Nothing())


async def set_speed(desk: OperatorContext, _: str, asked: schemas.SpeedWanted) -> schemas.ClockBody:
    """Change how fast durations pass from now on."""
    await desk.journeys.set_speed(asked.speed, asked.who)
    return await clock(desk, "", schemas.Nothing())
