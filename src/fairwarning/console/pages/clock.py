"""The clock page: what time it is for the fleet, and moving it."""

from fairwarning.console.context import ConsoleContext
from fairwarning.console.page import CONSOLE, Done, PageView, Visit
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.policy import SPEEDS
from fairwarning.engine.clock import ManualClock
from fairwarning.formats import durations

HERE = "/clock"

#: What is offered without typing.
STEPS = ("30s", "1m", "5m", "15m", "1h", "1d")
PACES = (1, 10, 60, 600)


async def show(room: ConsoleContext, visit: Visit) -> PageView:
    """Return the clock page."""
    engine = room.engine
    manual, speed = isinstance(engine.clock, ManualClock), engine.policy.speed
    facts = TemplateMacros("_clock.html", visit).fragment(
        "facts", "clock-facts", manual=manual, speed=speed, deadline=engine.next_deadline()
    )
    values = {"manual": manual, "speed": speed, "steps": STEPS, "paces": PACES, "speeds": SPEEDS}
    return PageView(title="Clock", template="clock.html", values=values, fragments=(facts,))


async def advance(room: ConsoleContext, visit: Visit) -> Done:
    """Move manual time on."""
    by = parse_duration(visit.form.get("by"), "by")
    await room.journeys.advance(by, CONSOLE)
    return Done(HERE, f"time moved on by {durations.for_people(by)}")


async def next_deadline(room: ConsoleContext, visit: Visit) -> Done:
    """Move manual time to the next deadline."""
    before = room.engine.clock.now()
    await room.journeys.to_next_deadline(CONSOLE)
    moved = room.engine.clock.now() - before
    return Done(
        HERE, f"time moved on by {durations.for_people(moved)}" if moved else "nothing is due: time stays"
    )


async def set_speed(room: ConsoleContext, visit: Visit) -> Done:
    """Let durations pass faster or slower."""
    try:
        speed = float(visit.form.get("speed"))
    except ValueError:
        raise InvalidError("speed", "write a number, such as 60") from None
    await room.journeys.set_speed(speed, CONSOLE)
    return Done(HERE, f"durations now pass {speed:g} times as fast as announced")
