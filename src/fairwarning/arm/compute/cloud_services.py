"""Cloud services (extended support): roles, and instances called FrontEnd_IN_0."""

from functools import partial

from fairwarning.arm import groups, resource_ids
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.context import ArmContext, Document, core_group
from fairwarning.arm.errors import invalid, not_found
from fairwarning.arm.operations import accepted
from fairwarning.arm.resource_ids import CLOUD_SERVICES, GROUPED, SUBSCRIBED
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint, role_of
from fairwarning.core.commands import CreateSet
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, Scope, ScopeKind, derive_id
from fairwarning.engine.clock import new_event_id

Roles = tuple[tuple[str, int], ...]

_TYPE = f"Microsoft.Compute/{CLOUD_SERVICES}"


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a cloud service."""
    return ArmResponse(body=_rendered(room, _scope(room, call)))


async def list_all(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a page of the cloud services of a group, or of all."""
    found = [
        (resource_ids.set_id(room, scope).lower(), partial(_rendered, room, scope))
        for scope in resource_ids.wanted(room, call, CLOUD_SERVICES)
    ]
    return resource_ids.page(call, found)


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Bring a cloud service up, or change what is said of the one that is there."""
    group, name = call.names["group"], call.names["name"]
    location = groups.require_active_group(room, group)["location"]
    body = validation.read(CLOUD_SERVICES, call)
    key = resource_ids.resource_id(group, CLOUD_SERVICES, name)
    async with room.lock(key):
        scopes = resource_ids.scopes(room, CLOUD_SERVICES, group, name)
        if scopes:
            return await _change(room, scopes[0], body)
        blueprint = Blueprint(
            name=name, group=core_group(group), kind=ScopeKind.CLOUD_SERVICE, roles=_roles(body)
        )
        kept: Document = {"location": location, "tags": {}, **body, "name": name}
        command = CreateSet(seed=new_event_id(), blueprint=blueprint, by=call.by)
        await room.handle(command, lambda changes: {key: kept})
        return ArmResponse(status=201, body=_rendered(room, _scope(room, call)))


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Delete a cloud service; one that is not there is gone already."""
    group, name = call.names["group"], call.names["name"]
    room.group(group)
    async with room.lock(resource_ids.resource_id(group, CLOUD_SERVICES, name)):
        scopes = resource_ids.scopes(room, CLOUD_SERVICES, group, name)
        if not scopes:
            return ArmResponse(status=204)
        identifier = resource_ids.set_id(room, scopes[0])
        return accepted(room, call, await actions.remove(room, call, identifier, scopes, (identifier,)))


