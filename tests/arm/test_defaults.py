"""Members that Azure fills in where a client sends nothing, or null."""

import pytest

from fairwarning.arm import network
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from tests.arm.azure import HOME, ROOT, Azure, at
from tests.arm.compute import HOME_SET, SET, TABLES, VM, both, compute, model, scale_set

pytestmark = pytest.mark.rule("T-27")

BOX, WEB = f"{VM}/box", f"{SET}/web"
NETS, NICS = "Microsoft.Network/virtualNetworks", "Microsoft.Network/networkInterfaces"
UBUNTU: Json = {
    "publisher": "Canonical",
    "offer": "ubuntu-24_04-lts",
    "sku": "server",
    "version": "latest",
}
WINDOWS: Json = {
    "publisher": "MicrosoftWindowsServer",
    "offer": "WindowsServer",
    "sku": "2022-datacenter-g2",
    "version": "latest",
}
PATCHES: Json = {"patchMode": "ImageDefault", "assessmentMode": "ImageDefault"}


def machine(image: Json, **more: Json) -> Json:
    # az sends null for what it leaves to Azure.
    disk: Json = {"createOption": "FromImage", "managedDisk": {"storageAccountType": None}}
    return {"properties": {"storageProfile": {"imageReference": image, "osDisk": disk}, **more}}


def test_a_linux_machine_says_how_it_was_set_up() -> None:
    azure = compute()
    azure.put(BOX, machine(UBUNTU, osProfile={"adminUsername": "ann"}))

    properties = at(azure.get(BOX), "properties")

    assert at(properties, "osProfile") == {
        "computerName": "box",
        "adminUsername": "ann",
        "secrets": [],
        "allowExtensionOperations": True,
        "requireGuestProvisionSignal": True,
        "linuxConfiguration": {
            "disablePasswordAuthentication": False,
            "provisionVMAgent": True,
            "patchSettings": PATCHES,
        },
    }
    assert at(properties, "storageProfile", "imageReference", "exactVersion") == "24.04.202609040"
    assert at(properties, "storageProfile", "osDisk", "managedDisk", "storageAccountType") == "Premium_LRS"
    assert at(properties, "storageProfile", "osDisk", "osType") == "Linux"


@pytest.mark.parametrize(
    ("publisher", "offer", "system"),
    [
        ("MicrosoftWindowsServer", "WindowsServer", "Windows"),
        ("microsoftwindowsdesktop", "windows-11", "Windows"),
        ("MicrosoftSQLServer", "sql2022-ws2022", "Windows"),
        ("MicrosoftSQLServer", "sql2022-ubuntu2204", "Linux"),
        ("Debian", "debian-12", "Linux"),
    ],
)
def test_the_publisher_of_the_image_says_which_system_a_machine_runs(
    publisher: str, offer: str, system: str
) -> None:
    azure = compute()
    image: Json = {"publisher": publisher, "offer": offer, "sku": "x", "version": "1.2.3"}
    azure.put(BOX, machine(image))
    azure.put(WEB, both(scale_set(1), model(storageProfile={"imageReference": image})))

    properties = at(azure.get(BOX), "properties")
    configuration = f"{system.lower()}Configuration"
    others = {"linuxConfiguration", "windowsConfiguration"} - {configuration}

    for profile in (properties, at(azure.get(WEB), "properties", "virtualMachineProfile")):
        assert at(profile, "storageProfile", "osDisk", "osType") == system
        assert at(profile, "osProfile", configuration, "provisionVMAgent") is True
        assert [at(profile, "osProfile", other) for other in others] == [None]
    assert at(properties, "storageProfile", "imageReference", "exactVersion") == "1.2.3"


def test_a_windows_machine_says_so_in_its_instance_view() -> None:
    azure = compute()
    azure.put(BOX, machine(WINDOWS))

    view = azure.get(f"{BOX}/instanceView")

    assert at(view, "osName") == "Windows Server 2022 Datacenter"
    assert at(view, "vmAgent", "statuses", 0, "message") == (
        "GuestAgent is running and processing the extensions."
    )


