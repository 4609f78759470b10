"""Virtual machines: actions on them, and their documents."""

from datetime import timedelta

import pytest

from fairwarning.core.document.render import Json
from fairwarning.core.model import EventSource, EventType, PowerState
from fairwarning.core.policy import PROFILES
from tests.arm.azure import ROOT, Azure, at, header
from tests.arm.compute import AVAILABILITY_SET, NEWEST, VM, both, compute, profile
from tests.fleet_harness import NOON, span

BOX = f"{VM}/box"
SPOT: Json = {"properties": {"priority": "Spot", "evictionPolicy": "Delete"}}
POLICY: Json = {"userInitiatedReboot": {"automaticallyApprove": True}}
PUBLISHED: Json = {
    "scheduledEventsAdditionalPublishingTargets": {"eventGridAndResourceGraph": {"enable": True}}
}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(BOX, {"location": "westeurope", "tags": {"team": "core"}, "properties": profile(10)})
    azure.poll("box")
    return azure


def power(azure: Azure, path: str) -> Json:
    return at(azure.get(f"{path}/instanceView"), "statuses", 1, "code")


def in_set(member: str, path: str, **properties: Json) -> Json:
    return {"properties": {member: {"id": f"{ROOT}/providers/{path}"}, **properties}}


# -- what is done to a machine


@pytest.mark.rule("L-14")
@pytest.mark.rule("L-15")
@pytest.mark.parametrize(
    ("verb", "kind", "notice"),
    [
        ("restart", EventType.REBOOT, "15m"),
        ("redeploy", EventType.REDEPLOY, "10m"),
        ("performMaintenance", EventType.REDEPLOY, "10m"),
    ],
)
def test_a_verb_is_an_event_and_an_operation_that_lasts_as_long_as_the_event(
    azure: Azure, verb: str, kind: EventType, notice: str
) -> None:
    response = azure.post(f"{BOX}/{verb}")

    (event,) = azure.fleet.shown("box")
    assert (event.kind, event.source, event.not_before) == (kind, EventSource.USER, NOON + span(notice))
    assert response.status == 202
    assert header(response, "Location") == f"{header(response, 'Azure-AsyncOperation')}&monitor=true"
    assert header(response, "x-ms-retry-after-ms") == "100"
    assert at(azure.get(BOX), "properties", "provisioningState") == "Updating"

    azure.advance("9m59s")

    assert azure.progress(response) == "InProgress"

    azure.advance("5m6s")

    assert azure.progress(response) == "Succeeded"
    assert at(azure.get(BOX), "properties", "provisioningState") == "Succeeded"


@pytest.mark.rule("L-15")
def test_an_approval_is_what_makes_a_restart_quick(azure: Azure) -> None:
    response = azure.post(f"{BOX}/restart")

    azure.approve_all()
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"


@pytest.mark.rule("L-15")
def test_a_restarted_server_still_knows_how_far_a_restart_is(azure: Azure) -> None:
    response = azure.post(f"{BOX}/restart")

    azure.restart()

    assert azure.progress(response) == "InProgress"

    azure.advance("16m")

    assert azure.progress(response) == "Succeeded"


def test_a_machine_nobody_listens_on_is_restarted_at_once() -> None:
    azure = compute()
    azure.put(BOX, {})

    response = azure.post(f"{BOX}/restart")
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"


def test_a_restart_that_is_cancelled_is_an_operation_that_was(azure: Azure) -> None:
    response = azure.post(f"{BOX}/restart")

    azure.fleet.cancel(azure.waiting()[0])

    assert azure.progress(response) == "Canceled"


def test_a_second_restart_at_the_same_time_is_refused(azure: Azure) -> None:
    azure.post(f"{BOX}/restart")

    assert azure.refused("POST", f"{BOX}/restart")[:2] == (409, "OperationNotAllowed")


@pytest.mark.rule("L-14")
@pytest.mark.parametrize(
    ("verb", "shown"),
    [
        ("powerOff", "PowerState/stopped"),
        ("deallocate", "PowerState/deallocated"),
        ("start", "PowerState/running"),
        ("reapply", "PowerState/running"),
        ("POWEROFF", "PowerState/stopped"),
    ],
)
def test_stopping_and_starting_is_no_event(azure: Azure, verb: str, shown: str) -> None:
    response = azure.post(f"{BOX}/{verb}")

    assert response.status == 202
    assert azure.fleet.shown("box") == ()
    assert power(azure, BOX) == shown


