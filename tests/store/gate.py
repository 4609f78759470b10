"""A store whose commits can be counted, held back and turned away."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bench.delegate import Delegate
from fairwarning.engine.ports import Commit, Entry, Store
from fairwarning.store.errors import StoreFailedError


class Gate(Delegate):
    """A store behind a gate: every batch waits to be let through, or is turned away."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
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
                raise StoreFailedError(Path("a full disk"), "no space is left")
        if not self.open:
            verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.put_nowait(verdict)
            await verdict
        return await super().commit(commits)

    async def let_through(self) -> None:
        """Let the next batch that comes, or waits already, be kept."""
        (await self._waiting.get()).set_result(None)

    async def turn_away(self, problem: Exception) -> None:
        """Let the next batch fail; nothing of it is kept."""
        (await self._waiting.get()).set_exception(problem)


async def turns(times: int = 20) -> None:
    """Let everybody else have a few turns of the loop."""
    for _ in range(times):
        await asyncio.sleep(0)
