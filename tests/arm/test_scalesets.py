"""Scale sets: their models, their instances, and the documents of both."""

from datetime import timedelta

import pytest

from fairwarning.arm.documents import get_items
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventType, ScopeKind
from tests.arm.azure import HOME, ROOT, Azure, at
from tests.arm.compute import (
    HOME_SET,
    NEWEST,
    SET,
    VM,
    both,
    capacity_of,
    compute,
    model,
    profile,
    scale_set,
)
from tests.fleet_harness import NOON, span

WEB = f"{SET}/web"
TERMINATE = ("properties", "virtualMachineProfile", "scheduledEventsProfile", "terminateNotificationProfile")


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(WEB, both(scale_set(3), model(**profile(10))))
    azure.poll("web_0")
    return azure


def applied(azure: Azure) -> list[Json]:
    page = at(azure.get(f"{WEB}/virtualMachines"), "value")
    assert isinstance(page, list)
    return [at(one, "properties", "latestModelApplied") for one in page]


def ids(*instances: str) -> Json:
    return {"instanceIds": list(instances)}


# -- PowerShell

NEW_AZ_VMSS: Json = {
    "sku": {"name": "Standard_DS1_v2", "capacity": 2},
    "properties": {
        "upgradePolicy": {"mode": "Automatic"},
        "virtualMachineProfile": {
            "osProfile": {
                "computerNamePrefix": "web",
                "adminUsername": "azureuser",
                "adminPassword": "P@ss1",
            },
            "storageProfile": {
                "imageReference": {
                    "publisher": "Canonical",
                    "offer": "0001-com-ubuntu-server-jammy",
                    "sku": "22_04-lts-gen2",
                    "version": "latest",
                },
                "osDisk": {"caching": "ReadWrite", "createOption": "FromImage"},
            },
            "networkProfile": {"networkInterfaceConfigurations": []},
            "scheduledEventsProfile": {
                "terminateNotificationProfile": {"notBeforeTimeout": "PT10M", "enable": True}
            },
        },
        "overprovision": False,
        "singlePlacementGroup": True,
    },
    "location": "westeurope",
}


@pytest.mark.rule("T-04")
def test_what_powershell_puts_makes_a_set_that_warns_and_its_update_reaches_every_instance() -> None:
    azure = compute()

    created = azure.put(f"{SET}/ps", NEW_AZ_VMSS, version="2024-11-01")

    assert created.status == 201
    assert azure.fleet.machine("ps_1").model.terminate_notice == timedelta(minutes=10)

    # Update-AzVmss reads the set, changes it and puts the whole of it back.
    whole = azure.get(f"{SET}/ps", version="2024-11-01")
    azure.put(f"{SET}/ps", both(whole, model(**profile(15))), version="2024-11-01")

    assert azure.fleet.machine("ps_1").model.terminate_notice == timedelta(minutes=15)
    assert azure.fleet.machines("lab/ps") == ["ps_0", "ps_1"]


# -- what a set wants


@pytest.mark.rule("T-06")
def test_a_changed_profile_counts_for_an_instance_after_its_upgrade(azure: Azure) -> None:
    azure.put(WEB, model(**profile(15)))

    assert applied(azure) == [False, False, False]

    azure.post(f"{WEB}/manualupgrade", ids("1"))

    assert applied(azure) == [False, True, False]

    azure.post(f"{WEB}/delete", ids("0", "1"))

    events = azure.fleet.pending("lab/web")
    assert [event.resources for event in events] == [("web_0",), ("web_1",)]
    assert [event.not_before - NOON for event in events] == [span("10m"), span("15m")]


@pytest.mark.rule("T-06")
@pytest.mark.parametrize("mode", ["Automatic", "Rolling"])
def test_a_set_that_upgrades_its_instances_itself_needs_no_upgrade(azure: Azure, mode: str) -> None:
    azure.put(WEB, {"properties": {"upgradePolicy": {"mode": mode}}})

    azure.put(WEB, model(**profile(15)))

    assert applied(azure) == [True, True, True]
    assert at(azure.get(WEB), "properties", "upgradePolicy", "mode") == mode


