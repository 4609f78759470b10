"""A store that delegates to another store, as a base for stores that change some methods."""

from collections.abc import AsyncGenerator, Collection, Sequence
from datetime import datetime, timedelta

from fairwarning.core.model import EventId, ScopeId
from fairwarning.core.stored.releases import DataRelease
from fairwarning.engine.ports import Batch, Entry, FleetSnapshot, Lease, Store


class Delegate:
    """Delegates every method of the store port."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @property
    def history(self) -> int:
        return self._inner.history

    @property
    def oldest_reader(self) -> DataRelease:
        return self._inner.oldest_reader

    async def snapshot(self) -> FleetSnapshot:
        return await self._inner.snapshot()

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        return await self._inner.commit(batch)

    async def last(self) -> int:
        return await self._inner.last()

    def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        return self._inner.follow(after, stamp)

    async def claim(self, key: str, owner: str, now: datetime, lasts: timedelta) -> Lease | None:
        return await self._inner.claim(key, owner, now, lasts)

    async def renew(self, lease: Lease, now: datetime, lasts: timedelta) -> Lease | None:
        return await self._inner.renew(lease, now, lasts)

    async def release(self, lease: Lease) -> None:
        await self._inner.release(lease)

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
        newest_first: bool = False,
    ) -> Sequence[Entry]:
        return await self._inner.journal(
            after=after, limit=limit, event=event, scope=scope, newest_first=newest_first
        )

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        return await self._inner.prune(before, most, keep, spare)

    async def pruned(self) -> int:
        return await self._inner.pruned()

    async def size(self) -> int:
        return await self._inner.size()

    async def put_value(self, key: str, value: str | None) -> None:
        await self._inner.put_value(key, value)

    async def put_value_if_absent(self, key: str, value: str) -> str:
        return await self._inner.put_value_if_absent(key, value)

    async def get_value(self, key: str) -> str | None:
        return await self._inner.get_value(key)

    async def close(self) -> None:
        await self._inner.close()