async def act(verb: str, room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Do to some role instances, or to all, what a verb says."""
    scope = _scope(room, call)
    asked = get_path(call.fields(), "roleInstances")
    everybody = asked is None or asked == ["*"]
    if everybody:
        machines = list(scope.machines.values())
    elif isinstance(asked, list) and all(isinstance(one, str) for one in asked):
        machines = [_instance(scope, str(one), call) for one in dict.fromkeys(str(one) for one in asked)]
    else:
        raise invalid("roleInstances", "it must be a list of strings")
    refs = [machine.ref for machine in machines]
    return await actions.act(room, call, verb, resource_ids.set_id(room, scope), refs, everybody=everybody)


async def list_instances(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a page of a cloud service's role instances."""
    scope = _scope(room, call)
    found = [(str(m.name).lower(), partial(_instance_shown, room, scope, m)) for m in scope.machines.values()]
    return resource_ids.page(call, found)


async def get_instance(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a role instance."""
    scope = _scope(room, call)
    return ArmResponse(body=_instance_shown(room, scope, _instance(scope, call.names["instance"], call)))


async def view_instance(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show how a role instance is doing."""
    scope = _scope(room, call)
    machine = _instance(scope, call.names["instance"], call)
    view = render.instance_view(room, machine)
    names = ("platformUpdateDomain", "platformFaultDomain", "statuses")
    return ArmResponse(body={name: view[name] for name in names})


async def act_on_instance(verb: str, room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Do to a role instance what a verb says."""
    scope = _scope(room, call)
    machine = _instance(scope, call.names["instance"], call)
    return await actions.act(room, call, verb, _instance_id(room, scope, machine), (machine.ref,))


def _scope(room: ArmContext, call: ArmRequest) -> Scope:
    return resource_ids.require(room, CLOUD_SERVICES, call.names["group"], call.names["name"])[0]


def _instance(scope: Scope, name: str, call: ArmRequest) -> Machine:
    for machine in scope.machines.values():
        if machine.name.lower() == name.lower():
            return machine
    raise not_found(_TYPE, f"{scope.facts.set_name}/roleInstances/{name}", call.names["group"])


async def _change(room: ArmContext, scope: Scope, body: Document) -> ArmResponse:
    before = _rendered(room, scope)
    after = render.overlay(before, body)
    if _roles(after) != _roles(before):
        raise validation.fixed("roleProfile.roles")
    await room.keep({resource_ids.set_id(room, scope): after})
    return ArmResponse(body=_rendered(room, scope))


def _roles(document: Json) -> Roles:
    roles = get_path(document, "properties", "roleProfile", "roles")
    if not isinstance(roles, list) or not roles:
        raise invalid("properties.roleProfile.roles", "name at least one role")
    return tuple(_role(role) for role in roles)


def _role(role: Json) -> tuple[str, int]:
    name, capacity = get_path(role, "name"), get_path(role, "sku", "capacity")
    if not isinstance(name, str):
        raise invalid("properties.roleProfile.roles", "each role has a name")
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise invalid("properties.roleProfile.roles", f"the sku of role {name} has a capacity")
    return name, capacity


def _rendered(room: ArmContext, scope: Scope) -> Document:
    identifier = resource_ids.set_id(room, scope)
    put = room.document(identifier) or {}
    counts: dict[str, int] = {}
    for machine in scope.machines.values():
        role = role_of(machine.name)
        counts[role] = counts.get(role, 0) + 1
    told = get_path(put, "properties", "roleProfile", "roles")
    made: list[Json] = [
        {"name": role, "sku": {"name": render.SIZE, "tier": "Standard", "capacity": count}}
        for role, count in counts.items()
    ]
    group = room.group(resource_ids.group_name(room, scope))
    bare: Document = {"location": group["location"], "tags": {}, "properties": {}}
    facts: Document = {
        "provisioningState": "Deleting" if scope.facts.deleting else "Succeeded",
        "uniqueId": derive_id("set", scope.facts.set_id).lower(),
        "roleProfile": {"roles": told if isinstance(told, list) else made},
    }
    own: Document = {"id": identifier, "name": scope.facts.set_name, "type": _TYPE, "properties": facts}
    return render.overlay(render.overlay(bare, put), own)


def _instance_id(room: ArmContext, scope: Scope, machine: Machine) -> str:
    return f"{resource_ids.set_id(room, scope)}/roleInstances/{machine.name}"


def _instance_shown(room: ArmContext, scope: Scope, machine: Machine) -> Document:
    return {
        "id": _instance_id(room, scope, machine),
        "name": machine.name,
        "type": f"{_TYPE}/roleInstances",
        "location": _rendered(room, scope)["location"],
        "sku": {"name": render.SIZE, "tier": "Standard"},
        "properties": {"networkProfile": {"networkInterfaces": []}},
    }


_VERBS = ("restart", "reimage")
_ONE = f"{GROUPED}/{CLOUD_SERVICES}/{{name}}"
_INSTANCE = f"{_ONE}/roleInstances/{{instance}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIBED}/{CLOUD_SERVICES}", list_all),
    ArmRoute("GET", f"{GROUPED}/{CLOUD_SERVICES}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("DELETE", _ONE, delete),
    *(ArmRoute("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
    ArmRoute("GET", f"{_ONE}/roleInstances", list_instances),
    ArmRoute("GET", _INSTANCE, get_instance),
    ArmRoute("GET", f"{_INSTANCE}/instanceView", view_instance),
    *(ArmRoute("POST", f"{_INSTANCE}/{verb}", partial(act_on_instance, verb)) for verb in _VERBS),
)