def test_who_upgrades_the_instances_is_no_change_of_what_they_are(azure: Azure) -> None:
    for mode in ("Automatic", "Manual"):
        azure.put(WEB, {"properties": {"upgradePolicy": {"mode": mode}}})

        assert applied(azure) == [True, True, True]


def test_any_other_change_of_the_model_has_to_reach_the_instances_too(azure: Azure) -> None:
    azure.put(WEB, model(storageProfile={"imageReference": {"sku": "24_04-lts"}}))

    assert applied(azure) == [False, False, False]

    azure.post(f"{WEB}/manualupgrade", ids("*"))

    assert applied(azure) == [True, True, True]
    assert azure.fleet.machine("web_0").model.terminate_notice == timedelta(minutes=10)


@pytest.mark.rule("T-08")
def test_what_was_disabled_is_enabled_again_by_saying_so(azure: Azure) -> None:
    azure.put(WEB, model(**profile(None, enable=False)))
    azure.put(WEB, model(**profile(8)))
    azure.post(f"{WEB}/manualupgrade", ids("*"))

    azure.post(f"{WEB}/delete", ids("0"))

    (event,) = azure.fleet.pending("lab/web")
    assert event.not_before == NOON + span("8m")


def test_a_set_that_never_had_a_profile_can_be_given_one() -> None:
    azure = compute()
    azure.put(WEB, scale_set(1))

    azure.put(WEB, model(**profile(9)))

    assert at(azure.get(WEB), *TERMINATE) == {"notBeforeTimeout": "PT9M", "enable": True}


@pytest.mark.rule("T-05")
@pytest.mark.parametrize("mode", ["Uniform", "Flexible"])
def test_a_model_of_spot_machines_has_no_notice_of_deletes(mode: str) -> None:
    azure = compute()
    spot = both(scale_set(1, orchestrationMode=mode), model(priority="Spot"))

    refused = azure.refused("PUT", WEB, both(spot, model(**profile(5))))
    azure.put(WEB, spot)
    later = azure.refused("PATCH", WEB, model(**profile(5)))

    assert refused[:2] == later[:2] == (409, "OperationNotAllowed")
    assert at(azure.get(WEB), *TERMINATE) is None


def test_what_was_read_can_be_put_back_and_changes_nothing(azure: Azure) -> None:
    before = azure.get(WEB, version=NEWEST)

    azure.put(WEB, before, version=NEWEST)

    assert azure.get(WEB, version=NEWEST) == before


def test_a_put_of_one_thing_keeps_all_others(azure: Azure) -> None:
    azure.put(WEB, {"location": "westeurope", "sku": {"name": "Standard_D2s_v5", "capacity": 3}})

    assert at(azure.get(WEB), *TERMINATE, "notBeforeTimeout") == "PT10M"
    assert applied(azure) == [True, True, True]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"properties": {"orchestrationMode": "Flexible"}}, id="the orchestration mode"),
        pytest.param({"properties": {"virtualMachineProfile": {"priority": "Spot"}}}, id="the priority"),
        pytest.param({"zones": ["1"]}, id="the zones"),
        pytest.param({"properties": {"platformFaultDomainCount": 1}}, id="the fault domains"),
    ],
)
def test_some_things_cannot_be_changed(body: Json) -> None:
    azure = compute()
    azure.put(WEB, scale_set(1))

    assert azure.refused("PUT", WEB, body)[:2] == (409, "PropertyChangeNotAllowed")


@pytest.mark.rule("L-17")
@pytest.mark.parametrize("zones", [(), ("1", "2")], ids=["in one scope", "in zones"])
def test_a_policy_is_every_scopes(zones: tuple[str, ...]) -> None:
    azure = compute()
    azure.put(WEB, scale_set(2, zones=zones))
    policy: Json = {"userInitiatedRedeploy": {"automaticallyApprove": True}}

    azure.put(WEB, {"properties": {"scheduledEventsPolicy": policy}})

    scopes = azure.fleet.engine.scopes().values()
    assert {scope.facts.approvals.user_redeploy for scope in scopes} == {True}
    azure.poll("web_0", "web_1")
    azure.post(f"{WEB}/redeploy")
    assert azure.waiting() == []


