"""What is done to machines, whether they are resources of their own or instances of a set.

Whatever is announced is an operation that az waits for until its events are done (L-15); stopping and
starting is done on the spot.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from fairwarning.arm import operations
from fairwarning.arm.call import ArmRequest, ArmResponse
from fairwarning.arm.compute import render
from fairwarning.arm.context import ArmContext, Document
from fairwarning.arm.errors import AzureError
from fairwarning.arm.operations import Operation
from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.commands import DeleteScopes, Schedule, SetPower
from fairwarning.core.errors import NotSpotError
from fairwarning.core.model import EventId, MachineRef, PowerState, Scope
from fairwarning.engine.clock import new_event_id

#: The verbs that are announced, and what the core calls each (L-14).
ANNOUNCED: Mapping[str, str] = {
    "restart": "restart",
    "redeploy": "redeploy",
    "performMaintenance": "redeploy",
    "reimage": "reimage",
    "reimageall": "reimage",
    "osRollingUpgrade": "reimage",
}
#: The verbs that are not.
SWITCHED: Mapping[str, PowerState] = {
    "start": PowerState.RUNNING,
    "powerOff": PowerState.STOPPED,
    "deallocate": PowerState.STOPPED,
}
#: What changes nothing here.
IDLE = ("reapply",)


async def act(
    room: ArmContext,
    call: ArmRequest,
    verb: str,
    resource: str,
    refs: Sequence[MachineRef],
    *,
    everybody: bool = False,
) -> ArmResponse:
    """Do to machines what a verb says, and answer; where it is for everybody, the stopped are left alone."""
    if verb in ANNOUNCED:
        if everybody:
            refs = [ref for ref in refs if room.engine.machine(ref).power is PowerState.RUNNING]
        operation = await announce(room, call, ANNOUNCED[verb], resource, refs)
        return operations.accepted(room, call, operation)
    if verb in SWITCHED:
        await asyncio.gather(*(_switch(room, call, verb, ref) for ref in refs))
    return ArmResponse(status=200)


async def announce(
    room: ArmContext,
    call: ArmRequest,
    cause: str,
    resource: str,
    refs: Sequence[MachineRef],
    *,
    force: bool = False,
    removes: tuple[str, ...] = (),
) -> Operation:
    """Cause something and return the operation that waits for it; a delete waits for those under way too."""
    under_way = pending_deletes(room, refs) if cause == "delete" else {}
    # T-09: who forces a delete hastens those that wait already.
    left = tuple(ref for ref in refs if force or ref not in under_way)
    start = Operation(
        id=new_event_id().lower(),
        started_at=operations.instant(room.engine.clock.now()),
        events=tuple(sorted(set(under_way.values()))),
        resource=resource,
        removes=removes,
    )
    if not left:
        await room.keep({start.key: start.document()})
        return start
    command = Schedule(id=new_event_id(), cause=cause, machines=left, force=force, by=call.by)
    changes = await room.handle(command, lambda changes: _kept(start, changes, left, cause))
    return joined(start, changes, left, cause)


async def remove(
    room: ArmContext, call: ArmRequest, resource: str, scopes: Sequence[Scope], removes: tuple[str, ...]
) -> Operation:
    """Delete whole scopes and return the operation that waits until they are gone."""
    refs = [ref for scope in scopes for ref in scope.refs()]
    start = Operation(
        id=new_event_id().lower(),
        started_at=operations.instant(room.engine.clock.now()),
        events=tuple(sorted(set(pending_deletes(room, refs).values()))),
        resource=resource,
        removes=removes,
    )
    ids = tuple(scope.id for scope in scopes)
    command = DeleteScopes(id=new_event_id(), scopes=ids, force=forced(call), by=call.by)
    changes = await room.handle(command, lambda changes: _kept(start, changes, refs, "delete"))
    return joined(start, changes, refs, "delete")


async def evict(room: ArmContext, call: ArmRequest, refs: Sequence[MachineRef]) -> ArmResponse:
    """Evict Spot machines, as a test of what they make of it (T-24)."""
    command = Schedule(id=new_event_id(), cause="evict", machines=tuple(refs), by=call.by)
    try:
        await room.handle(command)
    except NotSpotError:
        message = "Operation 'simulateEviction' is allowed only for Spot Virtual Machines"
        raise AzureError(409, "OperationNotAllowed", message) from None
    return ArmResponse(status=204)


def pending_deletes(room: ArmContext, refs: Iterable[MachineRef]) -> dict[MachineRef, EventId]:
    """Return the deletes that are under way, by machine."""
    asked = set(refs)
    return {
        MachineRef(scope.id, name): event.id
        for scope in (room.engine.scopes().get(one) for one in {ref.scope for ref in asked})
        if scope is not None
        for event in scope.events.values()
        if event.cause == "delete"
        for name in event.resources
        if MachineRef(scope.id, name) in asked
    }


def joined(start: Operation, changes: Iterable[Change], refs: Iterable[MachineRef], cause: str) -> Operation:
    """Return an operation that waits for what a decision has begun as well."""
    asked = set(refs)
    events = {
        change.event.id
        for change in changes
        if isinstance(change, EventChanged) and change.event.cause == cause
        if any(MachineRef(change.scope, name) in asked for name in change.event.resources)
    }
    return Operation(
        id=start.id,
        started_at=start.started_at,
        events=tuple(sorted({*start.events, *events})),
        resource=start.resource,
        removes=start.removes,
    )


def forced(call: ArmRequest) -> bool:
    """Whether a delete is not to wait for anybody (T-09)."""
    return call.query.get("forceDeletion", "").lower() == "true"


def _kept(
    start: Operation, changes: tuple[Change, ...], refs: Sequence[MachineRef], cause: str
) -> dict[str, Document | None]:
    operation = joined(start, changes, refs, cause)
    return {operation.key: operation.document()}


async def _switch(room: ArmContext, call: ArmRequest, verb: str, ref: MachineRef) -> None:
    mark = render.switched_off(ref)
    off: Document = {"vmId": room.engine.machine(ref).vm_id}
    noted: Mapping[str, Document | None] = {mark: off if verb == "powerOff" else None}
    await room.handle(SetPower(machine=ref, power=SWITCHED[verb], by=call.by), lambda changes: noted)
