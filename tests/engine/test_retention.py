"""Retention: the history is limited by age and size, and needed lines stay."""

import logging
from datetime import timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import EventId, ScopeKind
from fairwarning.core.policy import Retention
from fairwarning.engine.ports import Entry
from fairwarning.engine.retention import Pruner, first_complete_line
from fairwarning.store.memory import LINE_SIZE
from tests.fleet_harness import FleetHarness, run

WEB = Blueprint(name="web", count=3)
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
DAY = timedelta(days=1)


def pruner(
    stage: FleetHarness, *needed: EventId, age: timedelta | None = None, size: int | None = None
) -> Pruner:
    async def asked() -> set[EventId]:
        return set(needed)

    return Pruner(stage.store, stage.engine.leases, stage.clock.now, Retention(age=age, size=size), asked)


def count(stage: FleetHarness) -> int:
    return len(run(stage.store.journal(limit=100_000)))


def newest(stage: FleetHarness) -> list[Entry]:
    return list(run(stage.store.journal(limit=1, newest_first=True)))


def test_age_goes_by_the_clock_of_the_fleet() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("20m")
    before = count(stage)
    forget = pruner(stage, age=DAY)

    run(forget.prune())
    unchanged = count(stage)
    stage.advance("25h")
    run(forget.prune(most=2))

    assert unchanged == before
    assert count(stage) == 1
    assert [run(first_complete_line(stage.store))] == newest(stage)


def test_an_unfinished_event_keeps_its_story_however_old_it_is() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0", notice="40d")
    before = run(stage.store.journal(event=event))
    stage.advance("35d")

    run(pruner(stage, age=DAY).prune())

    assert run(stage.store.journal(event=event)) == before
    assert run(stage.store.pruned()) > 0


def test_too_much_history_goes_oldest_first_but_never_all_of_it() -> None:
    stage = FleetHarness(Blueprint(name="web", count=100))

    run(pruner(stage, size=50 * LINE_SIZE).prune(most=10, spare=5))
    left = count(stage)
    run(pruner(stage, size=0).prune(most=10, spare=5))

    assert 40 <= left <= 50
    assert count(stage) == 5


def test_lines_of_needed_events_stay() -> None:
    stage = FleetHarness(DB)
    (event,) = stage.cause("restart", "db")
    stage.advance("20m")
    stage.cause("redeploy", "db")
    stage.advance("2d")
    before = run(stage.store.journal(event=event))

    run(pruner(stage, event, age=timedelta(0)).prune())

    assert run(stage.store.journal(event=event)) == before


def test_what_was_pruned_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    stage = FleetHarness(WEB)
    stage.advance("2d")

    with caplog.at_level(logging.INFO, "fairwarning.engine"):
        run(pruner(stage, age=DAY).prune())
        run(pruner(stage, age=DAY).prune())

    (said,) = caplog.messages
    assert said.startswith("journal_pruned lines=")


def test_a_fleet_whose_history_was_pruned_decides_as_if_it_were_whole() -> None:
    whole, pruned = FleetHarness(WEB), FleetHarness(WEB)
    for stage in (whole, pruned):
        stage.cause("restart", "web_0")
        if stage is pruned:
            run(pruner(stage, age=timedelta(0)).prune())
        stage.advance("20m")
        stage.cause("redeploy", "web_1")

    assert whole.engine.scopes() == pruned.engine.scopes()
    assert [line.change for line in newest(whole)] == [line.change for line in newest(pruned)]
