"""Renders the documents that guests read, and parses the start requests that they send.

Azure's own names (``NotBefore``, ``EventStatus``) appear only in this package.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import Event, EventId, ScopeKind
from fairwarning.formats.timestamps import http_date

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

#: The path of the document and of approvals; R-02: case-insensitive.
EVENTS_PATH = "/metadata/scheduledevents"

#: C-02: statuses after which a guest should try again, besides 500 and above.
TRANSIENT = frozenset({404, 410, 429})

#: Longer than any id that fairwarning creates; ids that guests send appear in the history.
LONGEST_ID = 64

_compact = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def render_document(
    incarnation: int, events: Iterable[Event], shape: DocumentShape, kind: ScopeKind
) -> bytes:
    """Render the document in one api-version."""
    shown: list[Json] = [_render_event(event, shape, kind) for event in events if event.kind in shape.kinds]
    return compact_json({"DocumentIncarnation": incarnation, "Events": shown})


def compact_json(value: Json) -> bytes:
    """Render JSON as Azure does, without white space (V-09)."""
    return _compact.encode(value).encode()


def render_not_before(instant: datetime, shape: DocumentShape) -> str:
    """Render an instant in the format of an api-version (V-07)."""
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if shape.iso_dates else http_date(instant)


def render_start_request(event: str) -> bytes:
    """Render the body with which a guest approves an event (R-12)."""
    return compact_json({"StartRequests": [{"EventId": event}]})


def parse_start_requests(body: bytes) -> tuple[EventId, ...]:
    """Return the ids of the events that a guest approves (R-12 to R-16).

    Raises:
        InvalidError: ``body`` is not an object with a list of objects that have an id.
    """
    try:
        message: Json = json.loads(body.removeprefix(BOM_UTF8).decode())
    except (ValueError, RecursionError):
        raise InvalidError("body", "is not JSON") from None
    if not isinstance(message, dict):
        raise InvalidError("body", "is not a JSON object")
    requests = message.get("StartRequests")
    if not isinstance(requests, list) or not requests:
        raise InvalidError("StartRequests", "must be a list with at least one entry")
    return tuple(_parse_start_request(request) for request in requests)


def _parse_start_request(request: Json) -> EventId:
    event_id = request.get("EventId") if isinstance(request, dict) else None
    if not isinstance(event_id, str) or not event_id:
        raise InvalidError("StartRequests", "each entry must have an EventId")
    return parse_event_id(event_id, "EventId")


def parse_event_id(text: str, field: str) -> EventId:
    """Return an event id in upper case, as fairwarning writes it.

    Raises:
        InvalidError: ``text`` cannot be an event id.
    """
    if len(text) > LONGEST_ID or not text.isascii() or not text.isprintable():
        raise InvalidError(field, f"must be at most {LONGEST_ID} printable characters")
    return EventId(text.upper())


def _render_event(event: Event, shape: DocumentShape, kind: ScopeKind) -> dict[str, Json]:
    # V-06: the oldest version puts an underscore before every name, except in cloud services.
    underscore = shape.underscore and kind is not ScopeKind.CLOUD_SERVICE
    values: dict[str, Json] = {
        "EventId": event.id,
        "EventStatus": event.status,
        "EventType": event.kind,
        "ResourceType": "VirtualMachine",
        "Resources": [f"_{name}" for name in event.resources] if underscore else [*event.resources],
        # L-03: never null, never absent
        "NotBefore": render_not_before(event.not_before, shape) if event.waiting else "",
        "Description": event.description,
        "EventSource": event.source,
        "DurationInSeconds": event.duration,
    }
    return {name: values[name] for name in shape.fields}
