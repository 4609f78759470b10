"""What az waits for: an operation is under way for as long as its events are.

An operation keeps no state of its own but the events it waits for and the documents that go with them, so a
server that was restarted knows how far it is. What is over is found to be so when somebody asks:
``complete_finished`` comes before the answer to every request.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import quote
from weakref import WeakKeyDictionary

from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.context import SUBSCRIPTION, ArmContext, Document
from fairwarning.arm.errors import AzureError
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.changes import Change, EventChanged, EventMilestone
from fairwarning.core.document.render import Json
from fairwarning.core.errors import UnknownEventError
from fairwarning.core.model import EventId

PREFIX = "operation:"
#: How long an operation is remembered after it was first seen to be over; also how often one looks.
KEPT = timedelta(hours=1)
_BEGUN = frozenset({EventMilestone.SCHEDULED, EventMilestone.STARTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something a client waits for.

    ``removes`` are the documents that go once all is done, by id; an id with a slash at its end means all
    that is below it.
    """

    id: str
    started_at: str
    events: tuple[EventId, ...]
    resource: str
    removes: tuple[str, ...] = ()
    provider: str = "Microsoft.Compute"

    @property
    def key(self) -> str:
        """Where the operation is kept."""
        return f"{PREFIX}{self.id}".lower()

    def waiting_for(self, changes: Iterable[Change], more: Iterable[EventId] = ()) -> "Operation":
        """Return the same operation, waiting also for the events a decision has begun."""
        begun = {c.event.id for c in changes if isinstance(c, EventChanged) and c.what in _BEGUN}
        return replace(self, events=tuple(sorted({*self.events, *begun, *more})))

    def document(self) -> Document:
        """Return what is kept of it."""
        return {
            "started_at": self.started_at,
            "events": [*self.events],
            "resource": self.resource.lower(),
            "removes": [*self.removes],
        }


class OperationRegistry:
    """What is under way, by the resource it is about and by everything above that."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.lock = asyncio.Lock()
        self.closing: dict[str, Operation] = {}
        self._below: dict[str, dict[str, Operation]] = defaultdict(dict)
        self._ages: deque[tuple[datetime, Operation, bool]] = deque()
        for operation in operations:
            self.add(operation)

    def add(self, operation: Operation) -> None:
        """Know an operation."""
        for resource in _lineage(operation.resource):
            self._below[resource][operation.key] = operation
        if operation.removes:
            self.closing[operation.key] = operation
        self._ages.append((datetime.fromisoformat(operation.started_at) + KEPT, operation, False))

    def busy(self, room: ArmContext, resource: str) -> bool:
        """Whether anything is under way there; what is over is forgotten on the way."""
        known = self._below.get(resource.lower(), {})
        while known:
            oldest = next(iter(known.values()))
            if pending(room, oldest.events):
                return True
            self._forget(oldest)
        return False

    def stale(self, room: ArmContext, now: datetime) -> list[str]:
        """Return the keys of operations that nobody will ask about any more, and forget them."""
        found: list[str] = []
        while self._ages and self._ages[0][0] <= now:
            _, operation, seen = self._ages.popleft()
            over = operation.key not in self.closing and not pending(room, operation.events)
            if over and seen:
                self._forget(operation)
                found.append(operation.key)
            else:
                # Hours may pass between two questions of a client where somebody moves the clock.
                self._ages.append((now + KEPT, operation, over))
        return found

    def _forget(self, operation: Operation) -> None:
        for resource in _lineage(operation.resource):
            there = self._below.get(resource, {})
            there.pop(operation.key, None)
            if not there:
                self._below.pop(resource, None)


#: Of each room that is open; read from its documents when it is first asked for.
_LEDGERS: WeakKeyDictionary[ArmContext, OperationRegistry] = WeakKeyDictionary()


def registry(room: ArmContext) -> OperationRegistry:
    """Return what a room has under way."""
    found = _LEDGERS.get(room)
    if found is None:
        found = OperationRegistry(_read(key, known) for key, known in room.documents(PREFIX))
        _LEDGERS[room] = found
    return found


def begun(operation_id: str, resource: str, changes: Iterable[Change], now: datetime) -> Operation:
    """Return the operation that waits for the events a decision has begun."""
    operation = Operation(id=operation_id, started_at=instant(now), events=(), resource=resource)
    return operation.waiting_for(changes)


def accepted(room: ArmContext, call: ArmRequest, operation: Operation) -> ArmResponse:
    """Return the answer to a POST or DELETE that takes its time."""
    registry(room).add(operation)
    url = _url(call, operation)
    headers = (("Azure-AsyncOperation", url), ("Location", f"{url}&monitor=true"), hint(room))
    return ArmResponse(status=202, headers=headers)


def created(
    room: ArmContext, call: ArmRequest, operation: Operation, document: Json, *, new: bool
) -> ArmResponse:
    """Return the answer to a PUT or PATCH; without a Location, or az would read its result from there."""
    registry(room).add(operation)
    if not pending(room, operation.events):
        return ArmResponse(status=201 if new else 200, body=document)
    headers = (("Azure-AsyncOperation", _url(call, operation)), hint(room))
    return ArmResponse(status=201 if new else 200, body=document, headers=headers)


async def status(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say how far an operation is."""
    await complete_finished(room)
    told = await outcome(room, call.names["operation"])
    if told is None:
        message = f"Operation {call.names['operation']} was not found."
        raise AzureError(404, "NotFound", message)
    under_way = told["status"] == "InProgress"
    again = (hint(room),) if under_way else ()
    if call.query.get("monitor") == "true":
        return ArmResponse(status=202 if under_way else 200, headers=again)
    return ArmResponse(body=told, headers=again)


