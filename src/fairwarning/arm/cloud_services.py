"""Cloud services (extended support): roles, and instances called FrontEnd_IN_0."""

from functools import partial

from fairwarning.arm import actions, gates, groups, places, views
from fairwarning.arm.call import Call, Reply, child
from fairwarning.arm.errors import invalid, not_found
from fairwarning.arm.operations import accepted
from fairwarning.arm.places import CLOUD_SERVICES, GROUPED, SUBSCRIBED
from fairwarning.arm.room import Document, Room, core_group
from fairwarning.arm.routing import Route
from fairwarning.core.blueprint import Blueprint, role_of
from fairwarning.core.commands import CreateSet
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, Scope, ScopeKind, derive_id
from fairwarning.engine.clock import new_event_id

Roles = tuple[tuple[str, int], ...]

_TYPE = f"Microsoft.Compute/{CLOUD_SERVICES}"


async def get(room: Room, call: Call) -> Reply:
    """Show a cloud service."""
    return Reply(body=_rendered(room, _scope(room, call)))


async def list_all(room: Room, call: Call) -> Reply:
    """Show a page of the cloud services of a group, or of all."""
    found = [
        (places.set_id(room, scope).lower(), partial(_rendered, room, scope))
        for scope in places.wanted(room, call, CLOUD_SERVICES)
    ]
    return places.page(call, found)


async def put(room: Room, call: Call) -> Reply:
    """Bring a cloud service up, or change what is said of the one that is there."""
    group, name = call.names["group"], call.names["name"]
    location = groups.standing(room, group)["location"]
    body = gates.read(CLOUD_SERVICES, call)
    key = places.resource_id(group, CLOUD_SERVICES, name)
    async with room.lock(key):
        scopes = places.scopes(room, CLOUD_SERVICES, group, name)
        if scopes:
            return await _change(room, scopes[0], body)
        blueprint = Blueprint(
            name=name, group=core_group(group), kind=ScopeKind.CLOUD_SERVICE, roles=_roles(body)
        )
        kept: Document = {"location": location, "tags": {}, **body, "name": name}
        command = CreateSet(seed=new_event_id(), blueprint=blueprint, by=call.by)
        await room.handle(command, lambda changes: {key: kept})
        return Reply(status=201, body=_rendered(room, _scope(room, call)))


async def delete(room: Room, call: Call) -> Reply:
    """Delete a cloud service; one that is not there is gone already."""
    group, name = call.names["group"], call.names["name"]
    room.group(group)
    async with room.lock(places.resource_id(group, CLOUD_SERVICES, name)):
        scopes = places.scopes(room, CLOUD_SERVICES, group, name)
        if not scopes:
            return Reply(status=204)
        identifier = places.set_id(room, scopes[0])
        return accepted(room, call, await actions.remove(room, call, identifier, scopes, (identifier,)))


async def act(verb: str, room: Room, call: Call) -> Reply:
    """Do to some role instances, or to all, what a verb says."""
    scope = _scope(room, call)
    asked = child(call.fields(), "roleInstances")
    everybody = asked is None or asked == ["*"]
    if everybody:
        machines = list(scope.machines.values())
    elif isinstance(asked, list) and all(isinstance(one, str) for one in asked):
        machines = [_instance(scope, str(one), call) for one in dict.fromkeys(str(one) for one in asked)]
    else:
        raise invalid("roleInstances", "it must be a list of strings")
    refs = [machine.ref for machine in machines]
    return await actions.act(room, call, verb, places.set_id(room, scope), refs, everybody=everybody)


async def list_instances(room: Room, call: Call) -> Reply:
    """Show a page of a cloud service's role instances."""
    scope = _scope(room, call)
    found = [(str(m.name).lower(), partial(_instance_shown, room, scope, m)) for m in scope.machines.values()]
    return places.page(call, found)


async def get_instance(room: Room, call: Call) -> Reply:
    """Show a role instance."""
    scope = _scope(room, call)
    return Reply(body=_instance_shown(room, scope, _instance(scope, call.names["instance"], call)))


async def view_instance(room: Room, call: Call) -> Reply:
    """Show how a role instance is doing."""
    scope = _scope(room, call)
    machine = _instance(scope, call.names["instance"], call)
    view = views.instance_view(room, machine)
    names = ("platformUpdateDomain", "platformFaultDomain", "statuses")
    return Reply(body={name: view[name] for name in names})


