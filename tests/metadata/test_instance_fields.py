"""The history of the instance document, field by field."""

from collections.abc import Iterator

import pytest

from fairwarning.core.azure.creation import CreationSettings, PublicKey
from fairwarning.core.document.render import Json
from fairwarning.core.document.versions import IMDS_VERSIONS
from fairwarning.metadata.instance import (
    MachineDisk,
    NoSuchElementError,
    computer_name,
    document,
    find_element,
)
from fairwarning.metadata.instance_fields import FIELDS, Field, InstanceFacts

NEWEST = IMDS_VERSIONS[-1]
WEB_3 = InstanceFacts(
    name="web_3",
    vm_id="7d5c1a90-0d7f-4b58-8d0e-3c6d1f1f0a03",
    update_domain=3,
    fault_domain=1,
    resource_group="rg1",
    tags=(("env", "test"), ("team", "core")),
    scale_set="web",
    placement_group_id="6f0c7a1e-3d0e-4f5e-9a55-1f7c6f0b2a11",
    computer_name=computer_name("web", 3),
    created=CreationSettings(
        public_keys=(PublicKey("ssh-ed25519 AAAA ops", "/home/ops/.ssh/authorized_keys"),)
    ),
    data_disks=(MachineDisk(lun=0, name="web_3_data"),),
    private_ip="10.1.0.7",
    subnet="10.1.0.0",
    ipv6=("fd00::7",),
    mac="00:0d:3a:f8:06:ec",
)
BARE = InstanceFacts(name="db", vm_id="b3a0c7de-6f21-4c0e-9d5b-52f0e1a7c918")
GROUP = (
    "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/fairwarning"
    "/providers/Microsoft.Compute"
)

#: The fields that each version added; ``*`` stands for an index.
HISTORY = """
2017-03-01 compute: location name offer osType platformFaultDomain platformUpdateDomain publisher
2017-03-01 compute: sku version vmId vmSize
2017-04-02 network.interface.*: ipv4.ipAddress.*.privateIpAddress ipv4.ipAddress.*.publicIpAddress
2017-04-02 network.interface.*: ipv6.ipAddress.*.privateIpAddress macAddress
2017-08-01 compute: placementGroupId resourceGroupName subscriptionId tags
2017-12-01 compute: vmScaleSetName zone
2018-04-02 compute: plan.name plan.product plan.publisher publicKeys.*.keyData publicKeys.*.path
2018-10-01 compute: azEnvironment provider
2019-02-01 compute: customData
2019-03-11 compute: resourceId
2019-06-01 compute.storageProfile: imageReference osDisk dataDisks osDisk.encryptionSettings.enabled
2019-06-04 compute: tagsList.*.name tagsList.*.value
2020-06-01 compute: isHostCompatibilityLayerVm
2020-06-01 compute.securityProfile: secureBootEnabled virtualTpmEnabled
2020-07-15 compute: osProfile.adminUsername osProfile.computerName
2020-09-01 compute: licenseType
2020-10-01 compute: osProfile.disablePasswordAuthentication
2020-12-01 compute: evictionPolicy priority
2021-01-01 compute: userData
2021-02-01 compute: storageProfile.resourceDisk.size
2021-03-01 compute: extendedLocation.type extendedLocation.name virtualMachineScaleSet.id
2021-05-01 compute.storageProfile.dataDisks.*: bytesPerSecondThrottle opsPerSecondThrottle
2021-05-01 compute.storageProfile.dataDisks.*: diskCapacityBytes isUltraDisk isSharedDisk
2021-10-01 compute: platformSubFaultDomain
2021-11-01 compute: additionalCapabilities.hibernationEnabled securityProfile.encryptionAtHost
2021-11-01 compute.storageProfile.osDisk.encryptionSettings: diskEncryptionKey keyEncryptionKey
2021-11-15 compute: host.id hostGroup.id
2021-12-13 compute: securityProfile.securityType
2023-07-01 compute.storageProfile.imageReference: communityGalleryImageId sharedGalleryImageId
2023-07-01 compute.storageProfile.imageReference: exactVersion
2023-11-15 compute: physicalZone isVmInStandbyPool
"""


def announced() -> Iterator[tuple[str, str]]:
    for line in HISTORY.strip().splitlines():
        release, _, names = line.partition(": ")
        version, branch = release.split()
        yield from ((version, f"{branch}.{name}") for name in names.split())


