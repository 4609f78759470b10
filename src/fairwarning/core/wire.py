"""The JSON that guests read and write.

Azure's own names (``NotBefore``, ``EventStatus``) live only here.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TypeAlias

from fairwarning.core.errors import Invalid
from fairwarning.core.model import Event, EventId, ScopeKind
from fairwarning.core.versions import Shape

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

#: Longer than any id of ours: what a guest sends may end up in a history that people read.
LONGEST_ID = 64

_Field: TypeAlias = Callable[[Event, Shape, ScopeKind], Json]


def document(incarnation: int, events: Iterable[Event], shape: Shape, kind: ScopeKind) -> bytes:
    """Render what a guest of one api-version sees."""
    shown: list[Json] = [_event(event, shape, kind) for event in events if event.kind in shape.kinds]
    return compact({"DocumentIncarnation": incarnation, "Events": shown})


def compact(value: Json) -> bytes:
    """Render JSON the way the service does: no white space (V-09)."""
    return json.dumps(value, separators=(",", ":")).encode()


def start_requests(body: bytes) -> tuple[EventId, ...]:
    """Return the ids a guest wants started (R-12 to R-16).

    Raises:
        Invalid: the body is not an object with a list of objects that have an id.
    """
    try:
        message: Json = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Invalid("body", "is not JSON") from None
    if not isinstance(message, dict):
        raise Invalid("body", "is not a JSON object")
    requests = message.get("StartRequests")
    if not isinstance(requests, list) or not requests:
        raise Invalid("StartRequests", "must be a list with at least one entry")
    return tuple(_event_id(request) for request in requests)


def _event_id(request: Json) -> EventId:
    event_id = request.get("EventId") if isinstance(request, dict) else None
    if not isinstance(event_id, str) or not event_id:
        raise Invalid("StartRequests", "each entry must have an EventId")
    if len(event_id) > LONGEST_ID or not event_id.isascii() or not event_id.isprintable():
        raise Invalid("EventId", f"must be at most {LONGEST_ID} printable characters")
    return EventId(event_id.upper())


def _event(event: Event, shape: Shape, kind: ScopeKind) -> dict[str, Json]:
    return {name: _FIELDS[name](event, shape, kind) for name in shape.fields}


def _resources(event: Event, shape: Shape, kind: ScopeKind) -> Json:
    # V-06: the oldest version writes an underscore before every name but those of cloud services.
    prefix = "_" if shape.underscore and kind is not ScopeKind.CLOUD_SERVICE else ""
    return [prefix + name for name in event.resources]


def _not_before(event: Event, shape: Shape, kind: ScopeKind) -> Json:
    if not event.waiting:
        return ""  # L-03: never null, never absent
    instant: datetime = event.not_before.astimezone(UTC)
    if shape.iso_dates:
        return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
    return format_datetime(instant, usegmt=True)


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
