"""Moving through time gives the history that waiting would have given."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.blueprint import Blueprint
from fairwarning.drivers.simulated import Mishap
from tests.fleet_harness import NOON, FleetHarness, span

WEB = Blueprint(name="web", count=4, terminate_notice=span("5m"))


def busy() -> FleetHarness:
    """Return a fleet to which all sorts of things are about to happen."""
    stage = FleetHarness(WEB, replace(WEB, name="db", zones=("1", "2")))
    stage.break_machine("web_0", Mishap.FAILS, attempts=2)
    stage.cause("restart", "web_0")
    stage.cause("cancelled-maintenance", "web_1")
    stage.cause("delete", "db_0", "db_1")
    stage.walk("web", notice="2m")
    return stage


def told(stage: FleetHarness) -> list[tuple[datetime, str]]:
    return [(entry.at, repr(entry.change)) for entry in stage.journal()]


@pytest.mark.rule("L-02")
def test_skipping_an_hour_gives_the_same_history_as_waiting_one() -> None:
    waited, skipped = busy(), busy()

    for _ in range(3600):
        waited.advance("1s")
    skipped.advance("1h")

    assert told(waited) == told(skipped)
    assert waited.now == skipped.now


@settings(max_examples=25)
@given(st.lists(st.integers(1, 900), max_size=12))
def test_it_does_not_matter_in_how_many_steps_one_travels(steps: list[int]) -> None:
    many, one = busy(), busy()

    for seconds in steps:
        many.advance(f"{seconds}s")
    one.wait_until(many.now)

    assert told(many) == told(one)


def test_every_line_is_dated_at_its_deadline_and_not_at_the_end_of_the_journey() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.advance("3h")

    assert [line.at for line in stage.history(event)] == [
        NOON,
        NOON + span("15m"),
        NOON + span("15m5s"),
    ]


def test_time_never_goes_back() -> None:
    stage = FleetHarness(WEB)
    stage.advance("1h")

    stage.wait_until(NOON)

    assert stage.now == NOON + span("1h")


def test_a_server_that_was_away_takes_up_what_became_due_meanwhile() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")

    stage.clock.set(NOON + span("2h"))
    stage.restart()

    assert stage.event(event).started_at == NOON + span("2h")

    stage.advance("5s")

    assert stage.story(event) == ["scheduled", "started", "finished"]
