"""Scale sets, uniform and flexible: their models, their capacity, and actions on their instances."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from fairwarning.arm import groups, operations, resource_ids
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.compute.validation import EventSettings
from fairwarning.arm.context import ArmContext, core_group
from fairwarning.arm.documents import Document, get_path, overlay
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.operations import Operation, accepted_response, format_instant
from fairwarning.arm.resource_ids import GROUP_PATH, SCALE_SETS, SUBSCRIPTION_PATH
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint, instance_name
from fairwarning.core.commands import AddMachines, ChangeModel, CreateSet, SetApprovals, Upgrade
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, MachineRef, Scope, ScopeKind
from fairwarning.core.scaleset import remaining, scale_in, scale_out
from fairwarning.engine.clock import new_event_id

_SELF_UPGRADING = ("Automatic", "Rolling")
_EVENTS_PROFILE = "scheduledeventsprofile"
#: The members that cannot be changed, and their defaults.
_IMMUTABLE: Mapping[tuple[str, ...], Json] = {
    ("properties", "orchestrationMode"): "Uniform",
    ("properties", "virtualMachineProfile", "priority"): "Regular",
    ("properties", "virtualMachineProfile", "evictionPolicy"): "Deallocate",
    ("properties", "platformFaultDomainCount"): None,
    ("zones",): [],
}


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a scale set."""
    group, name = request.names["group"], request.names["name"]
    if not resource_ids.find_scopes(context, SCALE_SETS, group, name):
        await _delete_stale_document(context, request)
    return _response(context, request, 200)


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a page of the scale sets, of a group or of all groups."""
    sets: dict[str, list[Scope]] = {}
    for scope in resource_ids.select_scopes(context, request, SCALE_SETS):
        sets.setdefault(resource_ids.set_id(context, scope).lower(), []).append(scope)
    return resource_ids.paginate(
        request, [(key, partial(_render, context, request, scopes)) for key, scopes in sets.items()]
    )


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Create or change a scale set."""
    group, name = request.names["group"], request.names["name"]
    groups.require_active_group(context, group)
    body = validation.read_body(SCALE_SETS, request)
    async with context.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        scopes = resource_ids.find_scopes(context, SCALE_SETS, group, name)
        if scopes:
            return await _change(context, request, scopes, body)
        await _create(context, request, body)
        return _response(context, request, 201)


