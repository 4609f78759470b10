"""What may start now, and what keeps the rest from it.

A guest's own requests start as ``barrier`` says. So does what the platform does, unless it is steered: it is
part of a maintenance, there are budgets, or the fleet is on hold. Behind a steered barrier, all events start
in one decision or none (M-02), and ``restraints`` says what is in the way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from fairwarning.core.barrier import is_ready, startable_events
from fairwarning.core.changes import EventChanged, EventMilestone, TextChanged
from fairwarning.core.fleet import FleetState
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.maintenance.budgets import (
    budgets_of,
    grouped,
    limit,
    machines_of,
    needs_places,
    places_of,
    set_turn,
)
from fairwarning.core.maintenance.values import Hold, Maintenance, OnSilence, QueuedBarrier
from fairwarning.core.model import (
    PLATFORM,
    BarrierId,
    Event,
    EventSource,
    Machine,
    replace,
)
from fairwarning.core.stored.kinds import HOLD, HOLD_OF_HOST, MAINTENANCE
from fairwarning.formats.counts import format_count


class RestraintKind(StrEnum):
    """What an event may wait for."""

    APPROVAL = "approval"
    WINDOW = "window"
    HOLD = "hold"
    BUDGET = "budget"


class Restraint(NamedTuple):
    """Something that keeps the events behind a barrier from starting."""

    kind: RestraintKind
    #: What it is, without the kind: the scopes that have not approved, the reason of a hold.
    detail: str = ""
    #: When it ends by itself.
    until: datetime | None = None

    def __str__(self) -> str:
        """Return the restraint as history and log show it."""
        colon = ":" if self.kind is RestraintKind.HOLD else ""
        return f"{self.kind}{colon} {self.detail}"


class _Barrier(NamedTuple):
    """The waiting events behind a steered barrier, all ready or not."""

    id: BarrierId
    events: tuple[Event, ...]
    maintenance: Maintenance | None
    machines: Sequence[Machine]
    #: The full names of the machines by the groups that have a budget.
    groups: Mapping[str, frozenset[str]]

    @property
    def turn(self) -> QueuedBarrier:
        """When it gets places among others."""
        return QueuedBarrier(max(event.not_before for event in self.events), self.id)

    @property
    def over_budget(self) -> bool:
        return self.maintenance is not None and self.maintenance.over_budget


def release(fleet: FleetState, now: datetime) -> Iterator[EventChanged | TextChanged]:
    """L-02: an event starts when it is approved or its notice has ended, unless its barrier holds it."""
    ready = startable_events(fleet.events(), now)
    # What was in the way of a blocked event may be out of it, and something else in its way.
    blocked = (event for event in fleet.events() if event.blocked and event.waiting)
    steered = _steered_barriers(fleet, (*ready, *blocked))
    free = [event for event in ready if event.barrier not in steered]
    yield from _start(free, now)
    if free:
        return
    for barrier in sorted(steered.values(), key=lambda barrier: barrier.turn):
        # One at a time: the places that it takes or waits for are missing for the next.
        restraint = next(_restraints(fleet, barrier, now), None)
        if restraint is None:
            yield from _start(barrier.events, now)
            return
        if kept_back := tuple(_keep_back(fleet, barrier, restraint.kind, now)):
            yield from kept_back
            return


def end_silence(fleet: FleetState, now: datetime) -> Iterator[EventChanged]:
    """M-13: a maintenance that needs consent is withdrawn if a machine is silent at NotBefore, or waits."""
    silent = [event for event in fleet.events() if _is_silent(event, now) and not event.blocked]
    for barrier in dict.fromkeys(event.barrier for event in silent):
        scopes = ", ".join(dict.fromkeys(event.scope for event in silent if event.barrier == barrier))
        maintenance = MAINTENANCE.find(fleet.text, barrier)
        if maintenance is not None and maintenance.on_silence is OnSilence.SKIP:
            waiting = [event for event in fleet.events() if event.barrier == barrier and event.waiting]
            yield from withdraw(waiting, f"no approval of {scopes}", now)
        else:
            own = [event for event in silent if event.barrier == barrier]
            yield from _block(own, f"{RestraintKind.APPROVAL} of {scopes}")


def _is_silent(event: Event, now: datetime) -> bool:
    return event.waiting and event.consent and event.approved_by is None and event.not_before <= now


def restraints(fleet: FleetState, events: Sequence[Event], now: datetime) -> Iterator[Restraint]:
    """Yield what keeps the waiting events behind one steered barrier from starting."""
    return _restraints(fleet, _barrier(fleet, events), now)


def _restraints(fleet: FleetState, barrier: _Barrier, now: datetime) -> Iterator[Restraint]:
    ready = True
    for restraint in (*_unready(barrier, now), *_holds(fleet, barrier)):
        ready = False
        yield restraint
    if ready:
        yield from _shortages(fleet, barrier)


def is_steered(fleet: FleetState, event: Event) -> bool:
    """Whether more than approvals and NotBefore decides when an event starts."""
    if event.source is not EventSource.PLATFORM:
        return False
    return (
        MAINTENANCE.find(fleet.text, event.barrier) is not None
        or (needs_places(event) and bool(budgets_of(fleet)))
        or held_by(fleet, machines_of(fleet, (event,))) is not None
    )


def held_by(fleet: FleetState, machines: Iterable[Machine]) -> Hold | None:
    """Return the hold on the fleet, or on the host of one of these machines; None if there is none."""
    if (hold := HOLD.find(fleet.text)) is not None:
        return hold
    hosts = dict.fromkeys(machine.host for machine in machines)
    holds = (HOLD_OF_HOST.find(fleet.text, host) for host in hosts)
    return next((hold for hold in holds if hold is not None), None)


def _steered_barriers(fleet: FleetState, ready: Iterable[Event]) -> Mapping[BarrierId, _Barrier]:
    waiting: dict[BarrierId, list[Event]] = {}
    for event in ready:
        if event.barrier not in waiting and is_steered(fleet, event):
            waiting[event.barrier] = []
    if not waiting:
        return {}
    for event in fleet.events():
        if event.barrier in waiting and event.waiting:
            waiting[event.barrier].append(event)
    return {barrier: _barrier(fleet, events) for barrier, events in waiting.items()}


def _barrier(fleet: FleetState, events: Sequence[Event]) -> _Barrier:
    id, machines = events[0].barrier, machines_of(fleet, events)
    groups = grouped(budgets_of(fleet), machines)
    return _Barrier(id, tuple(events), MAINTENANCE.find(fleet.text, id), machines, groups)


def _unready(barrier: _Barrier, now: datetime) -> Iterator[Restraint]:
    opens = max((event.opens for event in barrier.events if event.opens is not None), default=None)
    if opens is not None:
        yield Restraint(RestraintKind.WINDOW, "", opens)
    unready = [event for event in barrier.events if event.approved_by is None and not is_ready(event, now)]
    if unready:
        scopes = ", ".join(dict.fromkeys(event.scope for event in unready))
        yield Restraint(RestraintKind.APPROVAL, f"of {scopes}")


def _holds(fleet: FleetState, barrier: _Barrier) -> Iterator[Restraint]:
    hold = held_by(fleet, barrier.machines)
    if hold is not None:
        yield Restraint(RestraintKind.HOLD, hold.reason or f"by {hold.by}")


def _shortages(fleet: FleetState, barrier: _Barrier) -> Iterator[Restraint]:
    """Yield the groups of a barrier that have no room for it (M-05, M-06)."""
    budgets = budgets_of(fleet)
    if not all(map(needs_places, barrier.events)):
        return
    mine = {event.id for event in barrier.events}
    for group, names in barrier.groups.items():
        places, most = places_of(fleet, group), limit(budgets, group)
        others = frozenset(
            name for event, taken in places.taken.items() if event not in mine for name in taken
        )
        first = next((turn for turn in places.queue if turn.barrier != barrier.id), None)
        if len(names) > most and not barrier.over_budget:
            needs = format_count(len(names), "machine")
            yield Restraint(RestraintKind.BUDGET, f"{group}: {needs} at once, and {most} is the most")
        elif others - names and len(names | others) > most:
            yield Restraint(RestraintKind.BUDGET, f"{group}: {', '.join(sorted(others - names))} is down")
        elif first is not None and first < barrier.turn:
            yield Restraint(RestraintKind.BUDGET, f"{group}: {_name(fleet, first.barrier)} comes first")


def _name(fleet: FleetState, barrier: BarrierId) -> str:
    maintenance = MAINTENANCE.find(fleet.text, barrier)
    return "an earlier event" if maintenance is None else maintenance.subject


def _start(events: Iterable[Event], now: datetime) -> Iterator[EventChanged]:
    for event in events:
        started = replace(advance(event, Signal.RELEASED, now), blocked=False)
        by = event.approved_by or "notice"
        yield EventChanged(scope=event.scope, event=started, what=EventMilestone.STARTED, by=by)


def _keep_back(
    fleet: FleetState, barrier: _Barrier, restraint: RestraintKind, now: datetime
) -> Iterator[EventChanged | TextChanged]:
    """Yield what the events behind a barrier wait for, once, and the barrier's turn for places."""
    short, hopeless = restraint is RestraintKind.BUDGET, _is_hopeless(fleet, barrier)
    if short and hopeless and barrier.maintenance is not None:
        yield from withdraw(barrier.events, _reason(fleet, barrier, now), now)
        return
    yield from set_turn(fleet, barrier.groups, barrier.turn, waits=short and not hopeless)
    due = [event for event in barrier.events if is_ready(event, now) and not event.blocked]
    if due:
        yield from _block(due, _reason(fleet, barrier, now))


def _is_hopeless(fleet: FleetState, barrier: _Barrier) -> bool:
    """Whether the events behind a barrier can never have their places together (M-05)."""
    if barrier.over_budget:
        return False
    budgets = budgets_of(fleet)
    return any(len(names) > limit(budgets, group) for group, names in barrier.groups.items())


def _reason(fleet: FleetState, barrier: _Barrier, now: datetime) -> str:
    return "; ".join(map(str, _restraints(fleet, barrier, now)))


def _block(events: Iterable[Event], reason: str) -> Iterator[EventChanged]:
    for event in events:
        blocked, by = replace(event, blocked=True), str(PLATFORM)
        yield EventChanged(
            scope=event.scope, event=blocked, what=EventMilestone.BLOCKED, by=by, reason=reason
        )


def withdraw(events: Iterable[Event], reason: str, now: datetime) -> Iterator[EventChanged]:
    """Yield the end of waiting events; the history says why."""
    for event in events:
        gone = advance(event, Signal.CANCELLED, now)
        yield EventChanged(
            scope=event.scope, event=gone, what=EventMilestone.CANCELLED, by=str(PLATFORM), reason=reason
        )
