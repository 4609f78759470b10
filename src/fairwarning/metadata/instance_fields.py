"""The fields of ``/metadata/instance``, and the api-versions that have them.

Each row of the table below has a path, the first api-version that shows it, and a function that returns its
value. ``*`` in a path matches every element of a list; the function then returns one value per element.
"""

from collections.abc import Callable
from typing import NamedTuple

from fairwarning.core.azure.creation import CreationSettings

Value = str | tuple["Value", ...]


class MachineDisk(NamedTuple):
    """A disk of a machine; the disk of the system has no meaningful number."""

    name: str = ""
    lun: int = 0
    size_gb: int = 32
    resource_id: str = ""
    caching: str = "None"
    create_option: str = "Attach"


class InstanceFacts(NamedTuple):
    """The facts about one machine that the document shows."""

    name: str
    vm_id: str
    location: str = "westeurope"
    size: str = "Standard_D2s_v5"
    os_type: str = "Linux"
    publisher: str = "Canonical"
    offer: str = "0001-com-ubuntu-server-jammy"
    sku: str = "22_04-lts-gen2"
    image_version: str = "latest"
    exact_version: str = ""
    image_id: str = ""
    # S-04: a flexible scale set has no update domains.
    update_domain: int | None = 0
    fault_domain: int = 0
    zone: str = ""
    resource_group: str = "fairwarning"
    subscription_id: str = "00000000-0000-0000-0000-000000000001"
    resource_id: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    scale_set: str = ""
    flexible: bool = False
    placement_group_id: str = ""
    priority: str = ""
    eviction_policy: str = ""
    computer_name: str = ""
    created: CreationSettings = CreationSettings()
    user_data: str = ""
    os_disk: MachineDisk = MachineDisk()
    data_disks: tuple[MachineDisk, ...] = ()
    private_ip: str = "10.0.0.4"
    public_ip: str = ""
    subnet: str = "10.0.0.0"
    subnet_prefix: int = 24
    ipv6: tuple[str, ...] = ()
    mac: str = "00:0D:3A:00:00:04"


class Field(NamedTuple):
    """One row of the table: a path, the api-versions that show it, and its value."""

    path: str
    since: str
    value: Callable[[InstanceFacts], Value]
    until: str | None = None

    def shown_in(self, version: str) -> bool:
        """Whether the document of an api-version has this field."""
        return self.since <= version and (self.until is None or version < self.until)


def _always(text: str) -> Callable[[InstanceFacts], Value]:
    return lambda facts: text


def _for_each_disk(text: Callable[[MachineDisk], str]) -> Callable[[InstanceFacts], Value]:
    return lambda facts: tuple(text(disk) for disk in facts.data_disks)


def _provider_path(facts: InstanceFacts) -> str:
    return (
        f"/subscriptions/{facts.subscription_id}/resourceGroups/{facts.resource_group}"
        "/providers/Microsoft.Compute"
    )


def _resource_id(facts: InstanceFacts) -> str:
    if facts.resource_id:
        return facts.resource_id
    if facts.scale_set and not facts.flexible:
        instance = facts.name.rpartition("_")[2]
        member = f"virtualMachineScaleSets/{facts.scale_set}/virtualMachines/{instance}"
        return f"{_provider_path(facts)}/{member}"
    return f"{_provider_path(facts)}/virtualMachines/{facts.name}"


def _flexible_set_id(facts: InstanceFacts) -> str:
    if not (facts.scale_set and facts.flexible):
        return ""
    return f"{_provider_path(facts)}/virtualMachineScaleSets/{facts.scale_set}"


def _computer_name(facts: InstanceFacts) -> str:
    return facts.computer_name or facts.name


def _keys_only(facts: InstanceFacts) -> str:
    # I-04: empty where it does not apply.
    return "" if facts.created.keys_only is None else str(facts.created.keys_only).lower()


def _update_domain(facts: InstanceFacts) -> str:
    return "" if facts.update_domain is None else str(facts.update_domain)


