"""Requests that clients poll: changes, power, deletes; and where their operations are."""

import pytest

from fairwarning.arm import groups, network, operations
from fairwarning.arm.messages import ArmResponse
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from tests.arm.azure import HOME, ROOT, Azure, at, header
from tests.arm.compute import AVAILABILITY_SET, HOME_SET, SET, TABLES, VM, compute, scale_set

pytestmark = pytest.mark.rule("T-29")

BOX, WEB = f"{VM}/box", f"{SET}/web"
NETWORK = "Microsoft.Network"
IN_EAST_US: Json = {"location": "East US", "properties": {}}


def states(response: ArmResponse, azure: Azure, path: str) -> list[Json]:
    """Return the provisioning state in a response, and the one that is read afterwards."""
    return [at(document, "properties", "provisioningState") for document in (response.body, azure.get(path))]


@pytest.mark.parametrize(("path", "body"), [(BOX, {"properties": {}}), (WEB, scale_set(2))])
def test_what_is_put_is_creating_or_updating_until_its_operation_is_polled(path: str, body: Json) -> None:
    azure = compute()

    created, changed = (azure.put(path, body) for _ in range(2))
    patched = azure.patch(path, {"tags": {"a": "b"}})

    responses = [created, changed, patched]
    assert [response.status for response in responses] == [201, 200, 200]
    assert [states(response, azure, path)[0] for response in responses] == [
        "Creating",
        "Updating",
        "Updating",
    ]
    assert states(patched, azure, path)[1] == "Succeeded"
    assert [azure.progress(response) for response in responses] == ["Succeeded"] * 3
    assert len({header(response, "Azure-AsyncOperation") for response in responses}) == 3
    for response in responses:
        assert header(response, "Location") is None
        assert header(response, "x-ms-retry-after-ms") == "100"


def test_an_instance_that_is_changed_is_updating() -> None:
    azure = compute(Blueprint(name="web"))
    path = f"{HOME_SET}/web/virtualMachines/0"

    response = azure.put(path, {"properties": {"protectionPolicy": {"protectFromScaleIn": True}}})

    assert (response.status, states(response, azure, path)) == (200, ["Updating", "Succeeded"])
    assert azure.progress(response) == "Succeeded"


def test_an_availability_set_is_there_at_once() -> None:
    azure = compute()

    response = azure.put(f"{AVAILABILITY_SET}/app", {"location": "westeurope", "properties": {}})

    assert (response.status, header(response, "Azure-AsyncOperation")) == (200, None)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((f"{BOX}/{verb}", None) for verb in ("start", "powerOff", "deallocate", "reapply")),
        *((f"{WEB}/{verb}", None) for verb in ("start", "powerOff", "deallocate", "reapply")),
        *((f"{WEB}/virtualMachines/0/{verb}", None) for verb in ("start", "powerOff", "deallocate")),
        (f"{WEB}/manualupgrade", {"instanceIds": ["*"]}),
    ],
)
def test_power_and_upgrades_are_accepted_and_over_when_they_are_polled(path: str, body: Json) -> None:
    azure = compute()
    azure.put(BOX, {"properties": {}})
    azure.put(WEB, scale_set(1))

    response = azure.post(path, body)

    url, location = header(response, "Azure-AsyncOperation"), header(response, "Location")
    assert (response.status, response.body) == (202, None)
    assert url is not None
    assert location == f"{url}&monitor=true"
    assert at(azure.get(url), "status") == "Succeeded"
    assert at(azure.get(url), "startTime") == at(azure.get(url), "endTime") == "2026-11-16T12:00:00.000000Z"
    assert azure.fine("GET", location).status == 200


def test_an_operation_that_is_over_at_once_is_stored_nowhere_and_known_everywhere() -> None:
    azure = compute()
    response = azure.put(BOX, {"properties": {}})

    azure.restart()

    assert list(operations.all_operations(azure.context.committed().view)) == []
    assert azure.progress(response) == "Succeeded"


def test_an_operation_that_never_was_is_not_found() -> None:
    azure = compute()
    url = str(header(azure.put(BOX, {"properties": {}}), "Azure-AsyncOperation"))
    name = url.partition("?")[0].rpartition("/")[2]
    other = ("1" if name[0] == "0" else "0") + name[1:]

    for unknown in (other, name.replace("-", ""), "x" * 36, "0" * 36):
        assert azure.refused("GET", url.replace(name, unknown))[:2] == (404, "NotFound")


def test_an_operation_is_where_its_resource_is() -> None:
    azure = Azure(*TABLES, groups.ROUTES, blueprints=[Blueprint(name="here")])
    machine = azure.put(BOX, IN_EAST_US)
    scale: Json = {**scale_set(1), "location": "eastus2"}
    azure.put(WEB, scale)
    azure.put(f"{ROOT}x", {"location": "West US"})

    urls = {
        "eastus": [machine, azure.post(f"{BOX}/start"), azure.delete(BOX)],
        "eastus2": [azure.post(f"{WEB}/virtualMachines/0/start"), azure.delete(f"{WEB}/virtualMachines/0")],
        "westus": [azure.delete(f"{ROOT}x")],
        "westeurope": [azure.post(f"{HOME}/{SET}/here/restart")],
    }

    for location, responses in urls.items():
        for response in responses:
            assert f"/locations/{location}/operations/" in str(header(response, "Azure-AsyncOperation"))
            assert azure.progress(response) in ("Succeeded", "InProgress")


@pytest.mark.parametrize(
    ("path", "states_shown"),
    [
        (f"{NETWORK}/virtualNetworks/net", ["Updating", "Succeeded"]),
        (f"{NETWORK}/virtualNetworks/old/subnets/inner", ["Updating", "Succeeded"]),
        (f"{NETWORK}/publicIPAddresses/front", ["Updating", "Succeeded"]),
        (f"{NETWORK}/networkInterfaces/card", ["Succeeded", "Succeeded"]),
    ],
)
def test_a_network_resource_is_polled_for_its_status_alone(path: str, states_shown: list[Json]) -> None:
    azure = Azure(network.ROUTES)
    azure.put(f"{NETWORK}/virtualNetworks/old", {"location": "eastus", "properties": {}})

    response = azure.put(path, {"location": "eastus", "properties": {}})

    url = str(header(response, "Azure-AsyncOperation"))
    assert "/providers/Microsoft.Network/locations/eastus/operations/" in url
    assert header(response, "Location") is None
    assert states(response, azure, path) == states_shown
    assert azure.get(url) == {"status": "Succeeded"}


@pytest.mark.rule("T-16")
def test_a_scale_in_is_in_progress_until_the_machines_are_gone() -> None:
    azure = compute()
    azure.put(WEB, scale_set(2))

    response = azure.put(WEB, {"sku": {"capacity": 1}})
    during = azure.progress(response)
    azure.advance("5s")

    assert at(response.body, "properties", "provisioningState") == "Updating"
    assert (during, azure.progress(response)) == ("InProgress", "Succeeded")
