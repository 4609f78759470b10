"""The last poll of every scope.

A poll is recorded in memory, where it costs next to nothing. Once in a while its instant is written to the
journal, for all scopes that have become due in one line, so that a restarted server and other nodes know
which scopes are still being polled (R-22). The last poll is no part of a scope: recording it changes none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from itertools import islice

from fairwarning.core.changes import PollsRecorded
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import ScopeId, ScopeProperties
from fairwarning.engine.clock import Clock, ManualClock
from fairwarning.engine.replica import Replica

#: The shortest time between two writes of polls, unless the clock is manual, and the most scopes of one line.
BETWEEN, MOST = timedelta(minutes=1), 1000


class Polls:
    """The last poll of every scope; ``write`` adds a line to the journal."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        refresh: timedelta,
        write: Callable[[PollsRecorded], Awaitable[None]],
    ) -> None:
        self._replica = replica
        self._clock = clock
        #: How old the stored instant of a poll may become.
        self.refresh = refresh
        self._write = write
        self._latest: dict[ScopeId, datetime] = {}
        #: The scopes whose last poll should be written, in order.
        self._due: dict[ScopeId, None] = {}
        self._writing: asyncio.Task[None] | None = None
        self._written_at = float("-inf")

    def last(self, facts: ScopeProperties) -> datetime | None:
        """Return the last poll of a scope."""
        latest, stored = self._latest.get(facts.id), self._stored(facts)
        return stored if latest is None else latest if stored is None else max(latest, stored)

    def stale_at(self, facts: ScopeProperties) -> datetime | None:
        """Return when the stored poll becomes too old; None if no poll is stored."""
        stored = self._stored(facts)
        return None if stored is None else stored + self.refresh

    def record(self, scope_id: ScopeId, now: datetime) -> None:
        """Record a poll in memory."""
        self._latest[scope_id] = now

    def record_for_good(self, facts: ScopeProperties, now: datetime) -> None:
        """Record a poll in memory, and in the journal if the stored instant is too old."""
        self._latest[facts.id] = now
        stored = self._stored(facts)
        if stored is not None and now - stored >= self.refresh:
            self._due[facts.id] = None
            if self._writing is None:
                self._writing = asyncio.create_task(self._write_soon())

    def forget(self, scope_id: ScopeId) -> None:
        """Forget a scope that was removed."""
        self._latest.pop(scope_id, None)
        self._due.pop(scope_id, None)

    async def flush(self) -> None:
        """Write all instants that are due; a failure is left to a later poll."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
        await self._write_due()

    async def _write_soon(self) -> None:
        # On a manual clock, the place of a line must not depend on how fast real time passes.
        if not isinstance(self._clock, ManualClock):
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._written_at + BETWEEN.total_seconds() - loop.time())
            self._written_at = loop.time()
        self._writing = None
        await self._write_due()

    async def _write_due(self) -> None:
        while self._due:
            scopes = tuple(islice(self._due, MOST))
            for scope_id in scopes:
                del self._due[scope_id]
            try:
                # One instant stands for all: the earliest, so that no poll is recorded too late.
                await self._write(PollsRecorded(at=min(map(self._latest.__getitem__, scopes)), scopes=scopes))
            except FairWarningError:
                return  # the store's error is reported elsewhere

    def _stored(self, facts: ScopeProperties) -> datetime | None:
        enabled, stored = facts.polled_at, self._replica.polled_at(facts.id)
        return stored if enabled is None else enabled if stored is None else max(enabled, stored)
