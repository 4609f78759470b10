"""Scale sets: capacity, scale-in and scale-out, and actions on all instances."""

import asyncio
from datetime import timedelta

import pytest

from fairwarning.core.document.render import Json
from fairwarning.core.model import EventType
from fairwarning.core.policy import PROFILES
from tests.arm.azure import ROOT, Azure, at, header
from tests.arm.compute import (
    SET,
    both,
    capacity_of,
    compute,
    model,
    profile,
    scale_set,
)
from tests.fleet_harness import NOON, run, span

WEB = f"{SET}/web"


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(WEB, both(scale_set(3), model(**profile(10))))
    azure.poll("web_0")
    return azure


def ids(*instances: str) -> Json:
    return {"instanceIds": list(instances)}


# -- how many there are


@pytest.mark.rule("T-16")
def test_the_capacity_falls_when_a_delete_is_asked_for(azure: Azure) -> None:
    response = azure.post(f"{WEB}/delete", ids("1"))

    assert capacity_of(azure, WEB) == 2
    assert azure.fleet.machines("lab/web") == ["web_0", "web_1", "web_2"]
    assert azure.progress(response) == "InProgress"

    azure.approve_all()
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"
    assert azure.names(f"{WEB}/virtualMachines") == ["web_0", "web_2"]
    assert capacity_of(azure, WEB) == 2


@pytest.mark.rule("T-16")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_scale_in_lasts_until_the_instances_are_gone(azure: Azure, method: str) -> None:
    response = azure.fine(method, WEB, {"sku": {"capacity": 1}})

    assert response.status == 200
    assert header(response, "Location") is None
    assert at(response.body, "sku", "capacity") == 1
    assert [event.resources for event in azure.fleet.pending("lab/web")] == [("web_2",), ("web_1",)]
    assert azure.progress(response) == "InProgress"

    azure.advance("10m5s")

    assert azure.progress(response) == "Succeeded"
    assert azure.fleet.machines("lab/web") == ["web_0"]


def test_a_scale_out_creates_machines_with_endpoints_on_the_latest_model(azure: Azure) -> None:
    azure.put(WEB, both({"sku": {"capacity": 5}}, model(**profile(15))))

    assert [ref.name for ref in azure.opened_endpoints[-2:]] == ["web_3", "web_4"]
    assert azure.fleet.machine("web_4").model.terminate_notice == timedelta(minutes=15)


def test_a_scale_out_while_some_are_leaving_replaces_them(azure: Azure) -> None:
    azure.post(f"{WEB}/delete", ids("0"))

    azure.put(WEB, {"sku": {"capacity": 3}})

    assert azure.fleet.machines("lab/web") == ["web_0", "web_1", "web_2", "web_3"]
    assert capacity_of(azure, WEB) == 3


def test_a_protected_instance_is_no_part_of_a_scale_in(azure: Azure) -> None:
    for instance in ("1", "2"):
        azure.put(
            f"{WEB}/virtualMachines/{instance}",
            {"properties": {"protectionPolicy": {"protectFromScaleIn": True}}},
        )

    azure.put(WEB, {"sku": {"capacity": 0}})

    assert [event.resources for event in azure.fleet.pending("lab/web")] == [("web_0",)]
    assert capacity_of(azure, WEB) == 2


def test_a_zonal_set_spreads_grows_and_shrinks_evenly() -> None:
    azure = compute()
    azure.put(WEB, scale_set(2, zones=("1", "2", "3")))

    azure.put(WEB, {"sku": {"capacity": 6}})

    assert [len(azure.fleet.machines(f"lab/web.zone{zone}")) for zone in "123"] == [2, 2, 2]

    azure.put(WEB, {"sku": {"capacity": 3}})
    azure.advance("5s")

    assert [len(azure.fleet.machines(f"lab/web.zone{zone}")) for zone in "123"] == [1, 1, 1]
    assert at(azure.get(WEB), "zones") == ["1", "2", "3"]


def test_a_set_of_spot_instances_that_was_empty_grows_spot_instances() -> None:
    azure = compute()
    azure.put(WEB, both(scale_set(0), model(priority="Spot", evictionPolicy="Delete")))

    azure.put(WEB, {"sku": {"capacity": 1}})

    assert azure.fleet.machine("web_0").spot


@pytest.mark.parametrize("capacity", [-1, 1001, 10**30, "x", 1.5, True])
def test_a_capacity_that_cannot_be_is_refused(azure: Azure, capacity: Json) -> None:
    assert azure.refused("PUT", WEB, {"sku": {"capacity": capacity}})[:2] == (400, "InvalidParameter")


