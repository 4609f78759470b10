"""Group commit: while one batch is being written the next one gathers."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fairwarning.core.errors import ConflictError
from fairwarning.engine.ports import Commit, Entry, Store

log = logging.getLogger("fairwarning.engine")


class Batch:
    """Commits that are kept together or not at all."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._waiting: list[asyncio.Future[None]] = []

    async def kept(self) -> None:
        """Return once all is kept; raise what the store raised if nothing is."""
        # Everybody waits for a future of their own: who gives up takes nothing away from the others.
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def tell(self, problem: Exception | None = None) -> None:
        """Tell everybody who still waits how it went."""
        for waiting in self._waiting:
            if waiting.done():
                continue
            if problem is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(problem)


class Pipeline:
    """Writes commits in the order they were decided, as many at a time as are there."""

    def __init__(
        self,
        store: Store,
        committed: Callable[[Sequence[Commit], Sequence[Sequence[Entry]]], None],
        discard: Callable[[], None],
    ) -> None:
        #: Why the last batch was not kept; None if it was.
        self.problem: Exception | None = None
        self._store = store
        self._committed = committed
        self._discard = discard
        self._gathering: Batch | None = None
        self._writing: Batch | None = None
        self._writer: asyncio.Task[None] | None = None

    async def put(self, commit: Commit) -> None:
        """Return once ``commit`` is kept; raise what the store raised if it is not."""
        if self._gathering is None:
            self._gathering = Batch()
        batch = self._gathering
        batch.commits.append(commit)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await batch.kept()

    async def settled(self) -> None:
        """Return once everything put so far is kept; raise what the store raised if it is not."""
        last = self._gathering or self._writing
        if last is not None:
            await last.kept()

    async def idle(self) -> None:
        """Return once everything is kept or refused."""
        while self._writer is not None:
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        try:
            while self._gathering is not None:
                self._writing, self._gathering = self._gathering, None
                await self._keep(self._writing)
        finally:
            self._writer = self._writing = None

    async def _keep(self, batch: Batch) -> None:
        try:
            kept = await self._store.commit(batch.commits)
        except Exception as problem:  # whatever it was, nobody may believe the batch was kept
            if not isinstance(problem, ConflictError):
                self.problem = problem
            self._lose(batch, problem)
            return
        self.problem = None
        try:
            self._committed(batch.commits, kept)
        except Exception:  # it is kept, so whoever waits for it must hear so
            log.exception("publishing_failed")
            self._discard()
        batch.tell()

    def _lose(self, batch: Batch, problem: Exception) -> None:
        # What gathered meanwhile was decided on top of what has just been lost.
        lost = [batch] if self._gathering is None else [batch, self._gathering]
        self._gathering = None
        log.error("commit_failed commits=%d problem=%s", sum(len(one.commits) for one in lost), problem)
        self._discard()
        for one in lost:
            one.tell(problem)
