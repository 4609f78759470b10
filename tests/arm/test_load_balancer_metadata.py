"""A guest reads how traffic reaches it: what clients of the management API have set up (I-17, I-19)."""

import json

import pytest

from fairwarning.arm import network
from fairwarning.control.control import Control
from fairwarning.core.document.render import Json
from fairwarning.http1.messages import Request, Response
from fairwarning.metadata import instance
from fairwarning.metadata.app import MetadataApp
from tests.arm.azure import ROOT, Azure, at
from tests.arm.compute import SET, TABLES, VM, both, model, scale_set
from tests.fleet_harness import run
from tests.guest import METADATA, UNHURRIED, error_of

NET = f"{ROOT}/providers/Microsoft.Network"
LB = f"{NET}/loadBalancers/lb"
POOL: Json = {"id": f"{LB}/backendAddressPools/pool"}
FRONT: Json = {"id": f"{LB}/frontendIPConfigurations/front"}
STANDARD: Json = {"name": "Standard"}
PATH = "/metadata/loadbalancer"


@pytest.fixture
def azure() -> Azure:
    azure = Azure(*TABLES, network.ROUTES)
    for name, address in (("front", "51.0.0.1"), ("own", "52.0.0.2")):
        body: Json = {"sku": STANDARD, "properties": {"ipAddress": address}}
        azure.put(f"{NET}/publicIPAddresses/{name}", body)
    return azure


def ask(azure: Azure, name: str, query: str = "api-version=2020-10-01", method: str = "GET") -> Response:
    app = MetadataApp(Control(azure.fleet.engine), UNHURRIED)

    async def answer() -> Response:
        reply = app.answer(azure.fleet.ref(name), Request(method, PATH, query, METADATA, b"", True))
        return reply if isinstance(reply, Response) else await reply

    return run(answer())


def put_load_balancer(azure: Azure, sku: str = "Standard") -> None:
    rule: dict[str, Json] = {"frontendIPConfiguration": FRONT, "protocol": "Tcp"}
    azure.put(
        LB,
        {
            "sku": {"name": sku},
            "properties": {
                "frontendIPConfigurations": [
                    {
                        "name": "front",
                        "properties": {"publicIPAddress": {"id": f"{NET}/publicIPAddresses/front"}},
                    }
                ],
                "backendAddressPools": [{"name": "pool"}],
                "loadBalancingRules": [
                    {
                        "name": "web",
                        "properties": {
                            **rule,
                            "frontendPort": 80,
                            "backendPort": 8080,
                            "backendAddressPool": POOL,
                        },
                    },
                    {
                        "name": "other",
                        "properties": {**rule, "backendAddressPool": {"id": f"{LB}/backendAddressPools/x"}},
                    },
                ],
                "inboundNatRules": [
                    {"name": "ssh", "properties": {**rule, "frontendPort": 50000, "backendPort": 22}}
                ],
                "outboundRules": [
                    {
                        "name": "out",
                        "properties": {"frontendIPConfigurations": [FRONT], "backendAddressPool": POOL},
                    }
                ],
            },
        },
    )


def put_machine(azure: Azure, **configuration: Json) -> str:
    """Create the machine ``db`` with an interface, and return its private address."""
    interface = f"{NET}/networkInterfaces/nic"
    azure.put(interface, {"properties": {"ipConfigurations": [{"name": "one", "properties": configuration}]}})
    azure.put(f"{VM}/db", {"properties": {"networkProfile": {"networkInterfaces": [{"id": interface}]}}})
    return private_address(azure, "db")


def private_address(azure: Azure, name: str) -> str:
    return str(at(network_inside(azure, name), "ipv4", "ipAddress", 0, "privateIpAddress"))


@pytest.mark.rule("I-17")
def test_a_machine_reads_the_rules_that_bring_and_send_its_traffic(azure: Azure) -> None:
    put_load_balancer(azure)
    address = put_machine(
        azure,
        publicIPAddress={"id": f"{NET}/publicIPAddresses/own"},
        loadBalancerBackendAddressPools=[POOL],
        loadBalancerInboundNatRules=[{"id": f"{LB}/inboundNatRules/ssh"}],
    )

    reply = ask(azure, "db")

    assert (reply.status, reply.content_type) == (200, "application/json; charset=utf-8")
    front: dict[str, Json] = {"frontendIpAddress": "51.0.0.1"}
    private: dict[str, Json] = {"privateIpAddress": address}
    assert json.loads(reply.body) == {
        "loadbalancer": {
            "publicIpAddresses": [{"frontendIpAddress": "52.0.0.2", **private}],
            "inboundRules": [
                {**front, "protocol": "tcp", "frontendPort": 80, "backendPort": 8080, **private},
                {**front, "protocol": "tcp", "frontendPort": 50000, "backendPort": 22, **private},
            ],
            "outboundRules": [{**front, **private}],
        }
    }


