"""Cloud services (extended support): roles and their instances, with names such as FrontEnd_IN_0."""

from functools import partial

from fairwarning.arm import groups, resource_ids
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.context import ArmContext, core_group
from fairwarning.arm.documents import Document, get_path, overlay
from fairwarning.arm.errors import invalid, not_found
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.operations import accepted_response
from fairwarning.arm.resource_ids import CLOUD_SERVICES, GROUP_PATH, SUBSCRIPTION_PATH
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint, role_of
from fairwarning.core.commands import CreateSet
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, Scope, ScopeKind, derive_id
from fairwarning.engine.clock import new_event_id

Roles = tuple[tuple[str, int], ...]

_TYPE = f"Microsoft.Compute/{CLOUD_SERVICES}"


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a cloud service."""
    return ArmResponse(body=_render(context, _scope(context, request)))


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a page of the cloud services, of a group or of all groups."""
    resources = [
        (resource_ids.set_id(context, scope).lower(), partial(_render, context, scope))
        for scope in resource_ids.select_scopes(context, request, CLOUD_SERVICES)
    ]
    return resource_ids.paginate(request, resources)


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Create a cloud service, or change the document of an existing one."""
    group, name = request.names["group"], request.names["name"]
    location = groups.require_active_group(context, group)["location"]
    body = validation.read_body(CLOUD_SERVICES, request)
    key = resource_ids.resource_id(group, CLOUD_SERVICES, name)
    async with context.lock(key):
        scopes = resource_ids.find_scopes(context, CLOUD_SERVICES, group, name)
        if scopes:
            return await _change(context, scopes[0], body)
        blueprint = Blueprint(
            name=name, group=core_group(group), kind=ScopeKind.CLOUD_SERVICE, roles=_roles(body)
        )
        document: Document = {"location": location, "tags": {}, **body, "name": name}
        command = CreateSet(seed=new_event_id(), blueprint=blueprint, by=request.by)
        await context.handle(command, lambda changes: {key: document})
        return ArmResponse(status=201, body=_render(context, _scope(context, request)))


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a cloud service; 204 if there is none."""
    group, name = request.names["group"], request.names["name"]
    context.require_group(group)
    async with context.lock(resource_ids.resource_id(group, CLOUD_SERVICES, name)):
        scopes = resource_ids.find_scopes(context, CLOUD_SERVICES, group, name)
        if not scopes:
            return ArmResponse(status=204)
        identifier = resource_ids.set_id(context, scopes[0])
        return accepted_response(
            context, request, await actions.delete_scopes(context, request, identifier, scopes, (identifier,))
        )


