"""Drives an engine: starts on what is due, and wakes again at the next deadline.

The timer is a callback of the event loop: it wakes after every event that starts, and a task costs more to
wake.
"""

import asyncio
import logging

from fairwarning.engine.clock import Clock, ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.reconciler import without_timer
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.timer")

#: The longest sleep in seconds: a sleeper does not notice that the clock was set or the host suspended.
LOOK_AGAIN = 1.0


async def run(engine: Engine, clock: Clock) -> None:
    """Start on every deadline when it is reached, and on new impacts at once, until cancelled."""
    timer = _Timer(engine, clock)
    engine.reconciler.wake = timer.wake
    timer.wake()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.reconciler.watch())
        try:
            await asyncio.Event().wait()  # until cancelled
        finally:
            engine.reconciler.wake = without_timer
            timer.stop()


class _Timer:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Handle | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Start on what is due in the loop's next iteration, together with what else has come up by then."""
        if self._woken is None:
            self._woken = self._loop.call_soon(self._look_for_work)

    def stop(self) -> None:
        """Wake no more."""
        for handle in (self._woken, self._alarm):
            if handle is not None:
                handle.cancel()

    def _look_for_work(self) -> None:
        seconds: float | None = LOOK_AGAIN
        try:
            seconds = self._begin()
        except Exception:  # an error must not end the timer
            log.exception(LogMessage("tick_failed"))
        # Only now: what the reconciler has put off must not wake the timer at once.
        self._woken = None
        if seconds is not None:
            self._wake_by(self._loop.time() + seconds)

    def _begin(self) -> float | None:
        """Start on what is due, and return how long to sleep; None means until something changes."""
        now, reconciler = self._clock.now(), self._engine.reconciler
        reconciler.begin(now)
        # What is still left could not be handled a moment ago.
        if reconciler.has_work(now):
            return LOOK_AGAIN
        deadline = reconciler.next_deadline()
        # A manual clock does not move while the timer sleeps.
        if deadline is None or isinstance(self._clock, ManualClock):
            return None
        return min((deadline - now).total_seconds(), LOOK_AGAIN)

    def _wake_by(self, at: float) -> None:
        """Wake at a time of the loop, unless the alarm is set for an earlier one."""
        if self._alarm is not None:
            if self._alarm.when() <= at:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()
