"""Long-running operations: what a client polls until its request is done.

Changes of resources, starting and stopping are over when they are answered; clients poll them all the same
(T-29). Such an operation is stored nowhere: its id tells when it was.

Any other operation waits for scheduled events. It is in progress while at least one of its events exists;
after that, the journal says how the events ended. A cancelled event makes the operation ``Canceled``,
anything else ``Succeeded``. The document of an operation holds the ids of its events and no progress: each
request computes the status from the committed state. So an operation survives a restart of the server.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import quote
from uuid import UUID

from fairwarning.arm.context import SUBSCRIPTION, ArmContext, Edit
from fairwarning.arm.documents import Document, get_path, overlay
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import DEFAULT_LOCATION
from fairwarning.core.changes import Change, EventChanged, EventMilestone
from fairwarning.core.document.render import Json
from fairwarning.core.errors import UnknownEventError
from fairwarning.core.model import Event, EventId, MachineRef, digest
from fairwarning.core.stored.codecs import Operation
from fairwarning.core.stored.kinds import OPERATION
from fairwarning.engine.requests import Texts, View

_COMPUTE = "Microsoft.Compute"
#: The id of an operation that was over at once: milliseconds, a random number, and a digest of both.
_OVER = re.compile(r"(?P<told>(?P<time>[0-9a-f]{12})[0-9a-f]{10})(?P<digest>[0-9a-f]{10})")


def start(
    edit: Edit, resource: str, cause: str, machines: Iterable[MachineRef], pending: Iterable[EventId]
) -> str:
    """Start an operation and return its id.

    It waits for the pending events, and for the events of a cause on these machines that the request changes.
    """
    operation_id = edit.draft.new_id("operation").lower()
    affected, known = set(machines), set(pending)

    def texts(changes: tuple[Change, ...]) -> Texts:
        begun = {
            change.event.id
            for change in changes
            if isinstance(change, EventChanged) and change.event.cause == cause
            if any(MachineRef(change.scope, name) in affected for name in change.event.resources)
        }
        operation = Operation(
            started_at=edit.state.now, resource=resource.lower(), events=tuple(begun | known)
        )
        return {OPERATION.key(operation_id): OPERATION.encode(operation)}

    edit.draft.put_texts_after(texts)
    return operation_id


def over_at_once(edit: Edit) -> str:
    """Return the id of an operation that is over when its request is answered."""
    random = edit.draft.new_id("operation").replace("-", "").lower()[:10]
    told = f"{round(edit.state.now.timestamp() * 1000):012x}{random}"
    return str(UUID(f"{told}{_digest(told)}"))


def accepted_response(
    context: ArmContext, request: ArmRequest, operation_id: str, location: str, provider: str = _COMPUTE
) -> ArmResponse:
    """Return the response to a POST or DELETE that started an operation."""
    url = _url(request, operation_id, provider, location)
    monitor = ("Location", f"{url}&monitor=true")
    return ArmResponse(status=202, headers=(("Azure-AsyncOperation", url), monitor, context.retry_after))


def created_response(
    context: ArmContext,
    request: ArmRequest,
    operation_id: str,
    response: ArmResponse,
    state: str,
    provider: str = _COMPUTE,
) -> ArmResponse:
    """Return the response to a PUT or PATCH with its operation, and with the state of the resource meanwhile.

    The response has no Location: az would read its result from there.
    """
    body = overlay(response.body, {"properties": {"provisioningState": state}})
    location = body.get("location") or location_of(context.state(), str(body.get("id")))
    url = _url(request, operation_id, provider, _short_name(location))
    return response._replace(body=body, headers=(("Azure-AsyncOperation", url), context.retry_after))


def location_of(state: ArmState, resource: str) -> str:
    """Return the location of a resource: its own, or that of what it is a part of."""
    while resource:
        location = get_path(state.document(resource), "location")
        if location is not None:
            return _short_name(location)
        resource = resource.rpartition("/")[0]
    return DEFAULT_LOCATION


async def get_status(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the progress of an operation."""
    name = request.names["operation"]
    outcome = await read_outcome(context, name)
    if outcome is None:
        raise AzureError(404, "NotFound", f"Operation {name} was not found.")
    is_running = outcome["status"] == "InProgress"
    headers = (context.retry_after,) if is_running else ()
    if request.query.get("monitor") == "true":
        return ArmResponse(status=202 if is_running else 200, headers=headers)
    return ArmResponse(body=outcome, headers=headers)


