"""Checks every batch that is stored, and every answer, against what a single decider would have done.

A request counts as one step at the place where its lines are in the journal. A request without a line must
be explained by some state between its arrival and its answer.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from bench.delegate import Delegate
from fairwarning.core.barrier import is_ready
from fairwarning.core.changes import Change, EventChanged, EventMilestone, ScopeMade, apply
from fairwarning.core.commands import DeleteScopes, Schedule
from fairwarning.core.errors import ContendedError, FairWarningError, StorageError
from fairwarning.core.model import PrincipalKind, Scope, ScopeId
from fairwarning.core.policy import Policy
from fairwarning.core.stored.kinds import BUDGETS, MAINTENANCE
from fairwarning.engine.directory import IndexedBy
from fairwarning.engine.ports import (
    Aggregate,
    AggregateKind,
    Batch,
    Entry,
    Line,
    Part,
    StaleBatchError,
    Store,
)
from fairwarning.engine.requests import Build, Caller, NoteRefusal, Plan, Result
from tests.deciders.serial import SerialAnswer, SerialState, asks_by_predicate, decide_serially, make_plan
from tests.maintenance.counting import fits, needs_places


@dataclass(eq=False, slots=True)
class Asked:
    """A request as the audit sees it."""

    caller: Caller
    build: Build
    note_refusal: NoteRefusal
    #: The number of the journal's last line when the request came.
    came: int
    #: The instant of the last try, and its plan; None if no plan could be made.
    at: datetime | None = None
    plan: Plan | None = None
    stored: tuple[Line, ...] = ()
    #: The number of its last line; 0 if it has none.
    ended: int = 0
    #: Whether the client was told that nothing is or will be stored.
    given_up: bool = False


class AuditedStore(Delegate):
    """A store whose batches are checked as they are stored."""

    def __init__(self, inner: Store, policy: Policy) -> None:
        super().__init__(inner)
        self.policy = policy
        self.state = SerialState()
        self.stamps: dict[Aggregate, int] = {}
        self.entries: list[Entry] = []
        self.asked: dict[str, Asked] = {}
        self.counts: Counter[str] = Counter()
        self.violations: list[Exception] = []
        #: The states after each request since the last quiet moment, with the number of the last line.
        self.points: list[tuple[int, SerialState]] = [(0, self.state)]
        self._incarnations: dict[ScopeId, int] = {}
        self._one_at_a_time = asyncio.Lock()

    @property
    def position(self) -> int:
        """The number of the journal's last line."""
        return self.points[-1][0]

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        async with self._one_at_a_time:
            try:
                entries = await super().commit(batch)
            except StaleBatchError:
                self.counts["stale"] += 1
                raise
            if entries and entries[0].seq == self.position + 1:
                self.counts["batches"] += 1
                with self.watching():
                    self._audit(batch, entries)
            elif entries:
                assert entries[-1].seq <= self.position, "the numbers of the lines have a gap"
                self.counts["sent again"] += 1
            return entries

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Remember violations: what raises them may run in a task that nobody looks at."""
        try:
            yield
        except Exception as violation:
            self.violations.append(violation)
            raise

    def forget_points(self) -> None:
        """Forget all states but the last: no request is under way."""
        del self.points[:-1]

    def _audit(self, batch: Batch, entries: Sequence[Entry]) -> None:
        assert [entry.seq for entry in entries] == list(range(self.position + 1, entries[-1].seq + 1))
        assert {entry.ends for entry in entries} == {entries[-1].seq}
        assert batch.stamp not in {entry.stamp for entry in self.entries[-1000:]}, "a stamp was used twice"
        before = self.state
        read, earlier = {*batch.expected, *batch.written()}, list[Part]()
        for part in batch.parts:
            self._check_joined_barriers(part, read)
            self._audit_part(part, earlier)
            earlier.append(part)
        assert {one: self.state.scopes.get(one) for one in batch.after} == dict(batch.after)
        changed = {one for one, scope in self.state.scopes.items() if scope is not before.scopes.get(one)}
        changed |= before.scopes.keys() - self.state.scopes.keys()
        assert changed <= batch.after.keys(), "a scope changed without being written"
        for aggregate in batch.written():
            self.stamps[aggregate] = batch.stamp
        self.entries += entries

    def _audit_part(self, part: Part, earlier: Sequence[Part]) -> None:
        asked, before = self.asked[part.request], self.state
        assert not asked.ended, f"stored twice: {part.request}"
        assert not asked.given_up, f"stored after its answer: {part.request}"
        after = before.after(part.lines)
        self._check_decision(asked, part, earlier)
        self._check_barriers(asked, part, before, after)
        self._check_budgets(part, before, after)
        self._check_incarnations(part, after)
        _check_names(part, after)
        _check_versions(part, before, after)
        self.state = after
        self.points.append((self.position + len(part.lines), after))
        asked.stored, asked.ended = part.lines, self.position

    def _check_decision(self, asked: Asked, part: Part, earlier: Sequence[Part]) -> None:
        """The lines are what a decision at this place says; newcomers may be missing on a host."""
        if self._decide(self.state, asked, asked.build, part.at).lines == part.lines:
            return
        assert asks_by_predicate(self.state, asked.build), f"a decision here does not say {part.lines}"
        self.counts["newcomers"] += 1
        plan, states = asked.plan, self._states_without_newcomers(asked.came, earlier)
        if plan is None:
            answers = [self._decide(state, asked, asked.build, part.at).lines for state in states]
            assert part.lines in answers, f"no state since the request came says {part.lines}"
            return
        found = any(self._plans(state, asked) == plan.commands for state in states)
        assert found, f"nobody could have planned this since the request came: {plan.commands}"
        again = self._decide(self.state, asked, lambda view: plan, part.at).lines
        assert again == part.lines, f"a decision here says {again}, stored is {part.lines}"

    def _check_barriers(self, asked: Asked, part: Part, before: SerialState, after: SerialState) -> None:
        commands = () if asked.plan is None else asked.plan.commands
        if any(isinstance(one, DeleteScopes | Schedule) and one.force for one in commands):
            return
        events = [event for scope in after.scopes.values() for event in scope.events.values()]
        for line in part.lines:
            if not isinstance(line, EventChanged) or line.what is not EventMilestone.STARTED:
                continue
            scope = before.scopes.get(line.scope)
            waited = scope is not None and line.event.id in scope.events
            if waited and line.event.not_before > part.at:
                behind = [one for one in events if one.barrier == line.event.barrier and one.waiting]
                held = [one for one in behind if not is_ready(one, part.at)]
                assert not held, f"a barrier opened early: {line.event} before {held}"

    def _check_budgets(self, part: Part, before: SerialState, after: SerialState) -> None:
        """M-05: what the platform starts leaves its groups within their budgets, whatever other nodes do."""
        scopes = before.scopes
        # New budgets are written after what they lead to.
        texts = before.texts, after.texts
        for line in part.lines:
            if not isinstance(line, Change):
                continue
            scope = scopes.get(line.scope)
            scopes = apply(scopes, (line,))
            if not isinstance(line, EventChanged) or line.what is not EventMilestone.STARTED:
                continue
            waited = scope is not None and line.event.id in scope.events
            if waited and needs_places(line.event):
                maintenance = MAINTENANCE.find(after.texts.get, line.event.barrier)
                over = maintenance is not None and maintenance.over_budget
                budgets = [BUDGETS.find(each.get) or () for each in texts]
                fit = any(fits(scopes, line.event, each, over_budget=over) for each in budgets)
                assert fit, f"M-05: over the budgets {budgets} with {line.event}"
                self.counts["started under a budget"] += any(budgets)

    def _check_joined_barriers(self, part: Part, read: Collection[Aggregate]) -> None:
        """An event joins a barrier only in a batch that has read every scope behind it."""
        for line in part.lines:
            if isinstance(line, EventChanged) and line.what is EventMilestone.SCHEDULED:
                behind = self.state.find(IndexedBy.BARRIER, line.event.barrier)
                unread = [one for one in behind if Aggregate(AggregateKind.SCOPE, one) not in read]
                assert not unread, f"event {line.event.id} joined a barrier without reading {unread}"

    def _check_incarnations(self, part: Part, after: SerialState) -> None:
        made = {line.scope for line in part.lines if isinstance(line, ScopeMade)}
        for scope_id in part.versions.keys() & after.scopes.keys():
            incarnation, last = after.scopes[scope_id].incarnation, self._incarnations.get(scope_id, 0)
            assert incarnation >= last + (scope_id in made), f"the incarnation of {scope_id} went back"
            assert scope_id in made or incarnation <= last + 1, "a request moved an incarnation twice"
            self._incarnations[scope_id] = incarnation

    # -- answers

    def check_result(self, asked: Asked, result: Result, position: int) -> None:
        """A result says what is stored, and the node has reached it."""
        assert result.changes == asked.stored[: len(result.changes)]
        assert position >= asked.ended, "answered before the replica had reached it"
        if not asked.ended:
            asked.given_up = True
            self._check_explained(asked, SerialAnswer())

    def check_refusal(self, asked: Asked, refusal: FairWarningError, position: int) -> None:
        """A refusal would have been given by a single decider, too."""
        assert position >= asked.ended, "answered before the replica had reached it"
        note = asked.note_refusal(refusal)
        assert asked.stored == (() if note is None else (note,)), "refused, and stored something else"
        asked.given_up = True
        if note is None:
            self._check_explained(asked, SerialAnswer((), f"{type(refusal).__name__}: {refusal}"))

    def check_failure(self, asked: Asked, problem: ContendedError | StorageError) -> None:
        """Nothing is stored of a request that could not be carried out, unless its outcome is unknown."""
        unknown = isinstance(problem, StorageError) and problem.outcome_unknown
        assert unknown or not asked.ended, "answered as not stored, and stored"
        asked.given_up = not unknown

    def _check_explained(self, asked: Asked, answer: SerialAnswer) -> None:
        if asked.caller.principal.kind is PrincipalKind.PLATFORM:
            return
        at = asked.at
        assert at is not None
        others: list[SerialAnswer] = []
        for state in self._states_since(asked.came):
            others.append(self._decide(state, asked, asked.build, at))
            if others[-1] == answer:
                return
        raise AssertionError(f"no state since the request came explains {answer}; they say {others[-3:]}")

    def _states_since(self, came: int) -> list[SerialState]:
        return [state for number, state in self.points if number >= came]

    def _states_without_newcomers(self, came: int, earlier: Sequence[Part]) -> list[SerialState]:
        """Return the states since a line, each also with the earlier requests of the batch added to it."""
        states = self._states_since(came)
        for state in list(states):
            with suppress(LookupError):
                for part in earlier:
                    state = state.after(part.lines)
                states.append(state)
        return states

    def _plans(self, state: SerialState, asked: Asked) -> object:
        try:
            return make_plan(state, asked.build).commands
        except FairWarningError as refusal:
            return refusal

    def _decide(self, state: SerialState, asked: Asked, build: Build, at: datetime) -> SerialAnswer:
        return decide_serially(state, build, asked.note_refusal, self.policy, at)


def _check_versions(part: Part, before: SerialState, after: SerialState) -> None:
    for scope_id, version in part.versions.items():
        removed = before.scopes[scope_id].version + 1 if scope_id in before.scopes else 1
        assert version == (after.scopes[scope_id].version if scope_id in after.scopes else removed)


def _check_names(part: Part, after: SerialState) -> None:
    made = {line.scope: line.facts.set_id for line in part.lines if isinstance(line, ScopeMade)}
    for scope_id, scope in after.scopes.items():
        if scope.facts.set_id in made.values():
            assert scope_id in made, f"two sets are named {scope.facts.set_id}"


def check_barriers_do_not_hang(scopes: Mapping[ScopeId, Scope]) -> None:
    """No barrier holds events back that are all approved, in their windows, and not blocked."""
    waiting: dict[str, list[bool]] = {}
    for scope in scopes.values():
        for event in scope.events.values():
            if event.waiting:
                free = event.approved_by is not None and event.opens is None and not event.blocked
                waiting.setdefault(event.barrier, []).append(free)
    hanging = [barrier for barrier, approved in waiting.items() if all(approved)]
    assert not hanging, f"barriers hang: {hanging}"