def test_a_machine_that_was_switched_off_and_then_deallocated_is_deallocated(azure: Azure) -> None:
    for verb in ("powerOff", "start", "deallocate"):
        azure.post(f"{BOX}/{verb}")

    assert power(azure, BOX) == "PowerState/deallocated"
    assert azure.fleet.machine("box").power is PowerState.STOPPED


@pytest.mark.rule("L-20")
def test_a_machine_that_is_powered_off_is_redeployed_and_stays_off(azure: Azure) -> None:
    azure.post(f"{BOX}/powerOff")

    response = azure.post(f"{BOX}/redeploy")
    azure.advance("5s")

    assert response.status == 202
    assert azure.progress(response) == "Succeeded"
    assert power(azure, BOX) == "PowerState/stopped"


@pytest.mark.rule("L-20")
@pytest.mark.parametrize(
    ("stop", "verb"),
    [
        pytest.param("deallocate", "redeploy", id="a deallocated machine is not redeployed"),
        pytest.param("powerOff", "performMaintenance", id="maintenance of a machine that is off is refused"),
        pytest.param("powerOff", "restart", id="a machine that is off is not restarted"),
    ],
)
def test_what_azure_was_not_seen_to_do_to_a_stopped_machine_is_refused(
    azure: Azure, stop: str, verb: str
) -> None:
    azure.post(f"{BOX}/{stop}")

    assert azure.refused("POST", f"{BOX}/{verb}")[:2] == (409, "OperationNotAllowed")


@pytest.mark.rule("T-20")
def test_a_reimage_is_announced_only_where_the_machine_asks_for_it(azure: Azure) -> None:
    quiet = azure.post(f"{BOX}/reimage")

    assert azure.fleet.shown("box") == ()

    azure.advance("5s")
    image: Json = {"osImageNotificationProfile": {"enable": True}}
    azure.patch(BOX, {"properties": {"scheduledEventsProfile": image}})
    azure.post(f"{BOX}/reimage")

    (event,) = azure.fleet.shown("box")
    assert azure.progress(quiet) == "Succeeded"
    assert (event.kind, event.not_before) == (EventType.REBOOT, NOON + span("15m5s"))


@pytest.mark.rule("L-16")
def test_the_first_preview_refuses_an_eleventh_user_operation() -> None:
    azure = compute(policy=PROFILES["preview2017"].policy)
    azure.put(f"{AVAILABILITY_SET}/app", {})
    for number in range(11):
        azure.put(f"{VM}/app{number}", in_set("availabilitySet", f"{AVAILABILITY_SET}/app"))
    azure.poll("app0")
    granted = [azure.post(f"{VM}/app{number}/restart").status for number in range(10)]

    refused = azure.refused("POST", f"{VM}/app10/restart")

    assert granted == [202] * 10
    assert refused[:2] == (409, "OperationNotAllowed")
    assert "10 user operations under way" in refused[2]


# -- what a machine says of itself


def test_a_machine_is_created_with_an_endpoint_of_its_own_and_shown_as_it_was_put() -> None:
    azure = compute()
    body: Json = {
        "location": "northeurope",
        "tags": {"a": "b"},
        "properties": {
            "hardwareProfile": {"vmSize": "Standard_B1s"},
            "networkProfile": {"networkApiVersion": "2022-11-01"},
        },
    }

    response = azure.put(f"{VM}/New", body)

    assert response.status == 201
    assert [ref.name for ref in azure.opened_endpoints] == ["New"]
    shown = azure.get(f"{VM}/nEW")
    assert at(shown, "id") == f"{ROOT}/providers/{VM}/New"
    assert (at(shown, "name"), at(shown, "type"), at(shown, "location")) == ("New", VM, "northeurope")
    assert at(shown, "properties", "hardwareProfile", "vmSize") == "Standard_B1s"
    assert at(shown, "properties", "networkProfile", "networkApiVersion") == "2022-11-01"
    assert at(shown, "properties", "vmId") == azure.fleet.machine("New").vm_id


def test_a_put_is_merged_into_what_is_there_and_tags_are_replaced(azure: Azure) -> None:
    response = azure.put(BOX, {"tags": {"new": "tag"}, "properties": {"licenseType": "RHEL_BYOS"}})

    assert response.status == 200
    shown = azure.get(BOX)
    assert at(shown, "tags") == {"new": "tag"}
    assert at(shown, "properties", "licenseType") == "RHEL_BYOS"
    assert azure.fleet.machine("box").model.terminate_notice == timedelta(minutes=10)


