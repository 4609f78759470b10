"""Managed disks as resources (T-31).

The disks of a machine that a client created have documents, so that a disk can outlive its machine. The
member ``attachment`` of a document says which machine has the disk, and whether the disk goes with the
machine. The disks of all other machines have no documents: they follow from the machine, and go with it.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import count

from fairwarning.arm import catalog, resource_ids
from fairwarning.arm.compute import render
from fairwarning.arm.compute.resource_type import Listed, Names, ResourceType
from fairwarning.arm.context import Documents, Edit
from fairwarning.arm.documents import Document, fill, get_fields, get_items, get_path, overlay, without
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.operations import format_instant
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.disks import DELETE, DISKS, disks_of
from fairwarning.core.azure.identity import (
    SCALE_SETS,
    VMS,
    MachineIdentity,
    group_id,
    identify,
    machine_id,
    resource_id,
)
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, Scope, ScopeKind, ScopeProperties, derive_id

_TYPE = f"Microsoft.Compute/{DISKS}"
_ATTACHMENT = "attachment"
#: How many data disks the largest sizes of Azure allow.
_MOST_DATA_DISKS = 64
#: The kind of a disk that is created with its machine.
_DEFAULT_SKU = "Premium_LRS"
#: The name of a disk that was named after its machine.
_OWN_NAME = re.compile(r"(?P<prefix>.+)_(?:osdisk_1|disk\d+)_[0-9a-f]{32}", re.IGNORECASE)
_WITH_DISKS = resource_ids.SCOPE_KINDS[VMS] | resource_ids.SCOPE_KINDS[SCALE_SETS]


def create_with(
    state: ArmState, machine: Machine, scope: ScopeProperties, document: Document
) -> dict[str, Document]:
    """Return the document of a new machine, and those of its disks."""
    identity = _identify_with(state, machine, scope, document)
    _check_number([], get_items(identity.disks, "dataDisks"))
    return _attach(state, identity, machine.vm_id) | _store(identity, document)


def change_with(
    state: ArmState, machine: Machine, scope: ScopeProperties, document: Document
) -> dict[str, Document]:
    """Return the changed document of a machine, and those of disks that the change attaches or detaches."""
    before = identify(machine, scope, state.document)
    after = _identify_with(state, machine, scope, document)
    _check_number(get_items(before.disks, "dataDisks"), get_items(after.disks, "dataDisks"))
    kept = {_id(disk).lower() for disk in disks_of(after.disks)}
    detached = {
        _id(disk): without(_existing(state, _id(disk)) or _new_document(state, before, disk), _ATTACHMENT)
        for disk in disks_of(before.disks)
        if _id(disk).lower() not in kept
    }
    return _attach(state, after, machine.vm_id) | detached | _store(after, document)


def _identify_with(
    state: ArmState, machine: Machine, scope: ScopeProperties, document: Document
) -> MachineIdentity:
    """Return what a machine is once a document is stored for it."""
    key = machine_id(machine, scope, state.document).lower()
    return identify(
        machine, scope, lambda resource: document if resource.lower() == key else state.document(resource)
    )


def _attach(state: ArmState, machine: MachineIdentity, vm_id: str) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    for disk in disks_of(machine.disks):
        old = _existing(state, _id(disk))
        owner = None if old is None else _owner(state, old)
        if owner is not None and owner.vm_id != vm_id:
            message = (
                f"Disk '{_id(disk)}' cannot be attached as the disk is already owned by VM '{owner.name}'."
            )
            raise AzureError(409, "ConflictingUserInput", message, "disk")
        attachment: Document = {
            "machine": machine.resource_id,
            "vmId": vm_id,
            "deleteOption": get_path(disk, "deleteOption"),
        }
        document = {**(old or _new_document(state, machine, disk)), _ATTACHMENT: attachment}
        if document != old:
            documents[_id(disk)] = document
    return documents


def _store(machine: MachineIdentity, document: Document) -> dict[str, Document]:
    return {machine.resource_id: overlay(document, {"properties": {"storageProfile": machine.disks}})}


def with_data_disks(state: ArmState, before: Sequence[Json], body: Document) -> list[Json]:
    """Return the data disks of a machine after some were attached, and some detached.

    Raises:
        AzureError: a disk does not exist, or is not attached to the machine, or there are too many.
    """
    detached = {str(get_path(item, "diskId")).lower() for item in get_items(body, "dataDisksToDetach")}
    unknown = detached - {_id(disk).lower() for disk in before}
    if unknown:
        raise invalid("dataDisksToDetach", f"{min(unknown)} is not a data disk of the virtual machine")
    after = [disk for disk in before if _id(disk).lower() not in detached]
    attached = get_items(body, "dataDisksToAttach")
    _check_number(before, [*after, *attached])
    taken = [get_path(disk, "lun") for disk in after]
    for item in attached:
        identifier = str(get_path(item, "diskId"))
        names = resource_ids.parse_reference({"id": identifier}, DISKS, "dataDisksToAttach") or {}
        disk = TYPE.require(state, names)
        given = without(get_fields(item), "diskId")
        size = get_path(disk, "properties", "diskSizeGB")
        own: Document = {"createOption": "Attach", "managedDisk": {"id": disk["id"]}, "diskSizeGB": size}
        after.append({"lun": next(lun for lun in count() if lun not in taken), **given, **own})
        taken.append(get_path(after[-1], "lun"))
    return after


def _check_number(before: Sequence[Json], after: Sequence[Json]) -> None:
    """Refuse more data disks than Azure allows; a machine that has more may keep them, and lose some."""
    if len(after) > max(len(before), _MOST_DATA_DISKS):
        message = (
            "The maximum number of data disks allowed to be attached to a VM of this size is "
            f"{_MOST_DATA_DISKS}."
        )
        raise AzureError(409, "OperationNotAllowed", message, "dataDisks")


def documents_after(state: ArmState, machine: Document) -> Documents:
    """Return what removes the documents of the disks that went with a machine."""
    disks = map(_id, disks_of(get_path(machine, "properties", "storageProfile")))
    return {disk: None for disk in disks if state.document(disk) and _existing(state, disk) is None}


def all_disks(state: ArmState, group: str | None, kinds: Collection[ScopeKind]) -> Iterator[Listed[Document]]:
    """Yield the disks of a group, or of all groups; ``kinds`` are those of the scopes of their machines."""
    prefix = group_id("" if group is None else f"{group}/")
    folder = f"/providers/microsoft.compute/{DISKS}/"
    owners = set[str]()
    for key, document in state.existing_documents(prefix):
        if folder in key and not _is_gone(state, document):
            owners.add(str(get_path(document, _ATTACHMENT, "machine")).lower())
            yield key, document.copy
    for scope in state.scopes_in_group(group):
        if scope.facts.kind in kinds:
            yield from _without_documents(state, scope, owners)


def _without_documents(state: ArmState, scope: Scope, owners: Collection[str]) -> Iterator[Listed[Document]]:
    """Yield the disks of a scope that have no documents; ``owners`` are machines some of whose disks do.

    A disk is rendered only if its page needs it. So the disks of a machine that no document describes are
    not looked at: the machine has as many as the others of its scope.
    """
    usual: int | None = None
    for machine in scope.machines.values():
        key = resource_ids.machine_id(state, machine).lower()
        if key in owners or state.document(key) is not None:
            number = len(_own_disks(state, machine))
        elif usual is None:
            number = usual = len(_own_disks(state, machine))
        else:
            number = usual
        for index in range(number):
            yield f"{key}/{index}", partial(_own_disk, state, machine, index)


def show(state: ArmState, document: Document) -> Document:
    """Return the document of a disk as clients read it."""
    machine = _owner(state, document)
    use: Document = {"properties": {"diskState": "Unattached"}}
    if machine is not None:
        is_running = render.power_state(state, machine)[0] != "deallocated"
        disk_state = "Attached" if is_running else "Reserved"
        use = {"managedBy": resource_ids.machine_id(state, machine), "properties": {"diskState": disk_state}}
    shown = overlay(without(document, _ATTACHMENT), use)
    return fill(fill(shown, _derived(shown)), catalog.DEFAULTS[_TYPE])


def _derived(document: Document) -> Document:
    """Return what follows from the size and the kind of a disk."""
    sku, size = str(get_path(document, "sku", "name")), get_path(document, "properties", "diskSizeGB")
    tier = sku.partition("_")[0].removesuffix("SSD").removesuffix("V2")
    derived: Document = {"sku": {"tier": tier}}
    if isinstance(size, int):
        derived["properties"] = {"diskSizeBytes": size * 1024**3}
    return fill(derived, catalog.DEFAULTS.get(f"{sku} disk", {}))


def _find(state: ArmState, names: Names) -> Document | None:
    identifier = resource_id(names["group"], DISKS, names["name"])
    if state.document(identifier) is not None:
        return _existing(state, identifier)
    machine = _named_after(state, names)
    disks = [] if machine is None else _own_disks(state, machine)
    return next((disk for disk in disks if str(disk["id"]).lower() == identifier.lower()), None)


def _each(state: ArmState, request: ArmRequest) -> Iterator[Listed[Document]]:
    group = request.names.get("group")
    if group is not None:
        state.require_group(group)
    return all_disks(state, group, _WITH_DISKS)


def _create(edit: Edit, request: ArmRequest, body: Document) -> None:
    group = edit.state.require_group(request.names["group"])
    identifier = resource_id(str(group["name"]), DISKS, request.names["name"])
    defaults: Document = {"location": group["location"], "sku": {"name": "Standard_LRS"}}
    given = without(body, _ATTACHMENT)
    edit.put({identifier: overlay(overlay(defaults, given), _identity(edit.state, identifier))})


def _change(edit: Edit, request: ArmRequest, disk: Document, body: Document) -> None:
    own = {name: disk[name] for name in ("id", "name", "type")}
    edit.put({str(disk["id"]): overlay(overlay(disk, without(body, _ATTACHMENT)), own)})


def _delete(edit: Edit, request: ArmRequest, disk: Document) -> None:
    machine = _owner(edit.state, disk)
    if machine is not None:
        owner = resource_ids.machine_id(edit.state, machine)
        message = f"Disk {disk['name']} is attached to VM {owner}."
        raise AzureError(409, "OperationNotAllowed", message, "disk")
    edit.put({str(disk["id"]): None})


def _new_document(state: ArmState, machine: MachineIdentity, disk: Json) -> Document:
    """Return the document of a disk that was created with its machine."""
    system = get_path(disk, "osType")
    from_image: Document = {} if system is None else {"osType": system, "hyperVGeneration": "V2"}
    document: Document = {
        "location": machine.location,
        "sku": {"name": get_path(disk, "managedDisk", "storageAccountType") or _DEFAULT_SKU},
        "properties": {
            **from_image,
            "creationData": {"createOption": "FromImage" if from_image else "Empty"},
            "diskSizeGB": get_path(disk, "diskSizeGB"),
        },
    }
    return overlay(document, _identity(state, _id(disk)))


def _id(disk: Json) -> str:
    """Return the id of a disk in a storage profile."""
    return str(get_path(disk, "managedDisk", "id"))


def _identity(state: ArmState, identifier: str) -> Document:
    """Return the members that every new disk has."""
    return {
        "id": identifier,
        "name": identifier.rpartition("/")[2],
        "type": _TYPE,
        "properties": {
            "provisioningState": "Succeeded",
            "timeCreated": format_instant(state.now),
            "uniqueId": derive_id("disk", identifier.lower()).lower(),
        },
    }


def _own_disk(state: ArmState, machine: Machine, index: int) -> Document:
    return _own_disks(state, machine)[index]


def _own_disks(state: ArmState, machine: Machine) -> list[Document]:
    """Return the disks of a machine that have no documents."""
    identity = state.identify(machine)
    attachment: Document = {"machine": identity.resource_id, "vmId": machine.vm_id, "deleteOption": DELETE}
    return [
        {**_new_document(state, identity, disk), _ATTACHMENT: attachment}
        for disk in disks_of(identity.disks)
        if state.document(_id(disk)) is None
    ]


def _named_after(state: ArmState, names: Names) -> Machine | None:
    """Return the machine that a disk was named after."""
    parts = _OWN_NAME.fullmatch(names["name"])
    if parts is None:
        return None
    # The prefix of an instance's disks is the name of its set, twice, and its number.
    sets, _, instance = parts["prefix"].rpartition("_")
    in_set = {"group": names["group"], "name": sets[: len(sets) // 2], "instance": instance}
    machine = resource_ids.find_vm(state, {**names, "name": parts["prefix"]})
    return machine or resource_ids.find_instance(state, in_set)


def _existing(state: ArmState, identifier: str) -> Document | None:
    document = state.document(identifier)
    return None if document is None or _is_gone(state, document) else document


def _is_gone(state: ArmState, document: Document) -> bool:
    """Whether a disk went with its machine."""
    attachment = get_path(document, _ATTACHMENT)
    return get_path(attachment, "deleteOption") == DELETE and _owner(state, document) is None


def _owner(state: ArmState, document: Document) -> Machine | None:
    """Return the machine that a disk is attached to."""
    attachment = get_path(document, _ATTACHMENT)
    machine = resource_ids.find_machine(state, get_path(attachment, "machine"))
    is_owner = machine is not None and machine.vm_id == get_path(attachment, "vmId")
    return machine if is_owner else None


TYPE = ResourceType[Document](
    kind=DISKS,
    find=_find,
    each=_each,
    render=show,
    create=_create,
    change=_change,
    delete=_delete,
    # Clients expect it, even for a new disk.
    created_status=200,
)
ROUTES = TYPE.routes()
