"""What holds for every history, whatever is asked for, whenever, and however often the server restarts."""

import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairwarning.core import barrier
from fairwarning.core.causes import CAUSES
from fairwarning.core.changes import EventChanged, Scopes, What, apply
from fairwarning.core.commands import SetPower
from fairwarning.core.errors import FairWarningError, UnknownEvent
from fairwarning.core.fleet import visible
from fairwarning.core.history import Note
from fairwarning.core.model import (
    Approvals,
    Event,
    EventId,
    HostId,
    Machine,
    Power,
    Scope,
    ScopeId,
    ScopeKind,
    Source,
    Status,
)
from fairwarning.core.scope import Blueprint
from fairwarning.core.versions import PREVIEW_SHAPE
from fairwarning.core.wire import document
from fairwarning.drivers.simulated import Mishap
from fairwarning.engine.ports import Store
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore
from tests.stage import Stage, run, span

RACK = HostId("rack-7")
FLEET = (
    Blueprint(name="web", count=6, terminate_notice=span("5m")),
    Blueprint(name="db", count=4, zones=("1", "2"), terminate_notice=span("7m")),
    Blueprint(name="gpu", count=3, fault_domains=1, broadcast=False),
    Blueprint(name="red", kind=ScopeKind.STANDALONE, host=RACK, spot=True),
    Blueprint(name="blue", kind=ScopeKind.STANDALONE, host=RACK),
)
SPANS = ("1s", "5s", "29s", "1m", "4m59s", "5m", "15m", "2h", "1d")
# Explaining a failure line by line takes minutes here.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
number = st.integers(0, 50)


class Ledger:
    """The journal, read again from the start: what it says must be all there is."""

    def __init__(self) -> None:
        self.scopes: Scopes = {}
        self.alive: dict[EventId, Event] = {}
        self.promised: dict[EventId, datetime] = {}
        self._read = 0
        self._versions: dict[ScopeId, int] = {}
        self._shown: dict[ScopeId, tuple[int, bytes]] = {}

    def read(self, store: Store) -> None:
        """Take in what was written since the last time, checking each line and each document."""
        for entry in run(store.journal(after=self._read, limit=1_000_000)):
            self._read = entry.seq
            change = entry.change
            if isinstance(change, Note):
                continue
            if self._versions.get(change.scope) != entry.version:
                self._seal(change.scope)
                self._versions[change.scope] = entry.version
            if isinstance(change, EventChanged):
                self._check(change, entry.at)
            self.scopes = apply(self.scopes, [change])
        for scope_id in {*self.scopes, *self._shown}:
            self._seal(scope_id)

    def _check(self, change: EventChanged, at: datetime) -> None:
        event = change.event
        if change.what is What.STARTED:
            assert event.approved_by is not None or event.not_before <= at, "started early and unapproved"
        assert self.promised.setdefault(event.id, event.not_before) == event.not_before
        known = self.alive.pop(event.id, None)
        assert known is not None or change.what in (What.SCHEDULED, What.STARTED)
        assert known is None or known.status is Status.SCHEDULED or event.status is not Status.SCHEDULED
        if change.what in (What.FINISHED, What.CANCELLED):
            assert event.status is Status.GONE
        else:
            self.alive[event.id] = event

    def _seal(self, scope_id: ScopeId) -> None:
        """Compare a scope's document with the one before it: another number exactly when another content."""
        scope = self.scopes.get(scope_id)
        if scope is None:
            self._shown.pop(scope_id, None)
            return
        # V-05: the number moves for every version, so the one that shows most is compared.
        content = document(0, visible(scope), PREVIEW_SHAPE, scope.facts.kind)
        before, shown = self._shown.get(scope_id, (scope.incarnation, content))
        assert scope.incarnation == before + (content != shown)
        self._shown[scope_id] = (scope.incarnation, content)


