"""A store whose commits can be counted, held back and turned away."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.engine.ports import Commit, Entry, Store
from fairwarning.store.errors import StoreFailed


class Gate:
    """A store behind a gate: every batch waits to be let through, or is turned away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.batches: list[Sequence[Commit]] = []
        self.open = True
        #: How many more batches are kept before one is turned away; None turns none away.
        self.fails_after: int | None = None
        self._waiting: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        self.batches.append(commits)
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                self.fails_after = None
                raise StoreFailed(Path("a full disk"), "no space is left")
        if not self.open:
            verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.put_nowait(verdict)
            await verdict
        return await self._store.commit(commits)

    async def let_through(self) -> None:
        """Let the next batch that comes, or waits already, be kept."""
        (await self._waiting.get()).set_result(None)

    async def turn_away(self, problem: Exception) -> None:
        """Let the next batch fail; nothing of it is kept."""
        (await self._waiting.get()).set_exception(problem)

    async def load(self) -> Mapping[ScopeId, Scope]:
        return await self._store.load()

    async def last_incarnations(self) -> Mapping[str, int]:
        return await self._store.last_incarnations()

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
    ) -> Sequence[Entry]:
        return await self._store.journal(after=after, limit=limit, event=event, scope=scope)

    async def newest(self) -> Entry | None:
        return await self._store.newest()

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        return await self._store.prune(before, most, keep, spare)

    async def pruned(self) -> int:
        return await self._store.pruned()

    async def size(self) -> int:
        return await self._store.size()

    async def documents(self) -> Mapping[str, str]:
        return await self._store.documents()

    async def note(self, key: str, value: str) -> None:
        await self._store.note(key, value)

    async def noted(self, key: str) -> str | None:
        return await self._store.noted(key)

    async def close(self) -> None:
        await self._store.close()


async def turns(times: int = 20) -> None:
    """Let everybody else have a few turns of the loop."""
    for _ in range(times):
        await asyncio.sleep(0)
