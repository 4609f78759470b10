"""Group commit: while one batch is being written, the next one fills.

A commit costs one sync of the disk, whatever its size. Decisions do not wait for it: each is made on top of
the newest decided state and added to the batch that is filling. Once the previous batch is written, this
batch becomes one transaction.

Each caller of ``put`` waits for its batch. If a batch fails, the batch that is filling fails with it, because
its decisions were made on top of a state that was not stored. ``discard`` then makes the engine reload its
state before the next decision.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fairwarning.core.errors import ConflictError
from fairwarning.engine.ports import Commit, Entry, Store

log = logging.getLogger("fairwarning.engine")


class Batch:
    """Commits that are stored together or not at all."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._waiting: list[asyncio.Future[None]] = []

    async def kept(self) -> None:
        """Return once the batch is stored; raise the store's error if it is not."""
        # A future per caller: the cancellation of one caller does not affect the others.
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def finish(self, problem: Exception | None = None) -> None:
        """Wake all callers of ``kept`` with the outcome."""
        for waiting in self._waiting:
            if waiting.done():
                continue
            if problem is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(problem)


class Pipeline:
    """Writes commits in the order of their decisions, in batches."""

    def __init__(
        self,
        store: Store,
        committed: Callable[[Sequence[Commit], Sequence[Sequence[Entry]]], None],
        discard: Callable[[], None],
    ) -> None:
        #: Why the last batch was not stored; None if it was.
        self.problem: Exception | None = None
        self._store = store
        self._committed = committed
        self._discard = discard
        self._gathering: Batch | None = None
        self._writing: Batch | None = None
        self._writer: asyncio.Task[None] | None = None

    async def put(self, commit: Commit) -> None:
        """Return once ``commit`` is stored; raise the store's error if it is not."""
        if self._gathering is None:
            self._gathering = Batch()
        batch = self._gathering
        batch.commits.append(commit)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await batch.kept()

    async def settled(self) -> None:
        """Return once every commit so far is stored; raise the store's error if one is not."""
        last = self._gathering or self._writing
        if last is not None:
            await last.kept()

    async def idle(self) -> None:
        """Return once no commit is waiting or being written."""
        while self._writer is not None:
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        try:
            while self._gathering is not None:
                self._writing, self._gathering = self._gathering, None
                await self._store_batch(self._writing)
        finally:
            self._writer = self._writing = None

    async def _store_batch(self, batch: Batch) -> None:
        try:
            entries = await self._store.commit(batch.commits)
        except Exception as problem:  # after any error no caller may believe that the batch is stored
            if not isinstance(problem, ConflictError):
                self.problem = problem
            self._fail(batch, problem)
            return
        self.problem = None
        try:
            self._committed(batch.commits, entries)
        except Exception:  # the batch is stored, so its callers must not get an error
            log.exception("publishing_failed")
            self._discard()
        batch.finish()

    def _fail(self, batch: Batch, problem: Exception) -> None:
        # The commits added meanwhile were decided on top of the batch that failed.
        failed = [batch] if self._gathering is None else [batch, self._gathering]
        self._gathering = None
        log.error("commit_failed commits=%d problem=%s", sum(len(batch.commits) for batch in failed), problem)
        self._discard()
        for batch in failed:
            batch.finish(problem)