def test_a_machine_of_an_image_of_ones_own_has_no_marketplace_image() -> None:
    azure = compute()
    azure.put(BOX, machine({"id": f"{ROOT}/providers/Microsoft.Compute/images/mine"}))

    image = at(azure.get(BOX), "properties", "storageProfile", "imageReference")

    assert image == {"id": f"{ROOT}/providers/Microsoft.Compute/images/mine"}


def test_the_view_of_a_lone_machine_has_disks_and_no_domains() -> None:
    azure = compute()
    disks: Json = [{"lun": 0, "name": "data", "createOption": "Empty"}]
    azure.put(BOX, {"properties": {"storageProfile": {"osDisk": {"name": "root"}, "dataDisks": disks}}})

    view = azure.get(f"{BOX}/instanceView")

    assert isinstance(view, dict)
    assert [at(disk, "name") for disk in at_list(view, "disks")] == ["root", "data"]
    assert at(view, "disks", 0, "statuses", 0, "code") == "ProvisioningState/succeeded"
    assert at(view, "vmAgent", "statuses", 0, "message") == "Guest Agent is running"
    assert not {"platformFaultDomain", "platformUpdateDomain", "maintenanceRedeployStatus"} & view.keys()


def test_the_view_says_when_maintenance_is_planned() -> None:
    azure = compute(Blueprint(name="db", kind=ScopeKind.STANDALONE))
    azure.fleet.cause("host-update", "db")

    status = at(azure.get(f"{HOME}/{VM}/db/instanceView"), "maintenanceRedeployStatus")

    assert at(status, "isCustomerInitiatedMaintenanceAllowed") is True


def test_what_up_creates_has_a_time_of_creation() -> None:
    azure = compute(Blueprint(name="web"), Blueprint(name="db", kind=ScopeKind.STANDALONE))

    created = [
        at(azure.get(path), "properties", *more, "timeCreated")
        for path, *more in (
            (f"{HOME}/{VM}/db",),
            (f"{HOME_SET}/web",),
            (f"{HOME_SET}/web", "virtualMachineProfile"),
            (f"{HOME_SET}/web/virtualMachines/0",),
        )
    ]

    assert created == ["2026-11-16T12:00:00.000000Z"] * 4


def test_the_model_of_a_set_was_created_when_it_was_last_changed() -> None:
    azure = compute()
    azure.put(WEB, scale_set(1))
    azure.advance("1h")
    azure.put(WEB, model(osProfile={"computerNamePrefix": "node"}))
    azure.advance("1h")
    azure.put(WEB, {"tags": {"a": "b"}})

    properties = at(azure.get(WEB), "properties")

    assert at(properties, "timeCreated") == "2026-11-16T12:00:00.000000Z"
    assert at(properties, "virtualMachineProfile", "timeCreated") == "2026-11-16T13:00:00.000000Z"


@pytest.mark.parametrize(
    ("mode", "zones", "group", "domains"),
    [
        pytest.param("Uniform", (), True, None, id="a uniform set does not say how many fault domains"),
        pytest.param("Uniform", ("1", "2"), True, 1, id="a zonal set is spread as far as possible"),
        pytest.param("Flexible", (), False, 3, id="a flexible set has no placement group of its own"),
    ],
)
def test_a_set_says_how_its_machines_are_placed(
    mode: str, zones: tuple[str, ...], group: bool, domains: int | None
) -> None:
    azure = compute()
    azure.put(WEB, scale_set(2, zones=zones, orchestrationMode=mode, singlePlacementGroup=None))

    properties = at(azure.get(WEB), "properties")

    assert at(properties, "singlePlacementGroup") is group
    assert at(properties, "platformFaultDomainCount") == domains


