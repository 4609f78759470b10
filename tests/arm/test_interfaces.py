"""Network interfaces of scale sets and their instances."""

import pytest

from fairwarning.core.document.render import Json
from fairwarning.metadata import instance
from tests.arm.azure import ROOT, Azure, at
from tests.arm.compute import SET, both, compute, model, scale_set

pytestmark = pytest.mark.rule("T-34")

WEB = f"{SET}/web"
FIRST = f"{WEB}/virtualMachines/0"
SUBNET = f"{ROOT}/providers/Microsoft.Network/virtualNetworks/net/subnets/inner"
CARDS: Json = [
    {
        "name": "front",
        "properties": {
            "primary": True,
            "ipConfigurations": [
                {"name": "one", "properties": {"subnet": {"id": SUBNET}}},
                {"name": "two", "properties": {"subnet": {"id": SUBNET}}},
            ],
        },
    },
    {"name": "back", "properties": {"primary": False, "ipConfigurations": [{"name": "three"}]}},
]


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(WEB, both(scale_set(2), model(networkProfile={"networkInterfaceConfigurations": CARDS})))
    return azure


def test_an_instance_has_the_interfaces_of_its_set(azure: Azure) -> None:
    front = azure.get(f"{FIRST}/networkInterfaces/FRONT")

    assert azure.names(f"{FIRST}/networkInterfaces") == ["back", "front"]
    assert at(azure.get(f"{FIRST}/networkInterfaces"), "value", 1) == front
    assert at(front, "id") == f"{ROOT}/providers/{FIRST}/networkInterfaces/front"
    assert at(front, "properties", "virtualMachine", "id") == f"{ROOT}/providers/{FIRST}"
    assert at(front, "properties", "primary") is True
    configuration = at(front, "properties", "ipConfigurations", 0)
    assert at(configuration, "id") == f"{at(front, 'id')}/ipConfigurations/one"
    assert at(configuration, "properties", "subnet", "id") == SUBNET
    assert at(configuration, "properties", "privateIPAllocationMethod") == "Dynamic"
    interfaces = at(azure.get(FIRST), "properties", "networkProfile", "networkInterfaces")
    assert interfaces == [
        {"id": f"{ROOT}/providers/{FIRST}/networkInterfaces/{name}"} for name in ("front", "back")
    ]


def test_a_set_has_the_interfaces_of_all_instances(azure: Azure) -> None:
    listed = at(azure.get(f"{WEB}/networkInterfaces"), "value")

    assert isinstance(listed, list)
    owners = {str(at(interface, "properties", "virtualMachine", "id")) for interface in listed}
    assert len(listed) == 4
    assert owners == {f"{ROOT}/providers/{WEB}/virtualMachines/{number}" for number in (0, 1)}
    configurations = [
        configuration
        for interface in listed
        for configuration in at_list(interface, "properties", "ipConfigurations")
    ]
    addresses = {str(at(configuration, "properties", "privateIPAddress")) for configuration in configurations}
    assert len(addresses) == len(configurations) == 6


def test_the_instance_reads_the_same_addresses_about_itself(azure: Azure) -> None:
    machine = azure.fleet.machine("web_0")
    facts = instance.instance_facts(
        machine, azure.fleet.scope(machine.scope).facts, azure.fleet.engine.stored
    )

    properties = at(azure.get(f"{FIRST}/networkInterfaces/front"), "properties")

    assert at(properties, "ipConfigurations", 0, "properties", "privateIPAddress") == facts.private_ip
    assert str(at(properties, "macAddress")).replace("-", "") == facts.mac


def test_the_interfaces_of_a_flexible_set_are_resources_of_their_own() -> None:
    azure = compute()
    azure.put(WEB, both(scale_set(1), {"properties": {"orchestrationMode": "Flexible"}}))

    assert azure.names(f"{WEB}/networkInterfaces") == []


@pytest.mark.parametrize(
    "path",
    [
        f"{SET}/none/networkInterfaces",
        f"{SET}/none/virtualMachines/0/networkInterfaces",
        f"{WEB}/virtualMachines/7/networkInterfaces",
        f"{WEB}/virtualMachines/7/networkInterfaces/front",
        f"{FIRST}/networkInterfaces/none",
    ],
)
def test_what_is_not_there_is_not_found(azure: Azure, path: str) -> None:
    assert azure.refused("GET", path)[:2] == (404, "NotFound")


def at_list(document: Json, *path: str) -> list[Json]:
    value = at(document, *path)
    assert isinstance(value, list)
    return value