async def get_network_status(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the progress of an operation on a network resource, which tells nothing but its status."""
    response = await get_status(context, request)
    return response._replace(body={"status": get_path(response.body, "status")})


async def read_outcome(context: ArmContext, operation_id: str) -> Document | None:
    """Return the status of an operation, and its end if it has one; None for an unknown operation."""
    state = context.state()
    operation = OPERATION.find(state.view.text, operation_id)
    if operation is None:
        return _over(operation_id)
    began = format_instant(operation.started_at)
    outcome: Document = {"startTime": began, "status": "InProgress", "name": operation_id}
    return outcome if any_pending(state, operation) else outcome | await read_end(context, operation)


def all_operations(view: View) -> Iterator[tuple[str, Operation]]:
    """Yield the operations that are stored, with their ids."""
    for key in list(view.keys_under(OPERATION.prefix)):
        name = key.removeprefix(OPERATION.prefix)
        operation = OPERATION.find(view.text, name)
        if operation is not None:
            yield name, operation


def required_events(view: View) -> set[EventId]:
    """Return the events whose journal lines still decide how an operation ended."""
    return {event for _, operation in all_operations(view) for event in operation.events}


def any_pending(state: ArmState, operation: Operation) -> bool:
    """Whether at least one of an operation's events still exists."""
    return any(_exists(state, event) for event in operation.events)


def pending_events(state: ArmState, operation_id: str) -> list[Event]:
    """Return the events of an operation that still exist."""
    operation = OPERATION.find(state.view.text, operation_id)
    events = () if operation is None else operation.events
    return [state.view.event(event) for event in events if _exists(state, event)]


def format_instant(instant: datetime) -> str:
    """Return an instant as Azure writes it."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def read_end(context: ArmContext, operation: Operation) -> Document:
    """Return how a finished operation ended, and when; one cancelled event cancels the operation."""
    ended_at = operation.started_at
    for event in operation.events:
        lines = await context.engine.store.journal(event=event, newest_first=True)
        last = next((line for line in lines if isinstance(line.change, EventChanged)), None)
        if last is None or not isinstance(last.change, EventChanged):
            continue
        ended_at = max(ended_at, last.at)
        if last.change.what is EventMilestone.CANCELLED:
            message = f"Scheduled event {event} was cancelled by {last.change.by}."
            error: Document = {"code": "OperationCanceled", "message": message}
            return {"endTime": format_instant(ended_at), "status": "Canceled", "error": error}
    return {"endTime": format_instant(ended_at), "status": "Succeeded"}


def _over(operation_id: str) -> Document | None:
    """Return the status of an operation that was over at once; None if the id is not that of one."""
    parts = _OVER.fullmatch(operation_id.replace("-", "")) if operation_id.count("-") == 4 else None
    if parts is None or parts["digest"] != _digest(parts["told"]):
        return None
    at = format_instant(datetime.fromtimestamp(int(parts["time"], 16) / 1000, UTC))
    return {"startTime": at, "endTime": at, "status": "Succeeded", "name": operation_id}


def _digest(told: str) -> str:
    return digest("operation", told)[:10]


def _short_name(location: Json) -> str:
    return str(location or DEFAULT_LOCATION).replace(" ", "").lower()


def _exists(state: ArmState, event: EventId) -> bool:
    try:
        state.view.event(event)
    except UnknownEventError:
        return False
    return True


def _url(request: ArmRequest, operation_id: str, provider: str, location: str) -> str:
    version = quote(request.version or "2024-07-01")
    return (
        f"{request.base}/subscriptions/{SUBSCRIPTION}/providers/{provider}/locations/{quote(location)}"
        f"/operations/{operation_id}?api-version={version}"
    )


ROUTES: tuple[ArmRoute, ...] = tuple(
    ArmRoute(
        "GET",
        f"/subscriptions/{{subscription}}/providers/{provider}/locations/{{location}}/operations/{{operation}}",
        handler,
    )
    for provider, handler in (
        (_COMPUTE, get_status),
        ("Microsoft.Resources", get_status),
        ("Microsoft.Network", get_network_status),
    )
)
