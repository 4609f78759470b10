"""Virtual machines: what is done to them, what they say of themselves, where they may be."""

from datetime import timedelta

import pytest

from fairwarning.core.model import Kind, Power, ScopeKind, Source
from fairwarning.core.policy import PROFILES
from fairwarning.core.scope import Blueprint
from fairwarning.core.wire import Json
from tests.arm.azure import BASE, HOME, ROOT, Azure, at, header
from tests.arm.compute import AVAILABILITY_SET, NEWEST, SET, VM, compute, profile, scale_set
from tests.stage import NOON, span

BOX = f"{VM}/box"
SPOT: Json = {"properties": {"priority": "Spot", "evictionPolicy": "Delete"}}
POLICY: Json = {"userInitiatedReboot": {"automaticallyApprove": True}}


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
        ("restart", Kind.REBOOT, "15m"),
        ("redeploy", Kind.REDEPLOY, "10m"),
        ("performMaintenance", Kind.REDEPLOY, "10m"),
    ],
)
def test_a_verb_is_an_event_and_an_operation_that_lasts_as_long_as_the_event(
    azure: Azure, verb: str, kind: Kind, notice: str
) -> None:
    reply = azure.post(f"{BOX}/{verb}")

    (event,) = azure.stage.shown("box")
    assert (event.kind, event.source, event.not_before) == (kind, Source.USER, NOON + span(notice))
    assert reply.status == 202
    assert header(reply, "Location") == f"{header(reply, 'Azure-AsyncOperation')}&monitor=true"
    assert header(reply, "x-ms-retry-after-ms") == "100"
    assert at(azure.get(BOX), "properties", "provisioningState") == "Updating"

    azure.advance("9m59s")

    assert azure.progress(reply) == "InProgress"

    azure.advance("5m6s")

    assert azure.progress(reply) == "Succeeded"
    assert at(azure.get(BOX), "properties", "provisioningState") == "Succeeded"


@pytest.mark.rule("L-15")
def test_an_approval_is_what_makes_a_restart_quick(azure: Azure) -> None:
    reply = azure.post(f"{BOX}/restart")

    azure.approve_all()
    azure.advance("5s")

    assert azure.progress(reply) == "Succeeded"


@pytest.mark.rule("L-15")
def test_a_restarted_server_still_knows_how_far_a_restart_is(azure: Azure) -> None:
    reply = azure.post(f"{BOX}/restart")

    azure.restart()

    assert azure.progress(reply) == "InProgress"

    azure.advance("16m")

    assert azure.progress(reply) == "Succeeded"


def test_a_machine_nobody_listens_on_is_restarted_at_once() -> None:
    azure = compute()
    azure.put(BOX, {})

    reply = azure.post(f"{BOX}/restart")
    azure.advance("5s")

    assert azure.progress(reply) == "Succeeded"


def test_a_restart_that_is_cancelled_is_an_operation_that_was(azure: Azure) -> None:
    reply = azure.post(f"{BOX}/restart")

    azure.stage.cancel(azure.waiting()[0])

    assert azure.progress(reply) == "Canceled"


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
    reply = azure.post(f"{BOX}/{verb}")

    assert reply.status == 200
    assert azure.stage.shown("box") == ()
    assert power(azure, BOX) == shown


def test_a_machine_that_was_switched_off_and_then_deallocated_is_deallocated(azure: Azure) -> None:
    for verb in ("powerOff", "start", "deallocate"):
        azure.post(f"{BOX}/{verb}")

    assert power(azure, BOX) == "PowerState/deallocated"
    assert azure.stage.machine("box").power is Power.STOPPED


@pytest.mark.rule("T-20")
def test_a_reimage_is_announced_only_where_the_machine_asks_for_it(azure: Azure) -> None:
    quiet = azure.post(f"{BOX}/reimage")

    assert azure.stage.shown("box") == ()

    azure.advance("5s")
    image: Json = {"osImageNotificationProfile": {"enable": True}}
    azure.patch(BOX, {"properties": {"scheduledEventsProfile": image}})
    azure.post(f"{BOX}/reimage")

    (event,) = azure.stage.shown("box")
    assert azure.progress(quiet) == "Succeeded"
    assert (event.kind, event.not_before) == (Kind.REBOOT, NOON + span("15m5s"))


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


# -- evictions


