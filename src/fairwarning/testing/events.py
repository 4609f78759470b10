"""Events as tests see them: values to compare, and the lines of a failure message."""

from dataclasses import dataclass
from datetime import datetime

from fairwarning.core import history, model
from fairwarning.core.model import EventId
from fairwarning.formats.timestamps import for_people


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEvent:
    """A snapshot of an event; ``Fleet.event`` takes a new one."""

    id: str
    cause: str
    type: str
    status: str
    machines: tuple[str, ...]
    not_before: datetime
    approved_by: str | None

    def __str__(self) -> str:
        return f"{self.type} of {', '.join(self.machines)} ({self.id})"


def fleet_event(event: model.Event) -> FleetEvent:
    """Return a snapshot of an event."""
    return FleetEvent(
        id=event.id,
        cause=event.cause,
        type=event.kind.value,
        status=event.status.value,
        machines=tuple(event.resources),
        not_before=event.not_before,
        approved_by=event.approved_by,
    )


def id_of(event: FleetEvent | str) -> EventId:
    """Return the id of an event, in upper case; a text is taken as the id itself."""
    return EventId((event.id if isinstance(event, FleetEvent) else event).upper())


def format_line(line: history.HistoryEntry, now: datetime) -> str:
    """Return a history line as text."""
    reason = f": {line.reason}" if line.reason else ""
    return f"{for_people(line.at, now)} {line.kind} by {line.by}{reason}"
