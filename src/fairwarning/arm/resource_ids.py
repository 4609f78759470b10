"""The ids of resources, and the scopes and machines of the core behind them."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from urllib.parse import quote

from fairwarning.arm.context import ArmContext, core_group, group_id
from fairwarning.arm.documents import Document, get_path
from fairwarning.arm.errors import AzureError, not_found
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.core.document.render import Json
from fairwarning.core.errors import AmbiguousNameError, UnknownMachineError
from fairwarning.core.model import HOME_GROUP, Machine, MachineRef, Scope, ScopeKind, VmName, in_group

VMS = "virtualMachines"
SCALE_SETS = "virtualMachineScaleSets"
AVAILABILITY_SETS = "availabilitySets"
CLOUD_SERVICES = "cloudServices"

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

_REFERENCE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/Microsoft\.Compute/([^/]+)/([^/]+)/?",
    re.IGNORECASE,
)


def resource_id(group: str, kind: str, name: str) -> str:
    """Return the id of a resource of Microsoft.Compute."""
    return f"{group_id(group)}/providers/Microsoft.Compute/{kind}/{name}"


def group_name(context: ArmContext, scope: Scope) -> str:
    """Return the resource group of a scope, spelled as it was created."""
    name = scope.facts.group or HOME_GROUP
    document = context.document(group_id(name))
    return name if document is None else str(document["name"])


def set_id(context: ArmContext, scope: Scope) -> str:
    """Return the id of the resource that a scope belongs to, whole or as one of its zones."""
    order = (AVAILABILITY_SETS, CLOUD_SERVICES, SCALE_SETS, VMS)
    kind = next(kind for kind in order if scope.facts.kind in SCOPE_KINDS[kind])
    return resource_id(group_name(context, scope), kind, scope.facts.set_name)


def vm_id(context: ArmContext, machine: Machine) -> str:
    """Return the id of a machine that is a resource of its own."""
    return resource_id(group_name(context, context.engine.scope(machine.scope)), VMS, machine.name)


def find_scopes(context: ArmContext, kind: str, group: str, name: str) -> tuple[Scope, ...]:
    """Return the scopes of a set: one, or one per zone; an empty tuple for an unknown set."""
    scopes = context.engine.scopes()
    document = context.document(resource_id(group, kind, name))
    spelling = name if document is None else str(document["name"])
    ids = context.engine.directory.scopes_of_set(in_group(core_group(group), spelling))
    if not ids and not core_group(group):
        # Sets of the home group may have no document that holds the spelling of the name.
        ids = tuple(key for key, scope in scopes.items() if scope.facts.set_id.lower() == name.lower())
    candidates = (scopes[key] for key in ids if key in scopes)
    return tuple(scope for scope in candidates if scope.facts.kind in SCOPE_KINDS[kind])


def require(context: ArmContext, kind: str, group: str, name: str) -> tuple[Scope, ...]:
    """Return the scopes of a set.

    Raises:
        AzureError: there is no such set, or no such group.
    """
    context.require_group(group)
    scopes = find_scopes(context, kind, group, name)
    if not scopes:
        raise not_found(f"Microsoft.Compute/{kind}", name, group)
    return scopes


def find_machine_name(scope: Scope, name: str) -> VmName | None:
    """Return the name of a machine in its own spelling, given the name in any case."""
    if name in scope.machines:
        return VmName(name)
    folded = name.lower()
    return next((machine for machine in scope.machines if machine.lower() == folded), None)


def find_vm(context: ArmContext, group: str, name: str) -> Machine | None:
    """Return the virtual machine of this name; machines of uniform sets are not among them."""
    document = context.document(resource_id(group, VMS, name))
    refs = _refs_by_name(context, name if document is None else str(document["name"]))
    for ref in chain(refs, _refs_in_home_group(context, group, name)):
        scope = context.engine.scopes().get(ref.scope)
        if scope is None or ref.name not in scope.machines:
            continue
        if scope.facts.kind in SCOPE_KINDS[VMS] and scope.facts.group == core_group(group):
            return scope.machines[ref.name]
    return None


def require_vm(context: ArmContext, request: ArmRequest) -> Machine:
    """Return the virtual machine in the path of a request.

    Raises:
        AzureError: there is no such machine, or no such group.
    """
    context.require_group(request.names["group"])
    machine = find_vm(context, request.names["group"], request.names["name"])
    if machine is None:
        raise not_found(f"Microsoft.Compute/{VMS}", request.names["name"], request.names["group"])
    return machine


def stored_document(context: ArmContext, key: str, vm_id: str) -> Document:
    """Return the document of a machine; the document of an earlier machine of that name is ignored."""
    document = context.document(key)
    return document if document is not None and get_path(document, "properties", "vmId") == vm_id else {}


async def delete_stale_document(context: ArmContext, key: str, is_gone: Callable[[], bool]) -> None:
    """Delete the document of a resource that no longer exists."""
    if context.document(key) is None:
        return
    async with context.lock(key):
        if is_gone():
            await context.put_documents({key: None})


def parse_reference(value: Json, kind: str, target: str) -> tuple[str, str] | None:
    """Return the group and the name in a reference to a resource; None for no reference."""
    if value is None:
        return None
    identifier = get_path(value, "id")
    parts = _REFERENCE.fullmatch(identifier) if isinstance(identifier, str) else None
    if parts is None or parts[2].lower() != kind.lower():
        message = f"The value of {target}.id is not the id of a resource of type Microsoft.Compute/{kind}."
        raise AzureError(400, "LinkedInvalidPropertyId", message, f"{target}.id")
    return parts[1], parts[3]


def select_scopes(context: ArmContext, request: ArmRequest, kind: str) -> Iterator[Scope]:
    """Yield the scopes of a type of resource, in the request's group or in all groups."""
    group = request.names.get("group")
    if group is not None:
        context.require_group(group)
    for scope in list(context.engine.scopes().values()):
        is_in_group = group is None or scope.facts.group == core_group(group)
        if is_in_group and scope.facts.kind in SCOPE_KINDS[kind]:
            yield scope


