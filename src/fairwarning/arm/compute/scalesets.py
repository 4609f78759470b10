"""Scale sets, uniform and flexible: what they want, how many there are, what is done to their instances."""

from collections.abc import Mapping, Sequence
from functools import partial

from fairwarning.arm import groups, operations, resource_ids
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.compute.validation import EventSettings
from fairwarning.arm.context import ArmContext, Document, core_group
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.operations import Operation, accepted, instant
from fairwarning.arm.resource_ids import GROUPED, SCALE_SETS, SUBSCRIBED
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint, instance_name
from fairwarning.core.commands import AddMachines, ChangeModel, CreateSet, SetApprovals, Upgrade
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, MachineRef, Scope, ScopeKind
from fairwarning.core.scaleset import remaining, scale_in, scale_out
from fairwarning.engine.clock import new_event_id

_ITSELF = ("Automatic", "Rolling")
_NOTICES = "scheduledeventsprofile"
#: What cannot be changed, and what it is where nobody says.
_FIXED: Mapping[tuple[str, ...], Json] = {
    ("properties", "orchestrationMode"): "Uniform",
    ("properties", "virtualMachineProfile", "priority"): "Regular",
    ("properties", "virtualMachineProfile", "evictionPolicy"): "Deallocate",
    ("properties", "platformFaultDomainCount"): None,
    ("zones",): [],
}


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a scale set."""
    group, name = call.names["group"], call.names["name"]
    if not resource_ids.scopes(room, SCALE_SETS, group, name):
        await _forget(room, call)
    return _shown(room, call, 200)


async def list_all(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a page of the scale sets of a group, or of all."""
    found: dict[str, list[Scope]] = {}
    for scope in resource_ids.wanted(room, call, SCALE_SETS):
        found.setdefault(resource_ids.set_id(room, scope).lower(), []).append(scope)
    return resource_ids.page(
        call, [(key, partial(_rendered, room, call, scopes)) for key, scopes in found.items()]
    )


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Bring a scale set up, or change the one that is there."""
    group, name = call.names["group"], call.names["name"]
    groups.require_active_group(room, group)
    body = validation.read(SCALE_SETS, call)
    async with room.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        scopes = resource_ids.scopes(room, SCALE_SETS, group, name)
        if scopes:
            return await _change(room, call, scopes, body)
        await _make(room, call, body)
        return _shown(room, call, 201)


async def patch(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Change a scale set."""
    group, name = call.names["group"], call.names["name"]
    body = validation.read(SCALE_SETS, call)
    async with room.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        return await _change(room, call, resource_ids.require(room, SCALE_SETS, group, name), body)


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Delete a scale set and its instances, with their warnings; one that is not there is gone already."""
    group, name = call.names["group"], call.names["name"]
    room.group(group)
    key = resource_ids.resource_id(group, SCALE_SETS, name)
    async with room.lock(key):
        scopes = resource_ids.scopes(room, SCALE_SETS, group, name)
        if scopes:
            identifier = resource_ids.set_id(room, scopes[0])
            operation = await actions.remove(room, call, identifier, scopes, (identifier, f"{identifier}/"))
            return accepted(room, call, operation)
    await _forget(room, call)
    return ArmResponse(status=204)


async def act(verb: str, room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Do to some instances, or to all, what a verb says."""
    scopes = resource_ids.require(room, SCALE_SETS, call.names["group"], call.names["name"])
    asked = _asked(call)
    everybody = not asked or "*" in asked
    refs = _refs(scopes, asked)
    return await actions.act(
        room, call, verb, resource_ids.set_id(room, scopes[0]), refs, everybody=everybody
    )


