"""Decides requests and stores what they change, one batch at a time.

Requests gather while a batch is being stored. Then all of them are decided, in order, on a private ``Fold``
of the replica, and written as one transaction that names the stamp of everything that any of them read. If
another node was faster, the store refuses the batch: the replica follows the journal, and the requests are
decided again. A batch is decided only after the one before it is stored, and a caller gets its answer only
once the replica includes it.

The rules of a batch:

1. The fold is private. A refused request leaves no trace in it.
2. The batch expects the stamp of every aggregate that any of its requests read, the refused ones included.
   After a conflict all of them are decided again, for up to ``PATIENCE``.
3. Innocents first: requests that read none of the stale aggregates are decided before the others, together
   with what has gathered meanwhile.
4. Answers come after the batch is stored and installed. A batch without a line asks for the number of the
   journal's last line, and is decided again if the replica was behind.
5. No stamp covers a question by predicate (``ReadRecorder.by_predicate``). A line that rests on one is stored
   only right behind the line it was decided on, unless a number read since the request came is applied; and
   only if the store has lost no line since.
   An answer without a line that rests on one is given under the same condition, or decided again, first.
6. Requests keep their boundaries: the lines of one request are consecutive and carry its id.
7. The name of a set is an aggregate, written by whatever creates or removes one of its scopes (``Fold``).
8. Own batches are recognised by their stamp (``Follower``). After a lost answer the same batch is sent again,
   and so it is if the store falls back to a copy of itself before the batch is installed.
9. Scopes behind one barrier are read together (``Directory.together``).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from fairwarning.core.changes import TextChanged
from fairwarning.core.commands import Command
from fairwarning.core.decide import Decision, decide
from fairwarning.core.errors import (
    ContendedError,
    FairWarningError,
    MaybeLostError,
    StorageError,
    StoredUnreadError,
)
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import PrincipalKind, ScopeId
from fairwarning.core.policy import Policy
from fairwarning.core.stored.gate import check_readable
from fairwarning.engine.clock import Clock
from fairwarning.engine.fold import Fold, FoldView, ReadRecorder, scopes_to_decide_on
from fairwarning.engine.follower import Follower
from fairwarning.engine.ports import (
    Aggregate,
    Batch,
    Entry,
    Line,
    Part,
    Position,
    StaleBatchError,
    Store,
    StoreState,
    is_shared,
)
from fairwarning.engine.replica import Replica
from fairwarning.engine.requests import Build, Caller, NoteRefusal, Result, Texts
from fairwarning.formats.hidden_characters import readable
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.engine")

#: How long deciding goes on before other tasks get a turn, in seconds.
PAUSE_AFTER = 0.002

#: How long a request is decided again and again, and a batch whose answer was lost is sent again, in seconds.
PATIENCE = 5.0

#: The time before a batch with an unknown outcome is sent again, in seconds.
SEND_AGAIN = 0.05


#: The number of batches that are remembered as this node's own.
MOST_SENT = 10_000

#: How long a batch may take before the node counts as stuck, in seconds.
STUCK_AFTER = 60.0

#: The outcome of a request before its first try.
_UNDECIDED = ContendedError()
_NO_VERSIONS: Mapping[ScopeId, int] = MappingProxyType({})


@dataclass(eq=False, slots=True)
class _Request:
    """A request, and what the last try found."""

    caller: Caller
    build: Build
    note_refusal: NoteRefusal
    arrived: float
    answer: asyncio.Future[Result]
    tries: int = 0
    #: When the last try was made.
    at: datetime = field(init=False)
    #: A line that was the last one of the journal at some time since the request arrived.
    last_line: Position | None = None
    #: Whether another node changed what the request read in the last try.
    lost: bool = False
    lines: tuple[Line, ...] = ()
    versions: Mapping[ScopeId, int] = field(init=False)
    outcome: Result | Exception = _UNDECIDED
    reads: Set[Aggregate] = frozenset()
    by_predicate: bool = False
    #: Whether no request before it in the batch has changed anything.
    nothing_before: bool = False

    @property
    def of_platform(self) -> bool:
        """Whether the platform made it: if an outdated state gives it nothing to do, that does no harm."""
        return self.caller.principal.kind is PrincipalKind.PLATFORM

    def is_fresh(self, position: Position) -> bool:
        """Whether the state at a position is as new as the request."""
        return self.last_line is not None and position >= self.last_line

    def finish(self) -> None:
        """Give the caller the outcome of the last try."""
        if self.answer.done():
            return
        if isinstance(self.outcome, Result):
            self.answer.set_result(self.outcome)
        else:
            self.answer.set_exception(self.outcome)

    def fail(self, problem: Exception) -> None:
        """Give the caller an error that is not the decision's."""
        self.outcome = problem
        self.finish()


