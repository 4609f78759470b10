"""Virtual machines: standalone, in an availability set or in a flexible scale set."""

import asyncio
import re
from collections.abc import Mapping
from functools import partial

from fairwarning.arm import groups, resource_ids
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.compute.validation import EventSettings
from fairwarning.arm.context import ArmContext, core_group
from fairwarning.arm.documents import Document, get_path, overlay
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.operations import accepted_response, format_instant
from fairwarning.arm.resource_ids import AVAILABILITY_SETS, GROUP_PATH, SCALE_SETS, SUBSCRIPTION_PATH, VMS
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, MachineChanged
from fairwarning.core.commands import AddMachines, ChangeModel, CreateSet, SetApprovals, Upgrade
from fairwarning.core.model import Machine, MachineModel, Scope, ScopeKind, VmName
from fairwarning.core.scaleset import scale_out
from fairwarning.engine.clock import new_event_id

_IN_SET = re.compile(r"\s*'?virtualMachineScaleSet/id'?\s+eq\s+'([^']+)'\s*", re.IGNORECASE)
_SETS = {"availabilitySet": AVAILABILITY_SETS, "virtualMachineScaleSet": SCALE_SETS}


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a machine."""
    context.require_group(request.names["group"])
    machine = resource_ids.find_vm(context, request.names["group"], request.names["name"])
    if machine is None:
        await _delete_stale_document(context, request)
    return ArmResponse(body=_render(context, resource_ids.require_vm(context, request), request))


async def view(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the instance view of a machine."""
    return ArmResponse(body=render.instance_view(context, resource_ids.require_vm(context, request)))


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a page of the machines, of a group or of all groups."""
    chosen_set = _filter(request)
    machines = [
        (f"{folder}{name}".lower(), partial(_render_named, context, scope, name, request))
        for scope in resource_ids.select_scopes(context, request, VMS)
        if chosen_set in (None, resource_ids.set_id(context, scope).lower())
        for folder in (resource_ids.resource_id(resource_ids.group_name(context, scope), VMS, ""),)
        for name in scope.machines
    ]
    return resource_ids.paginate(request, machines)


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Create or change a machine."""
    group, name = request.names["group"], request.names["name"]
    groups.require_active_group(context, group)
    body = validation.read_body(VMS, request)
    parent = _parent_set(context, request, body)
    async with _lock(context, resource_ids.find_vm(context, group, name), parent, request):
        machine = resource_ids.find_vm(context, group, name)
        if machine is not None:
            return await _change(context, request, machine, body)
        document = _document(context, request, body)
        settings = validation.event_settings(VMS, document)
        if parent is None:
            await _create(context, request, document, settings)
        else:
            await _create_in_set(context, request, parent, document, settings)
        return ArmResponse(status=201, body=_succeeded(context, request))


