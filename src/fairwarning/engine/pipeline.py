"""Group commit: while one batch is being written the next one gathers."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fairwarning.engine.ports import Commit, Entry, Store

log = logging.getLogger("fairwarning.engine")


class Pipeline:
    """Writes commits in the order they were decided, as many at a time as are there."""

    def __init__(
        self,
        store: Store,
        committed: Callable[[Commit, Sequence[Entry]], None],
        discard: Callable[[], None],
    ) -> None:
        self._store = store
        self._committed = committed
        self._discard = discard
        self._gathered: list[tuple[Commit, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._last: asyncio.Future[None] | None = None

    async def put(self, commit: Commit) -> None:
        """Return once ``commit`` is kept; raise what the store raised if it is not."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last = done
        self._gathered.append((commit, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        # Whoever gives up waiting takes nothing away from those who rely on the same commit.
        await asyncio.shield(done)

    async def settled(self) -> None:
        """Return once everything put so far is kept; raise what the store raised if it is not."""
        if self._last is not None:
            await asyncio.shield(self._last)

    async def idle(self) -> None:
        """Return once everything is kept or refused."""
        while self._writer is not None:
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        try:
            while self._gathered:
                batch, self._gathered = self._gathered, []
                await self._keep(batch)
        finally:
            self._writer = None

    async def _keep(self, batch: list[tuple[Commit, asyncio.Future[None]]]) -> None:
        try:
            kept = await self._store.commit([commit for commit, _ in batch])
        except Exception as problem:  # whatever it was, nobody may believe the batch was kept
            # What gathered meanwhile was decided on top of what has just been lost.
            batch, self._gathered = batch + self._gathered, []
            log.error("commit_failed commits=%d problem=%s", len(batch), problem)
            self._discard()
            for _, done in batch:
                if not done.done():
                    done.set_exception(problem)
            return
        for (commit, done), entries in zip(batch, kept, strict=True):
            try:
                self._committed(commit, entries)
            except Exception:  # it is kept, so whoever waits for it must hear so
                log.exception("publishing_failed")
                self._discard()
            if not done.done():
                done.set_result(None)
