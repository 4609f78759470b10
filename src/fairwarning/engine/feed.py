"""Tells whoever listens what was committed."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fairwarning.core.changes import Published, ScopeRemoved
from fairwarning.core.model import ScopeId
from fairwarning.engine.ports import Entry


class Lagging(Exception):
    """The listener was too slow; it has to read the journal from where it stood."""


class Listener:
    """A bounded queue of journal lines."""

    def __init__(self, size: int) -> None:
        self._queue: asyncio.Queue[Entry | None] = asyncio.Queue(size)

    def offer(self, entry: Entry) -> None:
        """Hand over a line; a full listener loses its place instead of holding up everybody else."""
        if self._queue.full():
            self.lose()
        self._queue.put_nowait(entry)

    def lose(self) -> None:
        """Drop what is queued; the listener is told so next."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def next(self) -> Entry:
        """Return the next line.

        Raises:
            Lagging: lines were lost since the last call; what comes next is newer.
        """
        entry = await self._queue.get()
        if entry is None:
            raise Lagging
        return entry


class Feed:
    """Hands every committed journal line to every listener, and wakes those who wait for a document."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._waiting: dict[ScopeId, set[asyncio.Future[None]]] = defaultdict(set)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Tell everybody."""
        for entry in entries:
            for listener in self._listeners:
                listener.offer(entry)
            if isinstance(entry.change, Published | ScopeRemoved):
                self._wake(entry.change.scope)

    def start_over(self) -> None:
        """Tell everybody that changes may have gone by untold."""
        for listener in self._listeners:
            listener.lose()
        for scope in list(self._waiting):
            self._wake(scope)

    @contextmanager
    def listen(self, size: int = 1000) -> Iterator[Listener]:
        """Give a listener for as long as the block lasts."""
        listener = Listener(size)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def _wake(self, scope: ScopeId) -> None:
        for waiter in self._waiting.pop(scope, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def document_change(self, scope: ScopeId) -> None:
        """Return once the scope's document has changed."""
        waiter = asyncio.get_running_loop().create_future()
        waiting = self._waiting[scope]
        waiting.add(waiter)
        try:
            await waiter
        finally:
            waiting.discard(waiter)
            if not waiting and self._waiting.get(scope) is waiting:
                del self._waiting[scope]
