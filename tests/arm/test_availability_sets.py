"""Availability sets: created empty, filled by machines, deleted when empty."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import ScopeKind
from tests.arm.azure import HOME, ROOT, Azure, at, header
from tests.arm.compute import AVAILABILITY_SET, NEWEST, VM, compute

APP = f"{AVAILABILITY_SET}/app"
POLICY: Json = {
    "scheduledEventsPolicy": {
        "userInitiatedReboot": {"automaticallyApprove": True},
        "allInstancesDown": {"automaticallyApprove": False},
    }
}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(APP, {"properties": {"platformUpdateDomainCount": 3, "platformFaultDomainCount": 2}})
    return azure


def member(azure: Azure, name: str) -> None:
    azure.put(f"{VM}/{name}", {"properties": {"availabilitySet": {"id": f"{ROOT}/providers/{APP}"}}})


@pytest.mark.parametrize("again", [False, True], ids=["a new one", "one that is there"])
def test_a_put_is_answered_with_200_and_is_final(again: bool) -> None:
    azure = compute()
    if again:
        azure.put(APP, {})

    response = azure.put(APP, {"location": "westeurope", "sku": {"name": "Aligned"}, "properties": {}})

    assert response.status == 200
    assert header(response, "Azure-AsyncOperation") is None
    assert at(response.body, "id") == f"{ROOT}/providers/{APP}"
    assert at(response.body, "sku", "name") == "Aligned"
    assert at(response.body, "properties", "platformUpdateDomainCount") == 5


def test_machines_spread_over_the_domains_of_their_set(azure: Azure) -> None:
    for number in range(4):
        member(azure, f"app{number}")

    views = [azure.get(f"{VM}/app{number}/instanceView") for number in range(4)]
    assert [at(view, "platformUpdateDomain") for view in views] == [0, 1, 2, 0]
    assert [at(view, "platformFaultDomain") for view in views] == [0, 1, 0, 1]
    assert at(azure.get(APP), "properties", "virtualMachines", 3) == {"id": f"{ROOT}/providers/{VM}/app3"}


def test_the_domains_cannot_be_changed(azure: Azure) -> None:
    body: Json = {"properties": {"platformUpdateDomainCount": 5}}

    assert azure.refused("PUT", APP, body)[:2] == (409, "PropertyChangeNotAllowed")


@pytest.mark.rule("L-17")
@pytest.mark.rule("T-22")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_the_policy_of_the_set_rules_its_machines(azure: Azure, method: str) -> None:
    member(azure, "app0")
    azure.poll("app0")

    azure.fine(method, APP, {"properties": POLICY}, version=NEWEST)
    azure.post(f"{VM}/app0/restart")

    assert azure.waiting() == []
    approvals = azure.fleet.scope("lab/app").facts.approvals
    assert (approvals.user_reboot, approvals.all_instances_down) == (True, False)
    policy = at(azure.get(APP, version=NEWEST), "properties", "scheduledEventsPolicy", "allInstancesDown")
    assert policy == {"automaticallyApprove": False}


def test_a_set_can_be_made_with_its_policy() -> None:
    azure = compute()

    azure.put(APP, {"properties": POLICY}, version=NEWEST)

    assert azure.fleet.scope("lab/app").facts.approvals.user_reboot


@pytest.mark.rule("T-26")
def test_the_policy_reads_back_as_it_was_sent(azure: Azure) -> None:
    policy: Json = {"userInitiatedRedeploy": {"automaticallyApprove": False}}

    azure.put(APP, {"properties": {"scheduledEventsPolicy": policy}}, version=NEWEST)

    assert at(azure.get(APP, version=NEWEST), "properties", "scheduledEventsPolicy") == policy


def test_a_set_that_somebody_is_in_is_not_deleted(azure: Azure) -> None:
    member(azure, "app0")

    refused = azure.refused("DELETE", APP)

    assert refused[:2] == (409, "OperationNotAllowed")
    assert "app0" in refused[2]

    azure.delete(f"{VM}/app0")
    azure.advance("5s")

    assert azure.delete(APP).status == 200
    assert azure.delete(APP).status == 204
    assert azure.refused("GET", APP)[:2] == (404, "ResourceNotFound")


def test_deleting_a_machine_leaves_its_set(azure: Azure) -> None:
    member(azure, "app0")
    azure.delete(f"{VM}/app0")
    azure.advance("5s")

    assert at(azure.get(APP), "properties", "virtualMachines") == []


def test_sets_are_listed_by_group_and_for_all(azure: Azure) -> None:
    home = compute(Blueprint(name="old", kind=ScopeKind.AVAILABILITY_SET, count=2))
    home.put(APP, {})

    assert home.names(AVAILABILITY_SET) == ["app"]
    assert home.names(f"{HOME}/{AVAILABILITY_SET}") == ["old"]
    assert home.names(f"/subscriptions/1/providers/{AVAILABILITY_SET}") == ["old", "app"]


def test_what_was_read_can_be_put_back_and_changes_nothing(azure: Azure) -> None:
    member(azure, "app0")
    before = azure.get(APP, version=NEWEST)

    azure.put(APP, before, version=NEWEST)

    assert azure.get(APP, version=NEWEST) == before


def test_a_set_that_is_not_there_is_not_patched(azure: Azure) -> None:
    assert azure.refused("PATCH", f"{AVAILABILITY_SET}/none", {})[:2] == (404, "ResourceNotFound")
