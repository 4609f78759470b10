"""Microsoft.Maintenance: planned maintenance, and approving scheduled events from outside the machine."""

import re
from collections.abc import Iterator, Mapping, Sequence

from fairwarning.arm.compute import availability_sets, scalesets, vms
from fairwarning.arm.context import ArmContext, Edit
from fairwarning.arm.documents import get_path
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.operations import format_instant
from fairwarning.arm.resource_ids import GROUP_PATH
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import AVAILABILITY_SETS, SCALE_SETS, VMS, resource_id
from fairwarning.core.document.render import Json
from fairwarning.core.model import Event, EventId, EventSource, EventType

_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TYPES = {name.lower(): name for name in (VMS, SCALE_SETS, AVAILABILITY_SETS)}
#: The impact of an event, in the words of planned maintenance.
_IMPACTS: Mapping[EventType, str] = {
    EventType.FREEZE: "Freeze",
    EventType.REBOOT: "Restart",
    EventType.REDEPLOY: "Redeploy",
}


async def acknowledge(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Approve an event."""
    if not (await _approve(context, request, [request.names["event"]]))[0]:
        raise AzureError(404, "InvalidScheduledEventId", "Scheduled event not found")
    return ArmResponse(body={"value": "Successfully approved scheduled event"})


async def acknowledge_list(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Approve several events; the response names the events that do not exist."""
    value = get_path(request.fields(), "value")
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise invalid("value", "it must be a list of the ids of scheduled events")
    ids = [str(item) for item in value]
    results = list(zip(ids, await _approve(context, request, ids), strict=True))
    if all(approved for _, approved in results):
        return ArmResponse(body={"value": "Successfully approved scheduled events"})
    details: list[Json] = [
        {"target": event_id, "code": "OK", "message": "Successfully approved scheduled event"}
        if approved
        else {"target": event_id, "code": "InvalidScheduledEventId", "message": "Scheduled event not found"}
        for event_id, approved in results
    ]
    message = "Some of the scheduled events could not be approved; the details say which."
    # T-32: the service sends this; its published schema has a member "error" instead.
    summary: Json = {"code": "MultiStatusResponse", "message": message}
    return ArmResponse(status=207, body={"response": summary, "details": details})


async def updates(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the platform maintenance that is planned or in progress."""
    resource = resource_id(request.names["group"], _type(request), request.names["name"])
    maintenance: list[Json] = [
        {
            "maintenanceScope": "Host",
            "impactType": _IMPACTS[event.kind],
            "status": "Pending" if event.waiting else "InProgress",
            "impactDurationInSec": max(event.duration, 0),
            "notBefore": format_instant(event.not_before),
            "properties": {"resourceId": resource},
        }
        for event in _events(context.state(), request)
        if event.source is EventSource.PLATFORM and event.kind in _IMPACTS
    ]
    return ArmResponse(body={"value": maintenance})


async def _approve(context: ArmContext, request: ArmRequest, ids: Sequence[str]) -> list[bool]:
    """Approve the events that exist, and return for each id whether it does."""
    for event_id in ids:
        if not _GUID.fullmatch(event_id):
            message = f"The scheduled event id {event_id!r} is not a GUID."
            raise AzureError(400, "InvalidScheduledEventId", message, "scheduledEventId")

    def fill(edit: Edit) -> list[bool]:
        events = {event.id: event for event in _events(edit.state, request)}
        wanted = [EventId(event_id.upper()) for event_id in ids]
        for event_id in dict.fromkeys(wanted):
            if event_id in events:
                edit.draft.approve(events[event_id].scope, event_id)
        return [event_id in events for event_id in wanted]

    return await context.change(request.principal, fill)


def _events(state: ArmState, request: ArmRequest) -> Iterator[Event]:
    """Return the events of the resource: all events of a set, or those that name the machine."""
    kind = _type(request)
    if kind == VMS:
        machine = vms.TYPE.require(state, request.names)
        events = state.scope_of(machine).events.values()
        return (event for event in events if machine.name in event.resources)
    sets = scalesets.TYPE if kind == SCALE_SETS else availability_sets.TYPE
    return (event for scope in sets.require(state, request.names) for event in scope.events.values())


def _type(request: ArmRequest) -> str:
    kind = _TYPES.get(request.names["type"].lower())
    if kind is None:
        message = f"Resources of type {request.names['type']} have no scheduled events."
        raise AzureError(400, "InvalidResourceType", message, "resourceType")
    return kind


_RESOURCE = f"{GROUP_PATH}/{{type}}/{{name}}/providers/Microsoft.Maintenance"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("POST", f"{_RESOURCE}/scheduledevents/{{event}}/acknowledge", acknowledge),
    ArmRoute("POST", f"{_RESOURCE}/scheduledevents", acknowledge_list),
    ArmRoute("GET", f"{_RESOURCE}/updates", updates),
)
