"""Scale sets, uniform and flexible: what they want, how many there are, what is done to their instances."""

from collections.abc import Mapping, Sequence
from functools import partial

from fairwarning.arm import actions, gates, groups, operations, places, views
from fairwarning.arm.call import Call, Reply, child
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.gates import Wishes
from fairwarning.arm.operations import Operation, accepted, instant
from fairwarning.arm.places import GROUPED, SCALE_SETS, SUBSCRIBED
from fairwarning.arm.room import Document, Room, core_group
from fairwarning.arm.routing import Route
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


async def get(room: Room, call: Call) -> Reply:
    """Show a scale set."""
    group, name = call.names["group"], call.names["name"]
    if not places.scopes(room, SCALE_SETS, group, name):
        await _forget(room, call)
    return _shown(room, call, 200)


async def list_all(room: Room, call: Call) -> Reply:
    """Show a page of the scale sets of a group, or of all."""
    found: dict[str, list[Scope]] = {}
    for scope in places.wanted(room, call, SCALE_SETS):
        found.setdefault(places.set_id(room, scope).lower(), []).append(scope)
    return places.page(call, [(key, partial(_rendered, room, call, scopes)) for key, scopes in found.items()])


async def put(room: Room, call: Call) -> Reply:
    """Bring a scale set up, or change the one that is there."""
    group, name = call.names["group"], call.names["name"]
    groups.standing(room, group)
    body = gates.read(SCALE_SETS, call)
    async with room.lock(places.resource_id(group, SCALE_SETS, name)):
        scopes = places.scopes(room, SCALE_SETS, group, name)
        if scopes:
            return await _change(room, call, scopes, body)
        await _make(room, call, body)
        return _shown(room, call, 201)


async def patch(room: Room, call: Call) -> Reply:
    """Change a scale set."""
    group, name = call.names["group"], call.names["name"]
    body = gates.read(SCALE_SETS, call)
    async with room.lock(places.resource_id(group, SCALE_SETS, name)):
        return await _change(room, call, places.demand(room, SCALE_SETS, group, name), body)


async def delete(room: Room, call: Call) -> Reply:
    """Delete a scale set and its instances, with their warnings; one that is not there is gone already."""
    group, name = call.names["group"], call.names["name"]
    room.group(group)
    key = places.resource_id(group, SCALE_SETS, name)
    async with room.lock(key):
        scopes = places.scopes(room, SCALE_SETS, group, name)
        if scopes:
            identifier = places.set_id(room, scopes[0])
            operation = await actions.remove(room, call, identifier, scopes, (identifier, f"{identifier}/"))
            return accepted(room, call, operation)
    await _forget(room, call)
    return Reply(status=204)


async def act(verb: str, room: Room, call: Call) -> Reply:
    """Do to some instances, or to all, what a verb says."""
    scopes = places.demand(room, SCALE_SETS, call.names["group"], call.names["name"])
    asked = _asked(call)
    everybody = not asked or "*" in asked
    refs = _refs(scopes, asked)
    return await actions.act(room, call, verb, places.set_id(room, scopes[0]), refs, everybody=everybody)


async def delete_instances(room: Room, call: Call) -> Reply:
    """Delete instances, with their warnings; the capacity falls at once (T-16)."""
    group, name = call.names["group"], call.names["name"]
    async with room.lock(places.resource_id(group, SCALE_SETS, name)):
        scopes = places.demand(room, SCALE_SETS, group, name)
        refs = _refs(scopes, _required(call))
        identifier = places.set_id(room, scopes[0])
        operation = await actions.announce(room, call, "delete", identifier, refs, force=actions.forced(call))
    return accepted(room, call, operation)


async def upgrade(room: Room, call: Call) -> Reply:
    """Bring instances to the latest model of their set."""
    group, name = call.names["group"], call.names["name"]
    async with room.lock(places.resource_id(group, SCALE_SETS, name)):
        refs = _refs(places.demand(room, SCALE_SETS, group, name), _required(call))
        await room.handle(Upgrade(machines=refs, by=call.by))
    return Reply(status=200)


