"""Actions on machines: virtual machines, and instances of sets.

An action that is announced becomes an operation, which lasts until its events are done (L-15). Starting and
stopping are not announced; they happen at once.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from fairwarning.arm import operations
from fairwarning.arm.compute import render
from fairwarning.arm.context import ArmContext
from fairwarning.arm.documents import Document
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.operations import Operation
from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.commands import DeleteScopes, Schedule, SetPower
from fairwarning.core.errors import NotSpotError
from fairwarning.core.model import EventId, MachineRef, PowerState, Scope
from fairwarning.engine.clock import new_event_id

#: The verbs that are announced, and their causes in the core (L-14).
ANNOUNCED_VERBS: Mapping[str, str] = {
    "restart": "restart",
    "redeploy": "redeploy",
    "performMaintenance": "redeploy",
    "reimage": "reimage",
    "reimageall": "reimage",
    "osRollingUpgrade": "reimage",
}
#: The verbs that are not announced, and the power state each leads to.
POWER_VERBS: Mapping[str, PowerState] = {
    "start": PowerState.RUNNING,
    "powerOff": PowerState.STOPPED,
    "deallocate": PowerState.STOPPED,
}
#: The verbs that are accepted and change nothing.
NO_OP_VERBS = ("reapply",)


async def act(
    context: ArmContext,
    request: ArmRequest,
    verb: str,
    resource: str,
    refs: Sequence[MachineRef],
    *,
    all_machines: bool = False,
) -> ArmResponse:
    """Carry out a verb on machines; for ``all_machines`` of a set, stopped machines are skipped."""
    if verb in ANNOUNCED_VERBS:
        if all_machines:
            refs = [ref for ref in refs if context.engine.machine(ref).power is PowerState.RUNNING]
        operation = await announce(context, request, ANNOUNCED_VERBS[verb], resource, refs)
        return operations.accepted_response(context, request, operation)
    if verb in POWER_VERBS:
        await asyncio.gather(*(_set_power(context, request, verb, ref) for ref in refs))
    return ArmResponse(status=200)


async def announce(
    context: ArmContext,
    request: ArmRequest,
    cause: str,
    resource: str,
    refs: Sequence[MachineRef],
    *,
    force: bool = False,
    removes: tuple[str, ...] = (),
) -> Operation:
    """Announce a cause and return its operation; the operation of a delete includes pending deletes."""
    pending = pending_deletes(context, refs) if cause == "delete" else {}
    # T-09: a forced delete also speeds up the deletes that are pending.
    affected = tuple(ref for ref in refs if force or ref not in pending)
    start = Operation(
        id=new_event_id().lower(),
        started_at=operations.format_instant(context.engine.clock.now()),
        events=tuple(sorted(set(pending.values()))),
        resource=resource,
        removes=removes,
    )
    if not affected:
        await context.put_documents({start.key: start.document()})
        return start
    command = Schedule(id=new_event_id(), cause=cause, machines=affected, force=force, by=request.by)
    changes = await context.handle(command, lambda changes: _documents(start, changes, affected, cause))
    return with_events_of(start, changes, affected, cause)


async def delete_scopes(
    context: ArmContext, request: ArmRequest, resource: str, scopes: Sequence[Scope], removes: tuple[str, ...]
) -> Operation:
    """Delete whole scopes and return the operation that lasts until they are gone."""
    refs = [ref for scope in scopes for ref in scope.refs()]
    start = Operation(
        id=new_event_id().lower(),
        started_at=operations.format_instant(context.engine.clock.now()),
        events=tuple(sorted(set(pending_deletes(context, refs).values()))),
        resource=resource,
        removes=removes,
    )
    ids = tuple(scope.id for scope in scopes)
    command = DeleteScopes(id=new_event_id(), scopes=ids, force=is_forced(request), by=request.by)
    changes = await context.handle(command, lambda changes: _documents(start, changes, refs, "delete"))
    return with_events_of(start, changes, refs, "delete")


async def evict(context: ArmContext, request: ArmRequest, refs: Sequence[MachineRef]) -> ArmResponse:
    """Evict Spot machines, to test how they react (T-24)."""
    command = Schedule(id=new_event_id(), cause="evict", machines=tuple(refs), by=request.by)
    try:
        await context.handle(command)
    except NotSpotError:
        message = "Operation 'simulateEviction' is allowed only for Spot Virtual Machines"
        raise AzureError(409, "OperationNotAllowed", message) from None
    return ArmResponse(status=204)


def pending_deletes(context: ArmContext, refs: Iterable[MachineRef]) -> dict[MachineRef, EventId]:
    """Return the pending deletes, by machine."""
    machines = set(refs)
    return {
        MachineRef(scope.id, name): event.id
        for scope in (context.engine.scopes().get(scope_id) for scope_id in {ref.scope for ref in machines})
        if scope is not None
        for event in scope.events.values()
        if event.cause == "delete"
        for name in event.resources
        if MachineRef(scope.id, name) in machines
    }


def with_events_of(
    start: Operation, changes: Iterable[Change], refs: Iterable[MachineRef], cause: str
) -> Operation:
    """Return an operation that also waits for the events of a cause on these machines."""
    machines = set(refs)
    events = {
        change.event.id
        for change in changes
        if isinstance(change, EventChanged) and change.event.cause == cause
        if any(MachineRef(change.scope, name) in machines for name in change.event.resources)
    }
    return Operation(
        id=start.id,
        started_at=start.started_at,
        events=tuple(sorted({*start.events, *events})),
        resource=start.resource,
        removes=start.removes,
    )


def is_forced(request: ArmRequest) -> bool:
    """Whether a delete does not wait for approvals (T-09)."""
    return request.query.get("forceDeletion", "").lower() == "true"


def _documents(
    start: Operation, changes: tuple[Change, ...], refs: Sequence[MachineRef], cause: str
) -> dict[str, Document | None]:
    operation = with_events_of(start, changes, refs, cause)
    return {operation.key: operation.document()}


async def _set_power(context: ArmContext, request: ArmRequest, verb: str, ref: MachineRef) -> None:
    key = render.power_off_key(ref)
    marker: Document = {"vmId": context.engine.machine(ref).vm_id}
    documents: Mapping[str, Document | None] = {key: marker if verb == "powerOff" else None}
    await context.handle(
        SetPower(machine=ref, power=POWER_VERBS[verb], by=request.by), lambda changes: documents
    )
