"""Keeps stored values in step with the events of a decision.

``bookkeeping`` looks at what a part of a decision has changed: the phase of a maintenance follows its events,
the places of a budget follow the machines that are down, and a machine that leaves or reaches a host that is
to be maintained is spared or warned (M-12).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from fairwarning.core.announce import Announcement, announce
from fairwarning.core.changes import Change, EventChanged, EventMilestone, MachineChanged, TextChanged
from fairwarning.core.fleet import FleetState
from fairwarning.core.maintenance.budgets import update_places
from fairwarning.core.maintenance.release import withdraw
from fairwarning.core.maintenance.values import Maintenance, MaintenancePhase, OnSilence
from fairwarning.core.model import (
    GONE,
    PLATFORM,
    STARTED,
    BarrierId,
    Event,
    HostId,
    Machine,
    derive_id,
    replace,
)
from fairwarning.core.stored.kinds import MAINTENANCE, PENDING
from fairwarning.formats.timestamps import for_people

Facts = Sequence[Change | TextChanged]


def bookkeeping(
    before: FleetState, after: FleetState, facts: Facts, now: datetime
) -> Iterator[Change | TextChanged]:
    """Yield what has to be stored with some facts, given the fleet before and after them."""
    yield from update_places(before, after, facts)
    yield from _update_phases(after, facts, now)
    yield from _note_moves(before, after, facts, now)


def _update_phases(after: FleetState, facts: Facts, now: datetime) -> Iterator[TextChanged]:
    """M-01: a maintenance is started with its events, and done or withdrawn when none is left."""
    reasons: dict[BarrierId, str] = {}
    for fact in facts:
        if isinstance(fact, EventChanged):
            reasons[fact.event.barrier] = fact.reason or f"cancelled by {fact.by}"
    for barrier, reason in reasons.items():
        maintenance = MAINTENANCE.find(after.text, barrier)
        if maintenance is None or maintenance.phase.over:
            continue
        changed = _in_phase(maintenance, _events(after, barrier), reason, now)
        if changed != maintenance:
            yield TextChanged(key=MAINTENANCE.key(barrier), text=MAINTENANCE.encode(changed))
            if changed.phase.over and maintenance.host is not None:
                yield _without(after, maintenance.host, barrier)


def _in_phase(maintenance: Maintenance, events: Sequence[Event], reason: str, now: datetime) -> Maintenance:
    if any(event.status is STARTED for event in events):
        return replace(maintenance, phase=MaintenancePhase.STARTED)
    if events:
        return maintenance
    if maintenance.phase is MaintenancePhase.STARTED:
        return replace(maintenance, phase=MaintenancePhase.DONE, ended_at=now)
    return replace(maintenance, phase=MaintenancePhase.WITHDRAWN, reason=reason, ended_at=now)


def _without(fleet: FleetState, host: HostId, barrier: BarrierId) -> TextChanged:
    pending = dict(PENDING.find(fleet.text) or {})
    pending[host] = tuple(other for other in pending.get(host, ()) if other != barrier)
    rest = {host: ids for host, ids in pending.items() if ids}
    return TextChanged(key=PENDING.key(), text=PENDING.encode(rest) if rest else None)


def _note_moves(
    before: FleetState, after: FleetState, facts: Facts, now: datetime
) -> Iterator[EventChanged | TextChanged]:
    for fact in facts:
        if not isinstance(fact, MachineChanged):
            continue
        machine, scope = fact.machine, before.scopes.get(fact.scope)
        earlier = None if scope is None else scope.machines.get(machine.name)
        if earlier is None or earlier.host != machine.host:
            if earlier is not None:
                yield from _spare(after, machine, earlier.host)
            yield from _warn(after, machine, now)


def _spare(fleet: FleetState, machine: Machine, left: HostId) -> Iterator[EventChanged]:
    """M-12: what is scheduled for a host no longer concerns a machine that has left it."""
    for event in fleet.scopes[machine.scope].events.values():
        maintenance = MAINTENANCE.find(fleet.text, event.barrier) if event.waiting else None
        if maintenance is not None and maintenance.host == left and machine.name in event.undone:
            spared = replace(event, done=(*event.done, machine.name))
            yield EventChanged(
                scope=event.scope,
                event=spared,
                what=EventMilestone.PROGRESSED,
                by=str(PLATFORM),
                reason=f"{machine.name} has left {left}",
            )


def _warn(fleet: FleetState, machine: Machine, now: datetime) -> Iterator[EventChanged | TextChanged]:
    """M-12: a machine that reaches a host is warned of its maintenance, or the maintenance withdrawn."""
    pending = PENDING.find(fleet.text) or {}
    for barrier in pending.get(machine.host, ()):
        maintenance = MAINTENANCE.find(fleet.text, barrier)
        if maintenance is None or maintenance.phase is not MaintenancePhase.SCHEDULED:
            continue
        request = Announcement(
            id=derive_id(barrier, machine.ref.full, now.isoformat()),
            cause=maintenance.cause,
            by=maintenance.by,
            barrier=barrier,
            opens=maintenance.opens,
            closes=maintenance.closes,
            consent=maintenance.on_silence is not OnSilence.PROCEED,
        )
        (change,) = announce(fleet, request, (machine,), now)
        event = replace(change.event, not_before=max(change.event.not_before, maintenance.not_before))
        if maintenance.closes is not None and event.not_before >= maintenance.closes:
            late = f"{machine.ref.full} came at {for_people(now)}, too late for its notice"
            yield from withdraw((each for each in _events(fleet, barrier) if each.waiting), late, now)
            continue
        yield replace(change, event=event)
        machines = (*maintenance.machines, machine.ref.full)
        joined = replace(maintenance, machines=tuple(dict.fromkeys(machines)))
        yield TextChanged(key=MAINTENANCE.key(barrier), text=MAINTENANCE.encode(joined))


def _events(fleet: FleetState, barrier: BarrierId) -> list[Event]:
    return [event for event in fleet.events() if event.barrier == barrier and event.status is not GONE]