async def patch(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Change a machine."""
    machine = resource_ids.require_vm(context, request)
    body = validation.read_body(VMS, request)
    async with _lock(context, machine, None, request):
        return await _change(context, request, resource_ids.require_vm(context, request), body)


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a machine, with a warning; 204 if there is none."""
    context.require_group(request.names["group"])
    machine = resource_ids.find_vm(context, request.names["group"], request.names["name"])
    if machine is None:
        await _delete_stale_document(context, request)
        return ArmResponse(status=204)
    identifier = resource_ids.vm_id(context, machine)
    scope = context.engine.scope(machine.scope)
    async with _lock(context, machine, None, request):
        removes = (identifier, render.power_off_key(machine.ref))
        if scope.facts.kind is ScopeKind.STANDALONE:
            operation = await actions.delete_scopes(context, request, identifier, (scope,), removes)
            return accepted_response(context, request, operation)
        operation = await actions.announce(
            context,
            request,
            "delete",
            identifier,
            (machine.ref,),
            force=actions.is_forced(request),
            removes=removes,
        )
    return accepted_response(context, request, operation)


async def act(verb: str, context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Carry out a verb on a machine."""
    machine = resource_ids.require_vm(context, request)
    return await actions.act(context, request, verb, resource_ids.vm_id(context, machine), (machine.ref,))


async def evict(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Evict a Spot machine."""
    return await actions.evict(context, request, (resource_ids.require_vm(context, request).ref,))


def _render_named(context: ArmContext, scope: Scope, name: VmName, request: ArmRequest) -> Document:
    return _render(context, scope.machines[name], request)


def _render(context: ArmContext, machine: Machine, request: ArmRequest) -> Document:
    document = validation.hide_newer_properties(
        VMS, render.virtual_machine(context, machine), request.version
    )
    if (
        "instanceview" in request.query.get("$expand", "").lower()
        or request.query.get("statusOnly") == "true"
    ):
        return render.with_instance_view(document, render.instance_view(context, machine))
    return document


def _filter(request: ArmRequest) -> str | None:
    """Return the id of the scale set in the filter, in lower case; None without a filter."""
    text = request.query.get("$filter")
    if not text:
        return None
    clause = _IN_SET.fullmatch(text)
    if clause is None:
        message = f"The filter {text!r} is not supported: it must be 'virtualMachineScaleSet/id' eq '...'."
        raise AzureError(400, "InvalidFilterInQueryString", message)
    return clause[1].lower()


async def _delete_stale_document(context: ArmContext, request: ArmRequest) -> None:
    group, name = request.names["group"], request.names["name"]
    key = resource_ids.resource_id(group, VMS, name)
    await resource_ids.delete_stale_document(
        context, key, lambda: resource_ids.find_vm(context, group, name) is None
    )


def _document(context: ArmContext, request: ArmRequest, body: Document) -> Document:
    group = context.require_group(request.names["group"])
    defaults: Document = {"location": group["location"], "tags": {}, "properties": {}}
    created: Document = {"timeCreated": format_instant(context.engine.clock.now())}
    identity: Document = {"name": request.names["name"], "properties": created}
    return overlay(overlay(defaults, body), identity)


def _parent_set(context: ArmContext, request: ArmRequest, body: Document) -> tuple[Scope, ...] | None:
    """Return the scopes of the set that a new machine refers to; None for a standalone machine."""
    sets = []
    for member, kind in _SETS.items():
        target = f"properties.{member}"
        reference = resource_ids.parse_reference(get_path(body, "properties", member), kind, target)
        if reference is None:
            continue
        group, name = reference
        scopes = resource_ids.find_scopes(context, kind, group, name)
        if not scopes or group.lower() != request.names["group"].lower():
            message = f"{target} refers to {name}, which is not in resource group {request.names['group']}."
            raise AzureError(400, "InvalidResourceReference", message, target)
        if scopes[0].facts.kind is ScopeKind.SCALE_SET:
            raise invalid(target, "a machine can only be put into a scale set in Flexible orchestration mode")
        sets.append(scopes)
    if len(sets) > 1:
        raise invalid("properties", "a machine is in an availability set or in a scale set, not in both")
    return sets[0] if sets else None


def _lock(
    context: ArmContext, machine: Machine | None, parent: tuple[Scope, ...] | None, request: ArmRequest
) -> asyncio.Lock:
    """Return the lock of the set that a machine is in, or the lock of a standalone machine."""
    scope = parent[0] if parent is not None else None
    if machine is not None:
        scope = context.engine.scope(machine.scope)
    if scope is None or scope.facts.kind is ScopeKind.STANDALONE:
        return context.lock(resource_ids.resource_id(request.names["group"], VMS, request.names["name"]))
    return context.lock(resource_ids.set_id(context, scope))


async def _create(
    context: ArmContext, request: ArmRequest, document: Document, settings: EventSettings
) -> None:
    blueprint = Blueprint(
        name=request.names["name"],
        group=core_group(request.names["group"]),
        kind=ScopeKind.STANDALONE,
        spot=settings.spot,
        eviction=settings.eviction,
        terminate_notice=settings.terminate_notice,
        image_notice=settings.image_notice,
        upgrades_itself=True,
        approvals=settings.approvals,
        tags=settings.tags,
    )
    command = CreateSet(seed=new_event_id(), blueprint=blueprint, by=request.by)
    await context.handle(command, partial(_build_documents, request, document))


async def _create_in_set(
    context: ArmContext,
    request: ArmRequest,
    parent: tuple[Scope, ...],
    document: Document,
    settings: EventSettings,
) -> None:
    _refuse_own_policy(document)
    scope = _choose_scope(parent, validation.get_texts(document, "zones"))
    if scope.facts.kind is ScopeKind.AVAILABILITY_SET:
        await _set_model(context, request, scope, settings)
    else:
        _refuse_own_profile(settings, scope.facts.model)
    command = AddMachines(
        seed=new_event_id(),
        scope=scope.id,
        names=(request.names["name"],),
        spot=settings.spot,
        eviction=settings.eviction,
        tags=settings.tags,
        by=request.by,
    )
    await context.handle(command, partial(_build_documents, request, document))


async def _set_model(context: ArmContext, request: ArmRequest, scope: Scope, settings: EventSettings) -> None:
    """Give the next machine of an availability set its own notices; the other machines keep theirs."""
    model = scope.facts.model
    if (settings.terminate_notice, settings.image_notice) != (model.terminate_notice, model.image_notice):
        await context.handle(_new_model(request, scope, settings))


async def _change(context: ArmContext, request: ArmRequest, machine: Machine, body: Document) -> ArmResponse:
    scope = context.engine.scope(machine.scope)
    after = overlay(render.virtual_machine(context, machine), body)
    settings = validation.event_settings(VMS, after)
    _check_same_set(context, scope, body)
    if settings.spot != machine.spot or (settings.spot and settings.eviction is not machine.eviction):
        raise validation.immutable_property("priority")
    if scope.facts.kind is not ScopeKind.STANDALONE:
        _refuse_own_policy(body)
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        _refuse_own_profile(settings, machine.model)
    await _apply(context, request, scope, machine, settings)
    key = resource_ids.vm_id(context, machine)
    await context.put_documents({key: render.storable(after, "properties")})
    return ArmResponse(body=_succeeded(context, request))


async def _apply(
    context: ArmContext, request: ArmRequest, scope: Scope, machine: Machine, settings: EventSettings
) -> None:
    model = machine.model
    if (settings.terminate_notice, settings.image_notice) != (model.terminate_notice, model.image_notice):
        await context.handle(_new_model(request, scope, settings))
        await context.handle(Upgrade(machines=(machine.ref,), by=request.by))
    is_standalone = scope.facts.kind is ScopeKind.STANDALONE
    if is_standalone and settings.approvals != scope.facts.approvals:
        await context.handle(SetApprovals(scope=scope.id, approvals=settings.approvals, by=request.by))


def _new_model(request: ArmRequest, scope: Scope, settings: EventSettings) -> ChangeModel:
    return ChangeModel(
        scopes=(scope.id,),
        terminate_notice=settings.terminate_notice,
        image_notice=settings.image_notice,
        by=request.by,
    )


def _build_documents(
    request: ArmRequest, document: Document, changes: tuple[Change, ...]
) -> Mapping[str, Document]:
    name = request.names["name"]
    created = (c.machine for c in changes if isinstance(c, MachineChanged) and c.machine.name == name)
    identity: Document = {"properties": {"vmId": next(created).vm_id}}
    key = resource_ids.resource_id(request.names["group"], VMS, name)
    return {key: render.storable(overlay(document, identity), "properties")}


def _succeeded(context: ArmContext, request: ArmRequest) -> Document:
    # A pending restart would make the state "Updating"; the client would wait for that instead.
    succeeded: Document = {"properties": {"provisioningState": "Succeeded"}}
    return overlay(_render(context, resource_ids.require_vm(context, request), request), succeeded)


def _choose_scope(scopes: tuple[Scope, ...], zones: tuple[str, ...]) -> Scope:
    """Return the scope that a new machine joins: that of its zone, or the smallest."""
    candidates = [scope for scope in scopes if scope.facts.zone in zones] if zones else list(scopes)
    if not candidates:
        raise invalid("zones", f"the scale set has no zone {', '.join(zones)}")
    (chosen,) = scale_out(candidates, 1)
    return next(scope for scope in candidates if scope.id == chosen)


def _check_same_set(context: ArmContext, scope: Scope, body: Document) -> None:
    for member, kind in _SETS.items():
        value = get_path(body, "properties", member)
        reference = resource_ids.parse_reference(value, kind, f"properties.{member}")
        if reference is None:
            continue
        group, name = reference
        if resource_ids.resource_id(group, kind, name).lower() != resource_ids.set_id(context, scope).lower():
            raise validation.immutable_property(f"{member}.id")


def _refuse_own_policy(document: Document) -> None:
    if get_path(document, "properties", "scheduledEventsPolicy") is not None:
        message = "A virtual machine in a set cannot have a scheduledEventsPolicy; the set's policy applies."
        raise AzureError(409, "OperationNotAllowed", message, "properties.scheduledEventsPolicy")  # T-22


def _refuse_own_profile(settings: EventSettings, model: MachineModel) -> None:
    if settings.terminate_notice not in (None, model.terminate_notice):
        message = "The scheduledEventsProfile of a virtual machine in a scale set is that of the scale set."
        raise AzureError(409, "OperationNotAllowed", message, "properties.scheduledEventsProfile")


_VERBS = (*actions.POWER_VERBS, *actions.NO_OP_VERBS, "restart", "redeploy", "performMaintenance", "reimage")
_ONE = f"{GROUP_PATH}/{VMS}/{{name}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIPTION_PATH}/{VMS}", list_all),
    ArmRoute("GET", f"{SUBSCRIPTION_PATH}/locations/{{location}}/{VMS}", list_all),
    ArmRoute("GET", f"{GROUP_PATH}/{VMS}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("GET", f"{_ONE}/instanceView", view),
    ArmRoute("POST", f"{_ONE}/simulateEviction", evict),
    *(ArmRoute("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
)
