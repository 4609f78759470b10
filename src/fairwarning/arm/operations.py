"""What az waits for: an operation is under way for as long as its events are.

An operation keeps no state of its own but the events it waits for and the machines that have to be gone, so a
server that was restarted knows how far it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from fairwarning.arm.call import Call, Reply, child
from fairwarning.arm.errors import AzureError
from fairwarning.arm.room import SUBSCRIPTION, Document, Room
from fairwarning.core.changes import Change, EventChanged, What
from fairwarning.core.errors import UnknownEvent
from fairwarning.core.model import EventId
from fairwarning.core.wire import Json

PREFIX = "operation:"
_BEGUN = frozenset({What.SCHEDULED, What.STARTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something a client waits for."""

    id: str
    started_at: str
    events: tuple[EventId, ...]
    resource: str

    @property
    def key(self) -> str:
        """Where the operation is kept."""
        return f"{PREFIX}{self.id}"

    def document(self) -> Document:
        """Return what is kept of it."""
        return {"started_at": self.started_at, "events": [*self.events], "resource": self.resource.lower()}


def begun(operation_id: str, resource: str, changes: Iterable[Change], now: datetime) -> Operation:
    """Return the operation that waits for the events a decision has begun."""
    events = {c.event.id for c in changes if isinstance(c, EventChanged) and c.what in _BEGUN}
    return Operation(
        id=operation_id, started_at=instant(now), events=tuple(sorted(events)), resource=resource
    )


def accepted(room: Room, call: Call, operation: Operation) -> Reply:
    """Return the answer to a POST or DELETE that takes its time."""
    url = _url(call, operation.id)
    headers = (("Azure-AsyncOperation", url), ("Location", f"{url}&monitor=true"), _hint(room))
    return Reply(status=202, headers=headers)


def created(room: Room, call: Call, operation: Operation, document: Json, *, new: bool) -> Reply:
    """Return the answer to a PUT or PATCH; without a Location, or az would read its result from there."""
    if not pending(room, operation.events):
        return Reply(status=201 if new else 200, body=document)
    headers = (("Azure-AsyncOperation", _url(call, operation.id)), _hint(room))
    return Reply(status=201 if new else 200, body=document, headers=headers)


async def status(room: Room, call: Call) -> Reply:
    """Say how far an operation is."""
    known = room.document(f"{PREFIX}{call.names['operation']}")
    if known is None:
        message = f"Operation {call.names['operation']} was not found."
        raise AzureError(404, "NotFound", message)
    under_way = pending(room, _events(known))
    hint = (_hint(room),) if under_way else ()
    if call.query.get("monitor") == "true":
        return Reply(status=202 if under_way else 200, headers=hint)
    told: Document = {
        "startTime": known["started_at"],
        "status": "InProgress",
        "name": call.names["operation"],
    }
    if not under_way:
        told |= {"endTime": instant(room.engine.clock.now()), **await _verdict(room, _events(known))}
    return Reply(body=told, headers=hint)


def pending(room: Room, events: Iterable[EventId]) -> bool:
    """Whether any of the events is still there."""
    return any(_there(room, event) for event in events)


def busy(room: Room, resource: str) -> bool:
    """Whether an operation on the resource, or on something below it, is under way."""
    below = resource.lower()
    return any(
        str(known["resource"]).startswith(below) and pending(room, _events(known))
        for _, known in room.documents(PREFIX)
    )


def instant(moment: datetime) -> str:
    """Write an instant as Azure does."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _verdict(room: Room, events: Iterable[EventId]) -> Document:
    """Return how it ended; an event that was withdrawn takes its operation along."""
    for event in events:
        lines = await room.engine.store.journal(event=event)
        last = next((e.change for e in reversed(lines) if isinstance(e.change, EventChanged)), None)
        if last is not None and last.what is What.CANCELLED:
            message = f"Scheduled event {event} was cancelled by {last.by}."
            return {"status": "Canceled", "error": {"code": "OperationCanceled", "message": message}}
    return {"status": "Succeeded"}


def _there(room: Room, event: EventId) -> bool:
    try:
        room.engine.directory.event(event)
    except UnknownEvent:
        return False
    return True


def _events(known: Document) -> tuple[EventId, ...]:
    found = child(known, "events")
    return tuple(EventId(str(event)) for event in found) if isinstance(found, list) else ()


def _url(call: Call, operation_id: str) -> str:
    version = quote(call.version or "2024-07-01")
    return (
        f"{call.base}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope"
        f"/operations/{operation_id}?api-version={version}"
    )


def _hint(room: Room) -> tuple[str, str]:
    return room.pace.header, room.pace.value
