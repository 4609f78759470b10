"""The live feed of committed journal lines.

There are two kinds of readers:

* A *subscription* receives every line through a bounded queue. ``publish`` never waits for a slow
  subscriber: a full queue is emptied, and the reader gets a ``LaggingError``. It then reads the journal
  from its last line.
* A *waiter* is woken once when the document of a scope changes, and then looks at the document itself. Many
  guests may wait for one scope, so ``Wakeups`` wakes them in slices.

``start_over`` is called after a reload of the state: changes may have been committed without being
published, so every reader is treated as lagging.
"""

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
    """Lines were lost; the reader has to read the journal from its last line."""


class Subscription:
    """A bounded queue of journal lines, for one reader."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: deque[Entry] = deque()
        self._lost = False
        self._reader: asyncio.Future[None] | None = None

    def offer(self, entry: Entry) -> None:
        """Queue a line; a full queue is emptied first, and the reader gets a ``LaggingError``."""
        if len(self._queue) + self._lost >= self._size:
            self.drop_lines()
        self._queue.append(entry)
        self.wake()

    def drop_lines(self) -> None:
        """Empty the queue; the next read raises ``LaggingError``."""
        self._queue.clear()
        self._lost = True
        self.wake()

    def wake(self) -> None:
        """End the wait of the reader, if it is waiting."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def next(self) -> Entry:
        """Return the next line.

        Raises:
            LaggingError: lines were lost since the last call.
        """
        while not self._queue and not self._lost:
            await self._woken(None)
        self._check()
        return self._queue.popleft()

    async def next_batch(self, timeout: timedelta) -> list[Entry]:
        """Return all queued lines; none if there are none before the timeout or a call of ``wake``.

        Raises:
            LaggingError: lines were lost since the last call.
        """
        if not self._queue and not self._lost:
            await self._woken(timeout)
        self._check()
        lines = list(self._queue)
        self._queue.clear()
        return lines

    def _check(self) -> None:
        if self._lost:
            self._lost = False
            raise LaggingError

    async def _woken(self, timeout: timedelta | None) -> None:
        loop = asyncio.get_running_loop()
        self._reader = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout.total_seconds(), self.wake)
        try:
            await self._reader
        finally:
            self._reader = None
            if timer is not None:
                timer.cancel()


class Feed:
    """Gives every committed journal line to every subscription, and wakes the waiters of a document."""

    def __init__(self) -> None:
        #: Increases with every publication: a reader that saw this number has missed nothing.
        self.revision = 0
        self._subscriptions: set[Subscription] = set()
        # A dict keeps its order: the longest wait is woken first.
        self._waiters: dict[ScopeId, dict[Sleeper, None]] = defaultdict(dict)
        self._wakeups: Wakeups | None = None

    def publish(self, entries: Sequence[Entry]) -> None:
        """Give the lines of a commit to all subscriptions, and wake the waiters of changed documents."""
        self.revision += 1
        for entry in entries:
            for subscription in self._subscriptions:
                subscription.offer(entry)
            if isinstance(entry.change, (Published, ScopeRemoved)):
                self.wake(entry.change.scope)

    def start_over(self) -> None:
        """Make all readers read anew: changes may have been committed but not published."""
        self.revision += 1
        for subscription in self._subscriptions:
            subscription.drop_lines()
        self.wake_all()

    def wake_all(self) -> None:
        """Wake the waiters of all documents."""
        for scope in list(self._waiters):
            self.wake(scope)

    @contextmanager
    def subscribe(self, size: int = 1000) -> Iterator[Subscription]:
        """Yield a subscription that ends with the block."""
        subscription = Subscription(size)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def wake(self, scope: ScopeId) -> None:
        """Wake the waiters of a scope's document."""
        if self._wakeups is not None:
            self._wakeups.add(self._waiters.pop(scope, ()))

    def add_waiter(self, scope: ScopeId, sleeper: Sleeper) -> None:
        """Wake ``sleeper`` once, when the scope's document changes."""
        if self._wakeups is None:
            self._wakeups = Wakeups(asyncio.get_running_loop())
        self._waiters[scope][sleeper] = None

    def remove_waiter(self, scope: ScopeId, sleeper: Sleeper) -> None:
        """Forget ``sleeper``; a wakeup that is already queued still happens."""
        waiters = self._waiters.get(scope)
        if waiters is not None:
            waiters.pop(sleeper, None)
            if not waiters:
                del self._waiters[scope]

    async def document_change(self, scope: ScopeId) -> None:
        """Return once the scope's document has changed."""
        waiter = _FutureWaiter(asyncio.get_running_loop().create_future())
        self.add_waiter(scope, waiter)
        try:
            await waiter.woken
        finally:
            self.remove_waiter(scope, waiter)


class _FutureWaiter:
    def __init__(self, woken: asyncio.Future[None]) -> None:
        self.woken = woken

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)