async def delete_instances(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Delete instances, with their warnings; the capacity falls at once (T-16)."""
    group, name = call.names["group"], call.names["name"]
    async with room.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        scopes = resource_ids.require(room, SCALE_SETS, group, name)
        refs = _refs(scopes, _required(call))
        identifier = resource_ids.set_id(room, scopes[0])
        operation = await actions.announce(room, call, "delete", identifier, refs, force=actions.forced(call))
    return accepted(room, call, operation)


async def upgrade(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Bring instances to the latest model of their set."""
    group, name = call.names["group"], call.names["name"]
    async with room.lock(resource_ids.resource_id(group, SCALE_SETS, name)):
        refs = _refs(resource_ids.require(room, SCALE_SETS, group, name), _required(call))
        await room.handle(Upgrade(machines=refs, by=call.by))
    return ArmResponse(status=200)


async def view(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show how a scale set is doing."""
    scopes = resource_ids.require(room, SCALE_SETS, call.names["group"], call.names["name"])
    counts: dict[str, int] = {}
    for scope in scopes:
        for machine in scope.machines.values():
            code = f"ProvisioningState/{render.provisioning(scope, machine).lower()}"
            counts[code] = counts.get(code, 0) + 1
    summary: list[Json] = [{"code": code, "count": count} for code, count in counts.items()]
    done: Document = {
        "code": "ProvisioningState/succeeded",
        "level": "Info",
        "displayStatus": "Provisioning succeeded",
        "time": instant(room.engine.clock.now()),
    }
    return ArmResponse(body={"virtualMachine": {"statusesSummary": summary}, "statuses": [done]})


async def nothing(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a list that is always empty."""
    resource_ids.require(room, SCALE_SETS, call.names["group"], call.names["name"])
    return ArmResponse(body={"value": []})


def chosen(scopes: Sequence[Scope], instance: str) -> Machine | None:
    """Return an instance by the id clients know it by: a number, or its name in a flexible set."""
    for scope in scopes:
        flexible = scope.facts.kind is ScopeKind.FLEXIBLE_SET
        name = resource_ids.spelled(scope, instance) if flexible else instance_name(scope.facts, instance)
        if name is not None and name in scope.machines:
            return scope.machines[name]
    return None


def _refs(scopes: Sequence[Scope], asked: tuple[str, ...]) -> tuple[MachineRef, ...]:
    if not asked or "*" in asked:
        return tuple(ref for scope in scopes for ref in scope.refs())
    found: dict[MachineRef, None] = {}
    for one in asked:
        machine = chosen(scopes, one)
        if machine is None:
            raise invalid("instanceIds", f"the scale set has no instance {one}")
        found[machine.ref] = None
    return tuple(found)


def _asked(call: ArmRequest) -> tuple[str, ...]:
    ids = get_path(call.fields(), "instanceIds")
    if ids is None:
        return ()
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise invalid("instanceIds", "it must be a list of strings")
    return tuple(str(one) for one in ids)


def _required(call: ArmRequest) -> tuple[str, ...]:
    asked = _asked(call)
    if not asked:
        raise invalid("instanceIds", "name the instances, or * for all of them")
    return asked


def _rendered(room: ArmContext, call: ArmRequest, scopes: Sequence[Scope]) -> Document:
    return validation.hide(SCALE_SETS, render.scale_set(room, scopes), call.version)


def _shown(room: ArmContext, call: ArmRequest, status: int) -> ArmResponse:
    document = _rendered(
        room, call, resource_ids.require(room, SCALE_SETS, call.names["group"], call.names["name"])
    )
    return ArmResponse(status=status, body=document, headers=(("ETag", str(document["etag"])),))


async def _forget(room: ArmContext, call: ArmRequest) -> None:
    group, name = call.names["group"], call.names["name"]
    key = resource_ids.resource_id(group, SCALE_SETS, name)
    await resource_ids.drop(room, key, lambda: not resource_ids.scopes(room, SCALE_SETS, group, name))


async def _make(room: ArmContext, call: ArmRequest, body: Document) -> None:
    group, name = call.names["group"], call.names["name"]
    made: Document = {"timeCreated": instant(room.engine.clock.now())}
    bare: Document = {"location": room.group(group)["location"], "tags": {}, "sku": {}, "properties": {}}
    document = render.overlay(render.overlay(bare, body), {"name": name, "properties": made})
    wishes = validation.event_settings(SCALE_SETS, document)
    flexible = get_path(document, "properties", "orchestrationMode") == "Flexible"
    blueprint = Blueprint(
        name=name,
        group=core_group(group),
        kind=ScopeKind.FLEXIBLE_SET if flexible else ScopeKind.SCALE_SET,
        count=validation.count(document, "sku", "capacity") or 0,
        zones=validation.texts(document, "zones"),
        fault_domains=validation.count(document, "properties", "platformFaultDomainCount"),
        spot=wishes.spot,
        eviction=wishes.eviction,
        terminate_notice=wishes.terminate_notice,
        image_notice=wishes.image_notice,
        upgrades_itself=_itself(document),
        approvals=wishes.approvals,
        tags=wishes.tags,
    )
    kept = {resource_ids.resource_id(group, SCALE_SETS, name): _stored(document)}
    await room.handle(CreateSet(seed=new_event_id(), blueprint=blueprint, by=call.by), lambda changes: kept)


async def _change(
    room: ArmContext, call: ArmRequest, scopes: tuple[Scope, ...], body: Document
) -> ArmResponse:
    if scopes[0].facts.deleting:
        message = f"Scale set {call.names['name']} is being deleted."
        raise AzureError(409, "OperationNotAllowed", message)
    before = render.scale_set(room, scopes)
    after = render.overlay(before, body)
    wishes = validation.event_settings(SCALE_SETS, after)
    _check_fixed(before, after)
    await _remodel(room, call, scopes, before, after, wishes)
    for scope in scopes:
        if wishes.approvals != scope.facts.approvals:
            await room.handle(SetApprovals(scope=scope.id, approvals=wishes.approvals, by=call.by))
    operation = await _resize(room, call, wishes, validation.count(body, "sku", "capacity"))
    shown = _shown(room, call, 200)
    reply = operations.created(room, call, operation, shown.body, new=False)
    return ArmResponse(status=reply.status, body=reply.body, headers=(*reply.headers, *shown.headers))


def _check_fixed(before: Document, after: Document) -> None:
    for path, usual in _FIXED.items():
        if (get_path(before, *path) or usual) != (get_path(after, *path) or usual):
            raise validation.fixed(".".join(path))


async def _remodel(
    room: ArmContext,
    call: ArmRequest,
    scopes: tuple[Scope, ...],
    before: Document,
    after: Document,
    wishes: EventSettings,
) -> None:
    """Give the set what it now wants of its instances; they follow when they are upgraded (T-06)."""
    facts, itself = scopes[0].facts, _itself(after)
    key = resource_ids.set_id(room, scopes[0])
    stored = _stored(after)
    notices = (facts.model.terminate_notice, facts.model.image_notice)
    other = _model(before) != _model(after) or notices != (wishes.terminate_notice, wishes.image_notice)
    if not other and itself == facts.upgrades_itself:
        await room.keep({key: stored})
        return
    upgraded = [m.ref for s in scopes for m in s.machines.values() if m.model.number == s.facts.model.number]
    command = ChangeModel(
        scopes=tuple(scope.id for scope in scopes),
        terminate_notice=wishes.terminate_notice,
        image_notice=wishes.image_notice,
        upgrades_itself=itself,
        by=call.by,
    )
    await room.handle(command, lambda changes: {key: stored})
    if not other and upgraded:
        # Who upgrades the instances has changed, not what they should be.
        await room.handle(Upgrade(machines=tuple(upgraded), by=call.by))


async def _resize(
    room: ArmContext, call: ArmRequest, wishes: EventSettings, capacity: int | None
) -> Operation:
    """Bring up or delete as many instances as it takes; what is being deleted counts no more (T-16)."""
    scopes = resource_ids.require(room, SCALE_SETS, call.names["group"], call.names["name"])
    there = sum(len(remaining(scope)) for scope in scopes)
    wanted = there if capacity is None else capacity
    for scope_id, count in scale_out(scopes, wanted - there).items():
        command = AddMachines(
            seed=new_event_id(),
            scope=scope_id,
            count=count,
            spot=wishes.spot,
            eviction=wishes.eviction,
            tags=wishes.tags,
            by=call.by,
        )
        await room.handle(command)
    refs = scale_in(scopes, there - wanted)
    if refs:
        return await actions.announce(room, call, "delete", resource_ids.set_id(room, scopes[0]), refs)
    return operations.begun(
        new_event_id().lower(), resource_ids.set_id(room, scopes[0]), (), room.engine.clock.now()
    )


def _itself(document: Document) -> bool:
    return get_path(document, "properties", "upgradePolicy", "mode") in _ITSELF


def _model(document: Document) -> tuple[Json, Json]:
    """Return what of a set its instances are made after, apart from their notices."""
    profile = get_path(document, "properties", "virtualMachineProfile")
    told = {k: v for k, v in profile.items() if k.lower() != _NOTICES} if isinstance(profile, dict) else None
    return told, get_path(document, "sku", "name")


def _stored(document: Document) -> Document:
    """Return a set's document as it is kept; how many there are is for the core to say."""
    sku = document.get("sku")
    size = {k: v for k, v in sku.items() if k.lower() != "capacity"} if isinstance(sku, dict) else {}
    return render.storable({**document, "sku": size}, "properties", "virtualMachineProfile")


_VERBS = (*actions.ANNOUNCED, *actions.SWITCHED, *actions.IDLE)
_ONE = f"{GROUPED}/{SCALE_SETS}/{{name}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIBED}/{SCALE_SETS}", list_all),
    ArmRoute("GET", f"{SUBSCRIBED}/locations/{{location}}/{SCALE_SETS}", list_all),
    ArmRoute("GET", f"{GROUPED}/{SCALE_SETS}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
    ArmRoute("GET", f"{_ONE}/instanceView", view),
    ArmRoute("GET", f"{_ONE}/skus", nothing),
    ArmRoute("GET", f"{_ONE}/osUpgradeHistory", nothing),
    ArmRoute("POST", f"{_ONE}/delete", delete_instances),
    ArmRoute("POST", f"{_ONE}/manualupgrade", upgrade),
    *(ArmRoute("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
)
