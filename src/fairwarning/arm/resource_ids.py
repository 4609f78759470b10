"""Where things are: from the ids of resources to the core's scopes and machines, and back."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from urllib.parse import quote

from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.context import ArmContext, Document, core_group, group_id
from fairwarning.arm.errors import AzureError, not_found
from fairwarning.core.document.render import Json
from fairwarning.core.errors import AmbiguousNameError, UnknownMachineError
from fairwarning.core.model import HOME_GROUP, Machine, MachineRef, Scope, ScopeKind, VmName, in_group

VMS = "virtualMachines"
SCALE_SETS = "virtualMachineScaleSets"
AVAILABILITY_SETS = "availabilitySets"
CLOUD_SERVICES = "cloudServices"

SUBSCRIBED = "/subscriptions/{subscription}/providers/Microsoft.Compute"
GROUPED = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute"

#: What kinds of scopes stand behind each type of resource.
KINDS = {
    VMS: frozenset({ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET, ScopeKind.FLEXIBLE_SET}),
    SCALE_SETS: frozenset({ScopeKind.SCALE_SET, ScopeKind.FLEXIBLE_SET}),
    AVAILABILITY_SETS: frozenset({ScopeKind.AVAILABILITY_SET}),
    CLOUD_SERVICES: frozenset({ScopeKind.CLOUD_SERVICE}),
}

#: How many resources a page of a list holds.
PAGE = 200

_REFERENCE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/Microsoft\.Compute/([^/]+)/([^/]+)/?",
    re.IGNORECASE,
)


def resource_id(group: str, kind: str, name: str) -> str:
    """Return the id of a resource of Microsoft.Compute."""
    return f"{group_id(group)}/providers/Microsoft.Compute/{kind}/{name}"


def group_name(room: ArmContext, scope: Scope) -> str:
    """Return a scope's resource group, written as its maker wrote it."""
    name = scope.facts.group or HOME_GROUP
    known = room.document(group_id(name))
    return name if known is None else str(known["name"])


def set_id(room: ArmContext, scope: Scope) -> str:
    """Return the id of the resource that a scope is, or is a zone of."""
    order = (AVAILABILITY_SETS, CLOUD_SERVICES, SCALE_SETS, VMS)
    kind = next(kind for kind in order if scope.facts.kind in KINDS[kind])
    return resource_id(group_name(room, scope), kind, scope.facts.set_name)


def vm_id(room: ArmContext, machine: Machine) -> str:
    """Return the id of a machine that is a resource of its own."""
    return resource_id(group_name(room, room.engine.scope(machine.scope)), VMS, machine.name)


def scopes(room: ArmContext, kind: str, group: str, name: str) -> tuple[Scope, ...]:
    """Return the scopes of a set, one or one per zone; none means that there is no such set."""
    there = room.engine.scopes()
    known = room.document(resource_id(group, kind, name))
    spelled = name if known is None else str(known["name"])
    ids = room.engine.directory.scopes_of_set(in_group(core_group(group), spelled))
    if not ids and not core_group(group):
        # Sets of the home group have no documents that would know how their names are spelled.
        ids = tuple(one for one, scope in there.items() if scope.facts.set_id.lower() == name.lower())
    return tuple(there[one] for one in ids if one in there and there[one].facts.kind in KINDS[kind])


def require(room: ArmContext, kind: str, group: str, name: str) -> tuple[Scope, ...]:
    """Return the scopes of a set, or refuse."""
    room.group(group)
    found = scopes(room, kind, group, name)
    if not found:
        raise not_found(f"Microsoft.Compute/{kind}", name, group)
    return found


def spelled(scope: Scope, name: str) -> VmName | None:
    """Return the name of the machine that somebody means, however they write it."""
    if name in scope.machines:
        return VmName(name)
    meant = name.lower()
    return next((one for one in scope.machines if one.lower() == meant), None)


def vm(room: ArmContext, group: str, name: str) -> Machine | None:
    """Return the machine that is a virtual machine of this name, if there is one."""
    known = room.document(resource_id(group, VMS, name))
    called = _called(room, name if known is None else str(known["name"]))
    for ref in chain(called, _meant(room, group, name)):
        scope = room.engine.scopes().get(ref.scope)
        if scope is None or ref.name not in scope.machines:
            continue
        if scope.facts.kind in KINDS[VMS] and scope.facts.group == core_group(group):
            return scope.machines[ref.name]
    return None


def require_vm(room: ArmContext, call: ArmRequest) -> Machine:
    """Return the virtual machine a request is about, or refuse."""
    room.group(call.names["group"])
    found = vm(room, call.names["group"], call.names["name"])
    if found is None:
        raise not_found(f"Microsoft.Compute/{VMS}", call.names["name"], call.names["group"])
    return found


def kept(room: ArmContext, key: str, vm: str) -> Document:
    """Return what is kept of a machine; a document of an earlier machine of that name does not count."""
    known = room.document(key)
    return known if known is not None and get_path(known, "properties", "vmId") == vm else {}


async def drop(room: ArmContext, key: str, gone: Callable[[], bool]) -> None:
    """Let go of the document of something that is no more."""
    if room.document(key) is None:
        return
    async with room.lock(key):
        if gone():
            await room.keep({key: None})


def reference(value: Json, kind: str, target: str) -> tuple[str, str] | None:
    """Return the group and the name in a reference to a resource; None where there is none."""
    if value is None:
        return None
    identifier = get_path(value, "id")
    found = _REFERENCE.fullmatch(identifier) if isinstance(identifier, str) else None
    if found is None or found[2].lower() != kind.lower():
        message = f"The value of {target}.id is not the id of a resource of type Microsoft.Compute/{kind}."
        raise AzureError(400, "LinkedInvalidPropertyId", message, f"{target}.id")
    return found[1], found[3]


def wanted(room: ArmContext, call: ArmRequest, kind: str) -> Iterator[Scope]:
    """Yield the scopes of a type, of the request's group or of all."""
    group = call.names.get("group")
    if group is not None:
        room.group(group)
    for scope in list(room.engine.scopes().values()):
        if scope.facts.kind in KINDS[kind] and (group is None or scope.facts.group == core_group(group)):
            yield scope


def page(call: ArmRequest, found: Iterable[tuple[str, Callable[[], Document]]]) -> ArmResponse:
    """Return one page of a list: what comes after the token, in order of the ids, and where the rest is."""
    after = call.query.get("$skiptoken", "")
    rest = sorted((one for one in found if one[0] > after), key=lambda one: one[0])
    body: Document = {"value": [show() for _, show in rest[:PAGE]]}
    if len(rest) > PAGE:
        query = {**call.query, "$skiptoken": rest[PAGE - 1][0]}
        text = "&".join(f"{quote(key, safe='$')}={quote(value, safe='')}" for key, value in query.items())
        body["nextLink"] = f"{call.base}{call.path}?{text}"
    return ArmResponse(body=body)


def _meant(room: ArmContext, group: str, name: str) -> Iterator[MachineRef]:
    """Yield who is meant in the home group, where no document knows how names are spelled."""
    for scope in () if core_group(group) else room.engine.scopes().values():
        found = spelled(scope, name) if scope.facts.kind in KINDS[VMS] and not scope.facts.group else None
        if found is not None:
            yield MachineRef(scope.id, found)


def _called(room: ArmContext, name: str) -> tuple[MachineRef, ...]:
    if "/" in name:
        return ()
    try:
        return (room.engine.directory.machine(name),)
    except UnknownMachineError:
        return ()
    except AmbiguousNameError as several:
        return tuple(MachineRef(scope, VmName(name)) for scope in several.scopes)
