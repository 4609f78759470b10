"""Every decision: a command, given the state and the time, becomes changes or is refused.

``decide`` first lets the state settle (time may have passed), then answers the command, then lets the state
settle again. Settling applies the rules of ``CONSEQUENCES`` until none of them has anything to say.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from fairwarning.core import rollout, scaleset
from fairwarning.core.announce import Announcement, announce
from fairwarning.core.barrier import released
from fairwarning.core.blueprint import build, scope_ids
from fairwarning.core.changes import (
    Change,
    EventChanged,
    EventMilestone,
    MachineChanged,
    Published,
    ScopePropertiesChanged,
    ScopeRemoved,
    apply,
)
from fairwarning.core.commands import (
    AddMachines,
    Approve,
    Cancel,
    ChangeModel,
    Command,
    CreateSet,
    DeleteScopes,
    Poll,
    Protect,
    ReportOutcomes,
    Schedule,
    SetApprovals,
    SetPower,
    StartRollout,
    StopRollout,
    Tick,
    Upgrade,
)
from fairwarning.core.errors import NameTakenError, UnknownEventError
from fairwarning.core.fleet import FleetState, overdue, shown_to, visible
from fairwarning.core.impact import record_outcomes
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.model import (
    Event,
    EventId,
    EventStatus,
    Machine,
    MachineRef,
    Scope,
    ScopeKind,
    in_group,
)

PLATFORM = "platform"


def decide(fleet: FleetState, command: Command, now: datetime) -> tuple[Change, ...]:
    """Say what ``command`` changes, given the state and the time; nothing at all is a fine answer."""
    # Before its deadline a state that had settled is settled still.
    due, awake = _settle(fleet, now) if overdue(fleet, now) else ((), fleet)
    asked = tuple(_answer(awake, command, now))
    answered = replace(awake, scopes=apply(awake.scopes, asked))
    after, settled = _settle(answered, now)
    return (*due, *asked, *after, *_publish(fleet, settled))


def _answer(fleet: FleetState, command: Command, now: datetime) -> Iterator[Change]:
    match command:
        case CreateSet():
            return _make(fleet, command, now)
        case AddMachines():
            return scaleset.add(fleet, command)
        case DeleteScopes():
            return _remove(fleet, command, now)
        case Schedule():
            return _schedule(fleet, command, now)
        case Approve():
            return _approve(fleet, command, now)
        case Cancel():
            return _cancel(fleet, command, now)
        case Poll():
            return _poll(fleet, command, now)
        case Tick():
            return _tick(fleet, command, now)
        case ReportOutcomes():
            return record_outcomes(fleet, command, now)
        case SetPower():
            machine = replace(fleet.machine(command.machine), power=command.power)
            return iter((MachineChanged(scope=machine.scope, machine=machine, by=command.by),))
        case ChangeModel():
            return scaleset.change_model(fleet, command)
        case Upgrade():
            return scaleset.upgrade(fleet, command)
        case Protect():
            return scaleset.protect(fleet, command)
        case SetApprovals():
            facts = replace(fleet.scope(command.scope).facts, approvals=command.approvals)
            return iter((ScopePropertiesChanged(scope=command.scope, facts=facts, by=command.by),))
        case StartRollout():
            return rollout.start_rollout(fleet, command)
        case StopRollout():
            return rollout.stop_rollout(fleet, command, now)
        case _:
            assert_never(command)


def _make(fleet: FleetState, command: CreateSet, now: datetime) -> Iterator[Change]:
    name, wanted = command.blueprint.name, scope_ids(command.blueprint)
    set_id = in_group(command.blueprint.group, name)
    if any(scope.facts.set_id == set_id or scope.id in wanted for scope in fleet.scopes.values()):
        raise NameTakenError(name)
    # L-11: whoever knows the last document of a set of this name must not take a new one for it.
    least = fleet.last_incarnations.get(set_id, 0) + 1
    blueprint = replace(command.blueprint, incarnation=max(command.blueprint.incarnation, least))
    yield from build(blueprint, command.seed, fleet.policy, now, command.by)


def _remove(fleet: FleetState, command: DeleteScopes, now: datetime) -> Iterator[Change]:
    machines: list[Machine] = []
    for scope_id in command.scopes:
        scope = fleet.scope(scope_id)
        yield ScopePropertiesChanged(scope=scope_id, facts=replace(scope.facts, deleting=True), by=command.by)
        machines += scope.machines.values()
    request = Announcement(id=command.id, cause="delete", by=command.by, force=command.force)
    pending = _deletes(fleet, machines)
    if command.force:
        yield from _force_pending_delete(pending.values(), command.by, now)
    if left := [machine for machine in machines if machine.ref not in pending]:
        yield from announce(fleet, request, left, now)


def _schedule(fleet: FleetState, command: Schedule, now: datetime) -> Iterator[Change]:
    request = Announcement(
        id=command.id,
        cause=command.cause,
        by=command.by,
        notice=command.notice,
        kind=command.kind,
        force=command.force,
    )
    machines = [fleet.machine(ref) for ref in command.machines]
    if command.force and command.cause == "delete":
        pending = _deletes(fleet, machines)
        yield from _force_pending_delete(pending.values(), command.by, now)
        machines = [machine for machine in machines if machine.ref not in pending]
        if pending and not machines:
            return
    yield from announce(fleet, request, machines, now)


def _deletes(fleet: FleetState, machines: Iterable[Machine]) -> dict[MachineRef, Event]:
    """Return the deletes that are pending already, by machine."""
    found: dict[MachineRef, Event] = {}
    for machine in machines:
        for event in fleet.scope(machine.scope).events.values():
            if event.cause == "delete" and machine.name in event.resources:
                found[machine.ref] = event
    return found


def _force_pending_delete(events: Iterable[Event], by: str, now: datetime) -> Iterator[Change]:
    """T-09: whoever forces a delete approves one that waits already, and waits for no barrier either."""
    for event in events:
        if event.waiting:
            yield from _approval(event, by, now)
            approved = replace(event, approved_by=event.approved_by or by)
            started = advance(approved, Signal.RELEASED, now)
            yield EventChanged(scope=event.scope, event=started, what=EventMilestone.STARTED, by=by)


def _approve(fleet: FleetState, command: Approve, now: datetime) -> Iterator[Change]:
    scope = fleet.scope(command.scope)
    events = {e.id: e for e in (fleet.event(scope.id, event_id) for event_id in command.ids)}
    for event in events.values():
        # a guest may approve what it can see, and nothing else exists for it.
        if command.machine is not None and not shown_to(command.machine, event, scope.facts):
            raise UnknownEventError(event.id)
    for event in events.values():
        yield from _approval(event, command.by, now)


def _approval(event: Event, by: str, now: datetime) -> Iterator[Change]:
    # what is approved or has started already is left as it is.
    if event.waiting and event.approved_by is None:
        approved = replace(advance(event, Signal.APPROVED, now), approved_by=by)
        yield EventChanged(scope=event.scope, event=approved, what=EventMilestone.APPROVED, by=by)


def _cancel(fleet: FleetState, command: Cancel, now: datetime) -> Iterator[Change]:
    event = fleet.event(command.scope, command.id)
    gone = advance(event, Signal.CANCELLED, now)
    yield EventChanged(scope=event.scope, event=gone, what=EventMilestone.CANCELLED, by=command.by)
    facts = fleet.scope(event.scope).facts
    if facts.deleting and event.cause == "delete":
        # Who is spared keeps its scope: what still has machines is not going away.
        yield ScopePropertiesChanged(scope=event.scope, facts=replace(facts, deleting=False), by=command.by)


def _poll(fleet: FleetState, command: Poll, now: datetime) -> Iterator[Change]:
    machine = fleet.machine(command.machine)
    scope = fleet.scope(machine.scope)
    if not scope.enabled:
        facts = replace(scope.facts, enabled_at=now, polled_at=now)
        yield ScopePropertiesChanged(scope=scope.id, facts=facts, by=machine.name)
        for event in scope.events.values():
            if event.waiting and not event.seen:
                shown = replace(event, seen=True)
                yield EventChanged(scope=scope.id, event=shown, what=EventMilestone.SHOWN, by=machine.name)
    elif _stale(scope, now, fleet):
        facts = replace(scope.facts, polled_at=now)
        yield ScopePropertiesChanged(scope=scope.id, facts=facts, by=machine.name)


def _stale(scope: Scope, now: datetime, fleet: FleetState) -> bool:
    polled_at = scope.facts.polled_at
    return polled_at is None or now - polled_at >= fleet.policy.poll_refresh


def _tick(fleet: FleetState, command: Tick, now: datetime) -> Iterator[Change]:
    limit = fleet.policy.disable_after
    for scope_id in command.scopes:
        scope = fleet.scopes.get(scope_id)
        if scope is None or not scope.enabled or scope.facts.polled_at is None or limit is None:
            continue
        polled_at = max(scope.facts.polled_at, command.polled.get(scope_id, scope.facts.polled_at))
        enabled_at = scope.facts.enabled_at
        # nobody has asked for a day, so nobody is listening.
        if now - polled_at >= fleet.policy.shorten(limit):
            enabled_at = None
        facts = replace(scope.facts, enabled_at=enabled_at, polled_at=polled_at)
        if facts != scope.facts:
            yield ScopePropertiesChanged(scope=scope_id, facts=facts, by=PLATFORM)


def _settle(fleet: FleetState, now: datetime) -> tuple[tuple[Change, ...], FleetState]:
    changes: tuple[Change, ...] = ()
    while news := _unsettled(fleet, now):
        changes += news
        fleet = replace(fleet, scopes=apply(fleet.scopes, news))
    return changes, fleet


def _unsettled(fleet: FleetState, now: datetime) -> tuple[Change, ...]:
    """Return what the first rule says that has anything to say."""
    for rule in CONSEQUENCES:
        if news := tuple(rule(fleet, now)):
            return news
    return ()


def _withdraw(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """L-06: maintenance that was withdrawn simply vanishes."""
    for event in fleet.events():
        if event.withdraw_at is not None and event.withdraw_at <= now and event.waiting:
            gone = advance(event, Signal.CANCELLED, now)
            yield EventChanged(scope=event.scope, event=gone, what=EventMilestone.CANCELLED, by=PLATFORM)


def _approve_if_all_down(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """T-21: where every machine is down there is nobody left to approve."""
    for scope in fleet.scopes.values():
        if scope.facts.approvals.all_instances_down and scope.machines and not scope.machines.running():
            for event in scope.events.values():
                yield from _approval(event, "all-instances-down", now)


def _release(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """L-02: what is approved or out of notice, and not held by its barrier, starts."""
    for event in released(fleet.events(), now):
        started = advance(event, Signal.RELEASED, now)
        by = event.approved_by or "notice"
        yield EventChanged(scope=event.scope, event=started, what=EventMilestone.STARTED, by=by)


def _conclude(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """An event is over once each of its machines has had its impact or is no more."""
    for scope in fleet.scopes.values():
        there = scope.machines.keys()
        for event in scope.events.values():
            if there.isdisjoint(event.undone):
                signal = Signal.FINISHED if event.status is EventStatus.STARTED else Signal.CANCELLED
                gone = advance(event, signal, now)
                yield EventChanged(scope=scope.id, event=gone, what=EventMilestone(signal), by=PLATFORM)


def _walk_on(fleet: FleetState, now: datetime) -> Iterator[Change]:
    for scope in fleet.scopes.values():
        yield from rollout.next_step(fleet, scope, now)


def _close(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """A scope that is being deleted goes with its last machine; a standalone machine is its scope (S-01)."""
    for scope in fleet.scopes.values():
        going = scope.facts.deleting or scope.facts.kind is ScopeKind.STANDALONE
        if going and not scope.machines:
            set_id, incarnation = scope.facts.set_id, scope.incarnation
            yield ScopeRemoved(scope=scope.id, set_id=set_id, incarnation=incarnation)


CONSEQUENCES: tuple[Callable[[FleetState, datetime], Iterator[Change]], ...] = (
    _withdraw,
    _approve_if_all_down,
    _release,
    _conclude,
    _walk_on,
    _close,
)


def _publish(before: FleetState, after: FleetState) -> Iterator[Change]:
    """L-11: the number moves exactly when what guests see does, once per decision."""
    for scope_id, scope in after.scopes.items():
        known = before.scopes.get(scope_id)
        if scope is not known and _shown(scope) != _shown(known):
            yield Published(scope=scope_id, incarnation=scope.incarnation + 1)


def _shown(scope: Scope | None) -> list[tuple[EventId, EventStatus]]:
    return [] if scope is None else [(e.id, e.status) for e in visible(scope)]