@pytest.mark.rule("T-24")
@pytest.mark.rule("T-03")
@pytest.mark.parametrize(("eviction", "left"), [("Deallocate", "PowerState/deallocated"), ("Delete", None)])
def test_a_simulated_eviction_is_a_preempt_and_ends_as_the_policy_says(
    azure: Azure, eviction: str, left: str | None
) -> None:
    azure.put(f"{VM}/cheap", {"properties": {"priority": "Spot", "evictionPolicy": eviction}})
    azure.poll("cheap")

    reply = azure.post(f"{VM}/cheap/simulateEviction")

    (event,) = azure.stage.shown("cheap")
    assert (reply.status, reply.body) == (204, None)
    assert (event.kind, event.not_before) == (Kind.PREEMPT, NOON + span("30s"))

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
    reply = azure.delete(BOX)

    (event,) = azure.stage.shown("box")
    assert (event.kind, event.not_before) == (Kind.TERMINATE, NOON + span("10m"))
    assert at(azure.get(BOX), "properties", "provisioningState") == "Deleting"

    azure.advance("10m")

    assert azure.progress(reply) == "InProgress"

    azure.advance("5s")

    assert azure.progress(reply) == "Succeeded"
    assert azure.refused("GET", BOX)[:2] == (404, "ResourceNotFound")
    assert azure.names(VM) == []


@pytest.mark.rule("T-09")
def test_a_forced_delete_waits_for_nobody(azure: Azure) -> None:
    reply = azure.delete(f"{BOX}?forceDeletion=true")
    azure.advance("5s")

    assert azure.progress(reply) == "Succeeded"
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


def test_what_is_not_there_is_deleted_already(azure: Azure) -> None:
    assert azure.delete(f"{VM}/nobody").status == 204


def test_a_delete_that_is_cancelled_leaves_the_machine_as_it_was(azure: Azure) -> None:
    reply = azure.delete(BOX)

    azure.stage.cancel(azure.waiting()[0])

    assert azure.progress(reply) == "Canceled"
    assert at(azure.get(BOX), "tags") == {"team": "core"}


def test_a_new_machine_of_an_old_name_has_none_of_the_old_ones_traits(azure: Azure) -> None:
    azure.delete(f"{BOX}?forceDeletion=true")
    azure.advance("5s")

    reply = azure.put(BOX, {})

    assert reply.status == 201
    assert at(azure.get(BOX), "tags") == {}
    assert at(azure.get(BOX), "properties", "scheduledEventsProfile") is None


def test_the_document_of_a_machine_that_somebody_else_deleted_goes_when_it_is_noticed(azure: Azure) -> None:
    azure.stage.cause("delete", "box", force=True)
    azure.advance("5s")

    assert azure.send("GET", BOX).status == 404
    assert azure.room.document(f"{ROOT}/providers/{BOX}") is None


# -- what a machine says of itself


def test_a_machine_is_made_with_a_door_of_its_own_and_shown_as_it_was_put() -> None:
    azure = compute()
    body: Json = {
        "location": "northeurope",
        "tags": {"a": "b"},
        "properties": {"hardwareProfile": {"vmSize": "Standard_B1s"}, "networkProfile": {"x": "y"}},
    }

    reply = azure.put(f"{VM}/New", body)

    assert reply.status == 201
    assert [ref.name for ref in azure.welcomed] == ["New"]
    shown = azure.get(f"{VM}/nEW")
    assert at(shown, "id") == f"{ROOT}/providers/{VM}/New"
    assert (at(shown, "name"), at(shown, "type"), at(shown, "location")) == ("New", VM, "northeurope")
    assert at(shown, "properties", "hardwareProfile", "vmSize") == "Standard_B1s"
    assert at(shown, "properties", "networkProfile") == {"networkInterfaces": [], "x": "y"}
    assert at(shown, "properties", "vmId") == azure.stage.machine("New").vm_id


def test_a_put_is_merged_into_what_is_there_and_tags_are_replaced(azure: Azure) -> None:
    reply = azure.put(BOX, {"tags": {"new": "tag"}, "properties": {"licenseType": "RHEL_BYOS"}})

    assert reply.status == 200
    shown = azure.get(BOX)
    assert at(shown, "tags") == {"new": "tag"}
    assert at(shown, "properties", "licenseType") == "RHEL_BYOS"
    assert azure.stage.machine("box").model.terminate_notice == timedelta(minutes=10)


def test_what_was_read_can_be_put_back_and_changes_nothing(azure: Azure) -> None:
    before = azure.get(BOX, version=NEWEST)

    azure.put(BOX, before, version=NEWEST)

    assert azure.get(BOX, version=NEWEST) == before


