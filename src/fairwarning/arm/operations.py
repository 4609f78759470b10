"""Long-running operations: what a client polls until its request is done.

An operation waits for scheduled events. It is in progress while at least one of its events exists; after
that, the journal says how the events ended. A cancelled event makes the operation ``Canceled``, anything
else ``Succeeded``. The document of an operation holds the ids of its events and the documents to delete once
it succeeds, and no progress. That is why an operation survives a restart of the server.

No timer completes operations. ``complete_finished`` runs before every response: it deletes the documents that
finished operations leave behind, and forgets operations that ended more than ``RETENTION`` ago.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import quote
from weakref import WeakKeyDictionary

from fairwarning.arm.context import SUBSCRIPTION, ArmContext
from fairwarning.arm.documents import Document, get_items, get_path
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.changes import Change, EventChanged, EventMilestone
from fairwarning.core.document.render import Json
from fairwarning.core.errors import UnknownEventError
from fairwarning.core.model import EventId

PREFIX = "operation:"
#: How long a finished operation can still be looked up, and how often finished operations are looked for.
RETENTION = timedelta(hours=1)
_BEGUN = frozenset({EventMilestone.SCHEDULED, EventMilestone.STARTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running request.

    ``removes`` are the keys of the documents that are deleted once the operation succeeds; a key that ends
    with a slash means all documents below it.
    """

    id: str
    started_at: str
    events: tuple[EventId, ...]
    resource: str
    removes: tuple[str, ...] = ()
    provider: str = "Microsoft.Compute"

    @property
    def key(self) -> str:
        """The key of the operation's document."""
        return f"{PREFIX}{self.id}".lower()

    def waiting_for(self, changes: Iterable[Change], more: Iterable[EventId] = ()) -> "Operation":
        """Return the same operation with more events: ``more``, and those that the changes began."""
        begun = {c.event.id for c in changes if isinstance(c, EventChanged) and c.what in _BEGUN}
        return replace(self, events=tuple(sorted({*self.events, *begun, *more})))

    def document(self) -> Document:
        """Return the operation as it is stored."""
        return {
            "started_at": self.started_at,
            "events": [*self.events],
            "resource": self.resource.lower(),
            "removes": [*self.removes],
        }


class OperationRegistry:
    """The operations of a context, by resource and by every parent of that resource."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.lock = asyncio.Lock()
        #: Operations whose documents are not deleted yet.
        self.removing: dict[str, Operation] = {}
        self._by_resource: dict[str, dict[str, Operation]] = defaultdict(dict)
        #: When each operation is looked at next, and whether it was already finished the last time.
        self._expirations: deque[tuple[datetime, Operation, bool]] = deque()
        for operation in operations:
            self.add(operation)

    def add(self, operation: Operation) -> None:
        """Add an operation."""
        for resource in _with_parents(operation.resource):
            self._by_resource[resource][operation.key] = operation
        if operation.removes:
            self.removing[operation.key] = operation
        self._expirations.append((datetime.fromisoformat(operation.started_at) + RETENTION, operation, False))

    def is_busy(self, context: ArmContext, resource: str) -> bool:
        """Whether an operation on the resource is in progress; finished ones leave the index on the way."""
        operations = self._by_resource.get(resource.lower(), {})
        while operations:
            oldest = next(iter(operations.values()))
            if any_pending(context, oldest.events):
                return True
            self._remove(oldest)
        return False

    def pop_stale(self, context: ArmContext, now: datetime) -> list[str]:
        """Remove the operations that ended long ago and return their keys."""
        stale: list[str] = []
        while self._expirations and self._expirations[0][0] <= now:
            _, operation, was_finished = self._expirations.popleft()
            is_finished = operation.key not in self.removing and not any_pending(context, operation.events)
            if is_finished and was_finished:
                self._remove(operation)
                stale.append(operation.key)
            else:
                # Under a manual clock hours may pass between two polls of a client.
                self._expirations.append((now + RETENTION, operation, is_finished))
        return stale

    def _remove(self, operation: Operation) -> None:
        for resource in _with_parents(operation.resource):
            operations = self._by_resource.get(resource, {})
            operations.pop(operation.key, None)
            if not operations:
                self._by_resource.pop(resource, None)


#: The registry of each open context, built from its documents on first use.
_REGISTRIES: WeakKeyDictionary[ArmContext, OperationRegistry] = WeakKeyDictionary()


def registry_of(context: ArmContext) -> OperationRegistry:
    """Return the operations of a context."""
    registry = _REGISTRIES.get(context)
    if registry is None:
        registry = OperationRegistry(_parse(key, document) for key, document in context.documents(PREFIX))
        _REGISTRIES[context] = registry
    return registry


def new_operation(operation_id: str, resource: str, changes: Iterable[Change], now: datetime) -> Operation:
    """Return an operation that waits for the events that the changes began."""
    operation = Operation(id=operation_id, started_at=format_instant(now), events=(), resource=resource)
    return operation.waiting_for(changes)


def accepted_response(context: ArmContext, request: ArmRequest, operation: Operation) -> ArmResponse:
    """Return the response to a POST or DELETE that started an operation."""
    registry_of(context).add(operation)
    url = _url(request, operation)
    location = ("Location", f"{url}&monitor=true")
    headers = (("Azure-AsyncOperation", url), location, retry_after_header(context))
    return ArmResponse(status=202, headers=headers)


def created_response(
    context: ArmContext, request: ArmRequest, operation: Operation, document: Json, *, new: bool
) -> ArmResponse:
    """Return the response to a PUT or PATCH; with a Location, az would read its result from there."""
    registry_of(context).add(operation)
    status = 201 if new else 200
    if not any_pending(context, operation.events):
        return ArmResponse(status=status, body=document)
    headers = (("Azure-AsyncOperation", _url(request, operation)), retry_after_header(context))
    return ArmResponse(status=status, body=document, headers=headers)


async def get_status(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the progress of an operation."""
    await complete_finished(context)
    outcome = await read_outcome(context, request.names["operation"])
    if outcome is None:
        message = f"Operation {request.names['operation']} was not found."
        raise AzureError(404, "NotFound", message)
    in_progress = outcome["status"] == "InProgress"
    headers = (retry_after_header(context),) if in_progress else ()
    if request.query.get("monitor") == "true":
        return ArmResponse(status=202 if in_progress else 200, headers=headers)
    return ArmResponse(body=outcome, headers=headers)


