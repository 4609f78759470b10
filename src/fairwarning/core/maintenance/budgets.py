"""Budgets: how many machines of a group may be down at once (M-05 to M-07).

A group is a stored value of its own (``Places``): it names the machines that are down and the barriers that
wait. Whatever starts or ends an event of a group writes it, so two nodes cannot take the same place, and a
decision does not read the scopes of everybody else.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fairwarning.core.changes import (
    Change,
    EventChanged,
    EventMilestone,
    MachineChanged,
    MachineRemoved,
    TextChanged,
)
from fairwarning.core.errors import BudgetTooSmallError
from fairwarning.core.fleet import FleetState, machines_awaiting_impact
from fairwarning.core.maintenance.values import MaintenanceBudget, Places, QueuedBarrier
from fairwarning.core.model import (
    STARTED,
    BarrierId,
    Event,
    EventId,
    EventSource,
    EventType,
    Machine,
    ScopeId,
    VmName,
)
from fairwarning.core.stored.kinds import BUDGETS, PLACES

#: Each scope is a group of a budget of this name.
SCOPE = "scope"

Budgets = tuple[MaintenanceBudget, ...]

_NOBODY = Places()

#: What leaves the turn of an event's barrier as it is.
_IN_TURN = frozenset({EventMilestone.SHOWN, EventMilestone.APPROVED, EventMilestone.BLOCKED})


def counts(event: Event) -> bool:
    """Whether an event takes machines down; a rebalance recommendation has no impact."""
    return event.kind is not EventType.REBALANCE


def budgets_of(fleet: FleetState) -> Budgets:
    """Return the budgets of a fleet."""
    return BUDGETS.find(fleet.text) or ()


def places_of(fleet: FleetState, group: str) -> Places:
    """Return the places of a group."""
    return PLACES.find(fleet.text, group) or _NOBODY


def limit(budgets: Budgets, group: str) -> int:
    """Return how many machines of a group may be down; its own budget comes before the general one."""
    each, _, name = group.partition("=")
    most = {budget.group: budget.most for budget in budgets if budget.each == each}
    return most[name] if name in most else most[None]


def groups_of(budgets: Budgets, machine: Machine) -> Iterator[str]:
    """Yield the groups of a machine that have a budget."""
    names = {SCOPE: machine.scope, **dict(machine.tags)}
    for each in dict.fromkeys(budget.each for budget in budgets):
        if (name := names.get(each)) and any(
            budget.each == each and budget.group in (None, name) for budget in budgets
        ):
            yield f"{each}={name}"


def grouped(budgets: Budgets, machines: Iterable[Machine]) -> Mapping[str, frozenset[str]]:
    """Return the full names of machines by group."""
    groups: dict[str, set[str]] = {}
    for machine in machines:
        for group in groups_of(budgets, machine):
            groups.setdefault(group, set()).add(machine.ref.full)
    return {group: frozenset(names) for group, names in sorted(groups.items())}


def machines_of(fleet: FleetState, events: Iterable[Event]) -> list[Machine]:
    """Return the machines that events have not had their impact on yet."""
    machines: list[Machine] = []
    for event in events:
        scope = fleet.scopes[event.scope]
        machines += (scope.machines[name] for name in machines_awaiting_impact(event, scope))
    return machines


def needs_places(event: Event) -> bool:
    """M-07: evictions and what owners ask for take places and never wait for one."""
    return counts(event) and event.source is EventSource.PLATFORM and event.kind is not EventType.PREEMPT


def check_budgets(fleet: FleetState, events: Sequence[Event]) -> None:
    """Refuse waiting events if those behind one barrier can never have their places together (M-05).

    Raises:
        BudgetTooSmallError: names a group, how many of its machines are concerned, and its budget.
    """
    budgets = budgets_of(fleet)
    if not budgets:
        return
    for barrier in dict.fromkeys(event.barrier for event in events if event.waiting and needs_places(event)):
        machines = machines_of(fleet, (event for event in events if event.barrier == barrier))
        for group, names in grouped(budgets, machines).items():
            if len(names) > (most := limit(budgets, group)):
                raise BudgetTooSmallError(group, len(names), most)


def set_turn(
    fleet: FleetState, groups: Collection[str], turn: QueuedBarrier, *, waits: bool
) -> Iterator[TextChanged]:
    """Yield the queues of some groups with a barrier's turn if it waits for places, else without it."""
    for group in groups:
        places = places_of(fleet, group)
        known = [other for other in places.queue if other.barrier == turn.barrier]
        if known != ([turn] if waits else []):
            others = [other for other in places.queue if other.barrier != turn.barrier]
            queue = tuple(sorted((*others, turn)) if waits else others)
            yield _written(group, Places(taken=places.taken, queue=queue))


