"""Parses documents as a guest, from Azure, from fairwarning or from any other server.

The counterpart of ``render``: a server writes exactly one format, but a guest must accept every format that
has been observed. A field that cannot be parsed is left empty; only a body that is not a document is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId, EventStatus, EventType

_EVENT_TYPES: Mapping[str, EventType] = {kind.value.casefold(): kind for kind in EventType}


class DocumentError(FairWarningError):
    """The body is not a document."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the document {problem}")
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEvent:
    """An event of a document; unknown statuses and types are kept as they are (C-12)."""

    id: EventId
    status: str
    kind: str
    resources: tuple[str, ...]
    not_before: datetime | None
    source: str = ""
    description: str = ""
    duration: int | None = None

    @property
    def key(self) -> EventId:
        """The id in upper case, for comparing (V-09); ``id`` stays as it was written."""
        return EventId(self.id.upper())

    @property
    def started(self) -> bool:
        """Whether the event has started."""
        return self.status.casefold() == EventStatus.STARTED.value.casefold()

    @property
    def scheduled(self) -> bool:
        """Whether the event waits for its NotBefore or an approval."""
        return self.status.casefold() == EventStatus.SCHEDULED.value.casefold()

    @property
    def known_kind(self) -> EventType | None:
        """The event type; None if it is unknown."""
        return _EVENT_TYPES.get(self.kind.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDocument:
    """A parsed document; the incarnation is compared only for equality (V-08)."""

    incarnation: int | str
    events: tuple[ObservedEvent, ...]


def parse_document(body: bytes) -> ObservedDocument | None:
    """Return the document in ``body``; None if the body is empty, which means no information yet (C-03).

    Raises:
        DocumentError: ``body`` is not a JSON object with a list of events.
    """
    if not body.strip():
        return None
    try:
        message: Json = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise DocumentError("is not JSON") from None
    if not isinstance(message, dict):
        raise DocumentError("is not a JSON object")
    events = message.get("Events")
    if not isinstance(events, list):
        raise DocumentError("has no list of Events")
    incarnation = message.get("DocumentIncarnation")
    return ObservedDocument(
        incarnation=incarnation if isinstance(incarnation, int | str) else "",
        events=tuple(event for event in map(_parse_event, events) if event is not None),
    )


def parse_instant(text: str) -> datetime | None:
    """Return the instant of a NotBefore in either format (V-07); None if it is empty or invalid (C-09)."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            instant = parse(text.strip())
            return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
        except (ValueError, OverflowError):
            continue
    return None


def _parse_event(entry: Json) -> ObservedEvent | None:
    if not isinstance(entry, dict):
        return None
    event_id = _text(entry, "EventId")
    if not event_id:
        return None
    duration = entry.get("DurationInSeconds")
    return ObservedEvent(
        id=EventId(event_id),
        status=_text(entry, "EventStatus"),
        kind=_text(entry, "EventType"),
        resources=_names(entry.get("Resources")),
        not_before=parse_instant(_text(entry, "NotBefore")),
        source=_text(entry, "EventSource"),
        description=_text(entry, "Description"),
        duration=duration if isinstance(duration, int) and not isinstance(duration, bool) else None,
    )


def _text(entry: dict[str, Json], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def _names(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(name for name in value if isinstance(name, str))
