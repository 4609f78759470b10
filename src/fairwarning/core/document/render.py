"""The JSON that guests read and write.

Azure's own names (``NotBefore``, ``EventStatus``) live here, and where documents are read: in
``reading`` and ``recording``.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import Event, EventId, ScopeKind
from fairwarning.formats.timestamps import http_date

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

#: Where the document is read and approved; R-02: matched without regard to case.
EVENTS_PATH = "/metadata/scheduledevents"

#: C-02: answers after which the same request is worth another try; anything from 500 up is too.
TRANSIENT = frozenset({404, 410, 429})

#: Longer than any id of ours: what a guest sends may end up in a history that people read.
LONGEST_ID = 64

_Field: TypeAlias = Callable[[Event, DocumentShape, ScopeKind], Json]


def render_document(
    incarnation: int, events: Iterable[Event], shape: DocumentShape, kind: ScopeKind
) -> bytes:
    """Render what a guest of one api-version sees."""
    shown: list[Json] = [_event(event, shape, kind) for event in events if event.kind in shape.kinds]
    return compact({"DocumentIncarnation": incarnation, "Events": shown})


def compact(value: Json) -> bytes:
    """Render JSON the way the service does: no white space (V-09)."""
    return json.dumps(value, separators=(",", ":")).encode()


def render_not_before(instant: datetime, shape: DocumentShape) -> str:
    """Return an instant in the form of an api-version (V-07)."""
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if shape.iso_dates else http_date(instant)


def start_request(event: str) -> bytes:
    """Render what a guest sends to have an event started (R-12)."""
    return compact({"StartRequests": [{"EventId": event}]})


def start_requests(body: bytes) -> tuple[EventId, ...]:
    """Return the ids a guest wants started (R-12 to R-16).

    Raises:
        Invalid: the body is not an object with a list of objects that have an id.
    """
    try:
        message: Json = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise InvalidError("body", "is not JSON") from None
    if not isinstance(message, dict):
        raise InvalidError("body", "is not a JSON object")
    requests = message.get("StartRequests")
    if not isinstance(requests, list) or not requests:
        raise InvalidError("StartRequests", "must be a list with at least one entry")
    return tuple(_event_id(request) for request in requests)


def _event_id(request: Json) -> EventId:
    event_id = request.get("EventId") if isinstance(request, dict) else None
    if not isinstance(event_id, str) or not event_id:
        raise InvalidError("StartRequests", "each entry must have an EventId")
    return read_event_id(event_id, "EventId")


def read_event_id(text: str, field: str) -> EventId:
    """Return the id that somebody wrote, as we write it.

    Raises:
        Invalid: no event can have it.
    """
    if len(text) > LONGEST_ID or not text.isascii() or not text.isprintable():
        raise InvalidError(field, f"must be at most {LONGEST_ID} printable characters")
    return EventId(text.upper())


def _event(event: Event, shape: DocumentShape, kind: ScopeKind) -> dict[str, Json]:
    return {name: _FIELDS[name](event, shape, kind) for name in shape.fields}


def _resources(event: Event, shape: DocumentShape, kind: ScopeKind) -> Json:
    # V-06: the oldest version writes an underscore before every name but those of cloud services.
    prefix = "_" if shape.underscore and kind is not ScopeKind.CLOUD_SERVICE else ""
    return [prefix + name for name in event.resources]


def _not_before(event: Event, shape: DocumentShape, kind: ScopeKind) -> Json:
    # L-03: never null, never absent
    return render_not_before(event.not_before, shape) if event.waiting else ""


_FIELDS: Mapping[str, _Field] = {
    "EventId": lambda event, shape, kind: event.id,
    "EventStatus": lambda event, shape, kind: event.status.value,
    "EventType": lambda event, shape, kind: event.kind.value,
    "ResourceType": lambda event, shape, kind: "VirtualMachine",
    "Resources": _resources,
    "NotBefore": _not_before,
    "Description": lambda event, shape, kind: event.description,
    "EventSource": lambda event, shape, kind: event.source.value,
    "DurationInSeconds": lambda event, shape, kind: event.duration,
}
