"""Events as tests see them: values to compare, and lines that a failed test shows."""

from dataclasses import dataclass
from datetime import datetime

from fairwarning.core import history, model
from fairwarning.core.model import EventId
from fairwarning.formats.timestamps import for_people


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEvent:
    """An event as it was when it was looked at; ``Fleet.event`` looks again."""

    id: str
    cause: str
    type: str
    status: str
    machines: tuple[str, ...]
    not_before: datetime
    approved_by: str | None

    def __str__(self) -> str:
        return f"{self.type} of {', '.join(self.machines)} ({self.id})"


def shown(event: model.Event) -> FleetEvent:
    """Return an event as tests see it."""
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
    """Return the id as we write it of an event, or of its id as somebody else does."""
    return EventId((event.id if isinstance(event, FleetEvent) else event).upper())


def told(line: history.HistoryEntry, now: datetime) -> str:
    """Return a line of the history as a failed test shows it."""
    reason = f": {line.reason}" if line.reason else ""
    return f"{for_people(line.at, now)} {line.kind} by {line.by}{reason}"