async def read_outcome(context: ArmContext, operation_id: str) -> Document | None:
    """Return the status of an operation, and its end if it has one; None for an unknown operation."""
    key = f"{PREFIX}{operation_id}".lower()
    document = context.document(key)
    if document is None:
        return None
    outcome: Document = {"startTime": document["started_at"], "status": "InProgress", "name": operation_id}
    if key in registry_of(context).removing or any_pending(context, _events(document)):
        return outcome
    return outcome | await _end(context, _parse(key, document))


async def complete_finished(context: ArmContext) -> None:
    """Delete the documents that finished operations remove, and operations that ended long ago."""
    registry = registry_of(context)
    if any(True for _ in _finished(context, registry)):
        async with registry.lock:
            for operation in list(_finished(context, registry)):
                await _complete(context, registry, operation)
    stale = registry.pop_stale(context, context.engine.clock.now())
    if stale:
        await context.put_documents(dict.fromkeys(stale))


def required_events(documents: Iterable[tuple[str, Document]]) -> set[EventId]:
    """Return the events whose journal lines still decide how an operation ended."""
    return {event for key, document in documents if key.startswith(PREFIX) for event in _events(document)}


def any_pending(context: ArmContext, events: Iterable[EventId]) -> bool:
    """Whether at least one of the events still exists."""
    return any(_exists(context, event) for event in events)


def is_busy(context: ArmContext, resource: str) -> bool:
    """Whether an operation on the resource, or on a resource below it, is in progress."""
    return registry_of(context).is_busy(context, resource)


def retry_after_header(context: ArmContext) -> tuple[str, str]:
    """Return the header that says when to poll again; without it clients wait for half a minute."""
    return context.retry_after.header, context.retry_after.value


def format_instant(instant: datetime) -> str:
    """Return an instant as Azure writes it."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _finished(context: ArmContext, registry: OperationRegistry) -> Iterator[Operation]:
    return (
        operation for operation in registry.removing.values() if not any_pending(context, operation.events)
    )


async def _complete(context: ArmContext, registry: OperationRegistry, operation: Operation) -> None:
    end = await _end(context, operation)
    updates: dict[str, Document | None] = {operation.key: replace(operation, removes=()).document()}
    for resource in operation.removes:
        document = context.document(resource)
        if end["status"] == "Succeeded":
            below = context.documents(resource) if resource.endswith("/") else ()
            updates |= {key: None for key, _ in below} | {resource: None}
        elif get_path(document, "properties", "provisioningState") == "Deleting" and document is not None:
            updates[resource] = {**document, "properties": {"provisioningState": "Succeeded"}}
    await context.put_documents(updates)
    registry.removing.pop(operation.key, None)


async def _end(context: ArmContext, operation: Operation) -> Document:
    """Return how a finished operation ended, and when; one cancelled event cancels the operation."""
    ended_at = datetime.fromisoformat(operation.started_at)
    for event in operation.events:
        lines = await context.engine.store.journal(event=event)
        last = next((line for line in reversed(lines) if isinstance(line.change, EventChanged)), None)
        if last is None or not isinstance(last.change, EventChanged):
            continue
        ended_at = max(ended_at, last.at)
        if last.change.what is EventMilestone.CANCELLED:
            message = f"Scheduled event {event} was cancelled by {last.change.by}."
            error: Document = {"code": "OperationCanceled", "message": message}
            return {"endTime": format_instant(ended_at), "status": "Canceled", "error": error}
    return {"endTime": format_instant(ended_at), "status": "Succeeded"}


def _exists(context: ArmContext, event: EventId) -> bool:
    try:
        context.engine.directory.event(event)
    except UnknownEventError:
        return False
    return True


def _with_parents(resource: str) -> Iterator[str]:
    path = resource.lower().rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]


def _parse(key: str, document: Document) -> Operation:
    return Operation(
        id=key.removeprefix(PREFIX),
        started_at=str(document["started_at"]),
        events=_events(document),
        resource=str(document["resource"]),
        removes=tuple(str(resource) for resource in get_items(document, "removes")),
    )


def _events(document: Document) -> tuple[EventId, ...]:
    return tuple(EventId(str(event)) for event in get_items(document, "events"))


def _url(request: ArmRequest, operation: Operation) -> str:
    version = quote(request.version or "2024-07-01")
    return (
        f"{request.base}/subscriptions/{SUBSCRIPTION}/providers/{operation.provider}/locations/westeurope"
        f"/operations/{operation.id}?api-version={version}"
    )


ROUTES: tuple[ArmRoute, ...] = tuple(
    ArmRoute(
        "GET",
        f"/subscriptions/{{subscription}}/providers/{provider}/locations/{{location}}/operations/{{operation}}",
        get_status,
    )
    for provider in ("Microsoft.Compute", "Microsoft.Resources")
)