def _tags(facts: InstanceFacts) -> str:
    return ";".join(f"{name}:{value}" for name, value in facts.tags)


def _key_data(facts: InstanceFacts) -> Value:
    return tuple(key.data for key in facts.created.public_keys)


def _key_paths(facts: InstanceFacts) -> Value:
    return tuple(key.path for key in facts.created.public_keys)


def _physical_zone(facts: InstanceFacts) -> str:
    return f"{facts.location}-az{facts.zone}" if facts.zone else ""


def _private_ip(facts: InstanceFacts) -> Value:
    return ((facts.private_ip,),)


def _public_ip(facts: InstanceFacts) -> Value:
    return ((facts.public_ip,),)


def _subnet_address(facts: InstanceFacts) -> Value:
    return ((facts.subnet,),)


def _subnet_prefix(facts: InstanceFacts) -> Value:
    return ((str(facts.subnet_prefix),),)


def _ipv6(facts: InstanceFacts) -> Value:
    return (facts.ipv6,)


def _dns_server(facts: InstanceFacts) -> Value:
    return ((("168.63.129.16",),),)


def _mac(facts: InstanceFacts) -> Value:
    return (facts.mac.replace(":", "").replace("-", "").upper(),)


_blank = _always("")
_no = _always("false")
_blank_per_disk = _for_each_disk(lambda disk: "")
_disk_ids = _for_each_disk(lambda disk: disk.resource_id)
_premium_per_disk = _for_each_disk(lambda disk: "Premium_LRS")
_no_per_disk = _for_each_disk(lambda disk: "false")

_STORAGE = "compute.storageProfile"
_IMAGE = f"{_STORAGE}.imageReference"
_OS_DISK = f"{_STORAGE}.osDisk"
_KEYS = f"{_OS_DISK}.encryptionSettings"
_DATA_DISK = f"{_STORAGE}.dataDisks.*"
_IPV4 = "network.interface.*.ipv4"
_IPV6 = "network.interface.*.ipv6"

