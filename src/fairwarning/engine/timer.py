"""Drives an engine: one task that starts on what is due, and sleeps until the next deadline."""

import asyncio
import logging

from fairwarning.engine.clock import Clock, ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.timer")

#: The longest sleep in seconds: a sleeping task does not notice that the clock was set or the host suspended.
LOOK_AGAIN = 1.0


async def run(engine: Engine, clock: Clock) -> None:
    """Start on every deadline when it is reached, and on new impacts at once, until cancelled."""
    loop, moved = asyncio.get_running_loop(), engine.reconciler.moved
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.reconciler.watch())
        while True:
            seconds: float | None = LOOK_AGAIN
            try:
                seconds = _begin(engine, clock)
            except Exception:  # the outermost loop: an error must not end the timer
                log.exception(LogMessage("tick_failed"))
            moved.clear()
            alarm = None if seconds is None else loop.call_later(seconds, moved.set)
            await moved.wait()
            if alarm is not None:
                alarm.cancel()


def _begin(engine: Engine, clock: Clock) -> float | None:
    """Start on what is due, and return how long to sleep; None means until something changes."""
    now = clock.now()
    engine.reconciler.begin(now)
    # What is still left could not be handled a moment ago.
    if engine.reconciler.has_work(now):
        return LOOK_AGAIN
    deadline = engine.next_deadline()
    # A manual clock does not move while the timer sleeps.
    if deadline is None or isinstance(clock, ManualClock):
        return None
    return min((deadline - now).total_seconds(), LOOK_AGAIN)