def at(facts: InstanceFacts, version: str, route: str) -> Json:
    return find_element(document(facts, version), route.split("/"))


def showing(path: str) -> list[str]:
    """The versions that show ``path``, with the first element standing for any."""
    return [version for version in IMDS_VERSIONS if shows(path, version)]


def shows(path: str, version: str) -> bool:
    try:
        find_element(document(WEB_3, version), path.replace("*", "0").split("."))
    except NoSuchElementError:
        return False
    return True


@pytest.mark.rule("I-01")
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.path} since {field.since}")
def test_a_field_is_absent_before_its_version_and_present_from_it_on(field: Field) -> None:
    expected = [
        version
        for version in IMDS_VERSIONS
        if version >= field.since and not (field.until and version >= field.until)
    ]

    assert field.since in IMDS_VERSIONS
    assert showing(field.path) == expected


@pytest.mark.rule("I-01")
@pytest.mark.parametrize(("version", "path"), list(announced()))
def test_a_version_brings_what_its_release_announced(version: str, path: str) -> None:
    assert showing(path) == [later for later in IMDS_VERSIONS if later >= version]


@pytest.mark.rule("I-09")
def test_the_preview_describes_the_network_in_its_own_words() -> None:
    assert at(WEB_3, "2017-03-01", "network/interface/0") == {
        "ipv4": {
            "ipaddress": [{"ipaddress": "10.1.0.7", "publicip": ""}],
            "subnet": [
                {
                    "address": "10.1.0.0",
                    "dnsservers": [{"ipaddress": "168.63.129.16"}],
                    "prefix": "24",
                }
            ],
        },
        "ipv6": {"ipaddress": [{"ipaddress": "fd00::7"}]},
        "mac": "000D3AF806EC",
    }


@pytest.mark.rule("I-09")
def test_the_preview_knows_eleven_things_about_the_machine() -> None:
    compute = at(WEB_3, "2017-03-01", "compute")

    assert isinstance(compute, dict)
    assert list(compute) == [
        "location",
        "name",
        "offer",
        "osType",
        "platformFaultDomain",
        "platformUpdateDomain",
        "publisher",
        "sku",
        "version",
        "vmId",
        "vmSize",
    ]


@pytest.mark.rule("I-04")
@pytest.mark.parametrize(
    ("route", "value"),
    [
        ("compute/azEnvironment", "AzurePublicCloud"),
        ("compute/evictionPolicy", ""),
        ("compute/location", "westeurope"),
        ("compute/name", "web_3"),
        ("compute/osProfile/adminUsername", "ops"),
        ("compute/osProfile/computerName", "web000003"),
        ("compute/osProfile/disablePasswordAuthentication", "true"),
        ("compute/osType", "Linux"),
        ("compute/placementGroupId", "6f0c7a1e-3d0e-4f5e-9a55-1f7c6f0b2a11"),
        ("compute/platformFaultDomain", "1"),
        ("compute/platformSubFaultDomain", ""),
        ("compute/platformUpdateDomain", "3"),
        ("compute/priority", ""),
        ("compute/provider", "Microsoft.Compute"),
        ("compute/resourceGroupName", "rg1"),
        (
            "compute/resourceId",
            "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg1/providers"
            "/Microsoft.Compute/virtualMachineScaleSets/web/virtualMachines/3",
        ),
        ("compute/subscriptionId", "00000000-0000-0000-0000-000000000001"),
        ("compute/tags", "env:test;team:core"),
        ("compute/tagsList/1/value", "core"),
        ("compute/virtualMachineScaleSet/id", ""),
        ("compute/vmId", "7d5c1a90-0d7f-4b58-8d0e-3c6d1f1f0a03"),
        ("compute/vmScaleSetName", "web"),
        ("compute/vmSize", "Standard_D2s_v5"),
        ("compute/zone", ""),
        ("network/interface/0/ipv4/ipAddress/0/privateIpAddress", "10.1.0.7"),
        ("network/interface/0/ipv4/subnet/0/address", "10.1.0.0"),
        ("network/interface/0/ipv4/subnet/0/prefix", "24"),
        ("network/interface/0/macAddress", "000D3AF806EC"),
    ],
)
def test_a_scale_set_instance_reads_its_own_facts(route: str, value: str) -> None:
    assert at(WEB_3, "2021-12-13", route) == value


