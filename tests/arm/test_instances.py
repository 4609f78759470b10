"""Instances of uniform and flexible scale sets, by their ids."""

import pytest

from fairwarning.core.document.render import Json
from fairwarning.core.model import EventType
from tests.arm.azure import ROOT, Azure, at
from tests.arm.compute import SET, VM, both, capacity_of, compute, model, profile, scale_set
from tests.fleet_harness import NOON, span

WEB = f"{SET}/web"
ONE = f"{WEB}/virtualMachines/1"
PROTECTED: Json = {"properties": {"protectionPolicy": {"protectFromScaleIn": True}}}


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    body = both(scale_set(3, zones=()), model(**profile(10), osProfile={"computerNamePrefix": "node"}))
    azure.put(WEB, body)
    azure.poll("web_0")
    return azure


@pytest.fixture
def flexible() -> Azure:
    azure = compute()
    azure.put(WEB, both(scale_set(2, orchestrationMode="Flexible"), model(**profile(10))))
    azure.poll(azure.names(VM)[0])
    return azure


def test_an_instance_is_named_after_its_set_and_its_id(azure: Azure) -> None:
    document = azure.get(f"{ONE}?$expand=instanceView")

    assert at(document, "id") == f"{ROOT}/providers/{ONE}"
    assert (at(document, "name"), at(document, "instanceId")) == ("web_1", "1")
    assert at(document, "type") == f"{SET}/virtualMachines"
    assert at(document, "sku", "name") == "Standard_D2s_v5"
    assert at(document, "properties", "osProfile", "computerName") == "node000001"
    assert at(document, "properties", "vmId") == azure.fleet.machine("web_1").vm_id
    assert at(document, "properties", "instanceView", "platformUpdateDomain") == 1
    assert at(document, "properties", "instanceView", "platformFaultDomain") == 1
    assert azure.get(f"{ONE}/instanceView") == at(document, "properties", "instanceView")


def test_instances_are_listed_in_order_of_their_ids() -> None:
    azure = compute()
    azure.put(WEB, scale_set(12))

    assert azure.names(f"{WEB}/virtualMachines") == [f"web_{number}" for number in range(12)]


def test_the_instances_of_a_zonal_set_say_where_they_are() -> None:
    azure = compute()
    azure.put(WEB, scale_set(2, zones=("1", "2")))

    assert [at(azure.get(f"{WEB}/virtualMachines/{one}"), "zones") for one in "01"] == [["1"], ["2"]]


@pytest.mark.rule("L-14")
@pytest.mark.rule("L-15")
@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        ("restart", EventType.REBOOT),
        ("redeploy", EventType.REDEPLOY),
        ("performMaintenance", EventType.REDEPLOY),
    ],
)
def test_a_verb_is_an_event_for_this_instance(azure: Azure, verb: str, kind: EventType) -> None:
    response = azure.post(f"{ONE}/{verb}")

    (event,) = azure.fleet.shown("web_0")
    assert (event.kind, event.resources) == (kind, ("web_1",))
    assert azure.progress(response) == "InProgress"

    azure.approve_all()
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"


@pytest.mark.parametrize("star", ["*", "%2A"])
def test_a_star_stands_for_all_instances(azure: Azure, star: str) -> None:
    azure.post(f"{WEB}/virtualMachines/{star}/restart")

    assert len(azure.waiting()) == 3


@pytest.mark.rule("T-09")
@pytest.mark.rule("T-16")
def test_an_instance_is_deleted_with_its_warning_and_the_capacity_falls_at_once(azure: Azure) -> None:
    response = azure.delete(ONE)

    (event,) = azure.fleet.shown("web_0")
    assert (event.kind, event.not_before) == (EventType.TERMINATE, NOON + span("10m"))
    assert capacity_of(azure, WEB) == 2

    azure.advance("10m5s")

    assert azure.progress(response) == "Succeeded"
    assert azure.refused("GET", ONE)[:2] == (404, "ResourceNotFound")
    assert azure.delete(ONE).status == 204


def test_a_restart_of_all_instances_leaves_out_those_that_wait_for_their_delete(azure: Azure) -> None:
    azure.delete(f"{WEB}/virtualMachines/1")

    azure.post(f"{WEB}/restart")

    reboots = [
        event.resources
        for scope in azure.fleet.engine.scopes().values()
        for event in scope.events.values()
        if event.cause == "restart"
    ]
    assert sorted(name for names in reboots for name in names) == ["web_0", "web_2"]


