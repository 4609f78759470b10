"""Maintenance walks through a scope a domain at a time (S-04, S-05)."""

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
    """Return who was announced a maintenance, in order."""
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
def test_a_walk_visits_every_machine_once_and_ends() -> None:
    stage = FleetHarness(WEB)
    stage.walk("web")

    stage.advance("2h")

    assert route(stage) == [("web_0", "web_5"), ("web_1", "web_6"), ("web_2",), ("web_3",), ("web_4",)]
    assert stage.scope("web").facts.walk is None


@pytest.mark.rule("S-05")
def test_an_approval_hurries_the_walk() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web", "host-reboot")

    for _ in range(3):
        (event,) = stage.shown("web_0")
        stage.approve(event.id, by="web_0")
        stage.advance("5s")

    assert stage.scope("web").facts.walk is None
    assert route(stage) == [("web_0",), ("web_1",), ("web_2",)]


@pytest.mark.rule("S-05")
def test_a_domain_whose_impact_fails_holds_the_walk() -> None:
    stage = FleetHarness(SMALL)
    stage.break_machine("web_0", Mishap.FAILS, attempts=1000)
    stage.walk("web")

    stage.advance("12h")

    assert route(stage) == [("web_0",)]


@pytest.mark.rule("S-04")
@pytest.mark.rule("S-05")
def test_a_flexible_set_is_walked_by_fault_domain() -> None:
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
def test_a_walk_goes_on_after_a_restart() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    stage.advance("16m")

    stage.restart()
    stage.advance("1h")

    assert route(stage) == [("web_0",), ("web_1",), ("web_2",)]


def test_stopping_a_walk_withdraws_what_it_has_announced() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    (event,) = stage.shown("web_0")

    stage.stop_walk("web")
    stage.advance("1h")

    assert stage.story(event.id) == ["scheduled", "cancelled"]
    assert route(stage) == [("web_0",)]


def test_stopping_a_walk_lets_what_has_started_finish() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    (event,) = stage.shown("web_0")
    stage.approve(event.id, by="web_0")

    stage.stop_walk("web")

    assert stage.status(event.id) is EventStatus.STARTED

    stage.advance("1h")

    assert stage.story(event.id) == ["scheduled", "approved", "started", "finished"]
    assert route(stage) == [("web_0",)]


def test_a_walk_withdrawn_in_one_domain_goes_on_with_the_next() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")
    (event,) = stage.shown("web_0")

    stage.cancel(event.id)

    assert resources(stage, "web") == [("web_1",)]


def test_a_walk_has_the_notice_it_was_asked_for() -> None:
    stage = FleetHarness(SMALL)

    stage.walk("web", notice="1m")

    (event,) = stage.shown("web_0")
    assert event.not_before == stage.now.replace(minute=1)


def test_a_scope_is_walked_by_one_maintenance_at_a_time() -> None:
    stage = FleetHarness(SMALL)
    stage.walk("web")

    with pytest.raises(RolloutUnderWayError, match="scope web is being walked already"):
        stage.walk("web")


def test_there_is_no_walk_to_stop() -> None:
    with pytest.raises(UnknownRolloutError, match="no walk is under way in scope web"):
        FleetHarness(SMALL).stop_walk("web")


@pytest.mark.parametrize("cause", ["restart", "delete", "evict", "rebalance", "hardware-failure", "explode"])
def test_only_maintenance_walks(cause: str) -> None:
    stage = FleetHarness(replace(SMALL, spot=True))

    with pytest.raises(InvalidError, match="cause: "):
        stage.walk("web", cause)

    assert stage.scope("web").facts.walk is None


def test_nothing_walks_through_an_empty_scope() -> None:
    with pytest.raises(InvalidError, match="scope: web has no machines"):
        FleetHarness(replace(SMALL, count=0)).walk("web")


def test_each_event_of_a_walk_has_an_id_of_its_own() -> None:
    stage = FleetHarness(WEB)
    stage.walk("web")

    stage.advance("2h")

    ids: list[EventId | None] = [line.event for line in stage.history() if line.kind == "scheduled"]
    assert len(set(ids)) == len(ids) == 5
