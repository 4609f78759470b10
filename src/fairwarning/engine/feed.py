"""Tells whoever listens what was committed."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from fairwarning.core.changes import Published, ScopeRemoved
from fairwarning.core.model import ScopeId
from fairwarning.engine.ports import Entry
from fairwarning.wakeups import Sleeper, Wakeups


class LaggingError(Exception):
    """The listener was too slow; it has to read the journal from where it stood."""


class Subscription:
    """A bounded queue of journal lines, for one reader."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: deque[Entry] = deque()
        self._lost = False
        self._reader: asyncio.Future[None] | None = None

    def offer(self, entry: Entry) -> None:
        """Hand over a line; a full listener loses its place instead of holding up everybody else."""
        if len(self._queue) + self._lost >= self._size:
            self.lose()
        self._queue.append(entry)
        self.wake()

    def lose(self) -> None:
        """Drop what is queued; the listener is told so next."""
        self._queue.clear()
        self._lost = True
        self.wake()

    def wake(self) -> None:
        """Let a reader that waits look around."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def next(self) -> Entry:
        """Return the next line.

        Raises:
            Lagging: lines were lost since the last call; what comes next is newer.
        """
        while not self._queue and not self._lost:
            await self._woken(None)
        self._check()
        return self._queue.popleft()

    async def some(self, patience: timedelta) -> list[Entry]:
        """Return all lines that wait; none if there are none for a while, or the reader was woken.

        Raises:
            Lagging: lines were lost since the last call; what comes next is newer.
        """
        if not self._queue and not self._lost:
            await self._woken(patience)
        self._check()
        found = list(self._queue)
        self._queue.clear()
        return found

    def _check(self) -> None:
        if self._lost:
            self._lost = False
            raise LaggingError

    async def _woken(self, patience: timedelta | None) -> None:
        loop = asyncio.get_running_loop()
        self._reader = loop.create_future()
        timer = None if patience is None else loop.call_later(patience.total_seconds(), self.wake)
        try:
            await self._reader
        finally:
            self._reader = None
            if timer is not None:
                timer.cancel()


class Feed:
    """Hands every committed journal line to every listener, and wakes those who wait for a document."""

    def __init__(self) -> None:
        #: Grows whenever anything is told: who saw it at this number has missed nothing.
        self.told = 0
        self._listeners: set[Subscription] = set()
        # Kept in order: who has waited longest is woken first.
        self._waiting: dict[ScopeId, dict[Sleeper, None]] = defaultdict(dict)
        self._turns: Wakeups | None = None

    def publish(self, entries: Sequence[Entry]) -> None:
        """Tell everybody."""
        self.told += 1
        for entry in entries:
            for listener in self._listeners:
                listener.offer(entry)
            if isinstance(entry.change, Published | ScopeRemoved):
                self.wake(entry.change.scope)

    def start_over(self) -> None:
        """Tell everybody that changes may have gone by untold."""
        self.told += 1
        for listener in self._listeners:
            listener.lose()
        for scope in list(self._waiting):
            self.wake(scope)

    @contextmanager
    def listen(self, size: int = 1000) -> Iterator[Subscription]:
        """Give a listener for as long as the block lasts."""
        listener = Subscription(size)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def wake(self, scope: ScopeId) -> None:
        """Let everybody who waits for the scope's document look at it again."""
        if self._turns is not None:
            self._turns.add(self._waiting.pop(scope, ()))

    def attend(self, scope: ScopeId, sleeper: Sleeper) -> None:
        """Wake somebody, once, when the scope's document changes."""
        if self._turns is None:
            self._turns = Wakeups(asyncio.get_running_loop())
        self._waiting[scope][sleeper] = None

    def leave(self, scope: ScopeId, sleeper: Sleeper) -> None:
        """Wake somebody no more; one whose turn has come already is woken all the same."""
        waiting = self._waiting.get(scope)
        if waiting is not None:
            waiting.pop(sleeper, None)
            if not waiting:
                del self._waiting[scope]

    async def document_change(self, scope: ScopeId) -> None:
        """Return once the scope's document has changed."""
        task = _Task(asyncio.get_running_loop().create_future())
        self.attend(scope, task)
        try:
            await task.woken
        finally:
            self.leave(scope, task)


class _Task:
    def __init__(self, woken: asyncio.Future[None]) -> None:
        self.woken = woken

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)
