"""What a scope approves by itself: its users' operations, and every event once all machines are down."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import ApprovalSettings, EventStatus
from tests.core.warned import GONE, SCHEDULED, STARTED, WEB
from tests.fleet_harness import FleetHarness


@pytest.mark.rule("L-17")
@pytest.mark.parametrize(
    ("approvals", "cause", "status"),
    [
        pytest.param(
            ApprovalSettings(user_reboot=True),
            "restart",
            EventStatus.STARTED,
            id="a user's restart is waived",
        ),
        pytest.param(
            ApprovalSettings(user_reboot=True),
            "redeploy",
            EventStatus.SCHEDULED,
            id="a redeploy is not meant",
        ),
        pytest.param(
            ApprovalSettings(user_redeploy=True), "redeploy", EventStatus.STARTED, id="a redeploy is waived"
        ),
        pytest.param(
            ApprovalSettings(user_redeploy=True),
            "restart",
            EventStatus.SCHEDULED,
            id="a restart is not meant",
        ),
        pytest.param(
            ApprovalSettings(user_reboot=True), "host-reboot", EventStatus.SCHEDULED, id="the platform waits"
        ),
    ],
)
def test_a_scope_may_waive_the_notice_of_its_users_operations(
    approvals: ApprovalSettings, cause: str, status: EventStatus
) -> None:
    stage = FleetHarness(WEB)
    stage.set_approvals("web", approvals)

    (event,) = stage.cause(cause, "web_0")

    assert [(one.id, one.status) for one in stage.shown("web_0")] == [(event, status)]


@pytest.mark.rule("T-21")
def test_when_no_machine_runs_an_event_is_approved_at_creation() -> None:
    stage = FleetHarness(WEB)
    stage.stop("web_0", "web_1", "web_2", "web_3")

    (event,) = stage.cause("host-reboot", "web_0")

    assert stage.status(event) is STARTED
    assert stage.event(event).approved_by == "all-instances-down"


@pytest.mark.rule("T-21")
def test_events_are_approved_as_soon_as_the_last_machine_stops() -> None:
    stage = FleetHarness(WEB)
    first, second = stage.cause("delete", "web_0", "web_1")
    stage.stop("web_0", "web_1", "web_2")

    assert stage.statuses(first, second) == [SCHEDULED, SCHEDULED]

    stage.stop("web_3")

    assert stage.statuses(first, second) == [STARTED, STARTED]


@pytest.mark.rule("T-21")
def test_events_are_approved_as_soon_as_the_last_running_machine_is_evicted() -> None:
    stage = FleetHarness(Blueprint(name="cheap", count=2, spot=True))
    stage.stop("cheap_1")
    (eviction,) = stage.cause("evict", "cheap_0")
    (reboot,) = stage.cause("host-reboot", "cheap_1")

    stage.approve(eviction, by="cheap_0")
    stage.advance("5s")

    assert stage.statuses(eviction, reboot) == [GONE, STARTED]


@pytest.mark.rule("T-21")
def test_a_scope_may_insist_on_its_notice_even_when_it_is_down() -> None:
    stage = FleetHarness(replace(WEB, approvals=ApprovalSettings(all_instances_down=False)))
    stage.stop("web_0", "web_1", "web_2", "web_3")

    (event,) = stage.cause("host-reboot", "web_0")

    assert stage.status(event) is SCHEDULED


@pytest.mark.rule("T-21")
def test_a_scope_that_changes_its_mind_while_it_is_down_approves_at_once() -> None:
    stage = FleetHarness(replace(WEB, approvals=ApprovalSettings(all_instances_down=False)))
    stage.stop("web_0", "web_1", "web_2", "web_3")
    (event,) = stage.cause("host-reboot", "web_0")

    stage.set_approvals("web", ApprovalSettings())

    assert stage.status(event) is STARTED