@pytest.mark.rule("T-16")
def test_two_hundred_updates_and_deletes_at_once_leave_everything_consistent() -> None:
    azure = compute()
    azure.put(WEB, both(scale_set(100), model(**profile(5))))
    azure.poll("web_0")

    async def crowd() -> list[int]:
        updates = (
            azure.answer("PUT", WEB, {"tags": {"n": str(n)}, **model(**profile(5 + n % 10))})
            for n in range(100)
        )
        deletes = (azure.answer("POST", f"{WEB}/delete", ids(str(n % 50))) for n in range(80))
        scales = (azure.answer("PATCH", WEB, {"sku": {"capacity": 60}}) for _ in range(20))
        replies = await asyncio.gather(*updates, *deletes, *scales)
        return [response.status for response in replies]

    statuses = run(crowd())

    assert set(statuses) == {200, 202}
    pending = azure.fleet.pending("lab/web")
    gone = [event.resources for event in pending]
    assert (
        len(gone)
        == len(set(gone))
        == len(azure.fleet.machines("lab/web")) - int(str(capacity_of(azure, WEB)))
    )
    changed = {event.resources for event in pending}
    assert {(f"web_{number}",) for number in range(50)} <= changed

    azure.approve_all()
    azure.advance("5s")

    assert len(azure.fleet.machines("lab/web")) == capacity_of(azure, WEB)


# -- deletes


@pytest.mark.rule("T-09")
def test_deleting_a_set_warns_every_instance_and_lasts_until_the_last_is_gone(azure: Azure) -> None:
    response = azure.delete(WEB)

    assert len(azure.waiting()) == 3
    assert at(azure.get(WEB), "properties", "provisioningState") == "Deleting"
    assert azure.refused("PUT", WEB, {"sku": {"capacity": 5}})[:2] == (409, "OperationNotAllowed")

    azure.approve_all()
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"
    assert azure.refused("GET", WEB)[:2] == (404, "ResourceNotFound")
    assert azure.names(SET) == []
    assert azure.delete(WEB).status == 204
    assert [key for key, _ in azure.context.committed().documents(f"{ROOT}/providers/{SET}")] == []


@pytest.mark.rule("T-09")
def test_a_forced_delete_of_a_set_waits_for_nobody(azure: Azure) -> None:
    response = azure.delete(f"{WEB}?forceDeletion=true")
    azure.advance("5s")

    assert azure.progress(response) == "Succeeded"


def test_deleting_an_instance_again_waits_for_the_first_delete(azure: Azure) -> None:
    azure.post(f"{WEB}/delete", ids("0"))

    again = azure.post(f"{WEB}/delete", ids("0", "1"))

    assert len(azure.waiting()) == 2

    azure.approve_all()
    azure.advance("5s")

    assert azure.progress(again) == "Succeeded"
    assert azure.fleet.machines("lab/web") == ["web_2"]


@pytest.mark.parametrize("verb", ["delete", "manualupgrade"])
@pytest.mark.parametrize(
    "body", [None, {}, {"instanceIds": []}, {"instanceIds": ["9"]}, {"instanceIds": "0"}]
)
def test_the_instances_of_a_delete_or_an_upgrade_must_be_named(azure: Azure, verb: str, body: Json) -> None:
    assert azure.refused("POST", f"{WEB}/{verb}", body)[:2] == (400, "InvalidParameter")


# -- verbs


@pytest.mark.parametrize(
    ("body", "restarted"), [(None, 3), ({}, 3), ({"instanceIds": ["*"]}, 3), ({"instanceIds": ["0", "2"]}, 2)]
)
def test_a_verb_is_for_the_instances_that_are_named_or_for_all(
    azure: Azure, body: Json, restarted: int
) -> None:
    response = azure.post(f"{WEB}/restart", body)

    assert [event.kind for event in azure.fleet.shown("web_0")] == [EventType.REBOOT] * restarted
    assert azure.progress(response) == "InProgress"


@pytest.mark.parametrize("path", [f"{WEB}/restart", f"{WEB}/virtualMachines/*/restart"])
def test_a_verb_for_all_leaves_alone_who_is_stopped(azure: Azure, path: str) -> None:
    azure.post(f"{WEB}/virtualMachines/1/deallocate")

    azure.post(path)

    assert [event.resources for event in azure.fleet.shown("web_0")] == [("web_0",), ("web_2",)]


