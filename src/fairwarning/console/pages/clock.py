"""The clock page: shows the fleet's clock, advances a manual clock, changes the speed of a real one."""

from fairwarning.console.context import ConsoleContext
from fairwarning.console.page import CONSOLE, FormResult, PageRequest, PageView
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.policy import SPEEDS
from fairwarning.engine.clock import ManualClock
from fairwarning.formats import durations

PATH = "/clock"

#: The durations and speeds that have a button.
STEPS = ("30s", "1m", "5m", "15m", "1h", "1d")
SPEED_BUTTONS = (1, 10, 60, 600)


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the clock page."""
    engine = context.engine
    manual, speed = isinstance(engine.clock, ManualClock), engine.policy.speed
    if manual:
        await engine.rest()
    facts = TemplateMacros("_clock.html", request).fragment(
        "facts", "clock-facts", manual=manual, speed=speed, deadline=engine.next_deadline()
    )
    values = {
        "manual": manual, "speed": speed, "steps": STEPS, "speed_buttons": SPEED_BUTTONS, "speeds": SPEEDS,
    }  # fmt: skip
    return PageView(title="Clock", template="clock.html", values=values, fragments=(facts,))


async def advance(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Advance a manual clock by a duration."""
    by = parse_duration(request.form.get("by"), "by")
    await context.control.advance(CONSOLE, by)
    return FormResult(PATH, f"The clock was advanced by {durations.for_people(by)}.")


async def next_deadline(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Advance a manual clock to the next deadline."""
    before = context.engine.clock.now()
    await context.control.to_next_deadline(CONSOLE)
    moved = context.engine.clock.now() - before
    if not moved:
        return FormResult(PATH, "Nothing is due; the clock was not advanced.")
    return FormResult(PATH, f"The clock was advanced by {durations.for_people(moved)}.")


async def set_speed(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Change the speed of a real clock."""
    try:
        speed = float(request.form.get("speed"))
    except ValueError:
        raise InvalidError("speed", "must be a number, such as 60") from None
    await context.control.set_speed(CONSOLE, speed)
    return FormResult(PATH, f"Durations now pass {speed:g} times as fast.")
