"""Keeps the history from growing without end: what is too old, or too much, is removed a slice at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta

from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId
from fairwarning.core.policy import Retention
from fairwarning.engine.ports import Entry, Store

#: How many lines go in one transaction: who waits for a commit waits no longer for them.
SLICE = 500

#: However much room everything takes, so many of the newest lines stay.
SPARE = 10_000

#: How long to wait between two looks, in real time, and between two slices.
EVERY, BETWEEN = timedelta(minutes=1), timedelta(milliseconds=20)

log = logging.getLogger("fairwarning.engine")


#: Returns the events whose lines are needed though they are over.
Needed = Callable[[], Awaitable[Collection[EventId]]]


async def beginning(store: Store) -> Entry | None:
    """Return the line from which on the history is complete; None if none was ever pruned."""
    upto = await store.pruned()
    lines = await store.journal(after=upto, limit=1) if upto else ()
    return lines[0] if lines else None


class Pruner:
    """Prunes the journal of a store."""

    def __init__(
        self, store: Store, now: Callable[[], datetime], retention: Retention, needed: Needed
    ) -> None:
        self._store = store
        self._now = now
        self._retention = retention
        self._needed = needed

    async def run(self) -> None:
        """Prune now and every minute, for ever."""
        while True:
            try:
                await self.prune()
            except FairWarningError as problem:
                log.error("journal_not_pruned problem=%s", problem)
            await asyncio.sleep(EVERY.total_seconds())

    async def prune(self, most: int = SLICE, spare: int = SPARE) -> None:
        """Remove all that is too old, and then the oldest while there is too much."""
        begun = await self._store.pruned()
        keep = await self._needed()
        if self._retention.age is not None:
            before = self._now() - self._retention.age
            while await self._store.prune(before, most, keep) == most:
                await asyncio.sleep(BETWEEN.total_seconds())
        while await self._too_much() and await self._store.prune(None, most, keep, spare):
            await asyncio.sleep(BETWEEN.total_seconds())
        upto = await self._store.pruned()
        if upto > begun:
            log.info("journal_pruned lines=%d upto=%d", upto - begun, upto)

    async def _too_much(self) -> bool:
        return self._retention.size is not None and await self._store.size() > self._retention.size
