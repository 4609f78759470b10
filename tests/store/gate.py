"""A store whose commits can be counted, delayed and refused."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bench.delegate import Delegate
from fairwarning.engine.ports import Batch, Entry, Store
from fairwarning.store.errors import StoreFailedError


class Gate(Delegate):
    """A store in which every batch waits until the test lets it through or refuses it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.batches: list[Batch] = []
        self.open = True
        #: The number of batches that are stored before one is refused; None refuses none.
        self.fails_after: int | None = None
        self._waiting: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        self.batches.append(batch)
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                self.fails_after = None
                raise StoreFailedError(Path("a full disk"), "no space is left")
        if not self.open:
            verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.put_nowait(verdict)
            await verdict
        return await super().commit(batch)

    async def let_through(self) -> None:
        """Let the next batch, waiting or not, be stored."""
        (await self._waiting.get()).set_result(None)

    async def turn_away(self, problem: Exception) -> None:
        """Let the next batch fail; nothing of it is stored."""
        (await self._waiting.get()).set_exception(problem)


async def turns(times: int = 20) -> None:
    """Let other tasks run for a few turns of the loop."""
    for _ in range(times):
        await asyncio.sleep(0)
