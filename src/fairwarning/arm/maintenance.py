"""Microsoft.Maintenance: approving scheduled events from outside the machine, and what is planned."""

import re
from collections.abc import Iterator, Mapping

from fairwarning.arm import resource_ids
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.context import ArmContext
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.operations import instant
from fairwarning.arm.resource_ids import AVAILABILITY_SETS, GROUPED, SCALE_SETS, VMS
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.commands import Approve
from fairwarning.core.document.render import Json
from fairwarning.core.model import Event, EventId, EventSource, EventType

_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TYPES = {name.lower(): name for name in (VMS, SCALE_SETS, AVAILABILITY_SETS)}
#: What planned maintenance calls the impact of an event.
_IMPACTS: Mapping[EventType, str] = {
    EventType.FREEZE: "Freeze",
    EventType.REBOOT: "Restart",
    EventType.REDEPLOY: "Redeploy",
}


async def acknowledge(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Approve one event."""
    _check_id(call.names["event"])
    if not await _approve(room, call, call.names["event"]):
        raise AzureError(404, "InvalidScheduledEventId", "Scheduled event not found")
    return ArmResponse(body={"value": "Successfully approved scheduled event"})


async def acknowledge_list(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Approve several events; where some are not there the answer says which."""
    asked = get_path(call.fields(), "value")
    if not isinstance(asked, list) or not asked or not all(isinstance(one, str) for one in asked):
        raise invalid("value", "it must be a list of the ids of scheduled events")
    ids = [str(one) for one in asked]
    for one in ids:
        _check_id(one)
    done = [(one, await _approve(room, call, one)) for one in ids]
    if all(approved for _, approved in done):
        return ArmResponse(body={"value": "Successfully approved scheduled events"})
    details: list[Json] = [
        {"target": one, "code": "OK", "message": "Successfully approved scheduled event"}
        if approved
        else {"target": one, "code": "InvalidScheduledEventId", "message": "Scheduled event not found"}
        for one, approved in done
    ]
    message = "Some of the scheduled events could not be approved; the details say which."
    error: Json = {"code": "MultiStatusResponse", "message": message, "details": details}
    return ArmResponse(status=207, body={"error": error})


async def updates(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show the maintenance of the platform that is planned or under way."""
    resource = resource_ids.resource_id(call.names["group"], _type(call), call.names["name"])
    shown: list[Json] = [
        {
            "maintenanceScope": "Host",
            "impactType": _IMPACTS[event.kind],
            "status": "Pending" if event.waiting else "InProgress",
            "impactDurationInSec": max(event.duration, 0),
            "notBefore": instant(event.not_before),
            "properties": {"resourceId": resource},
        }
        for event in _events(room, call)
        if event.source is EventSource.PLATFORM and event.kind in _IMPACTS
    ]
    return ArmResponse(body={"value": shown})


async def _approve(room: ArmContext, call: ArmRequest, event_id: str) -> bool:
    wanted = EventId(event_id.upper())
    event = next((one for one in _events(room, call) if one.id == wanted), None)
    if event is None:
        return False
    await room.handle(Approve(scope=event.scope, ids=(event.id,), by=call.by))
    return True


def _events(room: ArmContext, call: ArmRequest) -> Iterator[Event]:
    """Yield the events of the resource: of a set all, of a machine those that name it."""
    kind = _type(call)
    if kind == VMS:
        machine = resource_ids.require_vm(room, call)
        for event in room.engine.scope(machine.scope).events.values():
            if machine.name in event.resources:
                yield event
        return
    for scope in resource_ids.require(room, kind, call.names["group"], call.names["name"]):
        yield from scope.events.values()


def _type(call: ArmRequest) -> str:
    kind = _TYPES.get(call.names["type"].lower())
    if kind is None:
        message = f"Resources of type {call.names['type']} have no scheduled events."
        raise AzureError(400, "InvalidResourceType", message, "resourceType")
    return kind


def _check_id(event_id: str) -> None:
    if not _GUID.fullmatch(event_id):
        message = f"The scheduled event id {event_id!r} is not a GUID."
        raise AzureError(400, "InvalidScheduledEventId", message, "scheduledEventId")


_RESOURCE = f"{GROUPED}/{{type}}/{{name}}/providers/Microsoft.Maintenance"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("POST", f"{_RESOURCE}/scheduledevents/{{event}}/acknowledge", acknowledge),
    ArmRoute("POST", f"{_RESOURCE}/scheduledevents", acknowledge_list),
    ArmRoute("GET", f"{_RESOURCE}/updates", updates),
)
