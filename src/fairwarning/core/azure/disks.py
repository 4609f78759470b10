"""The managed disks of a machine: what Azure calls them, and what becomes of them (T-31).

A storage profile names the disks of a machine. What the profile leaves out follows from the machine alone, so
a disk has the same name on every node and after every restart.
"""

import re
from typing import NamedTuple

from fairwarning.core.azure.members import deep_merge, get_items, get_path
from fairwarning.core.azure.operating_system import OsType
from fairwarning.core.document.render import Json
from fairwarning.core.model import digest

DISKS = "disks"
DELETE, DETACH = "Delete", "Detach"

#: The sizes of the disks of images, in gigabytes, by operating system.
OS_DISK_SIZES = {"Linux": 30, "Windows": 127}


#: Sizes that can have premium disks: an S in the name of the family, or an s behind the number of cores.
_PREMIUM_SIZE = re.compile(r"Standard_(?:[A-Z]*S\d|[A-Z]+\d+(?:-\d+)?[a-z]*s)")


class DiskOwner(NamedTuple):
    """What a machine gives to its disks, apart from their names."""

    #: The id of a disk without its name.
    folder: str
    #: What becomes of a disk when the machine is deleted, unless the profile says so.
    delete_option: str
    os_type: OsType
    size: str


#: The members ``osDisk`` and ``dataDisks`` of a storage profile.
Disks = dict[str, Json]


def machine_disks(owner: DiskOwner, own: Json, model: Json) -> Disks:
    """Return the disks of a machine, complete; the profile ``own`` is over that of a scale set.

    A disk that is to be named after the machine has neither name nor id yet.
    """
    os_disk = deep_merge(_given(get_path(model, "osDisk")), _given(get_path(own, "osDisk")))
    os_disk = with_account_type(_os_disk(owner, os_disk), account_type(owner.size))
    # Unless the profile says so, a data disk is of the type of the OS disk.
    account = str(get_path(os_disk, "managedDisk", "storageAccountType") or account_type(owner.size))
    data = get_path(own, "dataDisks")
    data = get_path(model, "dataDisks") if data is None else data
    return {
        "osDisk": os_disk,
        "dataDisks": [with_account_type(_data_disk(owner, disk), account) for disk in data]
        if isinstance(data, list)
        else [],
    }


def name_disks(disks: Disks, folder: str, prefix: str, vm_id: str) -> Disks:
    """Return disks with the names that follow from their machine, and with the ids that follow from those."""

    def named(disk: Json, number: str) -> Json:
        if get_path(disk, "name") != "":
            return disk
        name = f"{prefix}_{number}_{digest('disk', vm_id, number)}"
        return deep_merge(disk, {"name": name, "managedDisk": {"id": f"{folder}{name}"}})

    data = [named(disk, _number(disk)) for disk in get_items(disks, "dataDisks")]
    return {"osDisk": named(disks["osDisk"], "OsDisk_1"), "dataDisks": data}


def account_type(size: str) -> str:
    """Return the type of the disks that a machine of a size has by default (T-27)."""
    return "Premium_LRS" if _PREMIUM_SIZE.match(size) else "Standard_LRS"


def with_account_type(disk: Json, account: str) -> Json:
    """Return a disk with its type; a disk in a storage account of the client's own has none."""
    if not isinstance(disk, dict) or get_path(disk, "vhd") is not None:
        return disk
    given = get_path(disk, "managedDisk", "storageAccountType")
    return deep_merge(disk, {"managedDisk": {"storageAccountType": given or account}})


def disks_of(storage: Json) -> list[Json]:
    """Return the managed disks in a complete storage profile."""
    data = get_path(storage, "dataDisks")
    disks = [get_path(storage, "osDisk"), *(data if isinstance(data, list) else ())]
    return [disk for disk in disks if get_path(disk, "managedDisk", "id") is not None]


def _os_disk(owner: DiskOwner, disk: Json) -> Json:
    is_ephemeral = get_path(disk, "diffDiskSettings", "option") is not None
    defaults: dict[str, Json] = {
        "createOption": "FromImage",
        "caching": "ReadWrite",
        "diskSizeGB": OS_DISK_SIZES[owner.os_type],
        "deleteOption": DELETE if is_ephemeral else owner.delete_option,
    }
    return deep_merge(_managed(owner, deep_merge(defaults, disk)), {"osType": owner.os_type})


def _data_disk(owner: DiskOwner, disk: Json) -> Json:
    disk = _given(disk)
    is_attached = str(get_path(disk, "createOption")).lower() == "attach"
    defaults: dict[str, Json] = {
        "caching": "None",
        "toBeDetached": False,
        "deleteOption": DETACH if is_attached else owner.delete_option,
    }
    return _managed(owner, deep_merge(defaults, disk))


def _managed(owner: DiskOwner, disk: Json) -> Json:
    """Return a disk with its name and id; a disk in a storage account of the client's own has none."""
    if get_path(disk, "vhd") is not None:
        return disk
    identifier = get_path(disk, "managedDisk", "id") or ""
    name = get_path(disk, "name") or str(identifier).rpartition("/")[2]
    managed: dict[str, Json] = {"id": identifier or (f"{owner.folder}{name}" if name else "")}
    return deep_merge(disk, {"name": name, "managedDisk": managed})


def _number(data_disk: Json) -> str:
    lun = get_path(data_disk, "lun")
    return f"disk{2 + lun if isinstance(lun, int) else lun}"  # the disk of the system is number 1


def _given(disk: Json) -> Json:
    """Return the members of a disk that a client has sent; null is nothing."""
    if not isinstance(disk, dict):
        return {}
    given = {name: value for name, value in disk.items() if value is not None}
    return {name: _given(value) if isinstance(value, dict) else value for name, value in given.items()}