class Decider:
    """Decides the requests of one node."""

    def __init__(
        self,
        store: Store,
        replica: Replica,
        follower: Follower,
        clock: Clock,
        check_clock: Callable[[], None],
        policy: Callable[[], Policy],
        new_stamp: Callable[[], int],
        batch_size: int,
    ) -> None:
        #: Why the last batch could not be stored; None if it was.
        self.problem: Exception | None = None
        self._store = store
        self._replica = replica
        self._follower = follower
        self._clock = clock
        self._check_clock = check_clock
        self._policy = policy
        self._new_stamp = new_stamp
        self._batch_size = batch_size
        self._gathered: list[_Request] = []
        self._worker: asyncio.Task[None] | None = None
        self._batch_began = 0.0
        #: The stamps of the newest batches, in the order in which they were sent.
        self._sent: OrderedDict[int, None] = OrderedDict()

    def has_sent(self, stamp: int) -> bool:
        """Whether a batch is one of the newest of this node."""
        return stamp in self._sent

    @property
    def stuck(self) -> bool:
        """Whether a batch takes longer than any store may take."""
        if self._worker is None:
            return False
        return asyncio.get_running_loop().time() - self._batch_began > STUCK_AFTER

    def submit(self, caller: Caller, build: Build, note_refusal: NoteRefusal) -> Awaitable[Result]:
        """Decide a request; what came of it is known once that is stored and installed."""
        loop = asyncio.get_running_loop()
        request = _Request(caller, build, note_refusal, loop.time(), loop.create_future())
        self._gathered.append(request)
        if self._worker is None:
            self._batch_began = request.arrived
            self._worker = asyncio.create_task(self._work())
        return request.answer

    def preview(self, build: Build) -> Result:
        """Return what a request would change if it was decided now."""
        reads = ReadRecorder(Fold(self._replica))
        plan = build(FoldView(reads))
        decision = self._decide_commands(plan.commands, reads, self._clock.now())
        return Result(decision.changes, {**decision.values, **plan.texts(decision.changes)})

    async def idle(self) -> None:
        """Return once no request is waiting or being decided."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        try:
            while self._gathered:
                batch = self._take()
                self._batch_began = asyncio.get_running_loop().time()
                try:
                    again = await self._decide_and_store(batch)
                except Exception as problem:  # no caller may wait for ever
                    self._note_problem(problem, len(batch))
                    for request in batch + self._take_hopeless():
                        request.fail(problem)
                else:
                    self._gathered[:0] = again
        finally:
            self._worker = None

    def _take(self) -> list[_Request]:
        """Remove and return the requests of the next batch."""
        if not self._gathered[0].tries:  # requests that were tried before come first
            batch, self._gathered = self._gathered[: self._batch_size], self._gathered[self._batch_size :]
            return batch
        for request in self._gathered:
            if request.tries and asyncio.get_running_loop().time() - request.arrived > PATIENCE:
                request.fail(ContendedError())
        # A request whose caller has given up is tried once: it may have been stored by then anyway.
        waiting = [request for request in self._gathered if not request.answer.done() or not request.tries]
        losers = [request for request in waiting if request.lost]
        innocents = [request for request in waiting if not request.lost]
        if losers and any(request.tries for request in innocents):
            batch, self._gathered = innocents[: self._batch_size], losers + innocents[self._batch_size :]
        else:
            batch, self._gathered = waiting[: self._batch_size], waiting[self._batch_size :]
        for request in losers:
            request.lost = False
        return batch

    def _take_hopeless(self) -> list[_Request]:
        """Remove and return what has gathered while the store let its patience run out."""
        if not is_shared(self._store) or self._store.state is StoreState.READY:
            return []
        hopeless, self._gathered = self._gathered, []
        return hopeless

    async def _decide_and_store(self, requests: list[_Request]) -> list[_Request]:
        """Decide, store, install and answer requests; return those that have to be decided again."""
        start, fold = self._replica.reached, Fold(self._replica)
        expected: dict[Aggregate, int] = {}
        await self._decide_all(requests, fold, expected)
        # The clock may have been set since the requests came, or while they were decided.
        self._check_clock()
        writers = [request for request in requests if request.lines]
        if not writers:
            return await self._answer_if_current(requests, start)
        batch = Batch(
            stamp=self._new_stamp(),
            parts=tuple(map(_part, writers)),
            expected=expected,
            position=start.line if any(_needs_position(request, start) for request in writers) else None,
            history=start.history if any(request.by_predicate for request in writers) else None,
            after=fold.after,
            sets=fold.sets,
            texts=fold.texts,
        )
        try:
            entries = await self._send(batch)
        except StaleBatchError as conflict:
            return await self._catch_up(requests, conflict)
        finally:
            self._follower.in_flight = None
        self.problem = None
        return _answer(requests, start, Position(self._store.history, entries[0].seq))

    async def _send(self, batch: Batch) -> Sequence[Entry]:
        """Store a batch and install it; if the answer is lost, send the same batch again."""
        self._follower.in_flight = batch
        self._sent[batch.stamp] = None
        if len(self._sent) > MOST_SENT:
            self._sent.popitem(last=False)
        unknown: StorageError | None = None
        while True:
            history = self._store.history
            entries = await self._commit(batch, unknown)
            if self._store.history == history:
                try:
                    await self._install(entries)
                except StoredUnreadError:
                    if self._store.history == history:
                        raise
            # A store that has fallen back to a copy of itself meanwhile may have lost the batch.
            if self._store.history == history:
                return entries
            unknown = MaybeLostError()

    async def _commit(self, batch: Batch, unknown: StorageError | None) -> Sequence[Entry]:
        """Store a batch; ``unknown`` is why it may be stored already."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        while True:
            try:
                return await self._store.commit(batch)
            except StorageError as problem:
                if problem.outcome_unknown and unknown is None:
                    unknown, until = problem, loop.time() + PATIENCE
                if unknown is None:
                    raise
                if loop.time() > until:
                    raise unknown from problem
                await asyncio.sleep(SEND_AGAIN)

    async def _install(self, entries: Sequence[Entry]) -> None:
        """Install the batch that is being stored; other nodes see it, even if this node cannot."""
        first, last = entries[0].seq, entries[-1].seq
        if self._replica.reached == Position(self._store.history, first - 1):
            self._follower.install_batch(entries)
            return
        try:
            await self._reach(last)
        except StorageError as problem:
            raise StoredUnreadError(last) from problem

    async def _decide_all(
        self, requests: Sequence[_Request], fold: Fold, expected: dict[Aggregate, int]
    ) -> None:
        loop = asyncio.get_running_loop()
        pause = loop.time() + PAUSE_AFTER
        for request in requests:
            reads = ReadRecorder(fold)
            self._decide(request, fold, reads)
            request.reads, request.by_predicate = reads.aggregates, reads.by_predicate
            # The replica below the fold moves on if lines of other nodes arrive during a pause, so each stamp
            # is taken when it is read.
            for aggregate in reads.aggregates.difference(expected):
                expected[aggregate] = self._replica.stamp(aggregate)
            if loop.time() > pause:
                await asyncio.sleep(0)
                pause = loop.time() + PAUSE_AFTER

    def _decide(self, request: _Request, fold: Fold, reads: ReadRecorder) -> None:
        request.tries += 1
        request.at = now = self._clock.now()
        request.nothing_before = fold.unchanged
        request.lines, request.versions = (), _NO_VERSIONS
        try:
            plan = request.build(FoldView(reads))
            reads.by_predicate |= plan.needs_whole_journal
            decision = self._decide_commands(plan.commands, reads, now)
            texts = _changed_texts({**decision.values, **plan.texts(decision.changes)}, reads)
            changed = tuple(TextChanged(key=key, text=text) for key, text in texts.items())
            lines = (*decision.changes, *changed, *plan.notes)
            check_readable(lines, self._store.oldest_reader)
        except FairWarningError as refusal:
            note = request.note_refusal(refusal)
            request.outcome, request.lines = refusal, () if note is None else (note,)
            return
        except Exception as problem:  # a defect that concerns this request alone
            log.exception(LogMessage("request_failed"))
            request.outcome = problem
            return
        request.versions = _versions(decision, fold)
        fold.add(decision.changes, decision.after, texts)
        request.lines = lines
        request.outcome = Result(decision.changes, texts)

    def _decide_commands(self, commands: Sequence[Command], reads: ReadRecorder, now: datetime) -> Decision:
        if not commands:
            return Decision()
        scopes, reader = scopes_to_decide_on(reads, commands), self._store.oldest_reader
        fleet = FleetState(
            scopes, self._policy(), reads.last_incarnations(), reads.text, oldest_reader=reader
        )
        return decide(fleet, commands, now)

    async def _answer_if_current(self, requests: list[_Request], start: Position) -> list[_Request]:
        """Answer requests that change nothing, if nothing has happened that they should know of."""
        outdated = [request for request in requests if not (request.of_platform or request.is_fresh(start))]
        for request in requests:
            if request not in outdated:
                request.finish()
        if outdated:
            last = await self._store.last()
            self._note_last_line(outdated, last)
            await self._reach(last)
            if self._replica.reached != start:
                return outdated
        for request in outdated:
            request.finish()
        return []

    async def _catch_up(self, requests: list[_Request], conflict: StaleBatchError) -> list[_Request]:
        self._note_last_line(requests, conflict.last)
        await self._reach(conflict.last)
        for request in requests:
            request.lost = not request.reads.isdisjoint(conflict.stale)
        return requests

    def _note_last_line(self, requests: Sequence[_Request], number: int) -> None:
        last = Position(self._store.history, number)
        for request in requests:
            request.last_line = last if request.last_line is None else request.last_line

    async def _reach(self, number: int) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._follower.reach(number)
        except TimeoutError:
            problem = "the journal cannot be read"
            raise StorageError(f"{problem} up to line {number}", problem) from None

    def _note_problem(self, problem: Exception, requests: int) -> None:
        # A store that fails for a while is worth one line, not one per batch.
        if self.problem is None or str(self.problem) != str(problem):
            log.error(LogMessage("commit_failed", requests=requests, problem=problem))
        self.problem = problem


