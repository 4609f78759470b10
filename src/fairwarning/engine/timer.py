"""Drives an engine in real time: one task that sleeps until the next deadline."""

import asyncio
import logging
from contextlib import suppress

from fairwarning.engine.clock import Clock
from fairwarning.engine.engine import Engine

log = logging.getLogger("fairwarning.timer")

#: The longest sleep in seconds: a sleeping task does not notice that the clock was set or the host suspended.
LOOK_AGAIN = 1.0


async def run(engine: Engine, clock: Clock) -> None:
    """Send the engine a tick at every deadline, until cancelled."""
    while True:
        deadline = engine.next_deadline()
        seconds = None if deadline is None else (deadline - clock.now()).total_seconds()
        if seconds is None or seconds > 0.0:
            engine.deadlines_moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if seconds is None else min(seconds, LOOK_AGAIN)):
                    await engine.deadlines_moved.wait()
            continue
        try:
            await engine.tick()
        except Exception:  # the outermost loop: a failed tick must not end the timer
            log.exception("tick_failed")
            await asyncio.sleep(1.0)
