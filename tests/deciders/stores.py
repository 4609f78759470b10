"""The stores that the tests of several deciders run on, and a store that delegates to another one."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from fairwarning.core.model import EventId, ScopeId
from fairwarning.engine.ports import Batch, Entry, FleetSnapshot, Lease, Store
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore


async def open_memory(_: Path) -> Store:
    return MemoryStore()


STORES: Mapping[str, Callable[[Path], Awaitable[Store]]] = {
    "memory": open_memory,
    "sqlite": SqliteStore.open,
}


class Delegate:
    """Delegates every method of the store port; the base of stores that change some of them."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def snapshot(self) -> FleetSnapshot:
        return await self.inner.snapshot()

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        return await self.inner.commit(batch)

    async def last(self) -> int:
        return await self.inner.last()

    def follow(self, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        return self.inner.follow(after)

    async def claim(self, key: str, owner: str, now: datetime, lasts: timedelta) -> Lease | None:
        return await self.inner.claim(key, owner, now, lasts)

    async def renew(self, lease: Lease, now: datetime, lasts: timedelta) -> Lease | None:
        return await self.inner.renew(lease, now, lasts)

    async def release(self, lease: Lease) -> None:
        await self.inner.release(lease)

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
        newest_first: bool = False,
    ) -> Sequence[Entry]:
        return await self.inner.journal(
            after=after, limit=limit, event=event, scope=scope, newest_first=newest_first
        )

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        return await self.inner.prune(before, most, keep, spare)

    async def pruned(self) -> int:
        return await self.inner.pruned()

    async def size(self) -> int:
        return await self.inner.size()

    async def put_value(self, key: str, value: str | None) -> None:
        await self.inner.put_value(key, value)

    async def get_value(self, key: str) -> str | None:
        return await self.inner.get_value(key)

    async def close(self) -> None:
        await self.inner.close()
