"""A store in memory, for tests and temporary emulators."""

from bisect import bisect_right
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from types import MappingProxyType

from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.core.stored.releases import NEWEST
from fairwarning.engine.ports import (
    Aggregate,
    AggregateKind,
    Batch,
    Entry,
    FleetSnapshot,
    Lease,
    SetName,
    StaleBatchError,
)
from fairwarning.store.entries import (
    Receipts,
    event_of,
    last_polls,
    number_lines,
    readable,
    readable_texts,
    remade_scopes,
)
from fairwarning.store.following import Followers
from fairwarning.store.leases import next_lease, released, renewed

#: The approximate size of a journal line in bytes.
LINE_SIZE = 1000


class MemoryStore:
    """A store whose data ends with the process."""

    history = 0
    oldest_reader = NEWEST

    def __init__(self) -> None:
        self._scopes: dict[ScopeId, Scope] = {}
        self._scope_stamps: dict[ScopeId, int] = {}
        self._sets: dict[str, SetName] = {}
        self._texts: dict[str, str] = {}
        self._text_stamps: dict[str, int] = {}
        self._polled: dict[ScopeId, datetime] = {}
        self._journal: list[Entry] = []
        self._last = 0
        self._pruned = 0
        self._receipts = Receipts()
        self._followers = Followers()
        self._leases: dict[str, Lease] = {}
        self._values: dict[str, str] = {}

    async def snapshot(self) -> FleetSnapshot:
        """Return the whole state as of the last batch."""
        return FleetSnapshot(
            position=self._last,
            scopes=MappingProxyType(dict(self._scopes)),
            scope_stamps=MappingProxyType(dict(self._scope_stamps)),
            sets=MappingProxyType(dict(self._sets)),
            texts=MappingProxyType(dict(self._texts)),
            text_stamps=MappingProxyType(dict(self._text_stamps)),
            polled=MappingProxyType(dict(self._polled)),
            stamp=self._journal[-1].stamp if self._journal else 0,
        )

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        """Store a batch, or none of it, and return its journal lines."""
        known = self._receipts.get(batch.stamp)
        if known is not None:
            lines = await self.journal(after=known.start - 1, limit=len(known))
            return [entry for entry in lines if entry.stamp == batch.stamp]
        self._check(batch)
        entries = number_lines(batch, self._last)
        self._write(batch)
        self._journal += entries
        self._receipts.add(batch.stamp, range(self._last + 1, self._last + 1 + len(entries)))
        self._last += len(entries)
        self._followers.announce(entries)
        return entries

    async def last(self) -> int:
        """Return the number of the journal's last line."""
        return self._last

    def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the lines after line ``after`` as they are stored, whole batches at once."""

        async def read(start: int, limit: int) -> tuple[Sequence[Entry], int]:
            return await self.journal(after=start, limit=limit), self._pruned

        return self._followers.follow(after, stamp, read)

    async def claim(self, key: str, owner: str, now: datetime, lasts: timedelta) -> Lease | None:
        """Return a new lease with the next fence; None while another owner's lease lasts."""
        return self._put_lease(next_lease(self._leases.get(key), key, owner, now, lasts))

    async def renew(self, lease: Lease, now: datetime, lasts: timedelta) -> Lease | None:
        """Return the lease with a later end; None if it is no longer the newest."""
        return self._put_lease(renewed(self._leases.get(lease.key), lease, now, lasts))

    async def release(self, lease: Lease) -> None:
        """End a lease, unless it is no longer the newest."""
        self._put_lease(released(self._leases.get(lease.key), lease))

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
        newest_first: bool = False,
    ) -> Sequence[Entry]:
        """Return ``limit`` journal lines after line ``after``: of an event, of a scope, or all."""
        found: Sequence[Entry] = self._journal[_index_after(self._journal, after) :]
        lines: Iterable[Entry] = reversed(found) if newest_first else found
        if event is not None:
            lines = (entry for entry in lines if event_of(entry.change) == event)
        if scope is not None:
            lines = (entry for entry in lines if entry.change.scope == scope)
        return list(islice(lines, limit))

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines that are not needed; return the number of lines examined."""
        start = _index_after(self._journal, self._pruned)
        older = self._journal[start : max(0, min(start + most, len(self._journal) - max(1, spare)))]
        due = takewhile(lambda entry: before is None or entry.at < before, older)
        examined = [entry.seq for entry in due]
        self._pruned = examined[-1] if examined else self._pruned
        needed = {*keep, *(event for scope in self._scopes.values() for event in scope.events)}
        end = start + len(examined)
        self._journal[:end] = [entry for entry in self._journal[:end] if event_of(entry.change) in needed]
        return len(examined)

    async def pruned(self) -> int:
        """Return the last line of the pruned part."""
        return self._pruned

    async def size(self) -> int:
        """Return the approximate size of the journal in bytes."""
        return len(self._journal) * LINE_SIZE

    async def put_value(self, key: str, value: str | None) -> None:
        """Store a value about the service itself; None removes it."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    async def put_value_if_absent(self, key: str, value: str) -> str:
        """Store a value unless the key has one; return the value that the key has now."""
        return self._values.setdefault(key, value)

    async def get_value(self, key: str) -> str | None:
        """Return a value that ``put_value`` stored; None if there is none."""
        return self._values.get(key)

    async def close(self) -> None:
        """Do nothing: memory needs no closing."""

    def _put_lease(self, lease: Lease | None) -> Lease | None:
        if lease is not None:
            self._leases[lease.key] = lease
        return lease

    def _check(self, batch: Batch) -> None:
        stale = {
            aggregate: stamp
            for aggregate, expected in batch.expected.items()
            if (stamp := self._stamp(aggregate)) != expected
        }
        if stale or batch.position not in (None, self._last):
            raise StaleBatchError(stale, self._last)

    def _stamp(self, aggregate: Aggregate) -> int:
        kind, name = aggregate
        if kind is AggregateKind.SCOPE:
            return self._scope_stamps.get(ScopeId(name), 0)
        if kind is AggregateKind.SET:
            return self._sets[name].stamp if name in self._sets else 0
        return self._text_stamps.get(readable(name), 0)

    def _forget(self, scope: ScopeId) -> None:
        self._scopes.pop(scope, None)
        self._scope_stamps.pop(scope, None)
        self._polled.pop(scope, None)

    def _write(self, batch: Batch) -> None:
        # A batch that makes or removes a scope writes the name of its set, too.
        for scope_id in remade_scopes(batch) if batch.sets else ():
            self._forget(scope_id)
        for scope_id, scope in batch.after.items():
            if scope is None:
                self._forget(scope_id)
            else:
                self._scopes[scope_id] = scope
                self._scope_stamps[scope_id] = batch.stamp
        for set_id, incarnation in batch.sets.items():
            self._sets[set_id] = SetName(batch.stamp, incarnation)
        for key, text in readable_texts(batch.texts).items():
            if text is None:
                self._texts.pop(key, None)
                self._text_stamps.pop(key, None)
            else:
                self._texts[key] = text
                self._text_stamps[key] = batch.stamp
        for scope_id, at in last_polls(batch).items():
            if scope_id in self._scopes:
                self._polled[scope_id] = max(at, self._polled.get(scope_id, at))


def _index_after(lines: Sequence[Entry], after: int) -> int:
    """Return the index of the first line after line ``after``."""
    return bisect_right(lines, after, key=lambda entry: entry.seq)