async def act_on_instance(verb: str, room: Room, call: Call) -> Reply:
    """Do to a role instance what a verb says."""
    scope = _scope(room, call)
    machine = _instance(scope, call.names["instance"], call)
    return await actions.act(room, call, verb, _instance_id(room, scope, machine), (machine.ref,))


def _scope(room: Room, call: Call) -> Scope:
    return places.demand(room, CLOUD_SERVICES, call.names["group"], call.names["name"])[0]


def _instance(scope: Scope, name: str, call: Call) -> Machine:
    for machine in scope.machines.values():
        if machine.name.lower() == name.lower():
            return machine
    raise not_found(_TYPE, f"{scope.facts.set_name}/roleInstances/{name}", call.names["group"])


async def _change(room: Room, scope: Scope, body: Document) -> Reply:
    before = _rendered(room, scope)
    after = views.over(before, body)
    if _roles(after) != _roles(before):
        raise gates.fixed("roleProfile.roles")
    await room.keep({places.set_id(room, scope): after})
    return Reply(body=_rendered(room, scope))


def _roles(document: Json) -> Roles:
    roles = child(document, "properties", "roleProfile", "roles")
    if not isinstance(roles, list) or not roles:
        raise invalid("properties.roleProfile.roles", "name at least one role")
    return tuple(_role(role) for role in roles)


def _role(role: Json) -> tuple[str, int]:
    name, capacity = child(role, "name"), child(role, "sku", "capacity")
    if not isinstance(name, str):
        raise invalid("properties.roleProfile.roles", "each role has a name")
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise invalid("properties.roleProfile.roles", f"the sku of role {name} has a capacity")
    return name, capacity


def _rendered(room: Room, scope: Scope) -> Document:
    identifier = places.set_id(room, scope)
    put = room.document(identifier) or {}
    counts: dict[str, int] = {}
    for machine in scope.machines.values():
        role = role_of(machine.name)
        counts[role] = counts.get(role, 0) + 1
    told = child(put, "properties", "roleProfile", "roles")
    made: list[Json] = [
        {"name": role, "sku": {"name": views.SIZE, "tier": "Standard", "capacity": count}}
        for role, count in counts.items()
    ]
    group = room.group(places.group_name(room, scope))
    bare: Document = {"location": group["location"], "tags": {}, "properties": {}}
    facts: Document = {
        "provisioningState": "Deleting" if scope.facts.deleting else "Succeeded",
        "uniqueId": derive_id("set", scope.facts.set_id).lower(),
        "roleProfile": {"roles": told if isinstance(told, list) else made},
    }
    own: Document = {"id": identifier, "name": scope.facts.set_name, "type": _TYPE, "properties": facts}
    return views.over(views.over(bare, put), own)


def _instance_id(room: Room, scope: Scope, machine: Machine) -> str:
    return f"{places.set_id(room, scope)}/roleInstances/{machine.name}"


def _instance_shown(room: Room, scope: Scope, machine: Machine) -> Document:
    return {
        "id": _instance_id(room, scope, machine),
        "name": machine.name,
        "type": f"{_TYPE}/roleInstances",
        "location": _rendered(room, scope)["location"],
        "sku": {"name": views.SIZE, "tier": "Standard"},
        "properties": {"networkProfile": {"networkInterfaces": []}},
    }


_VERBS = ("restart", "reimage")
_ONE = f"{GROUPED}/{CLOUD_SERVICES}/{{name}}"
_INSTANCE = f"{_ONE}/roleInstances/{{instance}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", f"{SUBSCRIBED}/{CLOUD_SERVICES}", list_all),
    Route("GET", f"{GROUPED}/{CLOUD_SERVICES}", list_all),
    Route("GET", _ONE, get),
    Route("PUT", _ONE, put),
    Route("DELETE", _ONE, delete),
    *(Route("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
    Route("GET", f"{_ONE}/roleInstances", list_instances),
    Route("GET", _INSTANCE, get_instance),
    Route("GET", f"{_INSTANCE}/instanceView", view_instance),
    *(Route("POST", f"{_INSTANCE}/{verb}", partial(act_on_instance, verb)) for verb in _VERBS),
)
