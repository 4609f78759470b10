"""Checks of request bodies: versions, durations, booleans and shapes (T-01, T-02, T-03, T-20)."""

import pytest

from fairwarning.core.document.render import Json
from tests.arm.azure import Azure, at
from tests.arm.compute import AVAILABILITY_SET, NEWEST, SET, VM, compute, model, profile, scale_set

PROFILE = ("properties", "virtualMachineProfile", "scheduledEventsProfile")
TERMINATE = (*PROFILE, "terminateNotificationProfile")
TIMEOUT = (
    "properties.virtualMachineProfile.scheduledEventsProfile.terminateNotificationProfile.notBeforeTimeout"
)
POLICY: Json = {"userInitiatedReboot": {"automaticallyApprove": True}}
ALL_DOWN: Json = {"allInstancesDown": {"automaticallyApprove": False}}
IMAGE: Json = {"osImageNotificationProfile": {"enable": True}}
NEW_SET = f"{SET}/new"


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(f"{SET}/web", scale_set(1))
    azure.put(f"{VM}/box", {})
    azure.put(f"{AVAILABILITY_SET}/app", {})
    return azure


# -- api-versions


@pytest.mark.rule("T-01")
def test_the_profile_is_refused_below_its_version_in_azures_words(azure: Azure) -> None:
    body = model(scheduledEventsProfile={"terminateNotificationProfile": {"enable": True}})

    refused = azure.refused("PUT", f"{SET}/web", body, version="2018-10-01")

    assert refused == (
        400,
        "BadRequest",
        "Could not find member 'scheduledEventsProfile' on object of type 'VirtualMachineProfile'. "
        "Path 'properties.virtualMachineProfile.scheduledEventsProfile', line 1, position 65.",
    )


@pytest.mark.rule("T-01")
def test_the_same_body_is_granted_by_the_version_that_brought_it(azure: Azure) -> None:
    azure.put(f"{SET}/web", model(**profile(10)), version="2019-03-01")

    assert at(azure.get(f"{SET}/web"), *TERMINATE) == {"notBeforeTimeout": "PT10M", "enable": True}


@pytest.mark.rule("T-01")
def test_an_older_version_does_not_show_the_profile(azure: Azure) -> None:
    azure.put(f"{SET}/web", model(**profile(10)))

    old = azure.get(f"{SET}/web", version="2018-10-01")

    assert at(old, "properties", "virtualMachineProfile", "osProfile") is not None
    assert at(old, *PROFILE) is None


GATES = [
    pytest.param(
        "PUT", f"{SET}/web", model(**profile()), "2019-03-01", "2018-10-01", id="the profile of a scale set"
    ),
    pytest.param(
        "PATCH", f"{SET}/web", model(**profile()), "2019-03-01", "2018-10-01", id="the same by PATCH"
    ),
    pytest.param(
        "PUT", f"{VM}/box", {"properties": profile()}, "2021-03-01", "2020-12-01", id="that of a machine"
    ),
    pytest.param(
        "PUT",
        f"{SET}/web",
        model(scheduledEventsProfile=IMAGE),
        "2022-11-01",
        "2022-08-01",
        id="the OS image profile of a scale set",
    ),
    pytest.param(
        "PUT",
        f"{VM}/box",
        {"properties": {"scheduledEventsProfile": IMAGE}},
        "2022-11-01",
        "2022-08-01",
        id="that of a machine's image",
    ),
    pytest.param(
        "PUT",
        f"{SET}/web",
        {"properties": {"scheduledEventsPolicy": POLICY}},
        "2024-03-01",
        "2023-09-01",
        id="the policy of a scale set",
    ),
    pytest.param(
        "PATCH",
        f"{VM}/box",
        {"properties": {"scheduledEventsPolicy": POLICY}},
        "2024-03-01",
        "2023-09-01",
        id="the policy of a machine",
    ),
    pytest.param(
        "PUT",
        f"{AVAILABILITY_SET}/app",
        {"properties": {"scheduledEventsPolicy": POLICY}},
        "2024-07-01",
        "2024-03-01",
        id="the policy of an availability set",
    ),
    pytest.param(
        "PUT",
        f"{VM}/box",
        {"properties": {"scheduledEventsPolicy": ALL_DOWN}},
        "2025-04-01",
        "2024-11-01",
        id="what is approved where all instances are down",
    ),
]


@pytest.mark.rule("T-01")
@pytest.mark.parametrize(("method", "path", "body", "since", "before"), GATES)
def test_a_property_is_granted_from_its_version_on_and_refused_before(
    azure: Azure, method: str, path: str, body: Json, since: str, before: str
) -> None:
    status, code, message = azure.refused(method, path, body, version=before)
    granted = [azure.send(method, path, body, version=one).status for one in (since, NEWEST)]

    assert (status, code) == (400, "BadRequest")
    assert message.startswith("Could not find member '")
    assert granted == [200, 200]


