"""Counts machines that are down by group, from events and budgets alone: the oracle of rule M-05."""

from collections.abc import Iterable, Iterator, Mapping

from fairwarning.core.changes import Scopes
from fairwarning.core.maintenance.budgets import Budgets
from fairwarning.core.model import STARTED, Event, EventId, EventSource, EventType, Machine


def needs_places(event: Event) -> bool:
    """Whether an event waits for places (M-07)."""
    counts = event.kind not in (EventType.PREEMPT, EventType.REBALANCE)
    return event.source is EventSource.PLATFORM and counts


def concerned(scopes: Scopes, event: Event) -> list[Machine]:
    """Return the machines on which an event has an impact, or will."""
    machines = scopes[event.scope].machines
    return [machines[name] for name in event.undone if name in machines]


def by_group(machines: Iterable[Machine], budgets: Budgets) -> Mapping[str, set[str]]:
    """Return the full names of machines by the groups that have a budget."""
    groups: dict[str, set[str]] = {}
    for machine in machines:
        for budget in budgets:
            name = machine.scope if budget.each == "scope" else dict(machine.tags).get(budget.each)
            if name and budget.group in (None, name):
                groups.setdefault(f"{budget.each}={name}", set()).add(machine.ref.full)
    return groups


def most(group: str, budgets: Budgets) -> int:
    """Return how many machines of a group may be down."""
    each, _, name = group.partition("=")
    limits = {budget.group: budget.most for budget in budgets if budget.each == each}
    return limits.get(name, limits.get(None, 0))


def taken(scopes: Scopes, budgets: Budgets) -> Mapping[str, Mapping[EventId, set[str]]]:
    """Return the machines that are down, by group and event."""
    groups: dict[str, dict[EventId, set[str]]] = {}
    for event in _events(scopes):
        if event.status is STARTED and event.kind is not EventType.REBALANCE:
            for group, names in by_group(concerned(scopes, event), budgets).items():
                groups.setdefault(group, {})[event.id] = names
    return groups


def down(scopes: Scopes, group: str, budgets: Budgets) -> set[str]:
    """Return the machines of a group that are down."""
    return set[str]().union(*taken(scopes, budgets).get(group, {}).values())


def fits(scopes: Scopes, event: Event, budgets: Budgets, *, over_budget: bool) -> bool:
    """Whether an event that has just started leaves its groups within their budgets."""
    mates = (mate for mate in _events(scopes) if mate.barrier == event.barrier)
    names = {machine.ref.full for mate in mates for machine in concerned(scopes, mate)}
    return all(
        len(together := down(scopes, group, budgets)) <= most(group, budgets)
        or (over_budget and together <= names)
        for group in by_group(concerned(scopes, event), budgets)
    )


def _events(scopes: Scopes) -> Iterator[Event]:
    return (event for scope in scopes.values() for event in scope.events.values())
