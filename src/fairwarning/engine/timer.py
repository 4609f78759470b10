"""Real time: one task that sleeps until the next deadline."""

import asyncio
import logging
from contextlib import suppress

from fairwarning.engine.clock import SystemClock
from fairwarning.engine.engine import Engine

log = logging.getLogger("fairwarning.timer")


async def run(engine: Engine, clock: SystemClock) -> None:
    """Send the engine a tick whenever one is due, for ever."""
    while True:
        deadline = engine.next_deadline()
        if deadline is None or deadline > clock.now():
            engine.deadlines_moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(clock.seconds_until(deadline)):
                    await engine.deadlines_moved.wait()
            continue
        try:
            await engine.tick()
        except Exception:  # the outermost loop: one bad tick must not end all others
            log.exception("tick_failed")
            await asyncio.sleep(1.0)
