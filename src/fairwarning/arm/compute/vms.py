"""Virtual machines: alone, in an availability set or in a flexible scale set."""

import asyncio
import re
from collections.abc import Mapping
from functools import partial

from fairwarning.arm import groups, resource_ids
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.compute.validation import EventSettings
from fairwarning.arm.context import ArmContext, Document, core_group
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.operations import accepted, instant
from fairwarning.arm.resource_ids import AVAILABILITY_SETS, GROUPED, SCALE_SETS, SUBSCRIBED, VMS
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, MachineChanged
from fairwarning.core.commands import AddMachines, ChangeModel, CreateSet, SetApprovals, Upgrade
from fairwarning.core.model import Machine, MachineModel, Scope, ScopeKind, VmName
from fairwarning.core.scaleset import scale_out
from fairwarning.engine.clock import new_event_id

_IN_SET = re.compile(r"\s*'?virtualMachineScaleSet/id'?\s+eq\s+'([^']+)'\s*", re.IGNORECASE)
_SETS = {"availabilitySet": AVAILABILITY_SETS, "virtualMachineScaleSet": SCALE_SETS}


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a machine."""
    room.group(call.names["group"])
    machine = resource_ids.vm(room, call.names["group"], call.names["name"])
    if machine is None:
        await _forget(room, call)
    return ArmResponse(body=_shown(room, resource_ids.require_vm(room, call), call))


async def view(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show how a machine is doing."""
    return ArmResponse(body=render.instance_view(room, resource_ids.require_vm(room, call)))


