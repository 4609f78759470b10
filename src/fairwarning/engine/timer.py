"""Real time: one task that sleeps until the next deadline."""

import asyncio
import logging
from contextlib import suppress

from fairwarning.engine.clock import Clock
from fairwarning.engine.engine import Engine

log = logging.getLogger("fairwarning.timer")

#: Seconds between looks at the clock: who sleeps does not notice that it was set, or the machine suspended.
LOOK_AGAIN = 1.0


async def run(engine: Engine, clock: Clock) -> None:
    """Send the engine a tick whenever one is due, for ever."""
    while True:
        deadline = engine.next_deadline()
        left = None if deadline is None else (deadline - clock.now()).total_seconds()
        if left is None or left > 0.0:
            engine.deadlines_moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left is None else min(left, LOOK_AGAIN)):
                    await engine.deadlines_moved.wait()
            continue
        try:
            await engine.tick()
        except Exception:  # the outermost loop: one bad tick must not end all others
            log.exception("tick_failed")
            await asyncio.sleep(1.0)
