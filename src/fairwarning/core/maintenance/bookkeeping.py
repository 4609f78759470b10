"""Keeps stored values in step with the events of a decision.

``bookkeeping`` looks at what a part of a decision has changed: the phase of a maintenance follows its events,
the places of a budget follow the machines that are down, and a machine that leaves or reaches a host that is
to be maintained is spared or warned (M-12).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    MachineRef,
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
    over: list[Maintenance] = []
    for barrier, reason in reasons.items():
        maintenance = MAINTENANCE.find(after.text, barrier)
        if maintenance is None or maintenance.phase.over:
            continue
        changed = _in_phase(maintenance, _events(after, barrier), reason, now)
        if changed != maintenance:
            yield TextChanged(key=MAINTENANCE.key(barrier), text=MAINTENANCE.encode(changed))
            over += [changed] if changed.phase.over else []
    if any(maintenance.host is not None for maintenance in over):
        yield _without(after, {maintenance.id for maintenance in over})


def _in_phase(maintenance: Maintenance, events: Sequence[Event], reason: str, now: datetime) -> Maintenance:
    if any(event.status is STARTED for event in events):
        return replace(maintenance, phase=MaintenancePhase.STARTED)
    if events:
        return maintenance
    if maintenance.phase is MaintenancePhase.STARTED:
        return replace(maintenance, phase=MaintenancePhase.DONE, ended_at=now)
    return replace(maintenance, phase=MaintenancePhase.WITHDRAWN, reason=reason, ended_at=now)


def _without(fleet: FleetState, over: Collection[BarrierId]) -> TextChanged:
    pending = PENDING.find(fleet.text) or {}
    left = {host: tuple(id for id in ids if id not in over) for host, ids in pending.items()}
    rest = {host: ids for host, ids in left.items() if ids}
    return TextChanged(key=PENDING.key(), text=PENDING.encode(rest) if rest else None)


def _note_moves(
    before: FleetState, after: FleetState, facts: Facts, now: datetime
) -> Iterator[EventChanged | TextChanged]:
    left: dict[MachineRef, HostId] = {}
    reached: dict[HostId, list[Machine]] = {}
    for ref in dict.fromkeys(fact.machine.ref for fact in facts if isinstance(fact, MachineChanged)):
        earlier, machine = _find_machine(before, ref), _find_machine(after, ref)
        if machine is None or (earlier is not None and earlier.host == machine.host):
            continue
        if earlier is not None:
            left[ref] = earlier.host
        reached.setdefault(machine.host, []).append(machine)
    yield from _spare(after, left)
    pending = (PENDING.find(after.text) or {}) if reached else {}
    for host, machines in reached.items():
        for barrier in pending.get(host, ()):
            yield from _warn(after, barrier, machines, now)


def _find_machine(fleet: FleetState, ref: MachineRef) -> Machine | None:
    scope = fleet.scopes.get(ref.scope)
    return None if scope is None else scope.machines.get(ref.name)


def _spare(fleet: FleetState, left: Mapping[MachineRef, HostId]) -> Iterator[EventChanged]:
    """M-12: what is scheduled for a host no longer concerns machines that have left it."""
    for scope_id in dict.fromkeys(ref.scope for ref in left):
        for event in fleet.scopes[scope_id].events.values():
            maintenance = MAINTENANCE.find(fleet.text, event.barrier) if event.waiting else None
            if maintenance is None or maintenance.host is None:
                continue
            host = maintenance.host
            names = tuple(name for name in event.undone if left.get(MachineRef(scope_id, name)) == host)
            if names:
                yield EventChanged(
                    scope=scope_id,
                    event=replace(event, done=(*event.done, *names)),
                    what=EventMilestone.PROGRESSED,
                    by=str(PLATFORM),
                    reason=f"{host} no longer has {', '.join(names)}",
                )


def _warn(
    fleet: FleetState, barrier: BarrierId, machines: Sequence[Machine], now: datetime
) -> Iterator[EventChanged | TextChanged]:
    """M-12: machines that reach a host are warned of its maintenance, or the maintenance is withdrawn."""
    maintenance = MAINTENANCE.find(fleet.text, barrier)
    if maintenance is None or maintenance.phase is not MaintenancePhase.SCHEDULED:
        return
    warnings = [_warning(fleet, maintenance, machine, now) for machine in machines]
    names = tuple(machine.ref.full for machine in machines)
    if maintenance.closes is not None and warnings[0].event.not_before >= maintenance.closes:
        late = f"{', '.join(names)} came at {for_people(now)}, too late for a notice"
        yield from withdraw((event for event in _events(fleet, barrier) if event.waiting), late, now)
        return
    yield from warnings
    joined = replace(maintenance, machines=tuple(dict.fromkeys((*maintenance.machines, *names))))
    yield TextChanged(key=MAINTENANCE.key(barrier), text=MAINTENANCE.encode(joined))


def _warning(fleet: FleetState, maintenance: Maintenance, machine: Machine, now: datetime) -> EventChanged:
    request = Announcement(
        id=derive_id(maintenance.id, machine.ref.full, now.isoformat()),
        cause=maintenance.cause,
        by=maintenance.by,
        barrier=maintenance.id,
        opens=maintenance.opens,
        closes=maintenance.closes,
        consent=maintenance.on_silence is not OnSilence.PROCEED,
    )
    (change,) = announce(fleet, request, (machine,), now)
    not_before = max(change.event.not_before, maintenance.not_before)
    return replace(change, event=replace(change.event, not_before=not_before))


def _events(fleet: FleetState, barrier: BarrierId) -> list[Event]:
    return [event for event in fleet.events() if event.barrier == barrier and event.status is not GONE]
