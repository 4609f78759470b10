"""The names of resource groups: up to 90 characters, with parentheses, wherever a group is named."""

import pytest

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.console.app import create_app
from fairwarning.console.formatting import enable_notification_command
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint, check_group_name
from fairwarning.core.document.render import Json
from fairwarning.core.errors import InvalidError
from fairwarning.metadata import instance
from tests.arm.arm_client import ArmClient, arm_client
from tests.arm.azure import at
from tests.arm.cloud import resource, template
from tests.arm.deploying import body
from tests.asgi import ask
from tests.fleet_harness import FleetHarness, run

GROUPS = f"/subscriptions/{SUBSCRIPTION}/resourceGroups"
LONG = "a" * 90
NAMES = [
    pytest.param(LONG, id="90 letters"),
    pytest.param("Lab(1)", id="parentheses"),
    pytest.param("(.-_Lab_-.)", id="signs at both ends"),
]
VERSION = "api-version=2024-07-01"


def quoted(name: str) -> str:
    """Return a name as clients write it into a URL."""
    return name.replace("(", "%28").replace(")", "%29")


def send(client: ArmClient, method: str, path: str, body: Json = None) -> Json:
    """Send a request that must succeed, and return the body of the response."""
    response = client.send(method, f"{GROUPS}/{path}?{VERSION}", body)
    assert response.status_code < 300, response.text
    answer: Json = response.json() if response.content else None
    return answer


@pytest.mark.parametrize("name", NAMES)
def test_machines_and_networks_are_created_and_found_in_any_group(name: str) -> None:
    client, group = arm_client(), quoted(name)
    send(client, "PUT", group, {"location": "westeurope"})
    compute, machine = f"{group}/providers/Microsoft.Compute", dict[str, Json](location="westeurope")
    send(client, "PUT", f"{compute}/availabilitySets/app", machine)
    member = f"{GROUPS}/{name}/providers/Microsoft.Compute/availabilitySets/app"
    send(client, "PUT", f"{compute}/virtualMachines/db", machine)
    in_set: Json = {**machine, "properties": {"availabilitySet": {"id": member}}}
    send(client, "PUT", f"{compute}/virtualMachines/app0", in_set)
    send(client, "PUT", f"{group}/providers/Microsoft.Network/virtualNetworks/net", machine)

    listed = at(send(client, "GET", f"{group}/resources"), "value")
    network = send(client, "GET", f"{name.upper()}/providers/Microsoft.Network/virtualNetworks/net")

    assert isinstance(listed, list)
    names = [str(at(item, "name")).partition("_OsDisk_1_")[0] for item in listed]
    assert sorted(names) == ["app", "app0", "app0", "db", "db", "net"]
    assert {str(at(item, "id")).split("/")[4] for item in listed} == {name}
    assert at(network, "id") == f"{GROUPS}/{name}/providers/Microsoft.Network/virtualNetworks/net"


@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_deployed_to_any_group_and_the_group_is_deleted(name: str) -> None:
    client, group = arm_client(), quoted(name)
    send(client, "PUT", group, {"location": "westeurope"})
    vm = resource("db", kind="Microsoft.Compute/virtualMachines", location="westeurope")
    one = f"{group}/providers/Microsoft.Resources/deployments/one"
    output: Json = {"type": "string", "value": "[resourceId('Microsoft.Compute/virtualMachines', 'db')]"}

    send(client, "PUT", one, body(template(vm, outputs={"vm": output})))
    deployed = at(send(client, "GET", one), "properties")
    send(client, "DELETE", group)
    client.fleet.advance("10s")

    assert at(deployed, "provisioningState") == "Succeeded"
    machine = f"{GROUPS}/{name}/providers/Microsoft.Compute/virtualMachines/db"
    assert at(deployed, "outputs", "vm", "value") == machine
    assert client.send("GET", f"{GROUPS}/{group}?{VERSION}").status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_the_machine_and_the_console_name_any_group(name: str) -> None:
    client = arm_client()
    send(client, "PUT", quoted(name), {"location": "westeurope"})
    vm = f"{quoted(name)}/providers/Microsoft.Compute/virtualMachines/db"
    send(client, "PUT", vm, {"location": "westeurope"})
    engine, machine = client.fleet.engine, client.fleet.machine("db")

    facts = instance.instance_facts(machine, client.fleet.scope(machine.scope).facts, engine.stored)
    inside = at(instance.document(facts, "2021-12-13"), "compute")
    console = create_app(Control(engine), endpoints=lambda ref: None)
    page = run(ask(console, "GET", f"http://127.0.0.1/machines/{quoted(machine.ref.full)}"))

    assert at(inside, "resourceGroupName") == name
    assert str(at(inside, "resourceId")).startswith(f"{GROUPS}/{name}/")
    assert page.status_code == 200
    assert name.lower() in page.text


def test_the_command_that_the_console_shows_quotes_a_group() -> None:
    assert "--resource-group 'lab(1)' --name web" in enable_notification_command("web", "lab(1)")


@pytest.mark.parametrize("name", ["a" * 91, "dot.", "a b", "a/b", "ä", "a\n", "a\u200bb"])
def test_no_other_text_is_the_name_of_a_group(name: str) -> None:
    with pytest.raises(InvalidError):
        check_group_name(name)
    with pytest.raises(InvalidError):
        FleetHarness(Blueprint(name="web", group=name))