@pytest.mark.rule("I-17")
@pytest.mark.parametrize("mode", ["Uniform", "Flexible"])
def test_an_instance_reads_the_rules_of_the_pool_of_its_set(azure: Azure, mode: str) -> None:
    put_load_balancer(azure)
    configuration: Json = {"name": "one", "properties": {"loadBalancerBackendAddressPools": [POOL]}}
    interface: Json = {"name": "nic", "properties": {"ipConfigurations": [configuration]}}
    body = both(scale_set(2), model(networkProfile={"networkInterfaceConfigurations": [interface]}))
    azure.put(f"{SET}/web", both(body, {"properties": {"orchestrationMode": mode}}))

    balanced = [json.loads(ask(azure, name).body)["loadbalancer"] for name in azure.fleet.machines("lab/web")]

    assert [len(one["inboundRules"]) for one in balanced] == [1, 1]
    addresses = [one["inboundRules"][0]["privateIpAddress"] for one in balanced]
    assert addresses == [private_address(azure, name) for name in azure.fleet.machines("lab/web")]


@pytest.mark.rule("I-17")
def test_a_machine_behind_a_basic_load_balancer_reads_nothing(azure: Azure) -> None:
    put_load_balancer(azure, "Basic")
    put_machine(azure, loadBalancerBackendAddressPools=[POOL])

    reply = ask(azure, "db")

    assert reply.status == 404
    assert error_of(reply) == (
        "No load balancer metadata is found. "
        "Please check if your VM is using any non-basic SKU load balancer and retry later."
    )


@pytest.mark.rule("I-17")
@pytest.mark.parametrize(
    ("query", "method", "status"),
    [
        pytest.param("", "GET", 400, id="no version"),
        pytest.param("api-version=2020-09-01", "GET", 400, id="a version before the first"),
        pytest.param("api-version=2025-04-07", "GET", 404, id="a later version"),
        pytest.param("api-version=2020-10-01", "POST", 405, id="another method"),
    ],
)
def test_requests_for_load_balancers_are_checked(azure: Azure, query: str, method: str, status: int) -> None:
    azure.put(f"{VM}/db", {"location": "westeurope"})

    assert ask(azure, "db", query, method).status == status


@pytest.mark.rule("I-19")
def test_a_machine_reads_the_addresses_of_its_interface(azure: Azure) -> None:
    subnet: Json = {"name": "inner", "properties": {"addressPrefix": "10.9.8.0/26"}}
    azure.put(f"{NET}/virtualNetworks/net", {"properties": {"subnets": [subnet]}})
    azure.put(f"{NET}/publicIPAddresses/basic", {"properties": {"ipAddress": "40.0.0.9"}})
    put_machine(
        azure,
        subnet={"id": f"{NET}/virtualNetworks/net/subnets/inner"},
        publicIPAddress={"id": f"{NET}/publicIPAddresses/basic"},
    )
    interface = azure.get(f"{NET}/networkInterfaces/nic")

    inside = network_inside(azure, "db")

    assert at(inside, "ipv4", "subnet") == [{"address": "10.9.8.0", "prefix": "26"}]
    assert at(inside, "ipv4", "ipAddress") == [
        {"privateIpAddress": "10.9.8.4", "publicIpAddress": "40.0.0.9"}
    ]
    address = at(interface, "properties", "ipConfigurations", 0, "properties", "privateIPAddress")
    assert address == "10.9.8.4"
    assert at(inside, "macAddress") == str(at(interface, "properties", "macAddress")).replace("-", "")


@pytest.mark.rule("I-19")
def test_a_public_address_of_the_standard_sku_is_part_of_the_load_balancer_metadata(azure: Azure) -> None:
    subnet: Json = {"name": "inner", "properties": {"addressPrefix": "10.9.8.0/26"}}
    azure.put(f"{NET}/virtualNetworks/net", {"properties": {"subnets": [subnet]}})
    put_machine(
        azure,
        subnet={"id": f"{NET}/virtualNetworks/net/subnets/inner"},
        publicIPAddress={"id": f"{NET}/publicIPAddresses/own"},
    )

    addresses = json.loads(ask(azure, "db").body)["loadbalancer"]["publicIpAddresses"]

    assert at(network_inside(azure, "db"), "ipv4", "ipAddress", 0, "publicIpAddress") == ""
    assert addresses == [{"frontendIpAddress": "52.0.0.2", "privateIpAddress": "10.9.8.4"}]


def network_inside(azure: Azure, name: str) -> Json:
    """Return the first interface in ``/metadata/instance``."""
    machine = azure.fleet.machine(name)
    scope = azure.fleet.scope(machine.scope)
    facts = instance.instance_facts(machine, scope.facts, azure.fleet.engine.stored)
    return at(instance.document(facts, "2021-02-01"), "network", "interface", 0)
