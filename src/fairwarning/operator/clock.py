"""What time it is for the fleet, and moving it."""

from datetime import timedelta

from fairwarning.core import durations
from fairwarning.core.errors import Invalid
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.travel import travel
from fairwarning.operator import shapes
from fairwarning.operator.desk import Desk
from fairwarning.operator.problems import WrongClock

#: The longest journey of one request.
FARTHEST = timedelta(days=366)

#: No journey goes beyond; the longest duration must still fit in between here and the calendar's end.
LAST_YEAR = 8000


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
    manual = _manual(desk)
    by = durations.parse(asked.by, "by")
    if by > FARTHEST:
        raise Invalid("by", f"at most {durations.spell(FARTHEST)} at a time, not {durations.spell(by)}")
    async with desk.travelling:
        to = manual.now() + by
        if to.year > LAST_YEAR:
            raise Invalid("by", f"leads beyond the year {LAST_YEAR}")
        await travel(desk.engine, manual, to)
        await desk.engine.store.note("clock", manual.now().isoformat())
    return await clock(desk, "", shapes.Nothing())


async def next_deadline(desk: Desk, _: str, asked: shapes.Nothing) -> shapes.Clock:
    """Move manual time to the next deadline; where nothing is due, time stays."""
    manual = _manual(desk)
    async with desk.travelling:
        to = desk.engine.next_deadline()
        if to is not None:
            await travel(desk.engine, manual, to)
            await desk.engine.store.note("clock", manual.now().isoformat())
    return await clock(desk, "", shapes.Nothing())


async def set_speed(desk: Desk, _: str, asked: shapes.SpeedWanted) -> shapes.Clock:
    """Change how fast durations pass from now on."""
    if isinstance(desk.engine.clock, ManualClock):
        raise WrongClock("the clock is manual: it is advanced, it has no speed")
    desk.engine.set_speed(asked.speed)
    return await clock(desk, "", shapes.Nothing())


def _manual(desk: Desk) -> ManualClock:
    if not isinstance(desk.engine.clock, ManualClock):
        raise WrongClock("the clock is real: it cannot be advanced; start with a manual clock")
    return desk.engine.clock
