"""Prunes the journal: removes lines that are too old, then the oldest while the data is too large.

Stored values about what ended before the oldest line that is kept go with the lines (``Forget``).

Lines are removed in small transactions, so that a commit never waits long for pruning. Lines about pending
events, and about events that ``Needed`` names, stay. Of several nodes, the one with the lease prunes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta

from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId
from fairwarning.core.policy import Retention
from fairwarning.engine.leases import Leases
from fairwarning.engine.ports import Entry, Store
from fairwarning.formats.log_messages import LogMessage

#: The number of lines that one transaction examines: a commit waits no longer than for these.
SLICE = 500

#: The number of newest lines that stay, whatever the size of the data.
SPARE = 10_000

#: The real time between two prunings, and between two slices.
EVERY, BETWEEN = timedelta(minutes=1), timedelta(milliseconds=20)

#: The key of the pruner's lease.
LEASE = "pruning"

log = logging.getLogger("fairwarning.engine")


#: Returns the events that are over but whose lines are still needed.
Needed = Callable[[], Awaitable[Collection[EventId]]]

#: Removes stored values about what ended before an instant.
Forget = Callable[[datetime], Awaitable[None]]


async def forget_nothing(before: datetime) -> None:
    """Remove no stored value."""


async def first_complete_line(store: Store) -> Entry | None:
    """Return the first line after the pruned part of the journal; None if the journal was never pruned."""
    upto = await store.pruned()
    lines = await store.journal(after=upto, limit=1) if upto else ()
    return lines[0] if lines else None


class Pruner:
    """Prunes the journal of a store."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        now: Callable[[], datetime],
        retention: Retention,
        needed: Needed,
        forget: Forget = forget_nothing,
    ) -> None:
        self._store = store
        self._leases = leases
        self._now = now
        self._retention = retention
        self._needed = needed
        self._forget = forget

    async def run(self) -> None:
        """Prune now and every minute, until cancelled."""
        while True:
            try:
                await self.prune()
            except FairWarningError as problem:
                log.error(LogMessage("journal_not_pruned", problem=problem))
            await asyncio.sleep(EVERY.total_seconds())

    async def prune(self, most: int = SLICE, spare: int = SPARE) -> None:
        """Remove the lines that are too old, and then the oldest while the data is too large.

        Does nothing while another node prunes.
        """
        begun = await self._store.pruned()
        keep = await self._needed()
        if self._retention.age is not None:
            before = self._now() - self._retention.age
            if await self._may_prune():
                await self._forget(before)
            while await self._may_prune() and await self._store.prune(before, most, keep) == most:
                await asyncio.sleep(BETWEEN.total_seconds())
        while await self._is_too_large() and await self._store.prune(None, most, keep, spare):
            await asyncio.sleep(BETWEEN.total_seconds())
        upto = await self._store.pruned()
        if upto > begun:
            log.info(LogMessage("journal_pruned", lines=upto - begun, upto=upto))

    async def _may_prune(self) -> bool:
        return await self._leases.hold(LEASE) is not None

    async def _is_too_large(self) -> bool:
        limit = self._retention.size
        return limit is not None and await self._may_prune() and await self._store.size() > limit
