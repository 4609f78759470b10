"""The invariants of every history, checked against the journal and docs/rules.md alone."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from fairwarning.core.blueprint import domain
from fairwarning.core.changes import (
    Change,
    EventChanged,
    EventMilestone,
    MachineChanged,
    MachineRemoved,
    ScopeMade,
    Scopes,
    apply,
)
from fairwarning.core.document.render import render_document
from fairwarning.core.document.versions import PREVIEW_SHAPE
from fairwarning.core.fleet import visible_events
from fairwarning.core.model import (
    Event,
    EventId,
    EventSource,
    EventStatus,
    EventType,
    HostId,
    Machine,
    MachineRef,
    PowerState,
    Scope,
    ScopeId,
    ScopeKind,
)
from fairwarning.engine.ports import Entry
from tests.fleet_harness import run
from tests.histories.actions import World

#: The fields of an event that never change.
NEVER_CHANGES = ("scope", "cause", "kind", "source", "resources", "not_before", "barrier", "created_at")


class Checks:
    """Reads the journal from its beginning and checks every line against the lines before it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read = 0
        self._scopes: dict[ScopeId, Scope] = {}
        self._alive: dict[EventId, Event] = {}
        self._over: set[EventId] = set()
        self._machines: dict[MachineRef, Machine] = {}
        self._made: dict[str, datetime] = {}
        self._removed: set[str] = set()
        self._incarnations: dict[ScopeId, int] = {}
        self._seen: dict[ScopeId, Scope] = {}

    def check(self) -> None:
        """Check the lines written since the last call, then compare them with the state."""
        run(self._check())

    async def _check(self) -> None:
        stage, now = self._world.stage, self._world.stage.now
        for lines in self._commits(await stage.store.journal(after=self._read, limit=1_000_000)):
            self._take(*lines)
        scopes = stage.engine.scopes()
        assert scopes.keys() == self._scopes.keys(), "the journal tells of other scopes"
        assert dict((await stage.store.snapshot()).scopes) == dict(scopes), (
            "what is kept is not what is shown"
        )
        for scope_id, scope in scopes.items():
            if self._seen.get(scope_id) is not scope:
                self._look_at(scope)
                self._seen[scope_id] = scope
        self._check_time(now)

    # -- the journal

    def _commits(self, entries: Sequence[Entry]) -> list[tuple[ScopeId, datetime, list[Change]]]:
        """Return journal lines, grouped by scope and commit."""
        commits: list[tuple[ScopeId, datetime, list[Change]]] = []
        open_commits: dict[ScopeId, tuple[int, list[Change]]] = {}
        for entry in entries:
            assert entry.seq == self._read + 1, f"journal line {entry.seq} follows line {self._read}"
            self._read = entry.seq
            change = entry.change
            if not isinstance(change, Change):
                continue
            version, lines = open_commits.get(change.scope, (-1, []))
            if version != entry.version:
                lines = []
                open_commits[change.scope] = entry.version, lines
                commits.append((change.scope, entry.at, lines))
            lines.append(change)
        return commits

    def _take(self, scope_id: ScopeId, at: datetime, changes: Sequence[Change]) -> None:
        before = self._scopes.get(scope_id)
        struck: dict[MachineRef, list[tuple[EventType, HostId]]] = {}
        for change in changes:
            match change:
                case EventChanged():
                    self._event_changed(change, at, struck)
                case MachineChanged():
                    self._machine_changed(change, at)
                case MachineRemoved(name=name):
                    self._machine_removed(MachineRef(scope_id, name))
                case ScopeMade(incarnation=incarnation):
                    last = self._incarnations.get(scope_id, 0)
                    assert incarnation > last, f"L-11: {scope_id} made again begins at {incarnation}"
                case _:
                    pass
        for ref, impacts in struck.items():
            self._check_impacts(ref, impacts)
        known: Scopes = {} if before is None else {scope_id: before}
        after = apply(known, changes).get(scope_id)
        if after is None:
            self._scopes.pop(scope_id, None)
            self._seen.pop(scope_id, None)
            self._machines = {ref: one for ref, one in self._machines.items() if ref.scope != scope_id}
        else:
            self._scopes[scope_id] = after
            self._check_document(before, after)

    def _event_changed(
        self, change: EventChanged, at: datetime, struck: dict[MachineRef, list[tuple[EventType, HostId]]]
    ) -> None:
        event, what = change.event, change.what
        known = self._alive.pop(event.id, None)
        if known is None:
            assert what in (EventMilestone.SCHEDULED, EventMilestone.STARTED), (
                f"{event.id} was {what} before it was made"
            )
            assert event.id not in self._over, f"L-01: {event.id} is back"
        else:
            self._check_progress(known, event)
            for name in event.done[len(known.done) :]:
                machine = self._machines.get(MachineRef(event.scope, name))
                assert machine is not None, f"{event.id} struck {name}, which is not there"
                struck.setdefault(machine.ref, []).append((event.kind, machine.host))
        if what is EventMilestone.STARTED:
            self._check_start(event, at)
        if event.status is EventStatus.GONE:
            self._over.add(event.id)
            self._world.met[f"{event.kind} {what}"] += 1
        else:
            self._alive[event.id] = event

    def _check_progress(self, known: Event, event: Event) -> None:
        for field in NEVER_CHANGES:
            assert getattr(known, field) == getattr(event, field), f"{event.id} has another {field} (L-18)"
        forward = (EventStatus.SCHEDULED, EventStatus.STARTED, EventStatus.GONE)
        assert forward.index(known.status) <= forward.index(event.status), f"L-01: {event.id} goes back"
        assert event.done[: len(known.done)] == known.done, f"{event.id} has undone an impact"
        assert event.attempt >= known.attempt, f"{event.id} has undone an attempt"
        assert known.approved_by in (None, event.approved_by), f"{event.id} lost its approval"

    def _check_start(self, event: Event, at: datetime) -> None:
        assert event.started_at == at, f"{event.id} says that it started at {event.started_at}, not {at}"
        if event.not_before <= at:
            self._world.met["started at NotBefore after a warning"] += event.created_at < event.not_before
            return
        self._world.met["started early, approved"] += 1
        assert event.approved_by is not None, f"L-02: {event.id} started early and unapproved"
        if not self._world.forced:
            for other in self._alive.values():
                held = other.waiting and other.approved_by is None and other.not_before > at
                assert other.barrier != event.barrier or not held, f"T-14: {event.id} passed {other.id}"

    def _machine_changed(self, change: MachineChanged, at: datetime) -> None:
        machine = change.machine
        assert machine.vm_id not in self._removed, f"{machine.ref.full} came back from the dead"
        known = self._machines.get(machine.ref)
        if known is None:
            assert change.by == "operator", f"{change.by} made {machine.ref.full}"
            self._made[machine.vm_id] = at
        else:
            assert known.vm_id == machine.vm_id, f"{machine.ref.full} is another machine"
            if (known.power, machine.power) == (PowerState.STOPPED, PowerState.RUNNING):
                started = replace(known, power=PowerState.RUNNING)
                assert change.by == "operator", f"{change.by} started {machine.ref.full}"
                assert machine == started, f"{machine.ref.full} started in passing"
        self._machines[machine.ref] = machine

    def _machine_removed(self, ref: MachineRef) -> None:
        machine = self._machines.pop(ref, None)
        assert machine is not None, f"{ref.full} was removed twice"
        ending = (EventType.PREEMPT, EventType.TERMINATE)
        events = (event for event in self._alive.values() if event.scope == ref.scope)
        done = any(event.kind in ending and ref.name in event.done for event in events)
        assert done, f"L-04: {ref.full} went without an event"
        self._removed.add(machine.vm_id)
        self._world.met["machine removed"] += 1

    def _check_impacts(self, ref: MachineRef, impacts: Sequence[tuple[EventType, HostId]]) -> None:
        """Compare a machine after a commit with the impacts in that commit."""
        self._world.met["two impacts of one machine in one commit"] += len(impacts) > 1
        machine = self._machines.get(ref)
        for kind, host in impacts:
            if machine is None:
                break
            assert kind is not EventType.TERMINATE, f"T-13: {ref.full} was deleted and is there"
            evicted = kind is not EventType.PREEMPT or machine.power is PowerState.STOPPED
            assert evicted, f"T-24: {ref.full} was evicted and runs"
            assert kind is not EventType.REDEPLOY or machine.host != host, f"{ref.full} did not move"

    def _check_document(self, before: Scope | None, after: Scope) -> None:
        """L-11: a new incarnation exactly with new content, in the version that shows most (V-05)."""
        self._incarnations[after.id] = after.incarnation
        if before is None:
            return
        moved = before.events is not after.events and _content(before) != _content(after)
        expected = before.incarnation + moved
        assert after.incarnation == expected, f"L-11: {after.id} is at {after.incarnation}, not {expected}"

    # -- the state

    def _look_at(self, scope: Scope) -> None:
        replayed = replace(self._scopes[scope.id], version=scope.version)
        assert replayed == scope, f"{scope.id} differs from the journal"
        assert list(replayed.events) == list(scope.events), f"the events of {scope.id} are in another order"
        assert list(replayed.machines) == list(scope.machines), (
            f"the machines of {scope.id} are in another order"
        )
        stays = not scope.facts.deleting and scope.facts.kind is not ScopeKind.STANDALONE
        assert scope.machines or stays, f"T-16, S-01: {scope.id} has lost its machines and stands"
        if scope.facts.deleting:
            deletes = (event for event in scope.events.values() if event.cause == "delete")
            going = {name for event in deletes for name in event.resources}
            staying = scope.machines.keys() - going
            assert not staying, f"T-16: {scope.id} is being deleted and {staying} stays"
        domains_by_rollout: dict[str, set[int]] = {}
        for event in scope.events.values():
            assert self._alive.get(event.id) == event, f"{event.id} differs from the journal"
            left = [name for name in event.undone if name in scope.machines]
            assert left, f"{event.id} has nobody left to act on"
            there = [scope.machines[name] for name in event.resources if name in scope.machines]
            # A machine that is created again under an old name may be in another domain.
            meant = [machine for machine in there if self._made[machine.vm_id] <= event.created_at]
            domains = {domain(scope.facts, machine) for machine in meant}
            assert len(domains) <= 1, f"S-04: {event.id} spans the domains {domains}"
            assert event.source is EventSource.PLATFORM or len(event.resources) == 1, f"T-11: {event.id}"
            if event.walk is not None:
                domains_by_rollout.setdefault(event.walk, set()).update(domains)
        assert all(len(domains) <= 1 for domains in domains_by_rollout.values()), (
            f"S-05: {scope.id} has two domains of a rollout at once"
        )
        if not scope.facts.broadcast:
            for name in scope.machines:
                theirs = (name in event.resources for event in visible_events(scope, name))
                assert all(theirs), f"S-03: {name} sees what is not its own"

    def _check_time(self, now: datetime) -> None:
        events = self._world.events()
        assert self._alive.keys() == {event.id for event in events}, "events were lost"
        # The events that a barrier waits for: neither approved nor past their notice.
        held = {event.barrier for event in events if event.waiting and event.approved_by is None}
        for event in events:
            assert not event.waiting or event.not_before > now, f"T-13: {event.id} waits after NotBefore"
            free = event.approved_by is not None and event.barrier not in held
            assert not event.waiting or not free, f"T-12: {event.id} is approved and waits for nobody"
        deadline = self._world.stage.engine.next_deadline()
        assert deadline is None or deadline > now, "something is due and is not done"
        if any(not event.waiting for event in events):
            assert deadline is not None, "what is under way has no end"


def _content(scope: Scope) -> bytes:
    return render_document(0, visible_events(scope), PREVIEW_SHAPE, scope.facts.kind)