def _changed_texts(texts: Texts, reads: ReadRecorder) -> Texts:
    if not texts:
        return texts
    # Stores replace some characters; every replica must hold what the journal says.
    stored = {readable(key): None if text is None else readable(text) for key, text in texts.items()}
    return {key: text for key, text in stored.items() if reads.text(key) != text}


def _part(request: _Request) -> Part:
    return Part(request=request.caller.request, at=request.at, lines=request.lines, versions=request.versions)


def _versions(decision: Decision, before: Fold) -> Mapping[ScopeId, int]:
    """Return the version of each touched scope; the version that a removed scope would have."""
    versions: dict[ScopeId, int] = {}
    for scope_id, scope in decision.after.items():
        if scope is not None:
            versions[scope_id] = scope.version
        else:
            last = before.find_scope(scope_id)
            versions[scope_id] = 1 if last is None else last.version + 1
    return versions


def _needs_position(request: _Request, start: Position) -> bool:
    return request.by_predicate and not request.is_fresh(start)


def _answer(requests: Sequence[_Request], start: Position, first: Position) -> list[_Request]:
    """Answer the requests of a stored batch; return those that have to be decided again."""
    again = [request for request in requests if not _is_certain(request, start, first)]
    for request in requests:
        if request not in again:
            request.finish()
        elif request.last_line is None:
            request.last_line = Position(first.history, first.line - 1)
    return again


def _is_certain(request: _Request, start: Position, first: Position) -> bool:
    """Whether the answer to a request of a stored batch is right; ``start`` is where it was decided.

    The store has compared everything that has a stamp. It has stored a line that rests on a predicate only if
    nothing came between. That leaves answers without a line that rest on a predicate (rule 5).
    """
    if request.lines or request.of_platform or not request.by_predicate:
        return True
    nothing_between = first == Position(start.history, start.line + 1)
    return nothing_between or (request.nothing_before and request.is_fresh(start))