def test_what_was_read_can_be_put_back_and_changes_nothing(azure: Azure) -> None:
    before = azure.get(BOX, version=NEWEST)

    azure.put(BOX, before, version=NEWEST)

    assert azure.get(BOX, version=NEWEST) == before


def test_how_a_machine_was_doing_is_not_kept_when_it_is_put_back(azure: Azure) -> None:
    azure.put(BOX, azure.get(f"{BOX}?$expand=instanceView"))

    assert at(azure.get(BOX), "properties", "instanceView") is None


def test_a_profile_is_changed_and_taken_away_on_the_spot(azure: Azure) -> None:
    azure.patch(BOX, {"properties": profile(15)})

    assert azure.fleet.machine("box").model.terminate_notice == timedelta(minutes=15)

    azure.patch(BOX, {"properties": profile(None, enable=False)})

    assert azure.fleet.machine("box").model.terminate_notice is None
    assert at(azure.get(BOX), "properties", "scheduledEventsProfile") == {}


@pytest.mark.rule("L-17")
def test_a_policy_lets_restarts_go_ahead_unasked(azure: Azure) -> None:
    azure.patch(BOX, {"properties": {"scheduledEventsPolicy": POLICY}})

    azure.post(f"{BOX}/restart")

    (event,) = azure.fleet.shown("box")
    assert not event.waiting
    shown = at(azure.get(BOX, version=NEWEST), "properties", "scheduledEventsPolicy")
    assert at(shown, "userInitiatedReboot") == {"automaticallyApprove": True}


@pytest.mark.rule("T-26")
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(POLICY, id="one approval"),
        pytest.param({"userInitiatedRedeploy": {"automaticallyApprove": False}}, id="no approval"),
        pytest.param({"allInstancesDown": {"automaticallyApprove": True}}, id="the default"),
        pytest.param(PUBLISHED, id="publishing alone"),
        pytest.param({}, id="nothing"),
    ],
)
def test_a_policy_reads_back_as_it_was_sent(azure: Azure, policy: Json) -> None:
    azure.put(f"{VM}/new", {"properties": {"scheduledEventsPolicy": policy}}, version=NEWEST)

    assert at(azure.get(f"{VM}/new", version=NEWEST), "properties", "scheduledEventsPolicy") == policy


@pytest.mark.rule("T-26")
def test_a_part_of_a_policy_leaves_the_others_as_they_were(azure: Azure) -> None:
    azure.patch(BOX, {"properties": {"scheduledEventsPolicy": PUBLISHED}})

    azure.patch(BOX, {"properties": {"scheduledEventsPolicy": POLICY}})

    shown = at(azure.get(BOX, version=NEWEST), "properties", "scheduledEventsPolicy")
    assert shown == both(PUBLISHED, POLICY)


@pytest.mark.parametrize(("sent", "shown"), [("Low", "Low"), ("Spot", "Spot"), ("spot", "Spot")])
def test_a_low_priority_keeps_its_name(azure: Azure, sent: str, shown: str) -> None:
    azure.put(f"{VM}/cheap", {"properties": {"priority": sent}})

    assert azure.fleet.machine("cheap").spot
    assert at(azure.get(f"{VM}/cheap"), "properties", "priority") == shown

    azure.patch(f"{VM}/cheap", {"tags": {"a": "b"}})

    assert at(azure.get(f"{VM}/cheap"), "properties", "priority") == shown


def test_a_put_while_something_is_under_way_is_an_answer_and_no_wait(azure: Azure) -> None:
    azure.post(f"{BOX}/restart")

    response = azure.put(BOX, {"tags": {}})

    assert azure.progress(response) == "Succeeded"
    assert at(azure.get(BOX), "properties", "provisioningState") == "Updating"


def test_what_a_machine_is_cannot_be_changed(azure: Azure) -> None:
    azure.put(f"{AVAILABILITY_SET}/app", {})
    azure.put(f"{VM}/other", {})

    for body in (SPOT, in_set("availabilitySet", f"{AVAILABILITY_SET}/app")):
        assert azure.refused("PUT", f"{VM}/other", body)[:2] == (409, "PropertyChangeNotAllowed")


def test_a_machine_that_is_not_there_is_not_patched(azure: Azure) -> None:
    assert azure.refused("PATCH", f"{VM}/nobody", {})[:2] == (404, "ResourceNotFound")


def test_an_identity_of_the_systems_has_a_principal(azure: Azure) -> None:
    azure.put(BOX, {"identity": {"type": "SystemAssigned"}})

    identity = at(azure.get(BOX), "identity")
    assert at(identity, "type") == "SystemAssigned"
    assert len(str(at(identity, "principalId"))) == 36