NOTHING_ENABLED: Json = {
    "userInitiatedReboot": {"automaticallyApprove": False},
    "userInitiatedRedeploy": {"automaticallyApprove": False},
    "scheduledEventsAdditionalPublishingTargets": {"eventGridAndResourceGraph": {"enable": False}},
}
PUBLISHED: Json = {
    "userInitiatedReboot": {"automaticallyApprove": False},
    "scheduledEventsAdditionalPublishingTargets": {"eventGridAndResourceGraph": {"enable": True}},
}
ALL_DOWN: Json = {"allInstancesDown": {"automaticallyApprove": False}}


@pytest.mark.rule("T-26")
@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        pytest.param(NOTHING_ENABLED, None, id="nothing that is enabled"),
        pytest.param(PUBLISHED, PUBLISHED, id="publishing alone"),
        pytest.param(ALL_DOWN, ALL_DOWN, id="a default that is turned off"),
    ],
)
def test_a_policy_that_enables_nothing_is_no_policy(sent: Json, shown: Json) -> None:
    azure = compute()
    azure.put(WEB, {**scale_set(1), "properties": {"scheduledEventsPolicy": sent}}, version=NEWEST)

    assert at(azure.get(WEB, version=NEWEST), "properties", "scheduledEventsPolicy") == shown


@pytest.mark.rule("T-26")
def test_a_policy_that_is_disabled_is_gone() -> None:
    azure = compute()
    enabled: Json = {"userInitiatedReboot": {"automaticallyApprove": True}}
    azure.put(WEB, {**scale_set(1), "properties": {"scheduledEventsPolicy": enabled}})

    azure.put(WEB, {"properties": {"scheduledEventsPolicy": NOTHING_ENABLED}})

    assert at(azure.get(WEB, version=NEWEST), "properties", "scheduledEventsPolicy") is None
    assert not azure.fleet.scope("lab/web").facts.approvals.user_reboot


def test_a_low_priority_keeps_its_name() -> None:
    azure = compute()

    azure.put(WEB, scale_set(1, orchestrationMode="Flexible", virtualMachineProfile={"priority": "Low"}))

    (machine,) = get_items(azure.get(VM), "value")
    assert at(azure.get(WEB), "properties", "virtualMachineProfile", "priority") == "Low"
    assert at(machine, "properties", "priority") == "Low"


# -- shapes


def test_the_set_that_up_has_made_is_in_the_home_group_and_can_be_changed_there() -> None:
    azure = compute(Blueprint(name="web", count=3), Blueprint(name="web2", count=2, zones=("1", "2")))

    assert azure.names(HOME_SET) == ["web", "web2"]
    assert azure.names(SET) == []

    azure.put(f"{HOME_SET}/web", model(**profile(7)))
    azure.post(f"{HOME_SET}/web/manualupgrade", ids("*"))
    azure.delete(f"{HOME_SET}/web/virtualMachines/2")

    (event,) = azure.fleet.pending("web")
    assert event.not_before == NOON + span("7m")
    assert at(azure.get(f"{HOME_SET}/web"), "properties", "orchestrationMode") == "Uniform"


def test_a_flexible_set_is_made_of_ordinary_machines() -> None:
    azure = compute()

    azure.put(f"{SET}/flex", both(scale_set(2, orchestrationMode="flexible"), model(**profile(10))))

    names = azure.names(VM)
    assert azure.names(f"{SET}/flex/virtualMachines") == names
    assert all(len(name) == len("flex_") + 8 for name in names)
    document = azure.get(f"{VM}/{names[0]}")
    assert at(document, "properties", "virtualMachineScaleSet", "id") == f"{ROOT}/providers/{SET}/flex"
    assert at(document, "properties", "networkProfile", "networkInterfaces") == []

    azure.poll(names[0])
    azure.delete(f"{VM}/{names[0]}")

    assert [event.kind for event in azure.fleet.shown(names[0])] == [EventType.TERMINATE]
    assert capacity_of(azure, f"{SET}/flex") == 1


