"""Keeps the replica in step with the journal, whoever writes it.

Whole batches are applied, in order. A batch of this node is recognised by its stamp wherever it comes first,
as the answer of the store or in the journal, and is installed with its own objects.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import groupby

from fairwarning.core.errors import StorageError
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.model import Scope, ScopeId
from fairwarning.engine.ports import Batch, Entry, GapError, IncompatibleStoreError, Position, Store
from fairwarning.engine.replica import Replica
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.engine")

#: The time in seconds before the journal is read again after an error.
TRY_AGAIN = 1.0

#: How often the journal's end is asked for, in seconds.
LOOK_EVERY = 1.0

#: Called after each batch, with its lines and the scopes that it changed; None for a removed scope.
Installed = Callable[[Sequence[Entry], Mapping[ScopeId, Scope | None]], None]


class Follower:
    """Applies the journal of a store to a replica."""

    def __init__(
        self,
        store: Store,
        replica: Replica,
        installed: Installed,
        reloaded: Callable[[Collection[ScopeId]], None],
        uptime: Callable[[], float],
        completed: Callable[[float], None],
    ) -> None:
        """Take also the host's uptime, and what to call with the uptime as of which all is applied."""
        #: The batch that this node is storing.
        self.in_flight: Batch | None = None
        #: Whether the whole state is being read.
        self.reloading = False
        #: The line at which the journal could not be read.
        self._failed_at: int | None = None
        self._store = store
        self._replica = replica
        #: How many questions for the last line have begun, and the number of the last that was answered.
        self._questions = self._answered = 0
        self._asking = asyncio.Lock()
        #: How often the whole state was read.
        self._loads = 0
        self._loading = asyncio.Lock()
        self._rest_until = 0.0
        self._installed = installed
        self._reloaded = reloaded
        self._uptime = uptime
        self._completed = completed

    async def run(self) -> None:
        """Follow the journal until cancelled.

        Raises:
            IncompatibleStoreError: only a newer version understands the next line.
        """
        while True:
            try:
                await self._follow(None)
            except IncompatibleStoreError:
                raise
            except StorageError as problem:
                await self._rest(problem)
            except Exception:  # the outermost loop: the replica must not stay behind for good
                log.exception(LogMessage("following_failed"))
                await asyncio.sleep(TRY_AGAIN)

    async def reach(self, number: int) -> None:
        """Return once line ``number`` is applied, or is lost and what is left is loaded."""
        goal = Position(self._store.history, number)
        while self._replica.reached < goal:
            try:
                await self._follow(goal)
            except (StorageError, OSError) as problem:
                await self._rest(problem)

    async def catch_up(self) -> None:
        """Return once everything is applied that was stored before the call.

        However many call, one question at a time is asked; a caller needs one that began after its call.
        """
        begun = self._questions
        async with self._asking:
            # A caller may be cancelled before the store answers: such a question helps no other caller.
            if self._answered <= begun:
                self._questions += 1
                asked_at = self._uptime()
                await self.reach(await self._store.last())
                self._answered = self._questions
                self._completed(asked_at)

    async def keep_looking(self) -> None:
        """Catch up every second, until cancelled: otherwise silence could mean that nothing happens."""
        while True:
            with suppress(Exception):  # ``run`` says what is wrong
                await self.catch_up()
            await asyncio.sleep(LOOK_EVERY)

    def install(self, entries: Sequence[Entry]) -> None:
        """Apply batches that begin at the replica's next line or before; lines it has are left out."""
        for batch in _batches(entries):
            if batch[-1].seq <= self._replica.position:
                continue
            if batch[0].seq != self._replica.position + 1:
                raise GapError
            self.install_batch(batch)

    def install_batch(self, entries: Sequence[Entry]) -> None:
        """Apply the batch that begins at the replica's next line."""
        own, last = self.in_flight, entries[-1]
        if own is not None and own.stamp == last.stamp:
            self._replica.install(own, last.seq)
            self._installed(entries, own.after)
        elif any(_is_restore(entry) for entry in entries):
            raise GapError  # a restore changes more than its lines say
        else:
            self._installed(entries, self._replica.apply(entries))

    async def reload(self) -> None:
        """Read the whole state, once for all who wait; a batch in flight is left to its answer.

        After it has been read again there is a rest: a database that falls back again and again is not read
        in a loop.
        """
        loads, loop = self._loads, asyncio.get_running_loop()
        async with self._loading:
            if self._loads == loads:
                await asyncio.sleep(max(0.0, self._rest_until - loop.time()))
                await self._load()
                self._rest_until = loop.time() + TRY_AGAIN if loads else 0.0
                self._loads += 1

    async def _load(self) -> None:
        self.reloading = True
        try:
            snapshot = await self._store.snapshot()
        finally:
            self.reloading = False
        known, last = self._replica.position, snapshot.position
        if snapshot.lines_lost:
            log.error(LogMessage("database_lost_lines", known=known, last=last))
        elif snapshot.history > self._replica.history:
            log.warning(LogMessage("database_failed_over", known=known, last=last))
        if Position(snapshot.history, snapshot.position) >= self._replica.reached:
            self._reloaded(self._replica.load(snapshot))

    async def _rest(self, problem: StorageError | OSError) -> None:
        # A store that is away for a while is worth one line, not one per second.
        if self._failed_at != self._replica.position:
            self._failed_at = self._replica.position
            log.error(LogMessage("following_failed", problem=problem))
        await asyncio.sleep(TRY_AGAIN)

    async def _follow(self, goal: Position | None) -> None:
        """Apply lines until the goal is reached, or until the whole state was loaded."""
        if self._replica.history == self._store.history:
            with suppress(GapError):
                reached = self._replica.position, self._replica.last_stamp
                async with aclosing(self._store.follow(*reached)) as pages:
                    async for entries in pages:
                        self.install(entries)
                        if goal is not None and self._replica.reached >= goal:
                            return
        await self.reload()


def _is_restore(entry: Entry) -> bool:
    return isinstance(entry.change, ActionNote) and entry.change.deed is OperatorAction.RESTORED


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    return (list(lines) for _, lines in groupby(entries, lambda entry: entry.ends))
