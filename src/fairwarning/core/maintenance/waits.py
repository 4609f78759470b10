"""Says what events wait for, in sentences."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from fairwarning.core.barrier import held_events
from fairwarning.core.fleet import FleetState
from fairwarning.core.maintenance.budgets import machines_of
from fairwarning.core.maintenance.release import (
    Restraint,
    RestraintKind,
    held_by,
    is_steered,
    restraints,
)
from fairwarning.core.model import BarrierId, Event, EventId
from fairwarning.core.stored.kinds import MAINTENANCE

#: Returns an instant as people read it.
Show = Callable[[datetime], str]


def waits(fleet: FleetState, now: datetime, show: Show) -> Iterator[tuple[EventId, str]]:
    """Yield what waiting events wait for, besides approvals and notices of their own.

    Everything behind the barriers of these events has to be in the state.
    """
    for events in _waiting(fleet).values():
        if not any(_is_shown_steered(fleet, event) for event in events):
            yield from held_events(events, now)
            continue
        sentence = " · ".join(_sentence(one, show) for one in restraints(fleet, events, now))
        yield from ((event.id, sentence) for event in events if sentence)


def count_waits(fleet: FleetState, now: datetime) -> Counter[RestraintKind]:
    """Return how many waiting events wait for something of each kind besides their own notice."""
    counts: Counter[RestraintKind] = Counter()
    for events in _waiting(fleet).values():
        if any(_is_shown_steered(fleet, event) for event in events):
            for kind in {restraint.kind for restraint in restraints(fleet, events, now)}:
                counts[kind] += len(events)
    return counts


def _waiting(fleet: FleetState) -> Mapping[BarrierId, list[Event]]:
    waiting: dict[BarrierId, list[Event]] = {}
    for event in fleet.events():
        if event.waiting:
            waiting.setdefault(event.barrier, []).append(event)
    return waiting


def _is_shown_steered(fleet: FleetState, event: Event) -> bool:
    """Whether an event waits for more than Azure's do."""
    if event.blocked:
        return True
    if not is_steered(fleet, event):
        return False
    maintenance = MAINTENANCE.find(fleet.text, event.barrier)
    held = held_by(fleet, machines_of(fleet, (event,))) is not None
    return held or (maintenance is not None and maintenance.dated)


def _sentence(restraint: Restraint, show: Show) -> str:
    if restraint.kind is RestraintKind.WINDOW and restraint.until is not None:
        return f"window, {show(restraint.until)}"
    return str(restraint)