@pytest.mark.rule("T-09")
def test_a_forced_delete_of_an_instance_waits_for_nobody(azure: Azure) -> None:
    azure.delete(f"{ONE}?forceDeletion=true")
    azure.advance("5s")

    assert azure.names(f"{WEB}/virtualMachines") == ["web_0", "web_2"]


@pytest.mark.parametrize("word", [True, "true"])
def test_an_instance_is_protected_and_let_go_again(azure: Azure, word: Json) -> None:
    whole = azure.get(ONE)
    actions: Json = {"protectFromScaleIn": word, "protectFromScaleSetActions": True}

    azure.put(ONE, both(whole, {"properties": {"protectionPolicy": actions}}))

    assert azure.fleet.machine("web_1").protected
    assert at(azure.get(ONE), "properties", "protectionPolicy") == {
        "protectFromScaleIn": True,
        "protectFromScaleSetActions": True,
    }

    azure.put(ONE, {"properties": {"protectionPolicy": {"protectFromScaleIn": False}}})

    assert not azure.fleet.machine("web_1").protected
    assert at(azure.get(ONE), "properties", "latestModelApplied") is True


def test_an_instance_is_not_created_by_a_put(azure: Azure) -> None:
    assert azure.refused("PUT", f"{WEB}/virtualMachines/9", {})[:2] == (400, "InvalidParameter")


def test_an_instance_that_does_not_exist_is_not_found(azure: Azure) -> None:
    missing = f"{WEB}/virtualMachines/9"

    for method, path in (
        ("GET", missing),
        ("GET", f"{missing}/instanceView"),
        ("POST", f"{missing}/restart"),
        ("POST", f"{missing}/simulateEviction"),
    ):
        assert azure.refused(method, path, {})[:2] == (404, "ResourceNotFound")
    assert azure.delete(missing).status == 204


@pytest.mark.rule("T-24")
def test_a_spot_instance_is_evicted_and_a_regular_one_is_not(azure: Azure) -> None:
    azure.put(f"{SET}/cheap", both(scale_set(2), model(priority="Spot", evictionPolicy="Delete")))
    azure.poll("cheap_0")

    response = azure.post(f"{SET}/cheap/virtualMachines/0/simulateEviction")
    refused = azure.refused("POST", f"{ONE}/simulateEviction")

    assert (response.status, response.body) == (204, None)
    assert [event.kind for event in azure.fleet.shown("cheap_0")] == [EventType.PREEMPT]
    assert refused[:2] == (409, "OperationNotAllowed")

    azure.advance("36s")

    assert azure.names(f"{SET}/cheap/virtualMachines") == ["cheap_1"]
    assert capacity_of(azure, f"{SET}/cheap") == 1


@pytest.mark.parametrize(
    ("verb", "code"), [("poweroff", "PowerState/stopped"), ("deallocate", "PowerState/deallocated")]
)
def test_one_instance_is_stopped_and_the_others_run_on(azure: Azure, verb: str, code: str) -> None:
    azure.post(f"{ONE}/{verb}")

    views = [azure.get(f"{WEB}/virtualMachines/{one}/instanceView") for one in "01"]
    assert [at(view, "statuses", 1, "code") for view in views] == ["PowerState/running", code]


def test_an_instance_of_a_flexible_set_goes_by_its_machines_name(flexible: Azure) -> None:
    first, second = flexible.names(VM)
    alias = f"{WEB}/virtualMachines/{second}"

    document = flexible.get(alias)

    assert at(document, "instanceId") == second
    assert at(document, "id") == f"{ROOT}/providers/{VM}/{second}"
    assert at(document, "properties", "latestModelApplied") is True

    flexible.post(f"{alias}/restart")
    flexible.post(f"{WEB}/delete", {"instanceIds": [first]})

    assert [event.resources for event in flexible.fleet.shown(first)] == [(second,), (first,)]
    assert flexible.names(f"{WEB}/virtualMachines") == [first, second]


def test_an_instance_of_a_flexible_set_is_protected_by_its_name(flexible: Azure) -> None:
    first, second = flexible.names(VM)

    flexible.put(f"{WEB}/virtualMachines/{second}", PROTECTED)
    flexible.put(WEB, {"sku": {"capacity": 0}})

    assert [event.resources for event in flexible.fleet.shown(first)] == [(first,)]
    protection = at(flexible.get(f"{WEB}/virtualMachines/{second}"), "properties", "protectionPolicy")
    assert protection == {"protectFromScaleIn": True}