@pytest.mark.rule("I-12")
@pytest.mark.parametrize("version", ["2019-06-01", "2020-06-01", "2021-02-01", "2021-05-01", "2021-10-01"])
def test_older_versions_only_say_whether_the_disk_is_encrypted(version: str) -> None:
    assert at(WEB_3, version, "compute/storageProfile/osDisk/encryptionSettings") == {"enabled": "false"}


@pytest.mark.rule("I-12")
def test_newer_versions_also_name_the_keys_of_the_disk() -> None:
    assert at(WEB_3, "2021-11-01", "compute/storageProfile/osDisk/encryptionSettings") == {
        "diskEncryptionKey": {"secretUrl": "", "sourceVault": {"id": ""}},
        "enabled": "false",
        "keyEncryptionKey": {"keyUrl": "", "sourceVault": {"id": ""}},
    }


@pytest.mark.rule("I-12")
def test_a_machine_outside_of_standby_pools_leaves_the_field_empty() -> None:
    assert at(WEB_3, NEWEST, "compute/isVmInStandbyPool") == ""


@pytest.mark.rule("S-06")
@pytest.mark.parametrize(
    ("facts", "set_name", "set_id", "resource_id"),
    [
        pytest.param(BARE, "", "", f"{GROUP}/virtualMachines/db", id="a machine without a set"),
        pytest.param(
            InstanceFacts(name="web_3", vm_id="1", scale_set="web"),
            "web",
            "",
            f"{GROUP}/virtualMachineScaleSets/web/virtualMachines/3",
            id="a uniform instance lives inside its set",
        ),
        pytest.param(
            InstanceFacts(name="web_1a2b3c4d", vm_id="1", scale_set="web", flexible=True),
            "web",
            f"{GROUP}/virtualMachineScaleSets/web",
            f"{GROUP}/virtualMachines/web_1a2b3c4d",
            id="a flexible instance is a machine of its own",
        ),
    ],
)
def test_a_machine_says_how_it_belongs_to_a_set(
    facts: InstanceFacts, set_name: str, set_id: str, resource_id: str
) -> None:
    assert at(facts, NEWEST, "compute/name") == facts.name
    assert at(facts, NEWEST, "compute/vmScaleSetName") == set_name
    assert at(facts, NEWEST, "compute/virtualMachineScaleSet/id") == set_id
    assert at(facts, NEWEST, "compute/resourceId") == resource_id


@pytest.mark.rule("S-06")
def test_a_resource_id_that_is_known_is_told_as_it_is() -> None:
    facts = InstanceFacts(name="db", vm_id="1", resource_id="/subscriptions/s/somewhere/else")

    assert at(facts, NEWEST, "compute/resourceId") == "/subscriptions/s/somewhere/else"


@pytest.mark.rule("S-04")
def test_a_machine_without_an_update_domain_leaves_it_empty() -> None:
    facts = InstanceFacts(name="web_1a2b3c4d", vm_id="1", update_domain=None)

    assert at(facts, NEWEST, "compute/platformUpdateDomain") == ""


def test_a_windows_machine_is_not_asked_about_passwords() -> None:
    created = CreationSettings(keys_only=None)
    facts = InstanceFacts(name="db", vm_id="1", os_type="Windows", created=created)

    route = "compute/osProfile/disablePasswordAuthentication"
    assert at(facts, NEWEST, route) == ""


def test_a_zonal_machine_says_where_it_is() -> None:
    facts = InstanceFacts(name="db", vm_id="1", zone="2")

    assert at(facts, NEWEST, "compute/zone") == "2"
    assert at(facts, NEWEST, "compute/physicalZone") == "westeurope-az2"


def test_every_data_disk_has_its_own_entry() -> None:
    disks = (MachineDisk(lun=0, name="logs", size_gb=64), MachineDisk(lun=4, name="rows", size_gb=512))
    facts = InstanceFacts(name="db", vm_id="1", data_disks=disks)

    second = "compute/storageProfile/dataDisks/1"
    assert at(facts, NEWEST, "compute/storageProfile/dataDisks/0/name") == "logs"
    assert at(facts, NEWEST, f"{second}/name") == "rows"
    assert at(facts, NEWEST, f"{second}/lun") == "4"
    assert at(facts, NEWEST, f"{second}/diskSizeGB") == "512"
