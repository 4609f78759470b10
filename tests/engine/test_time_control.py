"""Moving a manual clock gives the same history as waiting."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.model import EventId
from fairwarning.drivers.simulated import Mishap
from tests.fleet_harness import NOON, FleetHarness, span

WEB = Blueprint(name="web", count=4, terminate_notice=span("5m"))


def busy() -> FleetHarness:
    """Return a fleet with many pending events."""
    stage = FleetHarness(WEB, replace(WEB, name="db", zones=("1", "2")))
    stage.break_machine("web_0", Mishap.FAILS, attempts=2)
    stage.cause("restart", "web_0")
    stage.cause("cancelled-maintenance", "web_1")
    stage.cause("delete", "db_0", "db_1")
    stage.walk("web", notice="2m")
    return stage


def dated_lines(stage: FleetHarness) -> list[tuple[datetime, str]]:
    return [(entry.at, repr(entry.change)) for entry in stage.journal()]


@pytest.mark.rule("L-02")
def test_skipping_an_hour_gives_the_same_history_as_waiting_one() -> None:
    waited, skipped = busy(), busy()

    for _ in range(3600):
        waited.advance("1s")
    skipped.advance("1h")

    assert dated_lines(waited) == dated_lines(skipped)
    assert waited.now == skipped.now


@settings(max_examples=10)
@given(st.lists(st.integers(1, 900), max_size=12))
def test_the_number_of_steps_does_not_matter(steps: list[int]) -> None:
    check_steps(steps)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.integers(1, 900), max_size=12))
def test_in_many_histories_the_number_of_steps_does_not_matter(steps: list[int]) -> None:
    check_steps(steps)


def check_steps(steps: list[int]) -> None:
    """Check that these steps leave the same journal as a single one."""
    many, single = busy(), busy()

    for seconds in steps:
        many.advance(f"{seconds}s")
    single.wait_until(many.now)

    assert dated_lines(many) == dated_lines(single)


def test_every_line_is_dated_at_its_deadline_and_not_at_the_end_of_the_move() -> None:
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


@pytest.mark.rule("L-02")
def test_what_upkeep_starts_at_a_deadline_ends_at_its_own_instant() -> None:
    stage = FleetHarness(WEB)
    stage.cause("freeze", "web_0", notice="1m")
    restarts: list[EventId] = []

    async def restart_another() -> None:
        if stage.now == NOON + span("1m") and not restarts:
            restarts.append(stage.new_id())
            machines = (stage.ref("web_1"),)
            await stage.engine.handle(
                Schedule(id=restarts[0], cause="restart", machines=machines, notice=span("0s"))
            )

    stage.engine.upkeep.append(restart_another)
    stage.advance("1h")

    assert stage.history(restarts[0])[-1].at == NOON + span("1m") + span("5s")