def test_a_profile_is_changed_and_taken_away_on_the_spot(azure: Azure) -> None:
    azure.patch(BOX, {"properties": profile(15)})

    assert azure.stage.machine("box").model.terminate_notice == timedelta(minutes=15)

    azure.patch(BOX, {"properties": profile(None, enable=False)})

    assert azure.stage.machine("box").model.terminate_notice is None
    assert at(azure.get(BOX), "properties", "scheduledEventsProfile") == {}


@pytest.mark.rule("L-17")
def test_a_policy_lets_restarts_go_ahead_unasked(azure: Azure) -> None:
    azure.patch(BOX, {"properties": {"scheduledEventsPolicy": POLICY}})

    azure.post(f"{BOX}/restart")

    (event,) = azure.stage.shown("box")
    assert not event.waiting
    shown = at(azure.get(BOX, version=NEWEST), "properties", "scheduledEventsPolicy")
    assert at(shown, "userInitiatedReboot") == {"automaticallyApprove": True}
    assert at(shown, "allInstancesDown") == {"automaticallyApprove": True}


def test_a_put_while_something_is_under_way_is_an_answer_and_no_wait(azure: Azure) -> None:
    azure.post(f"{BOX}/restart")

    reply = azure.put(BOX, {"tags": {}})

    assert header(reply, "Azure-AsyncOperation") is None
    assert at(reply.body, "properties", "provisioningState") == "Succeeded"


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


# -- in sets


@pytest.mark.parametrize(
    ("member", "path", "body"),
    [
        ("availabilitySet", f"{AVAILABILITY_SET}/app", {}),
        (
            "virtualMachineScaleSet",
            f"{SET}/app",
            {"sku": {"capacity": 0}, "properties": {"orchestrationMode": "Flexible"}},
        ),
    ],
)
def test_a_machine_in_a_set_shares_its_scope_and_keeps_its_name(member: str, path: str, body: Json) -> None:
    azure = compute()
    azure.put(path, body)

    for name in ("one", "two"):
        azure.put(f"{VM}/{name}", in_set(member, path))

    assert azure.stage.machines("lab/app") == ["one", "two"]
    assert at(azure.get(f"{VM}/two"), "properties", member, "id") == f"{ROOT}/providers/{path}"
    view = azure.get(f"{VM}/two/instanceView")
    assert at(view, "platformFaultDomain") == 1
    assert at(view, "platformUpdateDomain") == (1 if member == "availabilitySet" else None)


def test_each_machine_of_an_availability_set_has_the_notice_it_asked_for() -> None:
    azure = compute()
    path = f"{AVAILABILITY_SET}/app"
    azure.put(path, {})

    azure.put(f"{VM}/five", in_set("availabilitySet", path, **profile(5)))
    azure.put(f"{VM}/none", in_set("availabilitySet", path))
    azure.put(f"{VM}/nine", in_set("availabilitySet", path, **profile(9)))
    azure.patch(f"{VM}/five", {"properties": profile(6)})

    notices = [azure.stage.machine(name).model.terminate_notice for name in ("five", "none", "nine")]
    assert notices == [timedelta(minutes=6), None, timedelta(minutes=9)]


@pytest.mark.rule("T-22")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_machine_in_a_set_has_no_policy_of_its_own(method: str) -> None:
    azure = compute()
    path = f"{AVAILABILITY_SET}/app"
    azure.put(path, {})
    if method == "PATCH":
        azure.put(f"{VM}/one", in_set("availabilitySet", path))

    refused = azure.refused(
        method, f"{VM}/one", in_set("availabilitySet", path, scheduledEventsPolicy=POLICY)
    )

    assert refused[:2] == (409, "OperationNotAllowed")
    assert "scheduledEventsPolicy" in refused[2]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(
            in_set("availabilitySet", f"{AVAILABILITY_SET}/no"), "InvalidResourceReference", id="is not there"
        ),
        pytest.param(in_set("availabilitySet", f"{SET}/web"), "LinkedInvalidPropertyId", id="is no such set"),
        pytest.param(
            in_set("virtualMachineScaleSet", f"{SET}/web"), "InvalidParameter", id="is a uniform scale set"
        ),
        pytest.param(
            {"properties": {"availabilitySet": {"id": "app"}}}, "LinkedInvalidPropertyId", id="is no id"
        ),
        pytest.param({"properties": {"availabilitySet": "app"}}, "LinkedInvalidPropertyId", id="is a string"),
        pytest.param(
            {
                "properties": {
                    "availabilitySet": {"id": f"{HOME}/{AVAILABILITY_SET}/far"},
                }
            },
            "InvalidResourceReference",
            id="is in another group",
        ),
    ],
)
def test_a_set_that_a_machine_cannot_be_in_is_refused(body: Json, code: str) -> None:
    azure = compute(Blueprint(name="far", kind=ScopeKind.AVAILABILITY_SET))
    azure.put(f"{SET}/web", scale_set(0))

    assert azure.refused("PUT", BOX, body)[:2] == (400, code)