FIELDS: tuple[Field, ...] = (
    Field("compute.location", "2017-03-01", lambda facts: facts.location),
    Field("compute.name", "2017-03-01", lambda facts: facts.name),
    Field("compute.offer", "2017-03-01", lambda facts: facts.offer),
    Field("compute.osType", "2017-03-01", lambda facts: facts.os_type),
    Field("compute.platformFaultDomain", "2017-03-01", lambda facts: str(facts.fault_domain)),
    Field("compute.platformUpdateDomain", "2017-03-01", _update_domain),
    Field("compute.publisher", "2017-03-01", lambda facts: facts.publisher),
    Field("compute.sku", "2017-03-01", lambda facts: facts.sku),
    Field("compute.version", "2017-03-01", lambda facts: facts.exact_version),
    Field("compute.vmId", "2017-03-01", lambda facts: facts.vm_id),
    Field("compute.vmSize", "2017-03-01", lambda facts: facts.size),
    # I-09: the preview used other names for network fields.
    Field(f"{_IPV4}.ipaddress.*.ipaddress", "2017-03-01", _private_ip, until="2017-04-02"),
    Field(f"{_IPV4}.ipaddress.*.publicip", "2017-03-01", _public_ip, until="2017-04-02"),
    Field(f"{_IPV4}.subnet.*.address", "2017-03-01", _subnet_address),
    Field(f"{_IPV4}.subnet.*.dnsservers.*.ipaddress", "2017-03-01", _dns_server, "2017-04-02"),
    Field(f"{_IPV4}.subnet.*.prefix", "2017-03-01", _subnet_prefix),
    Field(f"{_IPV6}.ipaddress.*.ipaddress", "2017-03-01", _ipv6, until="2017-04-02"),
    Field("network.interface.*.mac", "2017-03-01", _mac, until="2017-04-02"),
    Field(f"{_IPV4}.ipAddress.*.privateIpAddress", "2017-04-02", _private_ip),
    Field(f"{_IPV4}.ipAddress.*.publicIpAddress", "2017-04-02", _public_ip),
    Field(f"{_IPV6}.ipAddress.*.privateIpAddress", "2017-04-02", _ipv6),
    Field("network.interface.*.macAddress", "2017-04-02", _mac),
    Field("compute.placementGroupId", "2017-08-01", lambda facts: facts.placement_group_id),
    Field("compute.resourceGroupName", "2017-08-01", lambda facts: facts.resource_group),
    Field("compute.subscriptionId", "2017-08-01", lambda facts: facts.subscription_id),
    Field("compute.tags", "2017-08-01", _tags),
    Field("compute.vmScaleSetName", "2017-12-01", lambda facts: facts.scale_set),
    Field("compute.zone", "2017-12-01", lambda facts: facts.zone),
    Field("compute.plan.name", "2018-04-02", lambda facts: facts.created.plan.name),
    Field("compute.plan.product", "2018-04-02", lambda facts: facts.created.plan.product),
    Field("compute.plan.publisher", "2018-04-02", lambda facts: facts.created.plan.publisher),
    Field("compute.publicKeys.*.keyData", "2018-04-02", _key_data),
    Field("compute.publicKeys.*.path", "2018-04-02", _key_paths),
    Field("compute.azEnvironment", "2018-10-01", _always("AzurePublicCloud")),
    Field("compute.provider", "2018-10-01", _always("Microsoft.Compute")),
    Field("compute.customData", "2019-02-01", _blank),
    Field("compute.resourceId", "2019-03-11", _resource_id),
    Field(f"{_IMAGE}.id", "2019-06-01", lambda facts: facts.image_id),
    Field(f"{_IMAGE}.offer", "2019-06-01", lambda facts: facts.offer),
    Field(f"{_IMAGE}.publisher", "2019-06-01", lambda facts: facts.publisher),
    Field(f"{_IMAGE}.sku", "2019-06-01", lambda facts: facts.sku),
    Field(f"{_IMAGE}.version", "2019-06-01", lambda facts: facts.image_version),
    Field(f"{_OS_DISK}.caching", "2019-06-01", lambda facts: facts.os_disk.caching),
    Field(f"{_OS_DISK}.createOption", "2019-06-01", lambda facts: facts.os_disk.create_option),
    Field(f"{_OS_DISK}.diffDiskSettings.option", "2019-06-01", _blank),
    Field(f"{_OS_DISK}.diskSizeGB", "2019-06-01", lambda facts: str(facts.os_disk.size_gb)),
    Field(f"{_KEYS}.enabled", "2019-06-01", _no),
    Field(f"{_OS_DISK}.image.uri", "2019-06-01", _blank),
    Field(f"{_OS_DISK}.managedDisk.id", "2019-06-01", lambda facts: facts.os_disk.resource_id),
    Field(f"{_OS_DISK}.managedDisk.storageAccountType", "2019-06-01", _always("Premium_LRS")),
    Field(f"{_OS_DISK}.name", "2019-06-01", lambda facts: facts.os_disk.name),
    Field(f"{_OS_DISK}.osType", "2019-06-01", lambda facts: facts.os_type),
    Field(f"{_OS_DISK}.vhd.uri", "2019-06-01", _blank),
    Field(f"{_OS_DISK}.writeAcceleratorEnabled", "2019-06-01", _no),
    Field(f"{_DATA_DISK}.caching", "2019-06-01", _for_each_disk(lambda disk: disk.caching)),
    Field(f"{_DATA_DISK}.createOption", "2019-06-01", _for_each_disk(lambda disk: disk.create_option)),
    Field(f"{_DATA_DISK}.diskSizeGB", "2019-06-01", _for_each_disk(lambda disk: str(disk.size_gb))),
    Field(f"{_DATA_DISK}.image.uri", "2019-06-01", _blank_per_disk),
    Field(f"{_DATA_DISK}.lun", "2019-06-01", _for_each_disk(lambda disk: str(disk.lun))),
    Field(f"{_DATA_DISK}.managedDisk.id", "2019-06-01", _disk_ids),
    Field(f"{_DATA_DISK}.managedDisk.storageAccountType", "2019-06-01", _premium_per_disk),
    Field(f"{_DATA_DISK}.name", "2019-06-01", _for_each_disk(lambda disk: disk.name)),
    Field(f"{_DATA_DISK}.vhd.uri", "2019-06-01", _blank_per_disk),
    Field(f"{_DATA_DISK}.writeAcceleratorEnabled", "2019-06-01", _no_per_disk),
    Field("compute.tagsList.*.name", "2019-06-04", lambda facts: tuple(n for n, _ in facts.tags)),
    Field("compute.tagsList.*.value", "2019-06-04", lambda facts: tuple(v for _, v in facts.tags)),
    Field("compute.isHostCompatibilityLayerVm", "2020-06-01", _no),
    Field("compute.securityProfile.secureBootEnabled", "2020-06-01", _no),
    Field("compute.securityProfile.virtualTpmEnabled", "2020-06-01", _no),
    Field("compute.osProfile.adminUsername", "2020-07-15", lambda facts: facts.created.administrator),
    Field("compute.osProfile.computerName", "2020-07-15", _computer_name),
    Field("compute.licenseType", "2020-09-01", lambda facts: facts.created.license_type),
    Field("compute.osProfile.disablePasswordAuthentication", "2020-10-01", _keys_only),
    Field("compute.evictionPolicy", "2020-12-01", lambda facts: facts.eviction_policy),
    Field("compute.priority", "2020-12-01", lambda facts: facts.priority),
    Field("compute.userData", "2021-01-01", lambda facts: facts.user_data),
    Field(f"{_STORAGE}.resourceDisk.size", "2021-02-01", _always("0")),
    Field("compute.extendedLocation.name", "2021-03-01", _blank),
    Field("compute.extendedLocation.type", "2021-03-01", _blank),
    Field("compute.virtualMachineScaleSet.id", "2021-03-01", _flexible_set_id),
    Field(f"{_DATA_DISK}.bytesPerSecondThrottle", "2021-05-01", _blank_per_disk),
    Field(f"{_DATA_DISK}.diskCapacityBytes", "2021-05-01", _blank_per_disk),
    Field(f"{_DATA_DISK}.isSharedDisk", "2021-05-01", _blank_per_disk),
    Field(f"{_DATA_DISK}.isUltraDisk", "2021-05-01", _no_per_disk),
    Field(f"{_DATA_DISK}.opsPerSecondThrottle", "2021-05-01", _blank_per_disk),
    Field("compute.platformSubFaultDomain", "2021-10-01", _blank),
    Field("compute.additionalCapabilities.hibernationEnabled", "2021-11-01", _no),
    Field("compute.securityProfile.encryptionAtHost", "2021-11-01", _no),
    Field(f"{_KEYS}.diskEncryptionKey.secretUrl", "2021-11-01", _blank),
    Field(f"{_KEYS}.diskEncryptionKey.sourceVault.id", "2021-11-01", _blank),
    Field(f"{_KEYS}.keyEncryptionKey.keyUrl", "2021-11-01", _blank),
    Field(f"{_KEYS}.keyEncryptionKey.sourceVault.id", "2021-11-01", _blank),
    Field("compute.host.id", "2021-11-15", _blank),
    Field("compute.hostGroup.id", "2021-11-15", _blank),
    Field("compute.securityProfile.securityType", "2021-12-13", _blank),
    Field(f"{_IMAGE}.communityGalleryImageId", "2023-07-01", _blank),
    Field(f"{_IMAGE}.exactVersion", "2023-07-01", lambda facts: facts.exact_version),
    Field(f"{_IMAGE}.sharedGalleryImageId", "2023-07-01", _blank),
    Field("compute.isVmInStandbyPool", "2023-11-15", _blank),
    Field("compute.physicalZone", "2023-11-15", _physical_zone),
)
