"""A store that delegates to another store, as a base for stores that change some methods."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.engine.ports import Commit, Entry, Store


class Delegate:
    """Delegates every method of the store port."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    async def load(self) -> Mapping[ScopeId, Scope]:
        return await self._inner.load()

    async def last_incarnations(self) -> Mapping[str, int]:
        return await self._inner.last_incarnations()

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        return await self._inner.commit(commits)

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
    ) -> Sequence[Entry]:
        return await self._inner.journal(after=after, limit=limit, event=event, scope=scope)

    async def newest(self) -> Entry | None:
        return await self._inner.newest()

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        return await self._inner.prune(before, most, keep, spare)

    async def pruned(self) -> int:
        return await self._inner.pruned()

    async def size(self) -> int:
        return await self._inner.size()

    async def documents(self) -> Mapping[str, str]:
        return await self._inner.documents()

    async def note(self, key: str, value: str) -> None:
        await self._inner.note(key, value)

    async def noted(self, key: str) -> str | None:
        return await self._inner.noted(key)

    async def close(self) -> None:
        await self._inner.close()
