"""The ids of resources, and the scopes and machines of the core behind them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import quote

from fairwarning.arm.documents import Document, get_path
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.state import ArmState, core_group
from fairwarning.core.azure import identity
from fairwarning.core.azure.identity import AVAILABILITY_SETS, CLOUD_SERVICES, SCALE_SETS, VMS, resource_id
from fairwarning.core.blueprint import instance_name
from fairwarning.core.document.render import Json
from fairwarning.core.errors import AmbiguousNameError, UnknownMachineError
from fairwarning.core.model import Machine, Scope, ScopeId, ScopeKind, VmName, in_group

T = TypeVar("T")

SUBSCRIPTION_PATH = "/subscriptions/{subscription}/providers/Microsoft.Compute"
GROUP_PATH = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute"

#: The kinds of scopes behind each type of resource.
SCOPE_KINDS = {
    VMS: frozenset({ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET, ScopeKind.FLEXIBLE_SET}),
    SCALE_SETS: frozenset({ScopeKind.SCALE_SET, ScopeKind.FLEXIBLE_SET}),
    AVAILABILITY_SETS: frozenset({ScopeKind.AVAILABILITY_SET}),
    CLOUD_SERVICES: frozenset({ScopeKind.CLOUD_SERVICE}),
}

#: The number of resources on a page of a list.
PAGE_SIZE = 200
#: The token of the first page; the token of another page ends with the last key of the page before it.
_FIRST_PAGE = "after:"

#: The id of a resource of Microsoft.Compute: its group, type and name.
REFERENCE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/Microsoft\.Compute/([^/]+)/([^/]+)/?",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute"
    rf"/(?:{VMS}|{SCALE_SETS})/(?P<name>[^/]+)(?:/{VMS}/(?P<instance>[^/]+))?",
    re.IGNORECASE,
)


def group_name(state: ArmState, scope: Scope) -> str:
    """Return the resource group of a scope, spelled as it was created."""
    return identity.group_name(scope.facts, state.document)


def set_id(state: ArmState, scope: Scope) -> str:
    """Return the id of the resource that a scope belongs to, whole or as one of its zones."""
    return identity.set_id(scope.facts, state.document)


def machine_id(state: ArmState, machine: Machine) -> str:
    """Return the id of a machine."""
    return identity.machine_id(machine, state.scope_of(machine).facts, state.document)


def identity_members(identifier: str) -> Document:
    """Return the members of a document that the id of its resource determines."""
    provider, *path = identifier.rpartition("/providers/")[2].split("/")
    return {"id": identifier, "name": path[-1], "type": "/".join((provider, *path[::2]))}


def find_scopes(state: ArmState, kind: str, names: Mapping[str, str]) -> tuple[Scope, ...]:
    """Return the scopes of a set: one, or one per zone; an empty tuple for an unknown set."""
    group, name = names["group"], names["name"]
    document = state.document(resource_id(group, kind, name))
    spelling = name if document is None else str(document["name"])
    scopes = state.view.scopes_of_set(in_group(core_group(group), spelling))
    if not scopes and not core_group(group):
        # Sets of the home group may have no document that holds the spelling of the name.
        scopes = tuple(scope for scope in state.view.scopes() if scope.facts.set_id.lower() == name.lower())
    return tuple(scope for scope in scopes if scope.facts.kind in SCOPE_KINDS[kind])


def machine_in(scope: Scope, name: str) -> Machine | None:
    """Return a machine of a scope, given its name in any case."""
    if name in scope.machines:
        return scope.machines[VmName(name)]
    folded = name.lower()
    return next((scope.machines[own] for own in scope.machines if own.lower() == folded), None)


def find_vm(state: ArmState, names: Mapping[str, str]) -> Machine | None:
    """Return the virtual machine of this name; machines of uniform sets are not among them."""
    group, name = names["group"], names["name"]
    document = state.document(resource_id(group, VMS, name))
    spelling = name if document is None else str(document["name"])
    for scope in _scopes_with_machine(state, group, spelling):
        if scope.facts.kind in SCOPE_KINDS[VMS] and scope.facts.group == core_group(group):
            machine = machine_in(scope, spelling)
            if machine is not None:
                return machine
    return None


def find_instance(state: ArmState, names: Mapping[str, str]) -> Machine | None:
    """Return an instance of a scale set, given the names of both."""
    return instance_in(find_scopes(state, SCALE_SETS, names), names["instance"])


def instance_in(scopes: Iterable[Scope], instance: str) -> Machine | None:
    """Return an instance by its id: a number, or the machine's name in a flexible set."""
    for scope in scopes:
        if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
            machine = machine_in(scope, instance)
        else:
            machine = scope.machines.get(instance_name(scope.facts, instance))
        if machine is not None:
            return machine
    return None


