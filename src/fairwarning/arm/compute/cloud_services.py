"""Cloud services (extended support): roles and their instances, with names such as FrontEnd_IN_0."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from fairwarning.arm import resource_ids
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.compute.actions import Selection
from fairwarning.arm.compute.resource_type import Listed, Names, ResourceType, Scopes, each_set, find_set
from fairwarning.arm.context import Edit
from fairwarning.arm.documents import Document, get_items, get_path, overlay
from fairwarning.arm.errors import invalid
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.operations import location_of
from fairwarning.arm.state import ArmState, core_group
from fairwarning.core.azure.identity import CLOUD_SERVICES, DEFAULT_SIZE, ROLE_INSTANCES
from fairwarning.core.blueprint import Blueprint, role_of
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, ScopeKind, derive_id

_VERBS = ("restart", "reimage")


def _render(state: ArmState, scopes: Scopes) -> Document:
    (scope,) = scopes
    identifier = resource_ids.set_id(state, scope)
    stored = state.document(identifier) or {}
    stored_roles = get_path(stored, "properties", "roleProfile", "roles")
    derived_roles: list[Json] = [
        {"name": role, "sku": {"name": DEFAULT_SIZE, "tier": "Standard", "capacity": count}}
        for role, count in Counter(map(role_of, scope.machines)).items()
    ]
    defaults: Document = {"location": location_of(state, identifier), "tags": {}, "properties": {}}
    properties: Document = {
        "provisioningState": "Deleting" if scope.facts.deleting else "Succeeded",
        "uniqueId": derive_id("set", scope.facts.set_id).lower(),
        "roleProfile": {"roles": stored_roles if isinstance(stored_roles, list) else derived_roles},
    }
    return render.with_core_state(overlay(defaults, stored), identifier, properties)


def _select(state: ArmState, request: ArmRequest, verb: str) -> Selection:
    (scope,) = TYPE.require(state, request.names)
    names = validation.read_texts(request, "roleInstances")
    if names is None or names == ("*",):
        return Selection(tuple(scope.refs()), all=True)
    instances = ({**request.names, "instance": name} for name in dict.fromkeys(names))
    return Selection([ROLE_INSTANCE.require(state, instance).ref for instance in instances])


def _create(edit: Edit, request: ArmRequest, body: Document) -> None:
    group, name = request.names["group"], request.names["name"]
    edit.draft.create_set(
        Blueprint(name=name, group=core_group(group), kind=ScopeKind.CLOUD_SERVICE, roles=_roles(body))
    )
    location = edit.state.require_group(group)["location"]
    edit.put({TYPE.id(request.names): {"location": location, "tags": {}, **body, "name": name}})


def _change(edit: Edit, request: ArmRequest, scopes: Scopes, body: Document) -> None:
    before = _render(edit.state, scopes)
    after = overlay(before, body)
    if _roles(after) != _roles(before):
        raise validation.immutable_property("roleProfile.roles")
    edit.put({resource_ids.set_id(edit.state, scopes[0]): after})


def _roles(document: Json) -> tuple[tuple[str, int], ...]:
    target = "properties.roleProfile.roles"
    roles: list[tuple[str, int]] = []
    for role in get_items(document, "properties", "roleProfile", "roles"):
        name, capacity = get_path(role, "name"), get_path(role, "sku", "capacity")
        if not isinstance(name, str):
            raise invalid(target, "every role needs a name")
        if not isinstance(capacity, int) or isinstance(capacity, bool):
            raise invalid(target, f"the sku of role {name} needs a capacity")
        roles.append((name, capacity))
    if not roles:
        raise invalid(target, "at least one role is required")
    return tuple(roles)


def _find_instance(state: ArmState, names: Names) -> Machine | None:
    (scope,) = TYPE.require(state, names)
    return resource_ids.machine_in(scope, names["instance"])


def _each_instance(state: ArmState, request: ArmRequest) -> Iterator[Listed[Machine]]:
    machines = TYPE.require(state, request.names)[0].machines
    return ((name.lower(), partial(machines.__getitem__, name)) for name in machines)


def _render_instance(state: ArmState, machine: Machine) -> Document:
    return {
        **resource_ids.identity_members(resource_ids.machine_id(state, machine)),
        "location": _render(state, (state.scope_of(machine),))["location"],
        "sku": {"name": DEFAULT_SIZE, "tier": "Standard"},
        "properties": {"networkProfile": {"networkInterfaces": []}},
    }


def _view_instance(state: ArmState, machine: Machine) -> Document:
    view = render.instance_view(state, machine)
    return {name: view[name] for name in ("platformUpdateDomain", "platformFaultDomain", "statuses")}


def _select_instance(state: ArmState, request: ArmRequest, verb: str) -> Selection:
    return Selection((ROLE_INSTANCE.require(state, request.names).ref,))


TYPE = ResourceType[Scopes](
    kind=CLOUD_SERVICES,
    find=partial(find_set, CLOUD_SERVICES),
    each=partial(each_set, CLOUD_SERVICES),
    render=_render,
    create=_create,
    change=_change,
    delete=actions.delete_set,
    select=_select,
    verbs=_VERBS,
    methods=("GET", "PUT", "DELETE"),
)
ROLE_INSTANCE = ResourceType[Machine](
    kind=f"{CLOUD_SERVICES}/{ROLE_INSTANCES}",
    names=("name", "instance"),
    find=_find_instance,
    each=_each_instance,
    render=_render_instance,
    view=_view_instance,
    select=_select_instance,
    verbs=_VERBS,
    methods=("GET",),
)
ROUTES = (*TYPE.routes(), *ROLE_INSTANCE.routes())