async def act(verb: str, context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Carry out a verb on some role instances, or on all."""
    scope = _scope(context, request)
    names = get_path(request.fields(), "roleInstances")
    all_machines = names is None or names == ["*"]
    if all_machines:
        machines = list(scope.machines.values())
    elif isinstance(names, list) and all(isinstance(name, str) for name in names):
        machines = [_instance(scope, name, request) for name in dict.fromkeys(map(str, names))]
    else:
        raise invalid("roleInstances", "it must be a list of strings")
    refs = [machine.ref for machine in machines]
    return await actions.act(
        context, request, verb, resource_ids.set_id(context, scope), refs, all_machines=all_machines
    )


async def list_instances(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a page of a cloud service's role instances."""
    scope = _scope(context, request)
    instances = [
        (str(machine.name).lower(), partial(_render_instance, context, scope, machine))
        for machine in scope.machines.values()
    ]
    return resource_ids.paginate(request, instances)


async def get_instance(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a role instance."""
    scope = _scope(context, request)
    return ArmResponse(
        body=_render_instance(context, scope, _instance(scope, request.names["instance"], request))
    )


async def view_instance(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the instance view of a role instance."""
    scope = _scope(context, request)
    machine = _instance(scope, request.names["instance"], request)
    view = render.instance_view(context, machine)
    names = ("platformUpdateDomain", "platformFaultDomain", "statuses")
    return ArmResponse(body={name: view[name] for name in names})


async def act_on_instance(verb: str, context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Carry out a verb on a role instance."""
    scope = _scope(context, request)
    machine = _instance(scope, request.names["instance"], request)
    return await actions.act(context, request, verb, _instance_id(context, scope, machine), (machine.ref,))


def _scope(context: ArmContext, request: ArmRequest) -> Scope:
    return resource_ids.require(context, CLOUD_SERVICES, request.names["group"], request.names["name"])[0]


def _instance(scope: Scope, name: str, request: ArmRequest) -> Machine:
    for machine in scope.machines.values():
        if machine.name.lower() == name.lower():
            return machine
    raise not_found(_TYPE, f"{scope.facts.set_name}/roleInstances/{name}", request.names["group"])


async def _change(context: ArmContext, scope: Scope, body: Document) -> ArmResponse:
    before = _render(context, scope)
    after = overlay(before, body)
    if _roles(after) != _roles(before):
        raise validation.immutable_property("roleProfile.roles")
    await context.put_documents({resource_ids.set_id(context, scope): after})
    return ArmResponse(body=_render(context, scope))


def _roles(document: Json) -> Roles:
    roles = get_path(document, "properties", "roleProfile", "roles")
    if not isinstance(roles, list) or not roles:
        raise invalid("properties.roleProfile.roles", "at least one role is required")
    return tuple(_role(role) for role in roles)


def _role(role: Json) -> tuple[str, int]:
    name, capacity = get_path(role, "name"), get_path(role, "sku", "capacity")
    if not isinstance(name, str):
        raise invalid("properties.roleProfile.roles", "every role needs a name")
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise invalid("properties.roleProfile.roles", f"the sku of role {name} needs a capacity")
    return name, capacity


def _render(context: ArmContext, scope: Scope) -> Document:
    identifier = resource_ids.set_id(context, scope)
    stored = context.document(identifier) or {}
    counts: dict[str, int] = {}
    for machine in scope.machines.values():
        role = role_of(machine.name)
        counts[role] = counts.get(role, 0) + 1
    stored_roles = get_path(stored, "properties", "roleProfile", "roles")
    derived_roles: list[Json] = [
        {"name": role, "sku": {"name": render.DEFAULT_SIZE, "tier": "Standard", "capacity": count}}
        for role, count in counts.items()
    ]
    group = context.require_group(resource_ids.group_name(context, scope))
    defaults: Document = {"location": group["location"], "tags": {}, "properties": {}}
    properties: Document = {
        "provisioningState": "Deleting" if scope.facts.deleting else "Succeeded",
        "uniqueId": derive_id("set", scope.facts.set_id).lower(),
        "roleProfile": {"roles": stored_roles if isinstance(stored_roles, list) else derived_roles},
    }
    core_state: Document = {
        "id": identifier,
        "name": scope.facts.set_name,
        "type": _TYPE,
        "properties": properties,
    }
    return overlay(overlay(defaults, stored), core_state)


def _instance_id(context: ArmContext, scope: Scope, machine: Machine) -> str:
    return f"{resource_ids.set_id(context, scope)}/roleInstances/{machine.name}"


def _render_instance(context: ArmContext, scope: Scope, machine: Machine) -> Document:
    return {
        "id": _instance_id(context, scope, machine),
        "name": machine.name,
        "type": f"{_TYPE}/roleInstances",
        "location": _render(context, scope)["location"],
        "sku": {"name": render.DEFAULT_SIZE, "tier": "Standard"},
        "properties": {"networkProfile": {"networkInterfaces": []}},
    }


_VERBS = ("restart", "reimage")
_ONE = f"{GROUP_PATH}/{CLOUD_SERVICES}/{{name}}"
_INSTANCE = f"{_ONE}/roleInstances/{{instance}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIPTION_PATH}/{CLOUD_SERVICES}", list_all),
    ArmRoute("GET", f"{GROUP_PATH}/{CLOUD_SERVICES}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("DELETE", _ONE, delete),
    *(ArmRoute("POST", f"{_ONE}/{verb}", partial(act, verb)) for verb in _VERBS),
    ArmRoute("GET", f"{_ONE}/roleInstances", list_instances),
    ArmRoute("GET", _INSTANCE, get_instance),
    ArmRoute("GET", f"{_INSTANCE}/instanceView", view_instance),
    *(ArmRoute("POST", f"{_INSTANCE}/{verb}", partial(act_on_instance, verb)) for verb in _VERBS),
)
