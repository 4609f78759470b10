"""Runs commands: load, decide, commit, publish.

The engine holds two states. ``_newest`` is what has been decided, maybe not yet committed: the next
decision is made on it. ``_committed`` is what the store has confirmed: readers see nothing else. A command
returns once its changes are committed.

Decisions are made one at a time on the event loop, and ``Pipeline`` commits them in batches. If a commit
fails, ``_newest`` is wrong from there on: the state is marked stale and read from the store before the next
decision.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from fairwarning.core.changes import Change, remember_removed
from fairwarning.core.commands import Command, Poll, ReportOutcomes, Tick, concerns
from fairwarning.core.decide import Decision, decide
from fairwarning.core.errors import (
    ConflictError,
    FairWarningError,
    StorageError,
    UnknownMachineError,
    UnknownScopeError,
)
from fairwarning.core.fleet import FleetState, next_deadline, outstanding_impacts
from fairwarning.core.history import CommandRefused, Note
from fairwarning.core.model import PLATFORM, Event, Machine, MachineRef, Scope, ScopeId
from fairwarning.core.policy import Policy, with_speed
from fairwarning.engine.clock import Clock, new_request_id
from fairwarning.engine.deadlines import Deadlines
from fairwarning.engine.directory import Directory
from fairwarning.engine.faults import ActiveFaults
from fairwarning.engine.feed import Feed
from fairwarning.engine.pipeline import Pipeline
from fairwarning.engine.ports import Commit, Driver, Entry, Store
from fairwarning.engine.refusal import refusal_note
from fairwarning.engine.requests import Build, Caller, NoteRefusal, Plan, Result, View, no_note
from fairwarning.engine.texts import StoredTexts

#: Returns the documents to store with a decision, given its changes.
Also = Callable[[tuple[Change, ...]], Mapping[str, str | None]]

#: The shortest time between two notes about refused approvals of the same guest.
NOTE_AGAIN = timedelta(minutes=1)

#: The number of due scopes that a tick handles before other tasks get a turn.
SLICE = 256


def _nothing(changes: tuple[Change, ...]) -> Mapping[str, str | None]:
    return {}


class Engine:
    """The state of the fleet, decided and committed, and the commands that change it."""

    def __init__(self, store: Store, clock: Clock, driver: Driver, policy: Policy) -> None:
        self.store = store
        self.clock = clock
        self.policy = policy
        self.feed = Feed()
        self.directory = Directory()
        #: Work that follows from the state; a moved clock waits for it at every step.
        self.upkeep: list[Callable[[], Awaitable[None]]] = []
        self.faults = ActiveFaults(self.remark)
        self.deadlines_moved = asyncio.Event()
        self._driver = driver
        self._newest: dict[ScopeId, Scope] = {}
        self._committed: dict[ScopeId, Scope] = {}
        self._last_incarnations: dict[str, int] = {}
        self._decided = Directory()
        self._newest_texts = StoredTexts()
        self._committed_texts = StoredTexts()
        self._polled: dict[ScopeId, datetime] = {}
        self._refreshing: dict[ScopeId, asyncio.Task[None]] = {}
        self._refused: dict[MachineRef, datetime] = {}
        self._agenda = Deadlines()
        self._pipeline = Pipeline(store, self._publish, self._discard)
        self._stale = True
        self._reloading = asyncio.Lock()

    async def open(self) -> None:
        """Read the state and handle what is due."""
        await self._reload()
        await self.tick()

    async def close(self) -> None:
        """Wait until all commits are written."""
        for task in list(self._refreshing.values()):
            await asyncio.wait([task])
        await self._pipeline.idle()

    def scopes(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes as committed."""
        return self._committed

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope as committed."""
        if scope_id not in self._committed:
            raise UnknownScopeError(scope_id)
        return self._committed[scope_id]

    def refs(self) -> Iterator[MachineRef]:
        """Return the names of all machines as committed."""
        return (ref for scope in self._committed.values() for ref in scope.refs())

    def machine(self, ref: MachineRef) -> Machine:
        """Return a machine as committed."""
        return self._home(ref).machines[ref.name]

    def polled_at(self, scope_id: ScopeId) -> datetime | None:
        """Return the exact instant of a scope's last poll; the stored instant may be older."""
        return self._polled.get(scope_id, self.scope(scope_id).facts.polled_at)

    @property
    def trouble(self) -> str:
        """Why the last change could not be stored; empty if it was."""
        problem = self._pipeline.problem
        if problem is None:
            return ""
        reason = problem.problem if isinstance(problem, StorageError) else "the server's log says why"
        return f"changes cannot be stored: {reason}"

    async def check_health(self) -> None:
        """Raise unless changes can be stored; after a failure, try a commit that changes nothing."""
        if not self.trouble:
            return
        try:
            await self._pipeline.put(Commit(at=self.clock.now(), changes=()))
        except Exception as problem:  # the pipeline has logged it already
            raise StorageError(self.trouble, self.trouble) from problem

    def texts(self) -> Mapping[str, str]:
        """Return the texts that other packages store with the fleet, as committed."""
        return self._committed_texts

    def view(self) -> View:
        """Return the committed state as requests see the state that they are decided on."""
        return _StateView(self.directory, self._committed, self._committed_texts)

    def next_deadline(self) -> datetime | None:
        """Return the next deadline of all scopes."""
        return self._agenda.next()

    async def handle(self, command: Command, also: Also = _nothing) -> tuple[Change, ...]:
        """Carry out a command and return its changes, once they are committed.

        ``also`` returns the documents to store in the same transaction, given the changes.
        """
        note = partial(refusal_note, command)
        caller = Caller(PLATFORM, new_request_id())
        return (await self.submit(caller, lambda view: Plan((command,), also), note)).changes

    async def submit(self, caller: Caller, build: Build, note_refusal: NoteRefusal = no_note) -> Result:
        """Carry out the commands that ``build`` makes as one decision, and return once it is stored."""
        while True:
            if self._stale:
                await self._reload()
            try:
                return await self._carry_out(build, note_refusal)
            except ConflictError:
                continue  # the decision was based on an outdated state

    async def keep(self, documents: Mapping[str, str | None]) -> None:
        """Store documents without a decision."""
        caller = Caller(PLATFORM, new_request_id())
        await self.submit(caller, lambda view: Plan(texts=lambda changes: documents))

    async def remark(self, note: Note) -> None:
        """Write a note to the journal."""
        await self._pipeline.put(Commit(at=self.clock.now(), changes=(note,)))

    async def poll(self, ref: MachineRef) -> None:
        """Record a poll; the first poll of a scope is committed before it is answered (R-21)."""
        if not self.polled(ref):
            await self.handle(Poll(machine=ref))

    def polled(self, ref: MachineRef) -> bool:
        """Record a poll in memory; False means that the scope has to be enabled first."""
        facts = self._home(ref).facts
        now = self.clock.now()
        self._polled[ref.scope] = now
        if facts.enabled_at is None or facts.polled_at is None:
            return False
        if now - facts.polled_at >= self.policy.poll_refresh and ref.scope not in self._refreshing:
            self._refreshing[ref.scope] = asyncio.create_task(self._refresh(ref))
        return True

    def noted(self, scope_id: ScopeId, scope: Scope | None, now: datetime) -> bool:
        """Record a poll in memory if ``scope`` is the committed state; False means that it is not."""
        if scope is None or self._committed.get(scope_id) is not scope:
            return False
        self._polled[scope_id] = now
        return True

    def _home(self, ref: MachineRef) -> Scope:
        scope = self._committed.get(ref.scope)
        if scope is None or ref.name not in scope.machines:
            raise UnknownMachineError(ref.name)
        return scope

    async def _refresh(self, ref: MachineRef) -> None:
        """Store the instant of the last poll; no guest waits for it, and a later poll tries again."""
        try:
            with suppress(FairWarningError):
                await self.handle(Poll(machine=ref))
        finally:
            del self._refreshing[ref.scope]

    async def tick(self) -> None:
        """Handle every scope whose deadline is reached."""
        if self._stale:
            await self._reload()
        due = self._agenda.take(self.clock.now())
        problems: list[BaseException] = []
        for start in range(0, len(due), SLICE):
            attended = map(self._attend, due[start : start + SLICE])
            results = await asyncio.gather(*attended, return_exceptions=True)
            problems += [result for result in results if isinstance(result, BaseException)]
        # An error of one scope must not keep the others from being handled.
        for problem in problems:
            raise problem

    def set_speed(self, speed: float) -> None:
        """Change how fast durations pass from now on."""
        self.policy = with_speed(self.policy, speed)
        for scope in self._committed.values():
            self._schedule(scope)

    async def _attend(self, scope_id: ScopeId) -> None:
        try:
            await self._look_after(scope_id)
        finally:
            # After an error the scope is still due.
            if scope_id in self._committed:
                self._schedule(self._committed[scope_id])

    async def _look_after(self, scope_id: ScopeId) -> None:
        scope = self._newest.get(scope_id)
        if scope is None:
            return
        outcomes = self._driver.observe(outstanding_impacts(scope), self.policy, self.clock.now())
        if outcomes:
            await self.handle(ReportOutcomes(scope=scope_id, outcomes=tuple(outcomes)))
        await self.handle(Tick(scopes=(scope_id,), polled=self._polled))

    async def _carry_out(self, build: Build, note_refusal: NoteRefusal) -> Result:
        now = self.clock.now()
        try:
            plan = build(_StateView(self._decided, self._newest, self._newest_texts))
            fleet = self._fleet({scope for command in plan.commands for scope in concerns(command)})
            decision = decide(fleet, plan.commands, now)
        except FairWarningError as error:
            await self._note_refusal(note_refusal(error), now)
            raise
        texts = plan.texts(decision.changes)
        await self._commit(fleet, decision, texts, now)
        return Result(decision.changes, texts)

    def _fleet(self, scope_ids: Iterable[ScopeId]) -> FleetState:
        together = self._decided.together(scope_ids)
        scopes = {one: self._newest[one] for one in sorted(together) if one in self._newest}
        return FleetState(scopes, self.policy, self._last_incarnations)

    async def _commit(
        self, fleet: FleetState, decision: Decision, documents: Mapping[str, str | None], now: datetime
    ) -> None:
        if not decision.changes and not documents:
            # The answer may depend on decisions that are not committed yet.
            if any(self._committed.get(one) is not scope for one, scope in fleet.scopes.items()):
                await self._pipeline.settled()
            return
        after = decision.after
        expected = {one: fleet.scopes[one].version if one in fleet.scopes else 0 for one in after}
        kept = {one: scope for one, scope in after.items() if scope is not None}
        self._accept(after, kept)
        remember_removed(self._last_incarnations, decision.changes)
        self._newest_texts.update(documents)
        await self._pipeline.put(
            Commit(at=now, changes=decision.changes, expected=expected, after=kept, documents=documents)
        )

    def _accept(self, moved: Iterable[ScopeId], after: Mapping[ScopeId, Scope]) -> None:
        for scope_id in moved:
            scope = after.get(scope_id)
            if scope is None:
                self._newest.pop(scope_id, None)
            else:
                self._newest[scope_id] = scope
            self._decided.put(scope_id, scope)

    def _publish(self, commits: Sequence[Commit], kept: Sequence[Sequence[Entry]]) -> None:
        # Readers see only the state after the whole batch.
        moved = {one: commit.after.get(one) for commit in commits for one in commit.expected}
        for commit in commits:
            self._committed_texts.update(commit.documents)
        for scope_id, scope in moved.items():
            self.directory.put(scope_id, scope)
            if scope is None:
                self._committed.pop(scope_id, None)
                self._polled.pop(scope_id, None)
                self._refused = {one: at for one, at in self._refused.items() if one.scope != scope_id}
                self._agenda.put(scope_id, None)
            else:
                self._committed[scope_id] = scope
                self._schedule(scope)
        for entries in kept:
            self.feed.publish(entries)

    def _schedule(self, scope: Scope) -> None:
        facts = scope.facts
        polled = self._polled.get(scope.id)
        if polled is not None and facts.polled_at is not None and polled > facts.polled_at:
            scope = replace(scope, facts=replace(facts, polled_at=polled))
        instants = (
            next_deadline(scope, self.policy),
            self._driver.due(outstanding_impacts(scope), self.policy),
        )
        self._agenda.put(scope.id, min((one for one in instants if one is not None), default=None))
        self.deadlines_moved.set()

    def _discard(self) -> None:
        self._stale = True

    async def _reload(self) -> None:
        # No decision may be made on the old state while the stored state is being read.
        async with self._reloading:
            if not self._stale:
                return
            scopes, last = await self.store.load(), await self.store.last_incarnations()
            texts = await self.store.documents()
            self._newest_texts, self._committed_texts = StoredTexts(texts), StoredTexts(texts)
            for scope_id in {*self._newest, *self._committed, *scopes}:
                self._accept((scope_id,), scopes)
                self.directory.put(scope_id, scopes.get(scope_id))
            self._committed = dict(scopes)
            self._last_incarnations = dict(last)
            for scope in scopes.values():
                self._schedule(scope)
            self._stale = False
            self.feed.start_over()

    async def _note_refusal(self, note: CommandRefused | None, now: datetime) -> None:
        if note is None:
            return
        if note.asked == "approve" and note.machines:
            # A guest that repeats an invalid approval is refused every time but noted once a minute.
            (guest,) = note.machines
            if now - self._refused.get(guest, now - NOTE_AGAIN) < NOTE_AGAIN:
                return
            self._refused[guest] = now
        await self.remark(note)


