"""Much to do at once is done a slice at a time, so that everybody else gets a turn in between."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Protocol

#: How many are woken in one turn of the loop: a millisecond's work, for which a poll may have to wait.
SLICE = 64


class Sleeper(Protocol):
    """Somebody who wants to be woken."""

    def wake(self) -> None:
        """Look around: something may have changed."""
        ...


class Wakeups:
    """Wakes sleepers in the order they were given, so many in one turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, slice: int = SLICE) -> None:
        self._loop = loop
        self._size = slice
        self._queue: deque[Sleeper] = deque()
        self._going = False

    def add(self, sleepers: Iterable[Sleeper]) -> None:
        """Wake these, soon."""
        self._queue.extend(sleepers)
        if self._queue and not self._going:
            self._going = True
            self._loop.call_soon(self._slice)

    def _slice(self) -> None:
        self._going = False
        try:
            for _ in range(min(self._size, len(self._queue))):
                self._queue.popleft().wake()
        finally:
            self.add(())