@pytest.mark.rule("T-01")
def test_a_scale_sets_policy_is_not_in_the_model_of_patch(azure: Azure) -> None:
    body: Json = {"properties": {"scheduledEventsPolicy": POLICY}}

    status, _, message = azure.refused("PATCH", f"{SET}/web", body, version=NEWEST)

    assert status == 400
    assert "member 'scheduledEventsPolicy' on object of type 'Properties'" in message


def test_a_null_is_not_a_use_of_a_property(azure: Azure) -> None:
    azure.put(f"{SET}/web", model(scheduledEventsProfile=None), version="2018-10-01")

    assert at(azure.get(f"{SET}/web"), *PROFILE) is None


# -- durations


@pytest.mark.rule("T-02")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PT5M", "PT5M"),
        ("PT15M", "PT15M"),
        ("PT300S", "PT5M"),
        ("PT0H10M", "PT10M"),
        ("PT10M30S", "PT10M30S"),
        ("P0DT7M", "PT7M"),
    ],
)
def test_any_form_of_five_to_fifteen_minutes_is_taken(azure: Azure, text: str, shown: str) -> None:
    terminate: Json = {"enable": True, "notBeforeTimeout": text}

    azure.put(f"{SET}/web", model(scheduledEventsProfile={"terminateNotificationProfile": terminate}))

    assert at(azure.get(f"{SET}/web"), *TERMINATE, "notBeforeTimeout") == shown


@pytest.mark.rule("T-02")
@pytest.mark.parametrize(
    "text", ["PT4M", "PT4M59S", "PT15M1S", "PT1H", "10", "10m", "", "P", "PT", "five", "-PT10M", 10, True, {}]
)
def test_any_other_timeout_is_refused_and_named_by_its_path(azure: Azure, text: Json) -> None:
    terminate: Json = {"enable": True, "notBeforeTimeout": text}
    body = model(scheduledEventsProfile={"terminateNotificationProfile": terminate})

    response = azure.send("PUT", f"{SET}/web", body)

    assert (response.status, at(response.body, "error", "code")) == (400, "InvalidParameter")
    assert at(response.body, "error", "target") == TIMEOUT
    assert at(azure.get(f"{SET}/web"), *PROFILE) is None


@pytest.mark.rule("T-02")
def test_without_a_timeout_it_is_five_minutes(azure: Azure) -> None:
    azure.put(f"{SET}/web", model(**profile(None)))

    assert at(azure.get(f"{SET}/web"), *TERMINATE, "notBeforeTimeout") == "PT5M"


@pytest.mark.rule("T-20")
@pytest.mark.parametrize(("text", "status"), [("PT15M", 200), (None, 200), ("PT10M", 400), ("x", 400)])
def test_the_notice_of_a_new_image_is_fifteen_minutes_and_nothing_else(
    azure: Azure, text: Json, status: int
) -> None:
    image: Json = {"osImageNotificationProfile": {"enable": True, "notBeforeTimeout": text}}

    assert azure.send("PUT", f"{SET}/web", model(scheduledEventsProfile=image)).status == status


# -- what az writes


@pytest.mark.rule("T-03")
@pytest.mark.parametrize("word", ["true", "True", True])
def test_a_boolean_may_be_a_word_and_comes_back_as_a_boolean(azure: Azure, word: Json) -> None:
    azure.put(f"{SET}/web", model(**profile(10, enable=word)))

    assert at(azure.get(f"{SET}/web"), *TERMINATE) == {"notBeforeTimeout": "PT10M", "enable": True}


@pytest.mark.rule("T-03")
def test_disabling_with_a_null_time_leaves_an_empty_profile(azure: Azure) -> None:
    azure.put(f"{SET}/web", model(**profile(10)))
    off: Json = {"terminateNotificationProfile": {"enable": "false", "notBeforeTimeout": None}}

    azure.put(f"{SET}/web", model(scheduledEventsProfile=off))

    assert at(azure.get(f"{SET}/web"), *PROFILE) == {}


@pytest.mark.rule("T-03")
def test_a_time_alone_keeps_what_is_enabled(azure: Azure) -> None:
    azure.put(f"{SET}/web", model(**profile(8)))
    later: Json = {"terminateNotificationProfile": {"notBeforeTimeout": "PT9M"}}

    azure.put(f"{SET}/web", model(scheduledEventsProfile=later))

    assert at(azure.get(f"{SET}/web"), *TERMINATE) == {"notBeforeTimeout": "PT9M", "enable": True}


@pytest.mark.rule("T-03")
def test_the_policys_flags_may_be_words_too(azure: Azure) -> None:
    body: Json = {
        "properties": {"scheduledEventsPolicy": {"userInitiatedReboot": {"automaticallyApprove": "true"}}}
    }

    azure.put(f"{SET}/web", body)

    approvals = azure.fleet.scope("lab/web").facts.approvals
    assert (approvals.user_reboot, approvals.user_redeploy, approvals.all_instances_down) == (
        True,
        False,
        True,
    )


def test_passwords_are_taken_and_never_shown(azure: Azure) -> None:
    azure.put(f"{VM}/new", {"properties": {"osProfile": {"adminUsername": "me", "adminPassword": "hunter2"}}})

    assert "hunter2" not in str(azure.get(f"{VM}/new"))
    assert at(azure.get(f"{VM}/new"), "properties", "osProfile", "adminUsername") == "me"


