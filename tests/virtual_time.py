"""Real time without waiting: a loop that skips its sleeps, and a wall clock that runs with it."""

import asyncio
import selectors
from collections.abc import Coroutine
from contextlib import closing
from datetime import datetime, timedelta
from typing import TypeVar

from tests.fleet_harness import NOON

T = TypeVar("T")


class LeapingSelector(selectors.SelectSelector):
    """A selector that advances the loop's time instead of sleeping."""

    slept = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, and skip the time that nothing is."""
        ready = super().select(0)
        if not ready and timeout is not None:
            self.slept += max(timeout, 0.0)
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose monotonic time is the time that its selector has skipped."""

    def __init__(self) -> None:
        self._leaping = LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        """Return the skipped time in seconds."""
        return self._leaping.slept


class WallClock:
    """Wall time that runs with the loop and can be set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.set_by = timedelta(0)
        self.looks = 0

    def now(self) -> datetime:
        """Return the current time, in whole microseconds."""
        self.looks += 1
        return NOON + timedelta(microseconds=round(self._loop.time() * 1_000_000)) + self.set_by


def run_leaping(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine in a loop that skips its sleeps."""
    with closing(LeapingLoop()) as loop:
        return loop.run_until_complete(coroutine)
