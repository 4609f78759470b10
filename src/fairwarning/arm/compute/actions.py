"""Actions on machines: virtual machines, and instances of sets.

An action that is announced becomes an operation, which lasts until its events are done (L-15). Starting and
stopping are not announced; they happen at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairwarning.arm import operations
from fairwarning.arm.compute import older_documents, render, validation
from fairwarning.arm.context import Edit
from fairwarning.arm.documents import Document, get_path, without
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.resource_ids import machine_id, set_id
from fairwarning.arm.state import ArmState
from fairwarning.core.errors import NotRunningError
from fairwarning.core.model import EventId, Machine, MachineRef, PowerState, Scope

#: The verbs that are announced, and their causes in the core (L-14).
ANNOUNCED_VERBS: Mapping[str, str] = {
    "restart": "restart",
    "redeploy": "redeploy",
    "performMaintenance": "redeploy",
    "reimage": "reimage",
    "reimageall": "reimage",
    "osRollingUpgrade": "reimage",
    "delete": "delete",
}
#: The verbs that are not announced, and the power state each leads to.
POWER_VERBS: Mapping[str, PowerState] = {
    "start": PowerState.RUNNING,
    "powerOff": PowerState.STOPPED,
    "deallocate": PowerState.STOPPED,
}
UPGRADE = "manualupgrade"
#: The verbs that machines with a pending delete accept, too.
_UNTIL_GONE = ("delete", UPGRADE)
EVICT = "simulateEviction"
CANCEL_UPGRADE = "rollingUpgrades/cancel"
#: The verbs of a single machine, and of a scale set; ``reapply`` is accepted and changes nothing.
MACHINE_VERBS = (*POWER_VERBS, "reapply", "restart", "redeploy", "performMaintenance", "reimage", EVICT)
SET_VERBS = (*ANNOUNCED_VERBS, *POWER_VERBS, "reapply", UPGRADE, CANCEL_UPGRADE)


class Selection(NamedTuple):
    """The machines that an action concerns."""

    refs: Sequence[MachineRef]
    #: Whether these are all machines of a set, of which stopped ones are skipped.
    all: bool = False


def act(edit: Edit, request: ArmRequest, verb: str, resource: str, selection: Selection) -> str | None:
    """Carry out a verb on machines of a resource; return the id of its operation, if it has one."""
    if verb == CANCEL_UPGRADE:
        _cancel_upgrade(edit, resource)
        return operations.over_at_once(edit)
    refs = selection.refs if verb in _UNTIL_GONE else _unmarked(edit.state, verb, selection)
    if verb in ANNOUNCED_VERBS:
        if verb != "delete":
            refs = _not_stopped(edit.state, verb, refs, skip=selection.all)
        force = verb == "delete" and _is_forced(request)
        operation = announce(edit, ANNOUNCED_VERBS[verb], resource, refs, force=force)
        if verb == "osRollingUpgrade":
            edit.put({_upgrade_key(resource): {"operation": operation}})
        return operation
    if verb == EVICT:
        if not all(edit.state.view.machine_at(ref).spot for ref in refs):
            message = "Operation 'simulateEviction' is allowed only for Spot Virtual Machines"
            raise AzureError(409, "OperationNotAllowed", message)  # T-24
        edit.draft.cause("evict", refs)
        return None
    if verb in POWER_VERBS:
        for ref in refs:
            edit.draft.set_power(ref, POWER_VERBS[verb], allocated=verb == "powerOff")
            older_documents.forget_marker(edit, ref)
    if verb == UPGRADE:
        edit.draft.upgrade(refs)
    return operations.over_at_once(edit)


def _cancel_upgrade(edit: Edit, resource: str) -> None:
    """Cancel what is announced and not started of the last rolling upgrade of a set (T-36)."""
    upgrade = edit.state.document(_upgrade_key(resource))
    events = operations.pending_events(edit.state, str(get_path(upgrade, "operation")))
    if not events:
        message = "There is no ongoing Rolling Upgrade to cancel."
        raise AzureError(409, "OperationNotAllowed", message)
    for event in events:
        if event.waiting:
            edit.draft.cancel(event.scope, event.id)


def _upgrade_key(resource: str) -> str:
    return f"{resource}/rollingUpgrade"


def _unmarked(state: ArmState, verb: str, selection: Selection) -> list[MachineRef]:
    """Return the machines without a pending delete; a machine that was named must not have one."""
    marked = _pending_deletes(state, selection.refs)
    if marked and not selection.all:
        message = (
            f"Operation '{verb}' is not allowed on VM '{next(iter(marked)).name}' since the VM is marked for "
            "deletion. You can only retry the Delete operation (or wait for an ongoing one to complete)."
        )
        raise AzureError(409, "OperationNotAllowed", message)
    return [ref for ref in selection.refs if ref not in marked]


def _not_stopped(state: ArmState, verb: str, refs: Iterable[MachineRef], *, skip: bool) -> list[MachineRef]:
    """Return the machines whose power allows a verb (L-20); refuse the others, or skip them."""
    able: list[MachineRef] = []
    for machine in map(state.view.machine_at, refs):
        power, _ = render.power_state(state, machine)
        if power == "running" or (power == "stopped" and verb == "redeploy"):
            able.append(machine.ref)
        elif not skip:
            raise NotRunningError(machine.name)
    return able


def announce(
    edit: Edit, cause: str, resource: str, refs: Iterable[MachineRef], *, force: bool = False
) -> str:
    """Announce a cause and return its operation; the operation of a delete includes pending deletes."""
    pending = _pending_deletes(edit.state, refs) if cause == "delete" else {}
    # T-09: a forced delete also speeds up the deletes that are pending.
    affected = tuple(ref for ref in refs if force or ref not in pending)
    if affected:
        edit.draft.cause(cause, affected, force=force)
    return operations.start(edit, resource, cause, affected, pending.values())


def move_tags(edit: Edit, machine: Machine, document: Document) -> Document:
    """Give a machine the tags of its changed document, and return the document without a copy of them."""
    tags = validation.tags_of(document)
    if dict(tags) != dict(machine.tags):
        edit.draft.set_tags(machine.ref, tags)
    return without(document, "tags")


def delete_machine(edit: Edit, request: ArmRequest, machine: Machine) -> str:
    """Delete a machine and return the operation that lasts until it is gone."""
    resource, force = machine_id(edit.state, machine), _is_forced(request)
    return announce(edit, "delete", resource, (machine.ref,), force=force)


def delete_set(edit: Edit, request: ArmRequest, scopes: Sequence[Scope]) -> str:
    """Delete all scopes of a set and return the operation that lasts until they are gone."""
    edit.draft.delete_scopes([scope.id for scope in scopes], force=_is_forced(request))
    return wait_for_deletes(edit, set_id(edit.state, scopes[0]), scopes)


def wait_for_deletes(edit: Edit, resource: str, scopes: Iterable[Scope]) -> str:
    """Return an operation that lasts until all machines of scopes are gone."""
    refs = [ref for scope in scopes for ref in scope.refs()]
    return operations.start(edit, resource, "delete", refs, _pending_deletes(edit.state, refs).values())


def _pending_deletes(state: ArmState, refs: Iterable[MachineRef]) -> dict[MachineRef, EventId]:
    """Return the pending deletes, by machine."""
    machines = set(refs)
    return {
        MachineRef(scope.id, name): event.id
        for scope in (state.view.find_scope(scope_id) for scope_id in {ref.scope for ref in machines})
        if scope is not None
        for event in scope.events.values()
        if event.cause == "delete"
        for name in event.resources
        if MachineRef(scope.id, name) in machines
    }


def _is_forced(request: ArmRequest) -> bool:
    """Whether a delete does not wait for approvals (T-09)."""
    return request.query.get("forceDeletion", "").lower() == "true"
