"""Decides what the commands of one request change, given the state and the time, or refuses them.

A decision has four parts, each applied to the state before the next:

1. *settle*: consequences of time that has passed since the last decision (an event reached its NotBefore);
2. *handle*: the changes that a command itself asks for, or an error that refuses the whole request;
3. *settle*: consequences of these changes (the approval released a barrier, the last machine is gone);
4. *publish*: a new incarnation for every scope whose document has changed.

Parts 2 and 3 are repeated for each command. The others happen once: guests see one change of a document for
one request, and the version of each touched scope moves by one.

``CONSEQUENCES`` is a list of rules. Each looks at the whole state and yields the changes that must follow
from it. Settling applies the first rule that yields any, and starts again until no rule yields any. The
rules can therefore be read one by one: none has to know what triggers it. Every rule must make progress
towards a state in which it yields nothing, or settling would not end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, assert_never

from fairwarning.core import rollout, scaleset
from fairwarning.core.announce import Announcement, announce
from fairwarning.core.blueprint import build, scope_ids
from fairwarning.core.causes import CAUSES
from fairwarning.core.changes import (
    Change,
    EventChanged,
    EventMilestone,
    MachineChanged,
    Published,
    ScopePropertiesChanged,
    ScopeRemoved,
    TextChanged,
    apply,
    last_incarnations_after,
    touched,
)
from fairwarning.core.commands import (
    AddMachines,
    ApplyInventory,
    Approve,
    Cancel,
    ChangeModel,
    Command,
    CreateSet,
    DeleteScopes,
    ForgetMaintenances,
    Maintain,
    MoveMachine,
    Poll,
    Postpone,
    Protect,
    RecordInventory,
    ReportOutcomes,
    Schedule,
    SetApprovals,
    SetHold,
    SetPower,
    SetTags,
    SetTagsOfSet,
    StartRollout,
    StopRollout,
    Tick,
    Upgrade,
)
from fairwarning.core.errors import NameTakenError, UnknownEventError
from fairwarning.core.fleet import FleetState, is_overdue, shown_to
from fairwarning.core.impact import record_outcomes
from fairwarning.core.inventory import apply_inventory, moved, older_inventory, record_inventory
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.maintenance.bookkeeping import bookkeeping
from fairwarning.core.maintenance.budgets import check_budgets
from fairwarning.core.maintenance.maintain import forget, maintain, postpone, set_hold
from fairwarning.core.maintenance.release import end_silence, release
from fairwarning.core.model import (
    NO_EVENTS,
    PLATFORM,
    STARTED,
    Event,
    EventId,
    EventStatus,
    Machine,
    MachineRef,
    PowerState,
    Scope,
    ScopeId,
    ScopeKind,
    in_group,
    replace,
)
from fairwarning.core.stored.kinds import BUDGETS, FIRST_READS, HOST_LABELS, INVENTORY

#: The service itself, as the history shows it.
_PLATFORM = str(PLATFORM)


#: What a decision makes true: of a scope, or of a stored value.
Fact = Change | TextChanged


class Decision(NamedTuple):
    """The changes that a request makes, and what they touch as it is afterwards."""

    changes: tuple[Change, ...] = ()
    #: None for a scope that was removed.
    after: Mapping[ScopeId, Scope | None] = MappingProxyType({})
    #: The stored values that change, by key; None for a value that is removed.
    values: Mapping[str, str | None] = MappingProxyType({})


def decide(fleet: FleetState, commands: Sequence[Command], now: datetime) -> Decision:
    """Return what the commands of one request change together; nothing, if there are no changes."""
    # A settled state stays settled until its next deadline.
    facts, current = _settle(fleet, now) if is_overdue(fleet, now) else ((), fleet)
    for command in commands:
        if direct := tuple(_handle(current, command, now)):
            kept, current = _apply(current, direct, now)
            consequences, current = _settle(current, now)
            facts += (*kept, *consequences)
    published = {one.scope: one for one in _publish(fleet, current)}
    changes, values = _sorted((*facts, *published.values(), *_forget_reads(fleet, current)))
    return Decision(
        changes,
        {one: _next_version(current.scopes.get(one), published.get(one)) for one in touched(changes)},
        values,
    )


def _sorted(facts: tuple[Fact, ...]) -> tuple[tuple[Change, ...], Mapping[str, str | None]]:
    """Return the changes of scopes, and the stored values as they are in the end."""
    changes = tuple(fact for fact in facts if not isinstance(fact, TextChanged))
    if len(changes) == len(facts):
        return changes, {}
    return changes, {fact.key: fact.text for fact in facts if isinstance(fact, TextChanged)}


def _next_version(scope: Scope | None, published: Published | None) -> Scope | None:
    """Return a scope as it is after the request; the same as if the changes were applied one by one."""
    if scope is None:
        return None
    return Scope(
        facts=scope.facts,
        version=scope.version + 1,
        incarnation=scope.incarnation if published is None else published.incarnation,
        machines=scope.machines,
        events=scope.events,
    )


def _handle(fleet: FleetState, command: Command, now: datetime) -> Iterator[Fact]:
    match command:
        case Approve():
            return _approve(fleet, command, now)
        case CreateSet():
            return _create_set(fleet, command, now)
        case AddMachines():
            return scaleset.add_machines(fleet, command)
        case RecordInventory():
            return _record_inventory(fleet, command, now)
        case ApplyInventory():
            return _apply_inventory(fleet, command)
        case DeleteScopes():
            return _delete_scopes(fleet, command, now)
        case Schedule():
            return _schedule(fleet, command, now)
        case Maintain():
            return maintain(fleet, command, now)
        case Postpone():
            return postpone(fleet, command, now)
        case SetHold():
            return set_hold(command)
        case ForgetMaintenances():
            return forget(fleet, command)
        case Cancel():
            return _cancel(fleet, command, now)
        case Poll():
            return _poll(fleet, command, now)
        case Tick():
            return _tick(fleet, command, now)
        case ReportOutcomes():
            return record_outcomes(fleet, command, now)
        case SetPower():
            allocated = command.allocated and command.power is PowerState.STOPPED
            machine = replace(fleet.machine(command.machine), power=command.power, allocated=allocated)
            return iter((MachineChanged(scope=machine.scope, machine=machine, by=command.by),))
        case MoveMachine():
            return _move(fleet, command)
        case SetTags():
            return _set_tags(fleet, command)
        case SetTagsOfSet():
            return scaleset.set_tags(fleet, command)
        case ChangeModel():
            return scaleset.change_model(fleet, command)
        case Upgrade():
            return scaleset.upgrade(fleet, command)
        case Protect():
            return scaleset.protect(fleet, command)
        case SetApprovals():
            properties = replace(fleet.scope(command.scope).facts, approvals=command.approvals)
            return iter((ScopePropertiesChanged(scope=command.scope, facts=properties, by=command.by),))
        case StartRollout():
            return rollout.start_rollout(fleet, command)
        case StopRollout():
            return rollout.stop_rollout(fleet, command, now)
        case _:
            assert_never(command)


def _set_tags(fleet: FleetState, command: SetTags) -> Iterator[Change]:
    machine = replace(fleet.machine(command.machine), tags=command.tags)
    if command.refreshed:
        tags = fleet.scope(machine.scope).facts.model.tags
        machine = replace(machine, model=replace(machine.model, tags=tags))
    yield MachineChanged(scope=machine.scope, machine=machine, by=command.by)


def _record_inventory(fleet: FleetState, command: RecordInventory, now: datetime) -> Iterator[Fact]:
    before = INVENTORY.find(fleet.text)
    after = record_inventory(before, command.version, now, command.replaces)
    if after != before:
        yield TextChanged(key=INVENTORY.key(), text=INVENTORY.encode(after))
    if command.budgets != (BUDGETS.find(fleet.text) or ()):
        budgets = BUDGETS.encode(command.budgets) if command.budgets else None
        yield TextChanged(key=BUDGETS.key(), text=budgets)
    if command.labels != (HOST_LABELS.find(fleet.text) or {}):
        labels = HOST_LABELS.encode(command.labels) if command.labels else None
        yield TextChanged(key=HOST_LABELS.key(), text=labels)


def _apply_inventory(fleet: FleetState, command: ApplyInventory) -> Iterator[Change]:
    record = INVENTORY.find(fleet.text)
    # F-06: another node has stored another version since this one was stored.
    if record is not None and record.version != command.version:
        raise older_inventory(record, command.version)
    return apply_inventory(fleet, command.scopes, command.gone)


def _move(fleet: FleetState, command: MoveMachine) -> Iterator[Change]:
    before = fleet.machine(command.machine)
    if before.host != command.host:
        after = moved(before, command.host, listed=not fleet.policy.emulator)
        yield MachineChanged(scope=after.scope, machine=after, by=command.by, moved_from=before.host)


def _create_set(fleet: FleetState, command: CreateSet, now: datetime) -> Iterator[Change]:
    name, new_ids = command.blueprint.name, scope_ids(command.blueprint)
    set_id = in_group(command.blueprint.group, name)
    if any(scope.facts.set_id == set_id or scope.id in new_ids for scope in fleet.scopes.values()):
        raise NameTakenError(name)
    # L-11: a guest that knows the last document of an earlier set of this name must notice the new one.
    least = fleet.last_incarnations.get(set_id, 0) + 1
    blueprint = replace(command.blueprint, incarnation=max(command.blueprint.incarnation, least))
    yield from build(blueprint, command.seed, fleet.policy, now, command.by)


def _delete_scopes(fleet: FleetState, command: DeleteScopes, now: datetime) -> Iterator[Change]:
    machines: list[Machine] = []
    for scope_id in command.scopes:
        scope = fleet.scope(scope_id)
        yield ScopePropertiesChanged(scope=scope_id, facts=replace(scope.facts, deleting=True), by=command.by)
        machines += scope.machines.values()
    request = Announcement(id=command.id, cause="delete", by=command.by, force=command.force)
    pending = _pending_deletes(fleet, machines)
    if command.force:
        yield from _force_pending_deletes(pending.values(), command.by, now)
    if remaining := [machine for machine in machines if machine.ref not in pending]:
        yield from announce(fleet, request, remaining, now)


def _schedule(fleet: FleetState, command: Schedule, now: datetime) -> Iterator[Change]:
    request = Announcement(
        id=command.id,
        cause=command.cause,
        by=command.by,
        host=command.host,
        notice=command.notice,
        kind=command.kind,
        force=command.force,
    )
    machines = [fleet.machine(ref) for ref in command.machines]
    if command.force and command.cause == "delete":
        pending = _pending_deletes(fleet, machines)
        yield from _force_pending_deletes(pending.values(), command.by, now)
        machines = [machine for machine in machines if machine.ref not in pending]
        if pending and not machines:
            return
    announced = tuple(announce(fleet, request, machines, now))
    check_budgets(fleet, [change.event for change in announced])
    yield from announced


def _pending_deletes(fleet: FleetState, machines: Iterable[Machine]) -> dict[MachineRef, Event]:
    """Return the pending delete of each machine that has one."""
    deletes: dict[MachineRef, Event] = {}
    for machine in machines:
        for event in fleet.scope(machine.scope).events.values():
            if event.cause == "delete" and machine.name in event.resources:
                deletes[machine.ref] = event
    return deletes


def _force_pending_deletes(events: Iterable[Event], by: str, now: datetime) -> Iterator[Change]:
    """T-09: a forced delete approves a delete that is waiting and starts it without its barrier."""
    for event in events:
        if event.waiting:
            yield from _approval(event, by, now)
            approved = replace(event, approved_by=event.approved_by or by)
            started = advance(approved, Signal.RELEASED, now)
            yield EventChanged(scope=event.scope, event=started, what=EventMilestone.STARTED, by=by)


def _approve(fleet: FleetState, command: Approve, now: datetime) -> Iterator[Change]:
    scope = fleet.scope(command.scope)
    events = {event.id: event for event in (fleet.event(scope.id, event_id) for event_id in command.ids)}
    for event in events.values():
        # a guest may approve the events that it sees; any other event is unknown to it.
        if command.machine is not None and not shown_to(command.machine, event, scope.facts):
            raise UnknownEventError(event.id)
    for event in events.values():
        yield from _approval(event, command.by, now)


def _approval(event: Event, by: str, now: datetime) -> Iterator[Change]:
    # approving an event that is approved or has started changes nothing.
    if event.waiting and event.approved_by is None:
        approved = replace(advance(event, Signal.APPROVED, now), approved_by=by)
        yield EventChanged(scope=event.scope, event=approved, what=EventMilestone.APPROVED, by=by)


def _cancel(fleet: FleetState, command: Cancel, now: datetime) -> Iterator[Change]:
    event = fleet.event(command.scope, command.id)
    gone = advance(event, Signal.CANCELLED, now)
    yield EventChanged(scope=event.scope, event=gone, what=EventMilestone.CANCELLED, by=command.by)
    properties = fleet.scope(event.scope).facts
    if properties.deleting and event.cause == "delete":
        # The scope keeps this machine, so the scope is no longer being deleted.
        properties = replace(properties, deleting=False)
        yield ScopePropertiesChanged(scope=event.scope, facts=properties, by=command.by)


def _poll(fleet: FleetState, command: Poll, now: datetime) -> Iterator[Change]:
    machine = fleet.machine(command.machine)
    scope = fleet.scope(machine.scope)
    if not scope.enabled:
        properties = replace(scope.facts, enabled_at=now, polled_at=now)
        yield ScopePropertiesChanged(scope=scope.id, facts=properties, by=machine.name)
        for event in scope.events.values():
            if event.waiting and not event.seen:
                shown = replace(event, seen=True)
                yield EventChanged(scope=scope.id, event=shown, what=EventMilestone.SHOWN, by=machine.name)


def _tick(fleet: FleetState, command: Tick, now: datetime) -> Iterator[Change]:
    limit = fleet.policy.disable_after
    for scope_id in command.scopes:
        scope = fleet.scopes.get(scope_id)
        if scope is None or not scope.enabled or scope.facts.polled_at is None or limit is None:
            continue
        polled_at = max(scope.facts.polled_at, command.polled.get(scope_id, scope.facts.polled_at))
        # Scheduled Events is disabled for a scope without a poll for a day.
        if now - polled_at >= fleet.policy.shorten(limit):
            properties = replace(scope.facts, enabled_at=None, polled_at=polled_at)
            yield ScopePropertiesChanged(scope=scope_id, facts=properties, by=_PLATFORM)


def _settle(fleet: FleetState, now: datetime) -> tuple[tuple[Fact, ...], FleetState]:
    facts: tuple[Fact, ...] = ()
    while consequences := _next_consequences(fleet, now):
        kept, fleet = _apply(fleet, consequences, now)
        facts += kept
    return facts, fleet


def _apply(fleet: FleetState, facts: tuple[Fact, ...], now: datetime) -> tuple[tuple[Fact, ...], FleetState]:
    """Return facts with what has to be stored with them, and the fleet after all of it."""
    kept, news = facts, facts
    while news:
        before, fleet = fleet, _after(fleet, news)
        news = tuple(bookkeeping(before, fleet, news, now))
        kept += news
    return kept, fleet


def _after(fleet: FleetState, facts: tuple[Fact, ...]) -> FleetState:
    changes, values = _sorted(facts)
    last_incarnations = last_incarnations_after(fleet.last_incarnations, changes)
    known = {**fleet.values, **values} if values else fleet.values
    scopes = apply(fleet.scopes, changes)
    return fleet._replace(scopes=scopes, last_incarnations=last_incarnations, values=known)


def _next_consequences(fleet: FleetState, now: datetime) -> tuple[Fact, ...]:
    """Return the facts of the first rule that yields any."""
    for rule in CONSEQUENCES:
        if facts := tuple(rule(fleet, now)):
            return facts
    return ()


def _withdraw(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """L-06: withdrawn maintenance disappears from the document."""
    for event in fleet.events():
        if event.withdraw_at is not None and event.withdraw_at <= now and event.waiting:
            gone, reason = advance(event, Signal.CANCELLED, now), _reason_of_withdrawal(event)
            yield EventChanged(
                scope=event.scope, event=gone, what=EventMilestone.CANCELLED, by=_PLATFORM, reason=reason
            )


def _reason_of_withdrawal(event: Event) -> str:
    return "" if CAUSES[event.cause].withdrawn_after is not None else "its window has closed"


def _open_windows(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """M-03: from now on, an approval counts."""
    for event in fleet.events():
        if event.opens is not None and event.opens <= now and event.waiting:
            opened = replace(event, opens=None)
            yield EventChanged(scope=event.scope, event=opened, what=EventMilestone.OPENED, by=_PLATFORM)


def _approve_if_all_down(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """T-21: no guest can approve if every machine of the scope is down, so the scope approves."""
    for scope in fleet.scopes.values():
        if scope.facts.approvals.all_instances_down and scope.machines and not scope.machines.running():
            for event in scope.events.values():
                yield from _approval(event, "all-instances-down", now)


def _finish(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """An event is over once each of its machines has had its impact or is gone."""
    for scope in fleet.scopes.values():
        existing = scope.machines.keys()
        for event in scope.events.values():
            if existing.isdisjoint(event.undone):
                signal = Signal.FINISHED if event.status is STARTED else Signal.CANCELLED
                gone = advance(event, signal, now)
                yield EventChanged(scope=scope.id, event=gone, what=EventMilestone(signal), by=_PLATFORM)


def _advance_rollouts(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """S-05: a rollout announces its next domain once the last one is done."""
    for scope in fleet.scopes.values():
        yield from rollout.next_step(fleet, scope, now)


def _remove_empty_scopes(fleet: FleetState, now: datetime) -> Iterator[Change]:
    """S-01: a scope that is being deleted, or is a standalone machine, ends with its last machine."""
    for scope in fleet.scopes.values():
        ends = scope.facts.deleting or scope.facts.kind is ScopeKind.STANDALONE
        if ends and not scope.machines:
            set_id, incarnation = scope.facts.set_id, scope.incarnation
            yield ScopeRemoved(scope=scope.id, set_id=set_id, incarnation=incarnation)


CONSEQUENCES: tuple[Callable[[FleetState, datetime], Iterator[Fact]], ...] = (
    _withdraw,
    _open_windows,
    _approve_if_all_down,
    end_silence,
    _finish,  # M-15: before anything starts
    release,
    _advance_rollouts,
    _remove_empty_scopes,
)


def _publish(before: FleetState, after: FleetState) -> Iterator[Published]:
    """L-11: the incarnation changes exactly when the document does, once per decision."""
    for scope_id, scope in after.scopes.items():
        previous = before.scopes.get(scope_id)
        if scope is not previous and _shown(scope) != _shown(previous):
            yield Published(scope=scope_id, incarnation=scope.incarnation + 1)


def _forget_reads(before: FleetState, after: FleetState) -> Iterator[TextChanged]:
    """R-30: what is known of who has read an event goes with the event."""
    for scope_id, scope in before.scopes.items():
        remaining = after.scopes.get(scope_id)
        if remaining is not scope:
            left = NO_EVENTS if remaining is None else remaining.events
            for event_id in scope.events:
                if event_id not in left and before.text(key := FIRST_READS.key(event_id)) is not None:
                    yield TextChanged(key=key, text=None)


def _shown(scope: Scope | None) -> list[tuple[EventId, EventStatus, datetime]]:
    """Return what a document says of its events that may change."""
    events = () if scope is None else scope.events.values()
    return [(event.id, event.status, event.not_before) for event in events if event.seen]