# -- shapes

JUNK: list[Json] = [5, -1, 1.5, True, "junk", "", [], [5], {"id": 5}, {"x": {}}, [None], [[]], 10**30]
PLACES = [
    (),
    ("location",),
    ("tags",),
    ("tags", "a"),
    ("zones",),
    ("sku",),
    ("sku", "name"),
    ("sku", "capacity"),
    ("identity",),
    ("identity", "type"),
    ("properties",),
    ("properties", "availabilitySet"),
    ("properties", "virtualMachineScaleSet"),
    ("properties", "hardwareProfile"),
    ("properties", "hardwareProfile", "vmSize"),
    ("properties", "osProfile"),
    ("properties", "osProfile", "computerNamePrefix"),
    ("properties", "storageProfile"),
    ("properties", "priority"),
    ("properties", "evictionPolicy"),
    ("properties", "orchestrationMode"),
    ("properties", "upgradePolicy"),
    ("properties", "upgradePolicy", "mode"),
    ("properties", "platformFaultDomainCount"),
    ("properties", "platformUpdateDomainCount"),
    ("properties", "protectionPolicy"),
    ("properties", "protectionPolicy", "protectFromScaleIn"),
    ("properties", "scheduledEventsPolicy"),
    ("properties", "scheduledEventsPolicy", "userInitiatedReboot"),
    ("properties", "scheduledEventsPolicy", "userInitiatedReboot", "automaticallyApprove"),
    ("properties", "scheduledEventsProfile"),
    ("properties", "scheduledEventsProfile", "terminateNotificationProfile"),
    ("properties", "scheduledEventsProfile", "terminateNotificationProfile", "enable"),
    ("properties", "virtualMachineProfile"),
    ("properties", "virtualMachineProfile", "osProfile"),
    ("properties", "virtualMachineProfile", "osProfile", "computerNamePrefix"),
    ("properties", "virtualMachineProfile", "priority"),
    ("properties", "virtualMachineProfile", "storageProfile"),
    PROFILE,
    TERMINATE,
    (*TERMINATE, "enable"),
    (*TERMINATE, "notBeforeTimeout"),
    (*PROFILE, "osImageNotificationProfile"),
    ("properties", "virtualMachines"),
    ("properties", "roleProfile"),
    ("properties", "roleProfile", "roles"),
    ("instanceIds",),
    ("roleInstances",),
    ("value",),
]
TARGETS = [
    ("PUT", f"{VM}/box"),
    ("PUT", f"{VM}/new"),
    ("PATCH", f"{VM}/box"),
    ("PUT", f"{SET}/web"),
    ("PUT", NEW_SET),
    ("PATCH", f"{SET}/web"),
    ("PUT", f"{SET}/web/virtualMachines/0"),
    ("POST", f"{SET}/web/delete"),
    ("POST", f"{SET}/web/manualupgrade"),
    ("POST", f"{SET}/web/restart"),
    ("PUT", f"{AVAILABILITY_SET}/app"),
    ("PUT", f"{AVAILABILITY_SET}/new"),
    ("PUT", "Microsoft.Compute/cloudServices/new"),
    ("POST", f"{VM}/box/restart"),
    ("POST", f"{SET}/web/providers/Microsoft.Maintenance/scheduledevents"),
]


def nested(path: tuple[str, ...], value: Json) -> Json:
    for key in reversed(path):
        value = {key: value}
    return value


@pytest.mark.parametrize(("method", "path"), TARGETS, ids=[f"{m} {p.split('/', 1)[1]}" for m, p in TARGETS])
def test_garbage_is_granted_or_refused_and_never_breaks_anything(
    azure: Azure, method: str, path: str
) -> None:
    # A failure that is not a refusal would come through the harness as what it is.
    replies = [azure.send(method, path, nested(place, junk)) for place in PLACES for junk in JUNK]

    assert {response.status for response in replies} <= {200, 201, 202, 400, 404, 409}
    for listed in (VM, SET, AVAILABILITY_SET, f"{SET}/web/virtualMachines?$expand=instanceView"):
        azure.get(listed)


@pytest.mark.parametrize(
    "path", [f"{VM}/a b", f"{VM}/{'a' * 100}", f"{SET}/-x", f"{AVAILABILITY_SET}/a+b", f"{VM}/a%2Fb"]
)
def test_a_name_that_cannot_be_one_is_refused(azure: Azure, path: str) -> None:
    status, code, _ = azure.refused("PUT", path, {})

    assert (status, code) == (400, "InvalidParameter")


@pytest.mark.parametrize("kind", [VM, SET, AVAILABILITY_SET, "Microsoft.Compute/cloudServices"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_nothing_is_found_or_made_in_a_group_that_does_not_exist(
    azure: Azure, kind: str, method: str
) -> None:
    path = f"/subscriptions/1/resourceGroups/nowhere/providers/{kind}/x"

    assert azure.refused(method, path, {})[:2] == (404, "ResourceGroupNotFound")