def find_machine(state: ArmState, identifier: Json) -> Machine | None:
    """Return a machine by its id: a virtual machine, or an instance of a scale set."""
    parts = _MACHINE.fullmatch(str(identifier))
    if parts is None:
        return None
    find = find_vm if parts["instance"] is None else find_instance
    return find(state, parts.groupdict())


def parse_reference(value: Json, kind: str, target: str) -> Mapping[str, str] | None:
    """Return the group and the name in a reference to a resource; None for no reference."""
    if value is None:
        return None
    identifier = get_path(value, "id")
    parts = REFERENCE.fullmatch(identifier) if isinstance(identifier, str) else None
    if parts is None or parts[2].lower() != kind.lower():
        message = f"The value of {target}.id is not the id of a resource of type Microsoft.Compute/{kind}."
        raise AzureError(400, "LinkedInvalidPropertyId", message, f"{target}.id")
    return {"group": parts[1], "name": parts[3]}


def select_scopes(state: ArmState, request: ArmRequest, kind: str) -> Iterator[Scope]:
    """Return the scopes of a type of resource, in the request's group or in all groups."""
    group = request.names.get("group")
    if group is not None:
        state.require_group(group)
    return (scope for scope in state.scopes_in_group(group) if scope.facts.kind in SCOPE_KINDS[kind])


def paginate(
    request: ArmRequest, resources: Iterable[tuple[str, T]], render: Callable[[T], Document]
) -> ArmResponse:
    """Return a page of a list, ordered by key, and a link to the next page.

    ``resources`` have a key each; only those of the page are rendered.
    """
    token = request.query.get("$skiptoken", _FIRST_PAGE)
    if not token.startswith(_FIRST_PAGE):
        raise AzureError(400, "InvalidParameter", "The request URL is not valid.", "$skiptoken")
    after = token.removeprefix(_FIRST_PAGE)
    rest = sorted((entry for entry in resources if entry[0] > after), key=lambda entry: entry[0])
    body: Document = {"value": [render(resource) for _, resource in rest[:PAGE_SIZE]]}
    if len(rest) > PAGE_SIZE:
        query = {**request.query, "$skiptoken": f"{_FIRST_PAGE}{rest[PAGE_SIZE - 1][0]}"}
        text = "&".join(f"{quote(key, safe='$')}={quote(value, safe='')}" for key, value in query.items())
        body["nextLink"] = f"{request.base}{request.path}?{text}"
    return ArmResponse(body=body)


def _scopes_with_machine(state: ArmState, group: str, name: str) -> Iterator[Scope]:
    """Yield the scopes that may have a machine of this name: those of the exact name first."""
    scopes: tuple[ScopeId, ...] = ()
    if "/" not in name:
        try:
            scopes = (state.view.machine(name).scope,)
        except UnknownMachineError:
            pass
        except AmbiguousNameError as error:
            scopes = error.scopes
    yield from map(state.view.scope, scopes)
    if not core_group(group):
        # Machines of the home group may have no document that holds the spelling of the name.
        yield from state.scopes_in_group(group)