async def view(room: Room, call: Call) -> Reply:
    """Show how a scale set is doing."""
    scopes = places.demand(room, SCALE_SETS, call.names["group"], call.names["name"])
    counts: dict[str, int] = {}
    for scope in scopes:
        for machine in scope.machines.values():
            code = f"ProvisioningState/{views.provisioning(scope, machine).lower()}"
            counts[code] = counts.get(code, 0) + 1
    summary: list[Json] = [{"code": code, "count": count} for code, count in counts.items()]
    done: Document = {
        "code": "ProvisioningState/succeeded",
        "level": "Info",
        "displayStatus": "Provisioning succeeded",
        "time": instant(room.engine.clock.now()),
    }
    return Reply(body={"virtualMachine": {"statusesSummary": summary}, "statuses": [done]})


async def nothing(room: Room, call: Call) -> Reply:
    """Show a list that is always empty."""
    places.demand(room, SCALE_SETS, call.names["group"], call.names["name"])
    return Reply(body={"value": []})


def chosen(scopes: Sequence[Scope], instance: str) -> Machine | None:
    """Return an instance by the id clients know it by: a number, or its name in a flexible set."""
    for scope in scopes:
        flexible = scope.facts.kind is ScopeKind.FLEXIBLE_SET
        name = places.spelled(scope, instance) if flexible else instance_name(scope.facts, instance)
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


def _asked(call: Call) -> tuple[str, ...]:
    ids = child(call.fields(), "instanceIds")
    if ids is None:
        return ()
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise invalid("instanceIds", "it must be a list of strings")
    return tuple(str(one) for one in ids)


def _required(call: Call) -> tuple[str, ...]:
    asked = _asked(call)
    if not asked:
        raise invalid("instanceIds", "name the instances, or * for all of them")
    return asked


def _rendered(room: Room, call: Call, scopes: Sequence[Scope]) -> Document:
    return gates.hide(SCALE_SETS, views.scale_set(room, scopes), call.version)


def _shown(room: Room, call: Call, status: int) -> Reply:
    document = _rendered(room, call, places.demand(room, SCALE_SETS, call.names["group"], call.names["name"]))
    return Reply(status=status, body=document, headers=(("ETag", str(document["etag"])),))


async def _forget(room: Room, call: Call) -> None:
    group, name = call.names["group"], call.names["name"]
    key = places.resource_id(group, SCALE_SETS, name)
    await places.drop(room, key, lambda: not places.scopes(room, SCALE_SETS, group, name))


async def _make(room: Room, call: Call, body: Document) -> None:
    group, name = call.names["group"], call.names["name"]
    made: Document = {"timeCreated": instant(room.engine.clock.now())}
    bare: Document = {"location": room.group(group)["location"], "tags": {}, "sku": {}, "properties": {}}
    document = views.over(views.over(bare, body), {"name": name, "properties": made})
    wishes = gates.wishes(SCALE_SETS, document)
    flexible = child(document, "properties", "orchestrationMode") == "Flexible"
    blueprint = Blueprint(
        name=name,
        group=core_group(group),
        kind=ScopeKind.FLEXIBLE_SET if flexible else ScopeKind.SCALE_SET,
        count=gates.count(document, "sku", "capacity") or 0,
        zones=gates.texts(document, "zones"),
        fault_domains=gates.count(document, "properties", "platformFaultDomainCount"),
        spot=wishes.spot,
        eviction=wishes.eviction,
        terminate_notice=wishes.terminate_notice,
        image_notice=wishes.image_notice,
        upgrades_itself=_itself(document),
        approvals=wishes.approvals,
        tags=wishes.tags,
    )
    kept = {places.resource_id(group, SCALE_SETS, name): _stored(document)}
    await room.handle(CreateSet(seed=new_event_id(), blueprint=blueprint, by=call.by), lambda changes: kept)