async def patch(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Change a scale set."""
    group, name = request.names["group"], request.names["name"]
    body = validation.read_body(SCALE_SETS, request)
    async with context.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        return await _change(context, request, resource_ids.require(context, SCALE_SETS, group, name), body)


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a scale set and its instances, with a warning; 204 if there is none."""
    group, name = request.names["group"], request.names["name"]
    context.require_group(group)
    key = resource_ids.resource_id(group, SCALE_SETS, name)
    async with context.lock(key):
        scopes = resource_ids.find_scopes(context, SCALE_SETS, group, name)
        if scopes:
            identifier = resource_ids.set_id(context, scopes[0])
            operation = await actions.delete_scopes(
                context, request, identifier, scopes, (identifier, f"{identifier}/")
            )
            return accepted_response(context, request, operation)
    await _delete_stale_document(context, request)
    return ArmResponse(status=204)


async def act(verb: str, context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Carry out a verb on some instances, or on all."""
    scopes = resource_ids.require(context, SCALE_SETS, request.names["group"], request.names["name"])
    ids = _instance_ids(request)
    all_machines = not ids or "*" in ids
    refs = _refs(scopes, ids)
    return await actions.act(
        context, request, verb, resource_ids.set_id(context, scopes[0]), refs, all_machines=all_machines
    )


async def delete_instances(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete instances, with a warning; the capacity falls at once (T-16)."""
    group, name = request.names["group"], request.names["name"]
    async with context.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        scopes = resource_ids.require(context, SCALE_SETS, group, name)
        refs = _refs(scopes, _required_instance_ids(request))
        identifier = resource_ids.set_id(context, scopes[0])
        operation = await actions.announce(
            context, request, "delete", identifier, refs, force=actions.is_forced(request)
        )
    return accepted_response(context, request, operation)


async def upgrade(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Upgrade instances to the latest model of their set."""
    group, name = request.names["group"], request.names["name"]
    async with context.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        refs = _refs(resource_ids.require(context, SCALE_SETS, group, name), _required_instance_ids(request))
        await context.handle(Upgrade(machines=refs, by=request.by))
    return ArmResponse(status=200)


async def view(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the instance view of a scale set."""
    scopes = resource_ids.require(context, SCALE_SETS, request.names["group"], request.names["name"])
    counts: dict[str, int] = {}
    for scope in scopes:
        for machine in scope.machines.values():
            code = f"ProvisioningState/{render.provisioning_state(scope, machine).lower()}"
            counts[code] = counts.get(code, 0) + 1
    summary: list[Json] = [{"code": code, "count": count} for code, count in counts.items()]
    status: Document = {
        "code": "ProvisioningState/succeeded",
        "level": "Info",
        "displayStatus": "Provisioning succeeded",
        "time": format_instant(context.engine.clock.now()),
    }
    return ArmResponse(body={"virtualMachine": {"statusesSummary": summary}, "statuses": [status]})


async def list_nothing(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a list that is always empty."""
    resource_ids.require(context, SCALE_SETS, request.names["group"], request.names["name"])
    return ArmResponse(body={"value": []})


def find_instance(scopes: Sequence[Scope], instance: str) -> Machine | None:
    """Return an instance by its id: a number, or the machine's name in a flexible set."""
    for scope in scopes:
        if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
            name = resource_ids.find_machine_name(scope, instance)
        else:
            name = instance_name(scope.facts, instance)
        if name is not None and name in scope.machines:
            return scope.machines[name]
    return None


def _refs(scopes: Sequence[Scope], ids: tuple[str, ...]) -> tuple[MachineRef, ...]:
    if not ids or "*" in ids:
        return tuple(ref for scope in scopes for ref in scope.refs())
    refs: dict[MachineRef, None] = {}
    for instance in ids:
        machine = find_instance(scopes, instance)
        if machine is None:
            raise invalid("instanceIds", f"the scale set has no instance {instance}")
        refs[machine.ref] = None
    return tuple(refs)


def _instance_ids(request: ArmRequest) -> tuple[str, ...]:
    ids = get_path(request.fields(), "instanceIds")
    if ids is None:
        return ()
    if not isinstance(ids, list) or not all(isinstance(instance, str) for instance in ids):
        raise invalid("instanceIds", "it must be a list of strings")
    return tuple(str(instance) for instance in ids)


def _required_instance_ids(request: ArmRequest) -> tuple[str, ...]:
    ids = _instance_ids(request)
    if not ids:
        raise invalid("instanceIds", "name the instances, or * for all of them")
    return ids


def _render(context: ArmContext, request: ArmRequest, scopes: Sequence[Scope]) -> Document:
    return validation.hide_newer_properties(SCALE_SETS, render.scale_set(context, scopes), request.version)


def _response(context: ArmContext, request: ArmRequest, status: int) -> ArmResponse:
    document = _render(
        context,
        request,
        resource_ids.require(context, SCALE_SETS, request.names["group"], request.names["name"]),
    )
    return ArmResponse(status=status, body=document, headers=(("ETag", str(document["etag"])),))


async def _delete_stale_document(context: ArmContext, request: ArmRequest) -> None:
    group, name = request.names["group"], request.names["name"]
    key = resource_ids.resource_id(group, SCALE_SETS, name)
    await resource_ids.delete_stale_document(
        context, key, lambda: not resource_ids.find_scopes(context, SCALE_SETS, group, name)
    )


async def _create(context: ArmContext, request: ArmRequest, body: Document) -> None:
    group, name = request.names["group"], request.names["name"]
    created: Document = {"timeCreated": format_instant(context.engine.clock.now())}
    defaults: Document = {
        "location": context.require_group(group)["location"],
        "tags": {},
        "sku": {},
        "properties": {},
    }
    document = overlay(overlay(defaults, body), {"name": name, "properties": created})
    settings = validation.event_settings(SCALE_SETS, document)
    is_flexible = get_path(document, "properties", "orchestrationMode") == "Flexible"
    blueprint = Blueprint(
        name=name,
        group=core_group(group),
        kind=ScopeKind.FLEXIBLE_SET if is_flexible else ScopeKind.SCALE_SET,
        count=validation.get_count(document, "sku", "capacity") or 0,
        zones=validation.get_texts(document, "zones"),
        fault_domains=validation.get_count(document, "properties", "platformFaultDomainCount"),
        spot=settings.spot,
        eviction=settings.eviction,
        terminate_notice=settings.terminate_notice,
        image_notice=settings.image_notice,
        upgrades_itself=_upgrades_itself(document),
        approvals=settings.approvals,
        tags=settings.tags,
    )
    documents = {resource_ids.resource_id(group, SCALE_SETS, name): _storable(document)}
    await context.handle(
        CreateSet(seed=new_event_id(), blueprint=blueprint, by=request.by), lambda changes: documents
    )


async def _change(
    context: ArmContext, request: ArmRequest, scopes: tuple[Scope, ...], body: Document
) -> ArmResponse:
    if scopes[0].facts.deleting:
        message = f"Scale set {request.names['name']} is being deleted."
        raise AzureError(409, "OperationNotAllowed", message)
    before = render.scale_set(context, scopes)
    after = overlay(before, body)
    settings = validation.event_settings(SCALE_SETS, after)
    _check_immutable(before, after)
    await _change_model(context, request, scopes, before, after, settings)
    for scope in scopes:
        if settings.approvals != scope.facts.approvals:
            await context.handle(SetApprovals(scope=scope.id, approvals=settings.approvals, by=request.by))
    operation = await _resize(context, request, settings, validation.get_count(body, "sku", "capacity"))
    current = _response(context, request, 200)
    response = operations.created_response(context, request, operation, current.body, new=False)
    return replace(response, headers=(*response.headers, *current.headers))


def _check_immutable(before: Document, after: Document) -> None:
    for path, default in _IMMUTABLE.items():
        if (get_path(before, *path) or default) != (get_path(after, *path) or default):
            raise validation.immutable_property(".".join(path))


async def _change_model(
    context: ArmContext,
    request: ArmRequest,
    scopes: tuple[Scope, ...],
    before: Document,
    after: Document,
    settings: EventSettings,
) -> None:
    """Change the model of a set; the instances follow when they are upgraded (T-06)."""
    facts, upgrades_itself = scopes[0].facts, _upgrades_itself(after)
    key = resource_ids.set_id(context, scopes[0])
    document = _storable(after)
    notices = (facts.model.terminate_notice, facts.model.image_notice)
    is_new_model = _model(before) != _model(after) or notices != (
        settings.terminate_notice,
        settings.image_notice,
    )
    if not is_new_model and upgrades_itself == facts.upgrades_itself:
        await context.put_documents({key: document})
        return
    current = [
        machine.ref
        for scope in scopes
        for machine in scope.machines.values()
        if machine.model.number == scope.facts.model.number
    ]
    command = ChangeModel(
        scopes=tuple(scope.id for scope in scopes),
        terminate_notice=settings.terminate_notice,
        image_notice=settings.image_notice,
        upgrades_itself=upgrades_itself,
        by=request.by,
    )
    await context.handle(command, lambda changes: {key: document})
    if not is_new_model and current:
        # Only the upgrade policy has changed: instances that were current stay current.
        await context.handle(Upgrade(machines=tuple(current), by=request.by))


async def _resize(
    context: ArmContext, request: ArmRequest, settings: EventSettings, capacity: int | None
) -> Operation:
    """Create or delete instances to reach a capacity; instances in deletion do not count (T-16)."""
    scopes = resource_ids.require(context, SCALE_SETS, request.names["group"], request.names["name"])
    count = sum(len(remaining(scope)) for scope in scopes)
    desired = count if capacity is None else capacity
    for scope_id, more in scale_out(scopes, desired - count).items():
        command = AddMachines(
            seed=new_event_id(),
            scope=scope_id,
            count=more,
            spot=settings.spot,
            eviction=settings.eviction,
            tags=settings.tags,
            by=request.by,
        )
        await context.handle(command)
    refs = scale_in(scopes, count - desired)
    if refs:
        return await actions.announce(
            context, request, "delete", resource_ids.set_id(context, scopes[0]), refs
        )
    return operations.new_operation(
        new_event_id().lower(), resource_ids.set_id(context, scopes[0]), (), context.engine.clock.now()
    )


def _upgrades_itself(document: Document) -> bool:
    return get_path(document, "properties", "upgradePolicy", "mode") in _SELF_UPGRADING


def _model(document: Document) -> tuple[Json, Json]:
    """Return the part of a set that its instances are created from, without the notices."""
    profile = get_path(document, "properties", "virtualMachineProfile")
    if isinstance(profile, dict):
        profile = {name: value for name, value in profile.items() if name.lower() != _EVENTS_PROFILE}
    else:
        profile = None
    return profile, get_path(document, "sku", "name")


def _storable(document: Document) -> Document:
    """Return the document of a set as it is stored; the core holds the capacity."""
    sku = document.get("sku")
    fields = sku.items() if isinstance(sku, dict) else ()
    size = {name: value for name, value in fields if name.lower() != "capacity"}
    return render.storable({**document, "sku": size}, "properties", "virtualMachineProfile")


_VERBS = (*actions.ANNOUNCED_VERBS, *actions.POWER_VERBS, *actions.NO_OP_VERBS)
_ONE = f"{GROUP_PATH}/{SCALE_SETS}/{{name}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIPTION_PATH}/{SCALE_SETS}", list_all),
    ArmRoute("GET", f"{SUBSCRIPTION_PATH}/locations/{{location}}/{SCALE_SETS}", list_all),
    ArmRoute("GET", f"{GROUP_PATH}/{SCALE_SETS}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("GET", f"{_ONE}/instanceView", view),
    ArmRoute("GET", f"{_ONE}/skus", list_nothing),
    ArmRoute("GET", f"{_ONE}/osUpgradeHistory", list_nothing),
    ArmRoute("POST", f"{_ONE}/delete", delete_instances),
    ArmRoute("POST", f"{_ONE}/manualupgrade", upgrade),
    *(ArmRoute("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
)
