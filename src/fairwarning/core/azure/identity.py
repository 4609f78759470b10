"""What Azure says a machine is: its group, location, size, image, priority, resource id and computer name.

The management API and ``/metadata/instance`` both read this module, so they cannot differ. Most of these
facts are in the documents that clients of the management API have stored: that of the machine, or that of
its scale set; an inventory may give a machine's size and location. A machine that neither has described has
the defaults below.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from fairwarning.core.azure.disks import DELETE, DETACH, DISKS, DiskOwner, machine_disks, name_disks
from fairwarning.core.azure.images import DEFAULT_IMAGE, Image
from fairwarning.core.azure.members import get_path
from fairwarning.core.azure.operating_system import OsType, os_type
from fairwarning.core.document.render import Json
from fairwarning.core.model import HOME_GROUP, Machine, ScopeKind, ScopeProperties, derive_id

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
DEFAULT_LOCATION = "westeurope"
DEFAULT_SIZE = "Standard_D2s_v5"

VMS = "virtualMachines"
SCALE_SETS = "virtualMachineScaleSets"
AVAILABILITY_SETS = "availabilitySets"
CLOUD_SERVICES = "cloudServices"
ROLE_INSTANCES = "roleInstances"

#: The type of resource that each kind of scope is.
RESOURCE_TYPES = {
    ScopeKind.SCALE_SET: SCALE_SETS,
    ScopeKind.FLEXIBLE_SET: SCALE_SETS,
    ScopeKind.AVAILABILITY_SET: AVAILABILITY_SETS,
    ScopeKind.CLOUD_SERVICE: CLOUD_SERVICES,
    ScopeKind.STANDALONE: VMS,
}
#: The types of machines that are parts of the resource of their scope, and no resources of their own.
_PARTS = {ScopeKind.SCALE_SET: VMS, ScopeKind.CLOUD_SERVICE: ROLE_INSTANCES}

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: Returns the stored document of a resource by its id; None if there is none.
FindDocument = Callable[[str], Json]


class MachineIdentity(NamedTuple):
    """The facts about a machine that its own API and the management API agree on."""

    resource_id: str
    computer_name: str
    #: The members ``osDisk`` and ``dataDisks`` of the storage profile, complete.
    disks: dict[str, Json]
    #: This and all that follows, machines that are alike have in common.
    group: str
    location: str
    size: str
    image: Image
    #: The priority that the machine was created with (I-14).
    priority: str
    os_type: OsType
    #: The documents that clients have stored about the machine, and about its scale set.
    own: Json
    model: Json


#: What machines without documents of their own have in common, by scope, size, location and priority.
Alike = dict[tuple[str, str, str, bool], MachineIdentity]


class ManagedIdentity(NamedTuple):
    """A system-assigned identity: the id of its application and the id of its principal."""

    client_id: str
    principal_id: str


def stored_documents(stored: Callable[[str], str | None]) -> FindDocument:
    """Return what finds documents of the management API among stored values, and reads each of them once."""

    @cache
    def find(resource_id: str) -> Json:
        text = stored(resource_id.lower())
        return None if text is None else json.loads(text)

    return find


def managed_identity(resource_id: str) -> ManagedIdentity:
    """Return the identity of a resource (I-15); the id of the resource determines it."""
    owner = resource_id.lower()
    return ManagedIdentity(derive_id("client", owner).lower(), derive_id("principal", owner).lower())


def machine_identity(machine: Machine, scope: ScopeProperties, find: FindDocument) -> ManagedIdentity:
    """Return the identity that a machine has tokens of: its own, or that of its scale set."""
    owner = set_id(scope, find) if scope.kind.scales else machine_id(machine, scope, find)
    return managed_identity(owner)


def machine_computer_name(machine: Machine, scope: ScopeProperties, find: FindDocument) -> str:
    """Return the host name of a machine, without the rest of what Azure says about the machine."""
    return _computer_name(machine, scope, *machine_documents(machine, scope, find))


def identify(
    machine: Machine, scope: ScopeProperties, find: FindDocument, alike: Alike | None = None
) -> MachineIdentity:
    """Return what Azure says a machine is; ``alike`` keeps what such machines have in common."""
    kind = machine.scope, machine.size, machine.location, machine.spot
    common = None if alike is None else alike.get(kind)
    group = group_name(scope, find) if common is None else common.group
    identifier = _machine_id(machine, scope, group)
    own = _own_document(machine, find(identifier))
    if common is None or own is not None:
        common = _describe(machine, scope, find, own)
        if alike is not None and own is None:
            alike[kind] = common
    folder, prefix = f"{_provider(group)}/{DISKS}/", _disk_prefix(machine, scope)
    name = _computer_name(machine, scope, own, common.model)
    disks = name_disks(common.disks, folder, prefix, machine.vm_id)
    return MachineIdentity(identifier, name, disks, *common[3:])


def _describe(machine: Machine, scope: ScopeProperties, find: FindDocument, own: Json) -> MachineIdentity:
    """Return what Azure says about a machine, except for what it is called."""
    group = group_name(scope, find)
    model = find(_set_id(scope, group)) if scope.kind.scales else None
    profile = get_path(model, "properties", "virtualMachineProfile")
    system = os_type(get_path(own, "properties"), profile)
    size = _text(
        machine.size,
        get_path(own, "properties", "hardwareProfile", "vmSize"),
        get_path(model, "sku", "name"),
        DEFAULT_SIZE,
    )
    return MachineIdentity(
        group=group,
        resource_id="",
        computer_name="",
        location=_text(
            machine.location,
            get_path(own, "location"),
            get_path(model, "location"),
            get_path(find(group_id(group)), "location"),
            DEFAULT_LOCATION,
        ),
        size=size,
        image=_image(
            get_path(own, "properties", "storageProfile", "imageReference"),
            get_path(profile, "storageProfile", "imageReference"),
        ),
        disks=machine_disks(
            DiskOwner(
                folder=f"{_provider(group)}/{DISKS}/",
                delete_option=DELETE if own is None or scope.kind is ScopeKind.SCALE_SET else DETACH,
                os_type=system,
                size=size,
            ),
            get_path(own, "properties", "storageProfile"),
            get_path(profile, "storageProfile"),
        ),
        priority=_text(
            get_path(own, "properties", "priority"),
            get_path(profile, "priority"),
            "Spot" if machine.spot else "",
        ),
        os_type=system,
        own=own,
        model=model,
    )


def machine_documents(machine: Machine, scope: ScopeProperties, find: FindDocument) -> tuple[Json, Json]:
    """Return the documents that clients have stored about a machine: its own, and that of its scale set."""
    own = _own_document(machine, find(machine_id(machine, scope, find)))
    return own, find(set_id(scope, find)) if scope.kind.scales else None


def _own_document(machine: Machine, document: Json) -> Json:
    """Return the document of a machine unless it is that of an earlier machine of that name."""
    return document if get_path(document, "properties", "vmId") == machine.vm_id else None


def group_id(name: str) -> str:
    """Return the id of a resource group."""
    return f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}"


def resource_id(group: str, kind: str, name: str) -> str:
    """Return the id of a resource of Microsoft.Compute."""
    return f"{_provider(group)}/{kind}/{name}"


def group_name(scope: ScopeProperties, find: FindDocument) -> str:
    """Return the resource group of a scope, spelled as it was created."""
    name = scope.group or HOME_GROUP
    return _text(get_path(find(group_id(name)), "name"), name)


def set_id(scope: ScopeProperties, find: FindDocument) -> str:
    """Return the id of the resource that a scope is, whole or as one of its zones."""
    return _set_id(scope, group_name(scope, find))


def machine_id(machine: Machine, scope: ScopeProperties, find: FindDocument) -> str:
    """Return the id of a machine: a resource of its own, or a part of the resource of its scope."""
    return _machine_id(machine, scope, group_name(scope, find))


def computer_name(prefix: str, instance_id: int) -> str:
    """Return the hostname of an instance of a uniform scale set."""
    # S-06: the id in base 36, padded to six digits; Azure writes the letters in upper case.
    digits = ""
    while instance_id > 0:
        instance_id, digit = divmod(instance_id, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"{prefix}{digits:0>6}"


def _provider(group: str) -> str:
    return f"{group_id(group)}/providers/Microsoft.Compute"


def _set_id(scope: ScopeProperties, group: str) -> str:
    return resource_id(group, RESOURCE_TYPES[scope.kind], scope.set_name)


def _machine_id(machine: Machine, scope: ScopeProperties, group: str) -> str:
    if scope.kind not in _PARTS:
        return resource_id(group, VMS, machine.name)
    name = machine.instance if scope.kind is ScopeKind.SCALE_SET else machine.name
    return f"{_set_id(scope, group)}/{_PARTS[scope.kind]}/{name}"


def _disk_prefix(machine: Machine, scope: ScopeProperties) -> str:
    return f"{scope.set_name}_{machine.name}" if scope.kind is ScopeKind.SCALE_SET else machine.name


def _computer_name(machine: Machine, scope: ScopeProperties, own: Json, model: Json) -> str:
    given = get_path(own, "properties", "osProfile", "computerName")
    if scope.kind is not ScopeKind.SCALE_SET:
        return _text(given, machine.name)
    path = ("properties", "virtualMachineProfile", "osProfile", "computerNamePrefix")
    return _text(given, computer_name(_text(get_path(model, *path), scope.set_name), int(machine.instance)))


def _image(*references: Json) -> Image:
    for reference in references:
        if isinstance(reference, dict):
            names = ("publisher", "offer", "sku", "version", "id")
            return Image(**{name: _text(get_path(reference, name), "") for name in names})
    return DEFAULT_IMAGE


def _text(*values: Json) -> str:
    """Return the first value that is a text and not empty."""
    for value in values:
        if isinstance(value, str) and value:
            return value
    return ""
