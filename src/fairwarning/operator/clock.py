"""What time it is for the fleet, and moving it."""

from fairwarning.core.inputs import parse_duration
from fairwarning.engine.clock import ManualClock
from fairwarning.operator import shapes
from fairwarning.operator.desk import Desk


async def clock(desk: Desk, _: str, asked: shapes.Nothing) -> shapes.Clock:
    """Return what time it is."""
    engine = desk.engine
    return shapes.Clock(
        mode="manual" if isinstance(engine.clock, ManualClock) else "real",
        now=engine.clock.now(),
        speed=engine.policy.speed,
        next_deadline=engine.next_deadline(),
    )


async def advance(desk: Desk, _: str, asked: shapes.Advance) -> shapes.Clock:
    """Move manual time on, stopping at every deadline on the way."""
    await desk.journeys.advance(parse_duration(asked.by, "by"), shapes.recorded(asked.who, "who"))
    return await clock(desk, "", shapes.Nothing())


async def next_deadline(desk: Desk, _: str, asked: shapes.Asker) -> shapes.Clock:
    """Move manual time to the next deadline; where nothing is due, time stays."""
    await desk.journeys.to_next_deadline(asked.who)
    return await clock(desk, "", shapes.Nothing())


async def set_speed(desk: Desk, _: str, asked: shapes.SpeedWanted) -> shapes.Clock:
    """Change how fast durations pass from now on."""
    await desk.journeys.set_speed(asked.speed, asked.who)
    return await clock(desk, "", shapes.Nothing())