def paginate(request: ArmRequest, resources: Iterable[tuple[str, Callable[[], Document]]]) -> ArmResponse:
    """Return a page of a list, ordered by key, and a link to the next page.

    ``resources`` are keys and functions that render a resource; only the resources of the page are rendered.
    """
    after = request.query.get("$skiptoken", "")
    rest = sorted((entry for entry in resources if entry[0] > after), key=lambda entry: entry[0])
    body: Document = {"value": [render() for _, render in rest[:PAGE_SIZE]]}
    if len(rest) > PAGE_SIZE:
        query = {**request.query, "$skiptoken": rest[PAGE_SIZE - 1][0]}
        text = "&".join(f"{quote(key, safe='$')}={quote(value, safe='')}" for key, value in query.items())
        body["nextLink"] = f"{request.base}{request.path}?{text}"
    return ArmResponse(body=body)


def _refs_in_home_group(context: ArmContext, group: str, name: str) -> Iterator[MachineRef]:
    """Yield the machines of this name in the home group, where documents need not hold the spelling."""
    if core_group(group):
        return
    for scope in context.engine.scopes().values():
        if scope.facts.group or scope.facts.kind not in SCOPE_KINDS[VMS]:
            continue
        spelling = find_machine_name(scope, name)
        if spelling is not None:
            yield MachineRef(scope.id, spelling)


def _refs_by_name(context: ArmContext, name: str) -> tuple[MachineRef, ...]:
    if "/" in name:
        return ()
    try:
        return (context.engine.directory.machine(name),)
    except UnknownMachineError:
        return ()
    except AmbiguousNameError as error:
        return tuple(MachineRef(scope, VmName(name)) for scope in error.scopes)
