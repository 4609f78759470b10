"""What Azure fills in where a client has sent nothing, or null (T-27), from ``catalog/defaults.json``.

Defaults are filled in when a document is rendered. A *profile* is what a machine is made from: the properties
of a virtual machine, or the ``virtualMachineProfile`` of a scale set.
"""

from fairwarning.arm import catalog
from fairwarning.arm.documents import Document, fill, get_fields, get_items, get_path, overlay
from fairwarning.core.azure.disks import OS_DISK_SIZES, account_type, with_account_type
from fairwarning.core.azure.operating_system import OsType
from fairwarning.core.document.render import Json

_INTERFACES = "networkInterfaceConfigurations"


def complete_profile(profile: Document, system: OsType) -> Document:
    """Return a profile with the defaults of all machines, and with those of its operating system."""
    return fill(fill(profile, catalog.DEFAULTS["profile"]), catalog.DEFAULTS[system])


def complete_model(profile: Document, system: OsType, size: str, mode: str) -> Document:
    """Return the profile of a scale set with all defaults; the disks of its instances follow from it.

    ``mode`` is the orchestration mode of the set.
    """
    filled = fill(complete_profile(profile, system), catalog.DEFAULTS[f"model of a {mode} set"])
    sized: Document = {"diskSizeGB": OS_DISK_SIZES[system]} if mode == "Flexible" else {}
    disk = with_account_type(fill(get_fields(filled, "storageProfile", "osDisk"), sized), account_type(size))
    storage: Document = {"osDisk": overlay(disk, {"osType": system})}
    data = get_path(filled, "storageProfile", "dataDisks")
    if isinstance(data, list):
        account = str(get_path(disk, "managedDisk", "storageAccountType"))
        storage["dataDisks"] = [with_account_type(item, account) for item in data]
    completed: Document = {"storageProfile": storage}
    interfaces = get_path(filled, "networkProfile", _INTERFACES)
    if isinstance(interfaces, list):
        completed["networkProfile"] = {_INTERFACES: [_interface(interface, mode) for interface in interfaces]}
    return overlay(filled, completed)


def _interface(interface: Json, mode: str) -> Json:
    """Return a network interface of the model of a scale set."""
    if not isinstance(interface, dict):
        return interface
    filled = fill(interface, catalog.DEFAULTS[f"interface of a {mode} set"])
    configuration = catalog.DEFAULTS[f"ip configuration of a {mode} set"]
    configurations: list[Json] = [
        fill(item, configuration) if isinstance(item, dict) else item
        for item in get_items(filled, "properties", "ipConfigurations")
    ]
    return overlay(filled, {"properties": {"ipConfigurations": configurations}})