@dataclass(frozen=True, slots=True)
class _StateView:
    """The fleet and the texts that belong to it, as decided or as committed."""

    _directory: Directory
    _scopes: Mapping[ScopeId, Scope]
    _texts: StoredTexts

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope, or raise ``UnknownScopeError``."""
        scope = self.find_scope(scope_id)
        if scope is None:
            raise UnknownScopeError(scope_id)
        return scope

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope; None if there is none."""
        return self._scopes.get(scope_id)

    def machine(self, name: str) -> Machine:
        """Return the machine named ``name`` or ``scope/name``."""
        return self.machine_at(self._directory.machine(name))

    def machine_at(self, ref: MachineRef) -> Machine:
        """Return a machine by its reference, or raise ``UnknownMachineError``."""
        scope = self.find_scope(ref.scope)
        if scope is None or ref.name not in scope.machines:
            raise UnknownMachineError(ref.name)
        return scope.machines[ref.name]

    def machines_on_host(self, host: str) -> tuple[MachineRef, ...]:
        """Return the machines on a host."""
        return self._directory.machines_on_host(host)

    def event(self, event_id: str) -> Event:
        """Return a pending event."""
        scope, key = self._directory.event(event_id)
        return self._scopes[scope].events[key]

    def scopes_of_set(self, set_id: str) -> tuple[Scope, ...]:
        """Return the scopes of a set: one, or one per zone; none if there is no such set."""
        return tuple(self._scopes[one] for one in self._directory.scopes_of_set(set_id))

    def scopes(self) -> tuple[Scope, ...]:
        """Return all scopes."""
        return tuple(self._scopes.values())

    def text(self, key: str) -> str | None:
        """Return a text that another package stores with the fleet."""
        return self._texts.find(key)

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        return self._texts.under(prefix)
