"""Rollouts: maintenance of a scope, one domain after another (S-04, S-05)."""

from dataclasses import replace

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import InvalidError, RolloutUnderWayError, UnknownRolloutError
from fairwarning.core.model import EventId, EventStatus, ScopeKind
from fairwarning.drivers.simulated import Mishap
from tests.fleet_harness import FleetHarness

WEB = Blueprint(name="web", count=7)
SMALL = replace(WEB, count=3)


def resources(stage: FleetHarness, scope: str) -> list[tuple[str, ...]]:
    return [event.resources for event in stage.pending(scope)]


def route(stage: FleetHarness) -> list[tuple[str, ...]]:
    """Return the machines whose maintenance was announced, in order."""
    return [line.resources for line in stage.history() if line.kind == "scheduled"]


@pytest.mark.rule("S-05")
def test_the_next_domain_is_announced_once_the_last_has_finished() -> None:
    stage = FleetHarness(WEB)

    stage.walk("web")

    assert resources(stage, "web") == [("web_0", "web_5")]

    stage.advance("15m29s")

    assert resources(stage, "web") == [("web_0", "web_5")]

    stage.advance("1s")

    assert resources(stage, "web") == [("web_1", "web_6")]


@pytest.mark.rule("S-04")
@pytest.mark.rule("S-05")
def test_a_rollout_reaches_every_machine_once_and_ends() -> None:
    stage = FleetHarness(WEB)
    stage.walk("web")

    stage.advance("2h")

    assert route(stage) == [("web_0", "web_5"), ("web_1", "web_6"), ("web_2",), ("web_3",), ("web_4",)]
    assert stage.scope("web").facts.walk is None


@pytest.mark.rule("S-05")
def test_an_approval_speeds_up_the_rollout() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web", "host-reboot")

    for _ in range(3):
        (event,) = stage.shown("web_0")
        stage.approve(event.id, by="web_0")
        stage.advance("5s")

    assert stage.scope("web").facts.walk is None
    assert route(stage) == [("web_0",), ("web_1",), ("web_2",)]


@pytest.mark.rule("S-05")
def test_a_domain_whose_impact_fails_holds_the_rollout() -> None:
    stage = FleetHarness(SMALL)
    stage.break_machine("web_0", Mishap.FAILS, attempts=1000)
    stage.walk("web")

    stage.advance("12h")

    assert route(stage) == [("web_0",)]


@pytest.mark.rule("S-04")
@pytest.mark.rule("S-05")
def test_a_rollout_of_a_flexible_set_goes_by_fault_domain() -> None:
    stage = FleetHarness(Blueprint(name="flex", kind=ScopeKind.FLEXIBLE_SET, count=5))
    names = stage.machines("flex")

    stage.walk("flex")
    stage.advance("1h")

    assert route(stage) == [(names[0], names[3]), (names[1], names[4]), (names[2],)]


@pytest.mark.rule("S-05")
def test_a_domain_that_has_become_empty_is_passed_over() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    stage.cause("delete", "web_1")

    stage.advance("1h")

    assert route(stage) == [("web_0",), ("web_2",)]
    assert stage.scope("web").facts.walk is None


@pytest.mark.rule("S-05")
def test_a_rollout_continues_after_a_restart() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    stage.advance("16m")

    stage.restart()
    stage.advance("1h")

    assert route(stage) == [("web_0",), ("web_1",), ("web_2",)]


def test_stopping_a_rollout_cancels_its_waiting_events() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    (event,) = stage.shown("web_0")

    stage.stop_walk("web")
    stage.advance("1h")

    assert stage.story(event.id) == ["scheduled", "cancelled"]
    assert route(stage) == [("web_0",)]


def test_stopping_a_rollout_lets_started_events_finish() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    (event,) = stage.shown("web_0")
    stage.approve(event.id, by="web_0")

    stage.stop_walk("web")

    assert stage.status(event.id) is EventStatus.STARTED

    stage.advance("1h")

    assert stage.story(event.id) == ["scheduled", "approved", "started", "finished"]
    assert route(stage) == [("web_0",)]


def test_a_rollout_cancelled_in_one_domain_continues_with_the_next() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    (event,) = stage.shown("web_0")

    stage.cancel(event.id)

    assert resources(stage, "web") == [("web_1",)]


def test_a_rollout_has_the_requested_notice() -> None:
    stage = FleetHarness(SMALL)

    stage.walk("web", notice="1m")

    (event,) = stage.shown("web_0")
    assert event.not_before == stage.now.replace(minute=1)


def test_a_scope_has_one_rollout_at_a_time() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")

    with pytest.raises(RolloutUnderWayError, match="scope web already has a rollout in progress"):
        stage.walk("web")


def test_a_scope_without_a_rollout_has_none_to_stop() -> None:
    with pytest.raises(UnknownRolloutError, match="scope web has no rollout in progress"):
        FleetHarness(SMALL).stop_walk("web")


@pytest.mark.parametrize("cause", ["restart", "delete", "evict", "rebalance", "hardware-failure", "explode"])
def test_only_maintenance_can_be_rolled_out(cause: str) -> None:
    stage = FleetHarness(replace(SMALL, spot=True))

    with pytest.raises(InvalidError, match="cause: "):
        stage.walk("web", cause)

    assert stage.scope("web").facts.walk is None


def test_an_empty_scope_has_no_rollout() -> None:
    with pytest.raises(InvalidError, match="scope: web has no machines"):
        FleetHarness(replace(SMALL, count=0)).walk("web")


def test_each_event_of_a_rollout_has_its_own_id() -> None:
    stage = FleetHarness(WEB)
    stage.walk("web")

    stage.advance("2h")

    ids: list[EventId | None] = [line.event for line in stage.history() if line.kind == "scheduled"]
    assert len(set(ids)) == len(ids) == 5