def test_a_null_for_a_default_does_not_change_the_model_of_a_set() -> None:
    azure = compute()
    disk: Json = {"createOption": "FromImage", "managedDisk": {"storageAccountType": None}}
    body = both(scale_set(1), model(storageProfile={"imageReference": UBUNTU, "osDisk": disk}))
    azure.put(WEB, body)

    azure.put(WEB, body)

    assert at(azure.get(f"{WEB}/virtualMachines/0"), "properties", "latestModelApplied") is True


def test_an_instance_has_the_network_interfaces_and_the_profile_of_its_model() -> None:
    azure = compute()
    cards: Json = {"networkInterfaceConfigurations": [{"name": "card", "properties": {"primary": True}}]}
    user: Json = {"adminUsername": "ann", "computerNamePrefix": "node"}
    azure.put(WEB, both(scale_set(1), model(networkProfile=cards, osProfile=user)))

    document = azure.get(f"{WEB}/virtualMachines/0")

    interface = f"{ROOT}/providers/{WEB}/virtualMachines/0/networkInterfaces/card"
    assert at(document, "properties", "networkProfile", "networkInterfaces") == [{"id": interface}]
    assert at(document, "properties", "osProfile", "adminUsername") == "ann"
    assert at(document, "properties", "osProfile", "computerNamePrefix") is None
    assert at(document, "properties", "osProfile", "linuxConfiguration", "patchSettings") == PATCHES
    card = at(document, "properties", "networkProfileConfiguration", "networkInterfaceConfigurations", 0)
    assert at(card, "properties", "enableIPForwarding") is False


# -- networks


@pytest.fixture
def wired() -> Azure:
    azure = Azure(*TABLES, network.ROUTES)
    subnets: Json = [{"name": "a", "properties": {"addressPrefix": "10.9.0.0/29"}}]
    azure.put(f"{NETS}/net", {"properties": {"subnets": subnets}})
    return azure


def card(azure: Azure, name: str) -> Json:
    subnet: Json = {"id": f"{ROOT}/providers/{NETS}/net/subnets/a"}
    body: Json = {"properties": {"ipConfigurations": [{"name": "one", "properties": {"subnet": subnet}}]}}
    return at(azure.put(f"{NICS}/{name}", body).body, "properties")


def address(azure: Azure, name: str) -> Json:
    return at(card(azure, name), "ipConfigurations", 0, "properties", "privateIPAddress")


def test_a_network_interface_has_the_first_free_address_of_its_subnet(wired: Azure) -> None:
    given = [address(wired, name) for name in ("x", "y", "z")]

    wired.delete(f"{NICS}/y")

    assert given == ["10.9.0.4", "10.9.0.5", "10.9.0.6"]
    assert [address(wired, name) for name in ("z", "new")] == ["10.9.0.6", "10.9.0.5"]


def test_a_full_subnet_has_no_address_left(wired: Azure) -> None:
    for name in ("x", "y", "z"):
        card(wired, name)
    subnet: Json = {"id": f"{ROOT}/providers/{NETS}/net/subnets/a"}
    body: Json = {"properties": {"ipConfigurations": [{"name": "one", "properties": {"subnet": subnet}}]}}

    assert wired.refused("PUT", f"{NICS}/late", body)[:2] == (400, "SubnetIsFull")


def test_a_network_interface_says_what_is_off(wired: Azure) -> None:
    properties = card(wired, "x")

    for member in ("enableIPForwarding", "enableAcceleratedNetworking", "disableTcpStateTracking"):
        assert at(properties, member) is False
    assert at(properties, "ipConfigurations", 0, "properties", "privateIPAddressVersion") == "IPv4"


def test_a_subnet_of_a_missing_network_is_not_found(wired: Azure) -> None:
    assert wired.refused("GET", f"{NETS}/none/subnets/a")[:2] == (404, "ResourceNotFound")
    assert wired.refused("GET", f"{NETS}/none/subnets")[:2] == (404, "ResourceNotFound")
    assert wired.refused("PUT", f"{NETS}/none/subnets/a", {})[:2] == (404, "ParentResourceNotFound")


def at_list(document: Json, *path: str) -> list[Json]:
    value = at(document, *path)
    assert isinstance(value, list)
    return value
