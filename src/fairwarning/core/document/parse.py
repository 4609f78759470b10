"""The document as a guest reads it, from Azure, from us or from any other server.

The counterpart of ``wire``: a server writes exactly one form, a guest must survive every form that has been
seen. What cannot be understood in one event is left out of it; only a body that is no document is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId, EventStatus, EventType

_KINDS: Mapping[str, EventType] = {kind.value.casefold(): kind for kind in EventType}


class DocumentError(FairWarningError):
    """What was answered is no document."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the document {problem}")
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEvent:
    """One event as its document tells of it; words this package does not know are kept as they are (C-12)."""

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
        """The id in the one spelling used for comparing (V-09); ``id`` stays as it was written."""
        return EventId(self.id.upper())

    @property
    def started(self) -> bool:
        """Whether the impact is under way."""
        return self.status.casefold() == EventStatus.STARTED.value.casefold()

    @property
    def scheduled(self) -> bool:
        """Whether the event still waits for its time or for an approval."""
        return self.status.casefold() == EventStatus.SCHEDULED.value.casefold()

    @property
    def known_kind(self) -> EventType | None:
        """The kind, if it is one this package knows."""
        return _KINDS.get(self.kind.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDocument:
    """Everything one answer said; the incarnation is only ever compared for being different (V-08)."""

    incarnation: int | str
    events: tuple[ObservedEvent, ...]


def parse_document(body: bytes) -> ObservedDocument | None:
    """Return the document in ``body``, or nothing if there is no information yet (C-03).

    Raises:
        Unreadable: the body is no JSON object with a list of events.
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
        events=tuple(seen for seen in map(_seen, events) if seen is not None),
    )


def parse_instant(text: str) -> datetime | None:
    """Return the instant a NotBefore stands for, in either form (V-07); none if it is empty or odd (C-09)."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = parse(text.strip())
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, OverflowError):
            continue
    return None


def _seen(entry: Json) -> ObservedEvent | None:
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
