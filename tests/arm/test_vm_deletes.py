"""Deletes and evictions of virtual machines, with their warnings."""

import pytest

from fairwarning.core.document.render import Json
from fairwarning.core.model import EventType
from tests.arm.azure import ROOT, Azure, at
from tests.arm.compute import VM, compute, profile
from tests.fleet_harness import NOON, span

BOX = f"{VM}/box"
SPOT: Json = {"properties": {"priority": "Spot", "evictionPolicy": "Delete"}}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(BOX, {"location": "westeurope", "tags": {"team": "core"}, "properties": profile(10)})
    azure.poll("box")
    return azure


def power(azure: Azure, path: str) -> Json:
    return at(azure.get(f"{path}/instanceView"), "statuses", 1, "code")


# -- evictions


@pytest.mark.rule("T-24")
@pytest.mark.rule("T-03")
@pytest.mark.parametrize(("eviction", "left"), [("Deallocate", "PowerState/deallocated"), ("Delete", None)])
def test_a_simulated_eviction_is_a_preempt_and_ends_as_the_policy_says(
    azure: Azure, eviction: str, left: str | None
) -> None:
    azure.put(f"{VM}/cheap", {"properties": {"priority": "Spot", "evictionPolicy": eviction}})
    azure.poll("cheap")

    response = azure.post(f"{VM}/cheap/simulateEviction")

    (event,) = azure.fleet.shown("cheap")
    assert (response.status, response.body) == (204, None)
    assert (event.kind, event.not_before) == (EventType.PREEMPT, NOON + span("30s"))

    azure.advance("36s")

    found = azure.send("GET", f"{VM}/cheap")
    assert found.status == (200 if left else 404)
    assert left is None or power(azure, f"{VM}/cheap") == left


@pytest.mark.rule("T-24")
def test_an_approval_starts_an_eviction_early(azure: Azure) -> None:
    azure.put(f"{VM}/cheap", SPOT)
    azure.poll("cheap")
    azure.post(f"{VM}/cheap/simulateEviction")

    azure.approve_all()
    azure.advance("5s")

    assert azure.send("GET", f"{VM}/cheap").status == 404


@pytest.mark.rule("T-24")
def test_only_spot_machines_are_evicted(azure: Azure) -> None:
    refused = azure.refused("POST", f"{BOX}/simulateEviction")

    assert refused == (
        409,
        "OperationNotAllowed",
        "Operation 'simulateEviction' is allowed only for Spot Virtual Machines",
    )


@pytest.mark.rule("T-05")
@pytest.mark.parametrize("priority", ["Spot", "Low", "spot"])
def test_a_spot_machine_gets_no_notice_of_its_deletion(azure: Azure, priority: str) -> None:
    body: Json = {"properties": {"priority": priority, **profile(5)}}

    assert azure.refused("PUT", f"{VM}/cheap", body)[:2] == (409, "OperationNotAllowed")
    assert azure.send("GET", f"{VM}/cheap").status == 404


@pytest.mark.rule("T-05")
def test_nor_can_a_spot_machine_be_given_one_later(azure: Azure) -> None:
    azure.put(f"{VM}/cheap", SPOT)

    assert azure.refused("PATCH", f"{VM}/cheap", {"properties": profile(5)})[:2] == (
        409,
        "OperationNotAllowed",
    )


# -- deletes


@pytest.mark.rule("T-16")
@pytest.mark.rule("T-09")
def test_a_delete_lasts_until_the_machine_is_gone(azure: Azure) -> None:
    response = azure.delete(BOX)

    (event,) = azure.fleet.shown("box")
    assert (event.kind, event.not_before) == (EventType.TERMINATE, NOON + span("10m"))
    assert at(azure.get(BOX), "properties", "provisioningState") == "Deleting"

    azure.advance("10m")

    assert azure.progress(response) == "InProgress"

    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"
    assert azure.refused("GET", BOX)[:2] == (404, "ResourceNotFound")
    assert azure.names(VM) == []


@pytest.mark.rule("T-09")
def test_a_forced_delete_waits_for_nobody(azure: Azure) -> None:
    response = azure.delete(f"{BOX}?forceDeletion=true")
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"
    assert azure.send("GET", BOX).status == 404


@pytest.mark.rule("T-09")
def test_a_forced_delete_hastens_one_that_waits(azure: Azure) -> None:
    patient = azure.delete(BOX)

    forced = azure.delete(f"{BOX}?forceDeletion=true")
    azure.advance("5s")

    assert [azure.progress(one) for one in (patient, forced)] == ["Succeeded", "Succeeded"]


def test_a_second_delete_waits_for_the_first(azure: Azure) -> None:
    first = azure.delete(BOX)

    second = azure.delete(BOX)
    azure.approve_all()

    assert [azure.progress(one) for one in (first, second)] == ["InProgress", "InProgress"]

    azure.advance("5s")

    assert [azure.progress(one) for one in (first, second)] == ["Succeeded", "Succeeded"]


@pytest.mark.parametrize("verb", ["start", "powerOff", "deallocate", "restart", "redeploy", "reimage"])
def test_a_machine_that_waits_for_its_delete_accepts_nothing_else(azure: Azure, verb: str) -> None:
    azure.delete(BOX)

    refused = azure.refused("POST", f"{BOX}/{verb}")

    assert refused[:2] == (409, "OperationNotAllowed")
    assert len(azure.waiting()) == 1


def test_a_machine_whose_delete_was_cancelled_can_be_restarted(azure: Azure) -> None:
    azure.delete(BOX)
    azure.fleet.cancel(azure.waiting()[0])

    assert azure.post(f"{BOX}/restart").status == 202


def test_what_is_not_there_is_deleted_already(azure: Azure) -> None:
    assert azure.delete(f"{VM}/nobody").status == 204


def test_a_delete_that_is_cancelled_leaves_the_machine_as_it_was(azure: Azure) -> None:
    response = azure.delete(BOX)

    azure.fleet.cancel(azure.waiting()[0])

    assert azure.progress(response) == "Canceled"
    assert at(azure.get(BOX), "tags") == {"team": "core"}
    assert at(azure.get(BOX), "properties", "provisioningState") == "Succeeded"


def test_a_new_machine_of_an_old_name_has_none_of_the_old_ones_traits(azure: Azure) -> None:
    azure.delete(f"{BOX}?forceDeletion=true")
    azure.advance("5s")

    response = azure.put(BOX, {})

    assert response.status == 201
    assert at(azure.get(BOX), "tags") == {}
    assert at(azure.get(BOX), "properties", "scheduledEventsProfile") is None


def test_the_document_of_a_machine_that_somebody_else_deleted_goes_when_it_is_noticed(azure: Azure) -> None:
    azure.fleet.cause("delete", "box", force=True)
    azure.advance("5s")

    assert azure.send("GET", BOX).status == 404
    assert azure.context.committed().document(f"{ROOT}/providers/{BOX}") is None