class Histories(RuleBasedStateMachine):
    """Anything may be asked of a fleet; some things must never be true of it."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(store=self.open_store())
        self.ledger = Ledger()

    def open_store(self) -> Store:
        return MemoryStore()

    def reopen_store(self) -> Store:
        return self.stage.store

    # -- picking

    def machines(self) -> list[Machine]:
        return [one for scope in self.stage.engine.scopes().values() for one in scope.machines.values()]

    def events(self) -> list[Event]:
        return [one for scope in self.stage.engine.scopes().values() for one in scope.events.values()]

    def some(self, picks: list[int]) -> list[str]:
        machines = self.machines()
        return [machines[pick % len(machines)].ref.full for pick in picks] if machines else []

    def scope(self, pick: int) -> Scope:
        scopes = list(self.stage.engine.scopes().values())
        return scopes[pick % len(scopes)]

    # -- what may be asked for

    @initialize()
    def bring_up(self) -> None:
        for blueprint in FLEET:
            self.stage.make(blueprint, watched=False)

    @rule(
        cause=st.sampled_from(sorted(CAUSES)),
        picks=st.lists(number, min_size=1, max_size=4),
        notice=st.sampled_from([None, None, "0s", "10s", "20m"]),
        force=st.booleans(),
    )
    def cause(self, cause: str, picks: list[int], notice: str | None, force: bool) -> None:
        # Much of this is refused, and rightly so: a machine named twice, a second restart, no Spot machine.
        with suppress(FairWarningError):
            self.stage.cause(cause, *self.some(picks), notice=notice, force=force)

    @precondition(lambda self: self.events() and self.machines())
    @rule(event=number, machine=number)
    def approve(self, event: int, machine: int) -> None:
        events = self.events()
        (by,) = self.some([machine])
        wanted = events[event % len(events)]
        theirs = any(one.id == wanted.id for one in self.stage.shown(by))

        try:
            self.stage.approve(wanted.id, by=by)
        except UnknownEvent:
            assert not theirs
        else:
            assert theirs

    @precondition(lambda self: self.events())
    @rule(event=number)
    def cancel(self, event: int) -> None:
        events = self.events()
        wanted = events[event % len(events)]

        try:
            self.stage.cancel(wanted.id)
        except FairWarningError:
            assert wanted.status is Status.STARTED
        else:
            assert wanted.status is Status.SCHEDULED

    @rule(picks=st.lists(number, min_size=1, max_size=3))
    def poll(self, picks: list[int]) -> None:
        for name in self.some(picks):
            self.stage.poll(name)
            assert self.stage.scope(self.stage.ref(name).scope).enabled

    @rule(by=st.sampled_from(SPANS))
    def wait(self, by: str) -> None:
        self.stage.advance(by)

    @rule(pick=number, power=st.sampled_from(Power))
    def switch(self, pick: int, power: Power) -> None:
        for name in self.some([pick]):
            self.stage.do(SetPower(machine=self.stage.ref(name), power=power))

    @rule(pick=number, mishap=st.sampled_from(Mishap), attempts=st.integers(1, 3))
    def break_machine(self, pick: int, mishap: Mishap, attempts: int) -> None:
        # What is under way has been given its end already.
        acted_on = {name for event in self.events() for name in event.resources}
        for full in self.some([pick]):
            name = self.stage.ref(full).name
            if name not in acted_on:
                self.stage.break_machine(name, mishap, attempts)

    @precondition(lambda self: self.stage.engine.scopes())
    @rule(
        pick=number, cause=st.sampled_from(["host-update", "host-reboot", "cancelled-maintenance", "evict"])
    )
    def walk(self, pick: int, cause: str) -> None:
        scope = self.scope(pick)
        try:
            self.stage.walk(scope.id, cause)
        except FairWarningError:
            assert scope.facts.walk is not None or not scope.machines or cause == "evict"

    @precondition(lambda self: self.stage.engine.scopes())
    @rule(pick=number)
    def stop_walk(self, pick: int) -> None:
        scope = self.scope(pick)
        try:
            self.stage.stop_walk(scope.id)
        except FairWarningError:
            assert scope.facts.walk is None

    @precondition(lambda self: self.stage.engine.scopes())
    @rule(pick=number, reboot=st.booleans(), down=st.booleans())
    def set_approvals(self, pick: int, reboot: bool, down: bool) -> None:
        approvals = Approvals(user_reboot=reboot, all_instances_down=down)
        self.stage.set_approvals(self.scope(pick).id, approvals)

    @precondition(lambda self: self.stage.engine.scopes())
    @rule(pick=number, notice=st.sampled_from([None, "5m", "15m"]), picks=st.lists(number, max_size=3))
    def change_model(self, pick: int, notice: str | None, picks: list[int]) -> None:
        set_name = self.scope(pick).facts.set_name
        # T-05: Spot machines get no notice.
        with suppress(FairWarningError):
            self.stage.change_notice(set_name, notice)
        self.stage.upgrade(*self.some(picks))

    @precondition(lambda self: self.stage.engine.scopes())
    @rule(pick=number)
    def grow(self, pick: int) -> None:
        scope = self.scope(pick)
        try:
            self.stage.grow(scope.id)
        except FairWarningError:
            assert scope.facts.kind is ScopeKind.STANDALONE or scope.facts.deleting

    @precondition(lambda self: self.stage.engine.scopes())
    @rule(pick=number, force=st.booleans())
    def remove(self, pick: int, force: bool) -> None:
        self.stage.remove(self.scope(pick).facts.set_name, force=force)

    @rule(away=st.sampled_from(("0s", *SPANS)))
    def restart(self, away: str) -> None:
        before = {one: scope.incarnation for one, scope in self.stage.engine.scopes().items()}
        self.stage.store = self.reopen_store()
        self.stage.clock.set(self.stage.now + span(away))
        self.stage.restart()

        for scope_id, scope in self.stage.engine.scopes().items():
            assert scope.incarnation >= before[scope_id]

    # -- what must hold

    @invariant()
    def nothing_starts_early_and_the_journal_tells_all(self) -> None:
        self.ledger.read(self.stage.store)
        scopes = {one: replace(scope, version=0) for one, scope in self.stage.engine.scopes().items()}

        assert self.ledger.scopes == scopes
        for scope_id, scope in scopes.items():
            assert list(self.ledger.scopes[scope_id].events) == list(scope.events)

    @invariant()
    def what_is_kept_is_what_is_shown(self) -> None:
        assert dict(run(self.stage.store.load())) == dict(self.stage.engine.scopes())

    @invariant()
    def no_event_is_lost(self) -> None:
        self.ledger.read(self.stage.store)

        assert self.ledger.alive == {event.id: event for event in self.events()}

    @invariant()
    def every_event_has_a_machine_left_to_act_on(self) -> None:
        for event in self.events():
            machines = self.stage.scope(event.scope).machines
            assert any(name in machines and name not in event.done for name in event.resources)

    @invariant()
    def nothing_waits_that_may_start(self) -> None:
        assert barrier.released(self.events(), self.stage.now) == ()

    @invariant()
    def the_next_deadline_lies_ahead(self) -> None:
        deadline = self.stage.engine.next_deadline()

        assert deadline is None or deadline > self.stage.now

    @invariant()
    def what_is_under_way_has_an_end(self) -> None:
        if any(event.status is Status.STARTED for event in self.events()):
            assert self.stage.engine.next_deadline() is not None

    @invariant()
    def nobody_sees_what_is_not_theirs(self) -> None:
        for machine in self.machines():
            scope = self.stage.scope(machine.scope)
            for event in self.stage.shown(machine.ref.full):
                assert event.scope == machine.scope
                assert scope.facts.broadcast or machine.name in event.resources

    @invariant()
    def no_maintenance_spans_two_update_domains(self) -> None:
        for event in self.events():
            machines = self.stage.scope(event.scope).machines
            there = [machines[name] for name in event.resources if name in machines]
            assert len({machine.update_domain for machine in there}) <= 1
            assert event.source is Source.PLATFORM or len(event.resources) == 1


class DurableHistories(Histories):
    """The same in a file that is closed and opened again."""

    def open_store(self) -> Store:
        self.directory = Path(tempfile.mkdtemp(prefix="fairwarning"))
        return run(SqliteStore.open(self.directory))

    def reopen_store(self) -> Store:
        run(self.stage.store.close())
        return run(SqliteStore.open(self.directory))

    def teardown(self) -> None:
        run(self.stage.store.close())
        shutil.rmtree(self.directory)


TestHistories = pytest.mark.rule("L-02", "L-11", "L-18", "R-16", "R-18", "S-01", "S-03", "S-04")(
    Histories.TestCase
)
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, phases=PHASES)

TestDurableHistories = DurableHistories.TestCase
TestDurableHistories.settings = settings(max_examples=6, stateful_step_count=30, phases=PHASES)