async def list_all(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a page of the machines of a group, or of all."""
    home = _filter(call)
    found = [
        (f"{folder}{name}".lower(), partial(_listed, room, scope, name, call))
        for scope in resource_ids.wanted(room, call, VMS)
        if home in (None, resource_ids.set_id(room, scope).lower())
        for folder in (resource_ids.resource_id(resource_ids.group_name(room, scope), VMS, ""),)
        for name in scope.machines
    ]
    return resource_ids.page(call, found)


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Bring a machine up, or change the one that is there."""
    group, name = call.names["group"], call.names["name"]
    groups.require_active_group(room, group)
    body = validation.read(VMS, call)
    home = _home(room, call, body)
    async with _lock(room, resource_ids.vm(room, group, name), home, call):
        machine = resource_ids.vm(room, group, name)
        if machine is not None:
            return await _change(room, call, machine, body)
        document = _document(room, call, body)
        wishes = validation.event_settings(VMS, document)
        if home is None:
            await _make(room, call, document, wishes)
        else:
            await _join(room, call, home, document, wishes)
        return ArmResponse(status=201, body=_answer(room, call))


async def patch(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Change a machine."""
    machine = resource_ids.require_vm(room, call)
    body = validation.read(VMS, call)
    async with _lock(room, machine, None, call):
        return await _change(room, call, resource_ids.require_vm(room, call), body)


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Delete a machine, with its warning; one that is not there is gone already."""
    room.group(call.names["group"])
    machine = resource_ids.vm(room, call.names["group"], call.names["name"])
    if machine is None:
        await _forget(room, call)
        return ArmResponse(status=204)
    identifier = resource_ids.vm_id(room, machine)
    scope = room.engine.scope(machine.scope)
    async with _lock(room, machine, None, call):
        removes = (identifier, render.switched_off(machine.ref))
        if scope.facts.kind is ScopeKind.STANDALONE:
            operation = await actions.remove(room, call, identifier, (scope,), removes)
            return accepted(room, call, operation)
        operation = await actions.announce(
            room,
            call,
            "delete",
            identifier,
            (machine.ref,),
            force=actions.forced(call),
            removes=removes,
        )
    return accepted(room, call, operation)


async def act(verb: str, room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Do to a machine what a verb says."""
    machine = resource_ids.require_vm(room, call)
    return await actions.act(room, call, verb, resource_ids.vm_id(room, machine), (machine.ref,))


async def evict(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Evict a Spot machine."""
    return await actions.evict(room, call, (resource_ids.require_vm(room, call).ref,))


def _listed(room: ArmContext, scope: Scope, name: VmName, call: ArmRequest) -> Document:
    return _shown(room, scope.machines[name], call)


def _shown(room: ArmContext, machine: Machine, call: ArmRequest) -> Document:
    document = validation.hide(VMS, render.virtual_machine(room, machine), call.version)
    if "instanceview" in call.query.get("$expand", "").lower() or call.query.get("statusOnly") == "true":
        return render.expanded(document, render.instance_view(room, machine))
    return document


def _filter(call: ArmRequest) -> str | None:
    """Return the scale set whose machines are asked for, in lower case; None means any."""
    text = call.query.get("$filter")
    if not text:
        return None
    found = _IN_SET.fullmatch(text)
    if found is None:
        message = f"The filter {text!r} is not supported: it must be 'virtualMachineScaleSet/id' eq '...'."
        raise AzureError(400, "InvalidFilterInQueryString", message)
    return found[1].lower()


async def _forget(room: ArmContext, call: ArmRequest) -> None:
    group, name = call.names["group"], call.names["name"]
    gone = partial(resource_ids.vm, room, group, name)
    await resource_ids.drop(room, resource_ids.resource_id(group, VMS, name), lambda: gone() is None)


def _document(room: ArmContext, call: ArmRequest, body: Document) -> Document:
    group = room.group(call.names["group"])
    bare: Document = {"location": group["location"], "tags": {}, "properties": {}}
    made: Document = {"timeCreated": instant(room.engine.clock.now())}
    named: Document = {"name": call.names["name"], "properties": made}
    return render.overlay(render.overlay(bare, body), named)


def _home(room: ArmContext, call: ArmRequest, body: Document) -> tuple[Scope, ...] | None:
    """Return the scopes of the set a machine is put into; None for one that stands alone."""
    found = []
    for member, kind in _SETS.items():
        target = f"properties.{member}"
        where = resource_ids.reference(get_path(body, "properties", member), kind, target)
        if where is None:
            continue
        scopes = resource_ids.scopes(room, kind, *where)
        if not scopes or where[0].lower() != call.names["group"].lower():
            message = f"{target} refers to {where[1]}, which is not in resource group {call.names['group']}."
            raise AzureError(400, "InvalidResourceReference", message, target)
        if scopes[0].facts.kind is ScopeKind.SCALE_SET:
            raise invalid(target, "a machine can only be put into a scale set in Flexible orchestration mode")
        found.append(scopes)
    if len(found) > 1:
        raise invalid("properties", "a machine is in an availability set or in a scale set, not in both")
    return found[0] if found else None


def _lock(
    room: ArmContext, machine: Machine | None, home: tuple[Scope, ...] | None, call: ArmRequest
) -> asyncio.Lock:
    """Return what keeps changes apart: those of one machine, or those of one set."""
    scope = home[0] if home is not None else None
    if machine is not None:
        scope = room.engine.scope(machine.scope)
    if scope is None or scope.facts.kind is ScopeKind.STANDALONE:
        return room.lock(resource_ids.resource_id(call.names["group"], VMS, call.names["name"]))
    return room.lock(resource_ids.set_id(room, scope))


async def _make(room: ArmContext, call: ArmRequest, document: Document, wishes: EventSettings) -> None:
    blueprint = Blueprint(
        name=call.names["name"],
        group=core_group(call.names["group"]),
        kind=ScopeKind.STANDALONE,
        spot=wishes.spot,
        eviction=wishes.eviction,
        terminate_notice=wishes.terminate_notice,
        image_notice=wishes.image_notice,
        upgrades_itself=True,
        approvals=wishes.approvals,
        tags=wishes.tags,
    )
    command = CreateSet(seed=new_event_id(), blueprint=blueprint, by=call.by)
    await room.handle(command, partial(_keeping, call, document))


async def _join(
    room: ArmContext, call: ArmRequest, home: tuple[Scope, ...], document: Document, wishes: EventSettings
) -> None:
    _no_policy_of_its_own(document)
    scope = _zone(home, validation.texts(document, "zones"))
    if scope.facts.kind is ScopeKind.AVAILABILITY_SET:
        await _prepare(room, call, scope, wishes)
    else:
        _set_decides(wishes, scope.facts.model)
    command = AddMachines(
        seed=new_event_id(),
        scope=scope.id,
        names=(call.names["name"],),
        spot=wishes.spot,
        eviction=wishes.eviction,
        tags=wishes.tags,
        by=call.by,
    )
    await room.handle(command, partial(_keeping, call, document))


async def _prepare(room: ArmContext, call: ArmRequest, scope: Scope, wishes: EventSettings) -> None:
    """Let the next machine of an availability set have the notices it wants; the others keep theirs."""
    model = scope.facts.model
    if (wishes.terminate_notice, wishes.image_notice) != (model.terminate_notice, model.image_notice):
        await room.handle(_new_model(call, scope, wishes))


async def _change(room: ArmContext, call: ArmRequest, machine: Machine, body: Document) -> ArmResponse:
    scope = room.engine.scope(machine.scope)
    after = render.overlay(render.virtual_machine(room, machine), body)
    wishes = validation.event_settings(VMS, after)
    _stays(room, scope, body)
    if wishes.spot != machine.spot or (wishes.spot and wishes.eviction is not machine.eviction):
        raise validation.fixed("priority")
    if scope.facts.kind is not ScopeKind.STANDALONE:
        _no_policy_of_its_own(body)
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        _set_decides(wishes, machine.model)
    await _apply(room, call, scope, machine, wishes)
    key = resource_ids.vm_id(room, machine)
    await room.keep({key: render.storable(after, "properties")})
    return ArmResponse(body=_answer(room, call))


async def _apply(
    room: ArmContext, call: ArmRequest, scope: Scope, machine: Machine, wishes: EventSettings
) -> None:
    model = machine.model
    if (wishes.terminate_notice, wishes.image_notice) != (model.terminate_notice, model.image_notice):
        await room.handle(_new_model(call, scope, wishes))
        await room.handle(Upgrade(machines=(machine.ref,), by=call.by))
    lone = scope.facts.kind is ScopeKind.STANDALONE
    if lone and wishes.approvals != scope.facts.approvals:
        await room.handle(SetApprovals(scope=scope.id, approvals=wishes.approvals, by=call.by))


def _new_model(call: ArmRequest, scope: Scope, wishes: EventSettings) -> ChangeModel:
    return ChangeModel(
        scopes=(scope.id,),
        terminate_notice=wishes.terminate_notice,
        image_notice=wishes.image_notice,
        by=call.by,
    )


def _keeping(call: ArmRequest, document: Document, changes: tuple[Change, ...]) -> Mapping[str, Document]:
    name = call.names["name"]
    made = (c.machine for c in changes if isinstance(c, MachineChanged) and c.machine.name == name)
    known: Document = {"properties": {"vmId": next(made).vm_id}}
    key = resource_ids.resource_id(call.names["group"], VMS, name)
    return {key: render.storable(render.overlay(document, known), "properties")}


def _answer(room: ArmContext, call: ArmRequest) -> Document:
    # A client would wait for what is under way already, which is not what it has asked for.
    settled: Document = {"properties": {"provisioningState": "Succeeded"}}
    return render.overlay(_shown(room, resource_ids.require_vm(room, call), call), settled)


def _zone(scopes: tuple[Scope, ...], zones: tuple[str, ...]) -> Scope:
    """Return the scope of a set that a new machine goes to: its zone's, or the emptiest."""
    wanted = [scope for scope in scopes if scope.facts.zone in zones] if zones else list(scopes)
    if not wanted:
        raise invalid("zones", f"the scale set has no zone {', '.join(zones)}")
    (chosen,) = scale_out(wanted, 1)
    return next(scope for scope in wanted if scope.id == chosen)


def _stays(room: ArmContext, scope: Scope, body: Document) -> None:
    for member, kind in _SETS.items():
        where = resource_ids.reference(get_path(body, "properties", member), kind, f"properties.{member}")
        if (
            where is not None
            and resource_ids.resource_id(where[0], kind, where[1]).lower()
            != resource_ids.set_id(room, scope).lower()
        ):
            raise validation.fixed(f"{member}.id")


def _no_policy_of_its_own(document: Document) -> None:
    if get_path(document, "properties", "scheduledEventsPolicy") is not None:
        message = "A virtual machine in a set has no scheduledEventsPolicy of its own; the set's rules."
        raise AzureError(409, "OperationNotAllowed", message, "properties.scheduledEventsPolicy")  # T-22


def _set_decides(wishes: EventSettings, model: MachineModel) -> None:
    if wishes.terminate_notice not in (None, model.terminate_notice):
        message = "The scheduledEventsProfile of a virtual machine in a scale set is that of the scale set."
        raise AzureError(409, "OperationNotAllowed", message, "properties.scheduledEventsProfile")


_VERBS = (*actions.SWITCHED, *actions.IDLE, "restart", "redeploy", "performMaintenance", "reimage")
_ONE = f"{GROUPED}/{VMS}/{{name}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIBED}/{VMS}", list_all),
    ArmRoute("GET", f"{SUBSCRIBED}/locations/{{location}}/{VMS}", list_all),
    ArmRoute("GET", f"{GROUPED}/{VMS}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("GET", f"{_ONE}/instanceView", view),
    ArmRoute("POST", f"{_ONE}/simulateEviction", evict),
    *(ArmRoute("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
)