async def _change(room: Room, call: Call, scopes: tuple[Scope, ...], body: Document) -> Reply:
    if scopes[0].facts.deleting:
        message = f"Scale set {call.names['name']} is being deleted."
        raise AzureError(409, "OperationNotAllowed", message)
    before = views.scale_set(room, scopes)
    after = views.over(before, body)
    wishes = gates.wishes(SCALE_SETS, after)
    _check_fixed(before, after)
    await _remodel(room, call, scopes, before, after, wishes)
    for scope in scopes:
        if wishes.approvals != scope.facts.approvals:
            await room.handle(SetApprovals(scope=scope.id, approvals=wishes.approvals, by=call.by))
    operation = await _resize(room, call, wishes, gates.count(body, "sku", "capacity"))
    shown = _shown(room, call, 200)
    reply = operations.created(room, call, operation, shown.body, new=False)
    return Reply(status=reply.status, body=reply.body, headers=(*reply.headers, *shown.headers))


def _check_fixed(before: Document, after: Document) -> None:
    for path, usual in _FIXED.items():
        if (child(before, *path) or usual) != (child(after, *path) or usual):
            raise gates.fixed(".".join(path))


async def _remodel(
    room: Room,
    call: Call,
    scopes: tuple[Scope, ...],
    before: Document,
    after: Document,
    wishes: Wishes,
) -> None:
    """Give the set what it now wants of its instances; they follow when they are upgraded (T-06)."""
    facts, itself = scopes[0].facts, _itself(after)
    key = places.set_id(room, scopes[0])
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


async def _resize(room: Room, call: Call, wishes: Wishes, capacity: int | None) -> Operation:
    """Bring up or delete as many instances as it takes; what is being deleted counts no more (T-16)."""
    scopes = places.demand(room, SCALE_SETS, call.names["group"], call.names["name"])
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
        return await actions.announce(room, call, "delete", places.set_id(room, scopes[0]), refs)
    return operations.begun(
        new_event_id().lower(), places.set_id(room, scopes[0]), (), room.engine.clock.now()
    )


def _itself(document: Document) -> bool:
    return child(document, "properties", "upgradePolicy", "mode") in _ITSELF


def _model(document: Document) -> tuple[Json, Json]:
    """Return what of a set its instances are made after, apart from their notices."""
    profile = child(document, "properties", "virtualMachineProfile")
    told = {k: v for k, v in profile.items() if k.lower() != _NOTICES} if isinstance(profile, dict) else None
    return told, child(document, "sku", "name")


def _stored(document: Document) -> Document:
    """Return a set's document as it is kept; how many there are is for the core to say."""
    sku = document.get("sku")
    size = {k: v for k, v in sku.items() if k.lower() != "capacity"} if isinstance(sku, dict) else {}
    return views.storable({**document, "sku": size}, "properties", "virtualMachineProfile")


_VERBS = (*actions.ANNOUNCED, *actions.SWITCHED, *actions.IDLE)
_ONE = f"{GROUPED}/{SCALE_SETS}/{{name}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", f"{SUBSCRIBED}/{SCALE_SETS}", list_all),
    Route("GET", f"{SUBSCRIBED}/locations/{{location}}/{SCALE_SETS}", list_all),
    Route("GET", f"{GROUPED}/{SCALE_SETS}", list_all),
    Route("GET", _ONE, get),
    Route("PUT", _ONE, put),
    Route("PATCH", _ONE, patch),
    Route("DELETE", _ONE, delete),
    Route("GET", f"{_ONE}/instanceView", view),
    Route("GET", f"{_ONE}/skus", nothing),
    Route("GET", f"{_ONE}/osUpgradeHistory", nothing),
    Route("POST", f"{_ONE}/delete", delete_instances),
    Route("POST", f"{_ONE}/manualupgrade", upgrade),
    *(Route("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
)