class _Claim(NamedTuple):
    """What a decision makes of one event: the machines of a group that it has down, and its barrier."""

    event: EventId
    machines: tuple[str, ...]
    barrier: BarrierId
    #: Whether the barrier's turn in the queue is over, or has to be found anew.
    left_queue: bool


def update_places(
    before: FleetState, after: FleetState, facts: Sequence[Change | TextChanged]
) -> Iterator[TextChanged]:
    """Yield the places that events have taken or given back, and without the turns that are over."""
    old, new = budgets_of(before), budgets_of(after)
    if not old and not new:
        return
    touched = _touched(before, facts) if old == new else _all_events(after)
    claims: dict[str, list[_Claim]] = {}
    for (scope_id, event_id), left_queue in touched.items():
        for group, claim in _claims(before, after, scope_id, event_id, left_queue=left_queue):
            claims.setdefault(group, []).append(claim)
    for group, some in sorted(claims.items()):
        places = places_of(after, group)
        down = {**places.taken, **{claim.event: claim.machines for claim in some}}
        left = {claim.barrier for claim in some if claim.left_queue}
        changed = Places(
            taken={event: names for event, names in down.items() if names},
            queue=tuple(turn for turn in places.queue if turn.barrier not in left),
        )
        if changed != places:
            yield _written(group, changed)


def _claims(
    before: FleetState, after: FleetState, scope_id: ScopeId, event_id: EventId, *, left_queue: bool
) -> Iterator[tuple[str, _Claim]]:
    known = [
        (fleet, fleet.scopes[scope_id].events[event_id])
        for fleet in (before, after)
        if scope_id in fleet.scopes and event_id in fleet.scopes[scope_id].events
    ]
    concerned = [machine for fleet, event in known for machine in machines_of(fleet, (event,))]
    down = [
        machine
        for fleet, event in known
        if fleet is after and event.status is STARTED and counts(event)
        for machine in machines_of(fleet, (event,))
    ]
    taken = grouped(budgets_of(after), down)
    for group in grouped((*budgets_of(before), *budgets_of(after)), concerned):
        names = tuple(sorted(taken.get(group, ())))
        yield group, _Claim(event_id, names, known[-1][1].barrier, left_queue)


def _touched(
    before: FleetState, facts: Sequence[Change | TextChanged]
) -> Mapping[tuple[ScopeId, EventId], bool]:
    """Return the events that facts concern, and whether any of these ends the turn of its barrier."""
    touched: dict[tuple[ScopeId, EventId], bool] = {}
    for fact in facts:
        if isinstance(fact, EventChanged):
            key = fact.scope, fact.event.id
            touched[key] = touched.get(key, False) or fact.what not in _IN_TURN
        elif isinstance(fact, MachineRemoved | MachineChanged) and _leaves_groups(before, fact):
            for event in before.scopes[fact.scope].events.values():
                if _name(fact) in event.undone:
                    touched[fact.scope, event.id] = True
    return touched


def _leaves_groups(before: FleetState, fact: MachineRemoved | MachineChanged) -> bool:
    """Whether a machine is in other groups from now on, or in none."""
    scope = before.scopes.get(fact.scope)
    if scope is None or _name(fact) not in scope.machines:
        return False
    return isinstance(fact, MachineRemoved) or fact.machine.tags != scope.machines[_name(fact)].tags


def _name(fact: MachineRemoved | MachineChanged) -> VmName:
    return fact.name if isinstance(fact, MachineRemoved) else fact.machine.name


def _all_events(fleet: FleetState) -> Mapping[tuple[ScopeId, EventId], bool]:
    return {(event.scope, event.id): True for event in fleet.events()}


def _written(group: str, places: Places) -> TextChanged:
    text = PLACES.encode(places) if places.taken or places.queue else None
    return TextChanged(key=PLACES.key(group), text=text)