async def outcome(room: ArmContext, operation_id: str) -> Document | None:
    """Return how far an operation is and how it ended; None if nobody knows of it any more."""
    key = f"{PREFIX}{operation_id}".lower()
    known = room.document(key)
    if known is None:
        return None
    told: Document = {"startTime": known["started_at"], "status": "InProgress", "name": operation_id}
    if key in registry(room).closing or pending(room, _events(known)):
        return told
    return told | await _verdict(room, _read(key, known))


async def complete_finished(room: ArmContext) -> None:
    """Let go of the documents of what is gone by now, and of operations that ended long ago."""
    book = registry(room)
    if any(True for _ in _over(room, book)):
        async with book.lock:
            for operation in list(_over(room, book)):
                await _conclude(room, book, operation)
    stale = book.stale(room, room.engine.clock.now())
    if stale:
        await room.keep(dict.fromkeys(stale))


def needed(documents: Iterable[tuple[str, Document]]) -> set[EventId]:
    """Return the events whose lines in the journal say how operations ended that are still remembered."""
    return {event for key, known in documents if key.startswith(PREFIX) for event in _events(known)}


def pending(room: ArmContext, events: Iterable[EventId]) -> bool:
    """Whether any of the events is still there."""
    return any(_there(room, event) for event in events)


def busy(room: ArmContext, resource: str) -> bool:
    """Whether an operation on the resource, or on something below it, is under way."""
    return registry(room).busy(room, resource)


def hint(room: ArmContext) -> tuple[str, str]:
    """Return the header that says when to ask again; without one clients wait for half a minute."""
    return room.pace.header, room.pace.value


def instant(moment: datetime) -> str:
    """Write an instant as Azure does."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _over(room: ArmContext, book: OperationRegistry) -> Iterator[Operation]:
    return (one for one in book.closing.values() if not pending(room, one.events))


async def _conclude(room: ArmContext, book: OperationRegistry, operation: Operation) -> None:
    verdict = await _verdict(room, operation)
    left: dict[str, Document | None] = {operation.key: replace(operation, removes=()).document()}
    for resource in operation.removes:
        known = room.document(resource)
        if verdict["status"] == "Succeeded":
            below = room.documents(resource) if resource.endswith("/") else ()
            left |= {key: None for key, _ in below} | {resource: None}
        elif get_path(known, "properties", "provisioningState") == "Deleting" and known is not None:
            left[resource] = {**known, "properties": {"provisioningState": "Succeeded"}}
    await room.keep(left)
    book.closing.pop(operation.key, None)


async def _verdict(room: ArmContext, operation: Operation) -> Document:
    """Return how it ended and when; an event that was withdrawn takes its operation along."""
    ended = datetime.fromisoformat(operation.started_at)
    for event in operation.events:
        lines = await room.engine.store.journal(event=event)
        last = next((e for e in reversed(lines) if isinstance(e.change, EventChanged)), None)
        if last is None or not isinstance(last.change, EventChanged):
            continue
        ended = max(ended, last.at)
        if last.change.what is EventMilestone.CANCELLED:
            message = f"Scheduled event {event} was cancelled by {last.change.by}."
            error: Document = {"code": "OperationCanceled", "message": message}
            return {"endTime": instant(ended), "status": "Canceled", "error": error}
    return {"endTime": instant(ended), "status": "Succeeded"}


def _there(room: ArmContext, event: EventId) -> bool:
    try:
        room.engine.directory.event(event)
    except UnknownEventError:
        return False
    return True


def _lineage(resource: str) -> Iterator[str]:
    path = resource.lower().rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]


def _read(key: str, known: Document) -> Operation:
    removes = get_path(known, "removes")
    return Operation(
        id=key.removeprefix(PREFIX),
        started_at=str(known["started_at"]),
        events=_events(known),
        resource=str(known["resource"]),
        removes=tuple(str(one) for one in removes) if isinstance(removes, list) else (),
    )


def _events(known: Document) -> tuple[EventId, ...]:
    found = get_path(known, "events")
    return tuple(EventId(str(event)) for event in found) if isinstance(found, list) else ()


def _url(call: ArmRequest, operation: Operation) -> str:
    version = quote(call.version or "2024-07-01")
    return (
        f"{call.base}/subscriptions/{SUBSCRIPTION}/providers/{operation.provider}/locations/westeurope"
        f"/operations/{operation.id}?api-version={version}"
    )


ROUTES: tuple[ArmRoute, ...] = tuple(
    ArmRoute(
        "GET",
        f"/subscriptions/{{subscription}}/providers/{provider}/locations/{{location}}/operations/{{operation}}",
        status,
    )
    for provider in ("Microsoft.Compute", "Microsoft.Resources")
)
