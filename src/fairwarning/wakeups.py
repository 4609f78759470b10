"""Wakes many waiters in slices, so that other work gets a turn of the event loop in between."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Protocol

#: The number of wakeups in one turn of the loop: about a millisecond of work, the delay that a poll may see.
SLICE = 64


class Sleeper(Protocol):
    """An object that waits to be woken."""

    def wake(self) -> None:
        """Check what has changed."""
        ...


class Wakeups:
    """A queue of sleepers; each turn of the loop wakes the next slice."""

    def __init__(self, loop: asyncio.AbstractEventLoop, slice: int = SLICE) -> None:
        self._loop = loop
        self._size = slice
        self._queue: deque[Sleeper] = deque()
        self._scheduled = False

    def add(self, sleepers: Iterable[Sleeper]) -> None:
        """Wake these sleepers soon, after those that are queued."""
        self._queue.extend(sleepers)
        if self._queue and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._wake_slice)

    def _wake_slice(self) -> None:
        self._scheduled = False
        try:
            for _ in range(min(self._size, len(self._queue))):
                self._queue.popleft().wake()
        finally:
            self.add(())