def test_two_sets_of_one_name_live_in_their_own_groups(azure: Azure) -> None:
    other = compute(Blueprint(name="web", count=1))
    other.put(WEB, scale_set(2))

    other.delete(f"{WEB}?forceDeletion=true")
    other.advance("5s")

    assert other.names(HOME_SET) == ["web"]
    assert other.names(SET) == []


def test_a_set_shows_how_its_instances_are_doing(azure: Azure) -> None:
    azure.post(f"{WEB}/delete", ids("1"))

    view = azure.get(f"{WEB}/instanceView")

    assert at(view, "virtualMachine", "statusesSummary") == [
        {"code": "ProvisioningState/succeeded", "count": 2},
        {"code": "ProvisioningState/deleting", "count": 1},
    ]
    assert azure.get(f"{WEB}/osUpgradeHistory") == {"value": []}


def test_sets_of_all_groups_are_listed_for_the_subscription(azure: Azure) -> None:
    azure.put(f"{HOME}/{SET}/zonal", scale_set(2, zones=("1", "2")))

    assert azure.names("/subscriptions/1/providers/Microsoft.Compute/virtualMachineScaleSets") == [
        "zonal",
        "web",
    ]


def test_a_set_and_its_documents_survive_a_restart(azure: Azure) -> None:
    azure.put(WEB, {"tags": {"kept": "yes"}})
    before = azure.get(WEB)
    response = azure.post(f"{WEB}/delete", ids("0"))

    azure.restart()
    azure.advance("11m")

    assert at(azure.get(WEB), "tags") == at(before, "tags") == {"kept": "yes"}
    assert azure.progress(response) == "Succeeded"


def test_the_name_of_a_set_is_taken_for_everything_else_in_its_group(azure: Azure) -> None:
    assert azure.refused("PUT", f"{VM}/web", {})[0] == 409
    assert azure.fleet.scope("lab/web").facts.kind is ScopeKind.SCALE_SET


def test_a_set_that_somebody_else_deleted_is_gone_here_too(azure: Azure) -> None:
    azure.fleet.remove("lab/web", force=True)
    azure.advance("5s")

    assert azure.send("GET", WEB).status == 404
    assert azure.context.committed().document(f"{ROOT}/providers/{WEB}") is None


def test_a_set_that_is_not_there_has_nothing_done_to_it(azure: Azure) -> None:
    for method, path in (("POST", "restart"), ("GET", "instanceView"), ("POST", "delete"), ("GET", "skus")):
        assert azure.refused(method, f"{SET}/none/{path}", ids("0"))[:2] == (404, "ResourceNotFound")
    assert azure.refused("PATCH", f"{SET}/none", {})[:2] == (404, "ResourceNotFound")


# -- lifecycle hooks


@pytest.mark.rule("T-44")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("hook", ["UpgradeAutoOSScheduling", "Nonsense"])
def test_a_lifecycle_hook_is_refused(azure: Azure, method: str, hook: str) -> None:
    before = azure.get(WEB, version=NEWEST)
    hooks: Json = [{"type": hook, "waitDuration": "PT1H", "defaultAction": "Approve"}]
    body = scale_set(3, lifecycleHooksProfile={"lifecycleHooks": hooks})

    status, code, message = azure.refused(method, WEB, body, version=NEWEST)

    assert (status, code) == (400, "InvalidParameter")
    assert message == (
        "The value of parameter properties.lifecycleHooksProfile is invalid: "
        "lifecycle hooks are not supported by this server."
    )
    assert azure.get(WEB, version=NEWEST) == before


@pytest.mark.rule("T-44")
@pytest.mark.parametrize("profile", [None, {}, {"lifecycleHooks": []}, {"lifecycleHooks": None}])
def test_a_profile_without_lifecycle_hooks_is_accepted(azure: Azure, profile: Json) -> None:
    azure.patch(WEB, {"properties": {"lifecycleHooksProfile": profile}}, version=NEWEST)