@pytest.mark.rule("L-20")
def test_a_redeploy_of_all_moves_who_is_powered_off_and_leaves_alone_who_is_deallocated(azure: Azure) -> None:
    azure.post(f"{WEB}/virtualMachines/0/powerOff")
    azure.post(f"{WEB}/virtualMachines/1/deallocate")

    azure.post(f"{WEB}/redeploy")

    assert [event.resources for event in azure.fleet.shown("web_0")] == [("web_0",), ("web_2",)]


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        ("poweroff", "PowerState/stopped"),
        ("deallocate", "PowerState/deallocated"),
        ("start", "PowerState/running"),
    ],
)
def test_all_instances_are_stopped_and_started_without_a_warning(azure: Azure, verb: str, code: str) -> None:
    azure.post(f"{WEB}/{verb}")

    view = azure.get(f"{WEB}/virtualMachines/2/instanceView")
    assert at(view, "statuses", 1, "code") == code
    assert azure.fleet.shown("web_0") == ()


@pytest.mark.rule("T-20")
@pytest.mark.parametrize("verb", ["reimage", "reimageall", "osRollingUpgrade"])
def test_a_new_image_is_announced_where_the_model_asks_for_it(verb: str) -> None:
    azure = compute()
    image: Json = {"osImageNotificationProfile": {"enable": True}}
    azure.put(WEB, both(scale_set(1), model(scheduledEventsProfile=image)))
    azure.poll("web_0")

    response = azure.post(f"{WEB}/{verb}")

    (event,) = azure.fleet.shown("web_0")
    assert (event.kind, event.not_before) == (EventType.REBOOT, NOON + span("15m"))
    assert azure.progress(response) == "InProgress"


@pytest.fixture
def warned_of_images() -> Azure:
    azure = compute()
    image: Json = {"osImageNotificationProfile": {"enable": True}}
    azure.put(WEB, both(scale_set(2), model(scheduledEventsProfile=image)))
    azure.poll("web_0")
    return azure


@pytest.mark.rule("T-36")
def test_a_rolling_upgrade_is_cancelled_as_far_as_it_has_not_started(warned_of_images: Azure) -> None:
    azure = warned_of_images
    upgrade = azure.post(f"{WEB}/osRollingUpgrade")
    first, _ = azure.waiting()
    azure.approve(first)

    response = azure.post(f"{WEB}/rollingUpgrades/cancel")
    pending = [event.id for event in azure.fleet.pending("lab/web")]
    azure.advance("1m")

    assert azure.progress(response) == "Succeeded"
    assert pending == [first]
    assert azure.progress(upgrade) == "Canceled"
    assert azure.refused("POST", f"{WEB}/rollingUpgrades/cancel") == (
        409,
        "OperationNotAllowed",
        "There is no ongoing Rolling Upgrade to cancel.",
    )


@pytest.mark.rule("T-36")
def test_nothing_else_is_a_rolling_upgrade(warned_of_images: Azure) -> None:
    azure = warned_of_images
    azure.post(f"{WEB}/reimage")

    assert azure.refused("POST", f"{WEB}/rollingUpgrades/cancel")[:2] == (409, "OperationNotAllowed")
    assert len(azure.waiting()) == 2


@pytest.mark.rule("T-20")
@pytest.mark.parametrize(
    ("size", "warned"), [("Standard_D2s_v5", True), ("Standard_NC6", False), ("Standard_M64", False)]
)
def test_machines_that_cannot_keep_their_memory_are_not_warned_of_a_new_image(
    size: str, warned: bool
) -> None:
    azure = compute()
    image: Json = {"osImageNotificationProfile": {"enable": True}}
    body = both(scale_set(1), both({"sku": {"name": size}}, model(scheduledEventsProfile=image)))
    azure.put(WEB, body)
    azure.poll("web_0")

    azure.post(f"{WEB}/reimage")

    assert bool(azure.fleet.shown("web_0")) == warned


@pytest.mark.rule("L-16")
def test_the_first_preview_allows_ten_user_operations_at_once() -> None:
    azure = compute(policy=PROFILES["preview2017"].policy)
    azure.put(WEB, scale_set(11))
    azure.poll("web_0")

    refused = azure.refused("POST", f"{WEB}/restart")
    azure.post(f"{WEB}/restart", ids(*(str(number) for number in range(10))))
    eleventh = azure.refused("POST", f"{WEB}/restart", ids("10"))

    assert refused[:2] == eleventh[:2] == (409, "OperationNotAllowed")
    assert "10 user operations under way" in eleventh[2]