@pytest.mark.rule("T-05")
def test_a_flexible_set_may_mix_spot_and_regular_machines_and_warns_the_regular_ones() -> None:
    azure = compute()
    flexible: Json = {"orchestrationMode": "Flexible", "virtualMachineProfile": profile(10)}
    azure.put(f"{SET}/flex", {"sku": {"capacity": 0}, "properties": flexible})
    azure.put(f"{VM}/cheap", in_set("virtualMachineScaleSet", f"{SET}/flex", priority="Spot"))
    azure.put(f"{VM}/dear", in_set("virtualMachineScaleSet", f"{SET}/flex"))

    cheap, dear = azure.stage.machine("cheap"), azure.stage.machine("dear")

    assert (cheap.spot, cheap.model.terminate_notice) == (True, None)
    assert (dear.spot, dear.model.terminate_notice) == (False, timedelta(minutes=10))


# -- lists


def test_machines_that_up_has_made_are_in_the_home_group() -> None:
    azure = compute(
        Blueprint(name="db", kind=ScopeKind.STANDALONE),
        Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2),
        Blueprint(name="web", count=2),
    )

    assert azure.names(f"{HOME}/{VM}") == ["app-0", "app-1", "db"]
    assert azure.names(VM) == []
    shown = azure.get(f"{HOME}/{VM}/app-1?$expand=instanceView")
    assert at(shown, "properties", "networkProfile", "networkInterfaces") == []
    assert at(shown, "properties", "instanceView", "platformUpdateDomain") == 1
    assert str(at(shown, "properties", "availabilitySet", "id")).endswith("/availabilitySets/app")


def test_a_long_list_comes_in_pages_that_hold_everything_once() -> None:
    azure = compute(Blueprint(name="big", kind=ScopeKind.AVAILABILITY_SET, count=1000), watched=False)
    azure.put(BOX, {})
    names: list[str] = []
    path = "/subscriptions/1/providers/Microsoft.Compute/virtualMachines"
    sizes = []

    while path:
        page = azure.get(path)
        names += [str(at(one, "name")) for one in _value(page)]
        sizes.append(len(_value(page)))
        path = str(at(page, "nextLink") or "")
        assert path == "" or path.startswith(f"{BASE}/subscriptions/1/")

    assert sizes == [500, 500, 1]
    assert sorted(names) == sorted(["box", *azure.stage.machines("big")])


def test_a_machine_that_goes_while_a_list_is_read_takes_no_other_off_it() -> None:
    azure = compute(Blueprint(name="big", kind=ScopeKind.AVAILABILITY_SET, count=501), watched=False)
    first = azure.get(f"{HOME}/{VM}")
    last = at(_value(first)[-1], "name")
    azure.stage.cause("delete", "big-0", force=True)
    azure.advance("5s")

    second = azure.get(str(at(first, "nextLink")))

    assert [at(one, "name") for one in _value(second)] == ["big-99"]
    assert last == "big-98"


def _value(page: Json) -> list[Json]:
    value = at(page, "value")
    assert isinstance(value, list)
    return value


def test_the_same_name_may_stand_in_two_groups() -> None:
    azure = compute(Blueprint(name="box", kind=ScopeKind.STANDALONE))
    azure.put(BOX, {"tags": {"in": "lab"}})

    assert at(azure.get(BOX), "tags") == {"in": "lab"}
    assert at(azure.get(f"{HOME}/{BOX}"), "tags") == {}
    assert at(azure.get(BOX), "properties", "vmId") != at(azure.get(f"{HOME}/{BOX}"), "properties", "vmId")


def test_a_stage_without_machines_has_an_empty_list() -> None:
    azure = compute()

    assert azure.get("/subscriptions/1/providers/Microsoft.Compute/virtualMachines") == {"value": []}
