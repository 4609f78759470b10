"""What came of a request, as APIs render it."""

from collections.abc import Iterable
from typing import NamedTuple

from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.model import Event, EventId, MachineRef, ScopeId


class Announced(NamedTuple):
    """The events that a request caused, as it left them."""

    events: tuple[Event, ...]
    #: Names the scopes without a polling guest; None if there are none.
    hint: str | None

    @property
    def warned(self) -> bool:
        """Whether guests can see any of the events."""
        return any(event.seen for event in self.events)


class Approved(NamedTuple):
    """The events that a request approved, as it left them."""

    events: tuple[Event, ...]
    #: Whether the approval changed anything; the events may have been approved or started before.
    counted: bool


class Created(NamedTuple):
    """The scopes and machines that a request created."""

    scopes: tuple[ScopeId, ...]
    machines: tuple[MachineRef, ...]


def changed_events(changes: Iterable[Change]) -> dict[EventId, Event]:
    """Return the events in ``changes``, as they were left."""
    return {change.event.id: change.event for change in changes if isinstance(change, EventChanged)}
