"""Approving scheduled events from outside the machine, and planned maintenance."""

from collections.abc import Callable

import pytest

from fairwarning.core.document.render import Json
from fairwarning.core.model import EventStatus
from tests.arm.azure import ROOT, Azure, at
from tests.arm.compute import AVAILABILITY_SET, SET, VM, both, compute, model, profile, scale_set

PREVIEW = "2023-10-01-preview"
WEB = f"{SET}/web"
EVENTS = "providers/Microsoft.Maintenance/scheduledevents"
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def azure() -> Azure:
    azure = compute()
    azure.put(WEB, both(scale_set(2), model(**profile(10))))
    azure.put(f"{AVAILABILITY_SET}/app", {})
    inside: Json = {"availabilitySet": {"id": f"{ROOT}/providers/{AVAILABILITY_SET}/app"}}
    for name in ("app0", "app1"):
        azure.put(f"{VM}/{name}", {"properties": inside})
    azure.put(f"{VM}/box", {})
    azure.poll("web_0", "app0", "box")
    return azure


def caused(azure: Azure, path: str) -> str:
    known = set(azure.waiting())
    azure.post(f"{path}/restart")
    (event,) = set(azure.waiting()) - known
    return event


@pytest.mark.parametrize(
    ("machine", "resource"),
    [
        pytest.param(f"{VM}/box", f"{VM}/box", id="through a machine"),
        pytest.param(f"{VM}/app0", f"{VM}/app0", id="through a machine in a set"),
        pytest.param(f"{VM}/app0", f"{AVAILABILITY_SET}/app", id="through its availability set"),
        pytest.param(f"{WEB}/virtualMachines/0", WEB, id="through a scale set"),
    ],
)
@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_an_event_is_approved_from_outside(
    azure: Azure, machine: str, resource: str, spelled: Callable[[str], str]
) -> None:
    event = caused(azure, machine)

    response = azure.post(f"{resource}/{EVENTS}/{spelled(event)}/acknowledge", version=PREVIEW)

    assert response.body == {"value": "Successfully approved scheduled event"}
    assert azure.fleet.status(event) is EventStatus.STARTED
    assert azure.fleet.event(event).approved_by == "management"


def test_an_event_that_was_approved_can_be_approved_again(azure: Azure) -> None:
    event = caused(azure, f"{VM}/box")

    replies = [azure.post(f"{VM}/box/{EVENTS}/{event}/acknowledge", version=PREVIEW) for _ in range(2)]

    assert [response.status for response in replies] == [200, 200]


@pytest.mark.parametrize("resource", [f"{VM}/box", f"{VM}/app1", WEB])
def test_an_event_of_others_is_not_found(azure: Azure, resource: str) -> None:
    event = caused(azure, f"{VM}/app0")

    refused = azure.refused("POST", f"{resource}/{EVENTS}/{event}/acknowledge", version=PREVIEW)

    assert refused == (404, "InvalidScheduledEventId", "Scheduled event not found")
    assert azure.fleet.status(event) is EventStatus.SCHEDULED


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{VM}/box/{EVENTS}/{NOBODY}/acknowledge", 404, "InvalidScheduledEventId"),
        (f"{VM}/box/{EVENTS}/not-an-id/acknowledge", 400, "InvalidScheduledEventId"),
        (f"{VM}/none/{EVENTS}/{NOBODY}/acknowledge", 404, "ResourceNotFound"),
        (f"{SET}/none/{EVENTS}/{NOBODY}/acknowledge", 404, "ResourceNotFound"),
        (f"Microsoft.Compute/disks/d/{EVENTS}/{NOBODY}/acknowledge", 400, "InvalidResourceType"),
    ],
)
def test_what_cannot_be_approved_is_refused(azure: Azure, path: str, status: int, code: str) -> None:
    assert azure.refused("POST", path, version=PREVIEW)[:2] == (status, code)


def test_several_events_are_approved_at_once(azure: Azure) -> None:
    azure.post(f"{WEB}/delete", {"instanceIds": ["*"]})
    ids = azure.waiting()

    response = azure.post(f"{WEB}/{EVENTS}", {"value": [*ids]}, version="2025-10-01-preview")

    assert response.body == {"value": "Successfully approved scheduled events"}
    assert azure.fleet.statuses(*ids) == [EventStatus.STARTED, EventStatus.STARTED]


@pytest.mark.rule("T-32")
def test_where_some_are_not_there_the_others_are_approved_and_the_answer_says_which(azure: Azure) -> None:
    event = caused(azure, f"{VM}/box")

    response = azure.post(f"{VM}/box/{EVENTS}", {"value": [event, NOBODY]}, version=PREVIEW)

    assert response.status == 207
    assert at(response.body, "response", "code") == "MultiStatusResponse"
    assert at(response.body, "error") is None
    details = [at(response.body, "details", number) for number in (0, 1)]
    assert [at(detail, "code") for detail in details] == ["OK", "InvalidScheduledEventId"]
    assert [at(detail, "target") for detail in details] == [event, NOBODY]
    assert azure.fleet.status(event) is EventStatus.STARTED


@pytest.mark.parametrize("body", [None, {}, {"value": []}, {"value": [5]}, {"value": "x"}, {"value": ["x"]}])
def test_a_list_that_is_none_is_refused(azure: Azure, body: Json) -> None:
    assert azure.refused("POST", f"{WEB}/{EVENTS}", body, version=PREVIEW)[0] == 400


def test_the_platforms_plans_are_shown_as_updates_and_those_of_users_are_not(azure: Azure) -> None:
    updates = "providers/Microsoft.Maintenance/updates"
    azure.fleet.cause("freeze", "box")
    caused(azure, f"{VM}/box")

    maintenance = at(azure.get(f"{VM}/box/{updates}"), "value")

    assert maintenance == [
        {
            "maintenanceScope": "Host",
            "impactType": "Freeze",
            "status": "Pending",
            "impactDurationInSec": 9,
            "notBefore": "2026-11-16T12:15:00.000000Z",
            "properties": {"resourceId": f"{ROOT}/providers/{VM}/box"},
        }
    ]
    assert azure.get(f"{WEB}/{updates}") == {"value": []}

    azure.advance("15m")

    assert at(azure.get(f"{VM}/box/{updates}"), "value", 0, "status") == "InProgress"


def test_a_machine_shows_the_window_of_its_planned_maintenance(azure: Azure) -> None:
    azure.fleet.cause("host-reboot", "box")

    status = at(azure.get(f"{VM}/box/instanceView"), "maintenanceRedeployStatus")

    assert at(status, "preMaintenanceWindowEndTime") == "2026-11-16T12:15:00.000000Z"
    assert at(status, "isCustomerInitiatedMaintenanceAllowed") is True
