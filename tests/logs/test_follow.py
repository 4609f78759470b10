"""The log follows what the engine commits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, SetPower
from fairwarning.core.model import PowerState, ScopeKind
from fairwarning.logs import follow
from fairwarning.logs.follow import JournalLog
from tests.fleet_harness import FleetHarness, run

DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)


def create(name: str, count: int) -> CreateSet:
    return CreateSet(seed=name, blueprint=Blueprint(name=name, count=count))


def during(fleet: FleetHarness, story: Callable[[], Awaitable[object]]) -> None:
    """Log what the engine commits in a story."""

    async def logged() -> None:
        journal_log = JournalLog(fleet.engine)
        journal_log.start()
        await story()
        await journal_log.close()

    run(logged())


def test_what_is_committed_is_logged_with_the_instant_of_a_manual_clock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = FleetHarness(DB)
    stop = SetPower(machine=fleet.ref("db"), power=PowerState.STOPPED)

    with caplog.at_level(logging.INFO, "fairwarning"):
        during(fleet, lambda: fleet.engine.handle(stop))

    (message,) = caplog.messages
    assert message.startswith("power_changed power=stopped scope=db machines=1 machine=db by=operator ")
    assert message.endswith(" at=2026-11-16T12:00:00.000Z")


def test_requests_one_after_another_are_compared_each_with_the_state_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = FleetHarness(DB)
    db = fleet.ref("db")

    async def on_and_off() -> None:
        for power in (PowerState.STOPPED, PowerState.RUNNING, PowerState.STOPPED):
            await fleet.engine.handle(SetPower(machine=db, power=power))
            fleet.clock.set(fleet.now + timedelta(seconds=1))

    with caplog.at_level(logging.INFO, "fairwarning"):
        during(fleet, on_and_off)

    powers = [message.split()[1] for message in caplog.messages if message.startswith("power_changed")]
    assert powers == ["power=stopped", "power=running", "power=stopped"]


def test_what_is_committed_before_the_start_is_logged_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    fleet = FleetHarness()

    async def story() -> None:
        journal_log = JournalLog(fleet.engine)
        await fleet.engine.handle(create("web", 3))
        assert caplog.messages == []
        journal_log.start()
        await journal_log.close()

    with caplog.at_level(logging.INFO, "fairwarning"):
        run(story())

    (message,) = caplog.messages
    assert message.startswith("set_created set=web kind=scale-set scope=web machines=3 by=operator")


def test_a_server_that_does_not_start_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fleet = FleetHarness()

    async def story() -> None:
        journal_log = JournalLog(fleet.engine)
        await fleet.engine.handle(create("web", 3))
        await journal_log.close()

    with caplog.at_level(logging.INFO, "fairwarning"):
        run(story())

    assert caplog.messages == []


def test_above_the_level_info_nothing_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    fleet = FleetHarness()

    with caplog.at_level(logging.WARNING, "fairwarning"):
        during(fleet, lambda: fleet.engine.handle(create("web", 3)))

    assert caplog.messages == []


def test_lines_that_were_lost_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MOST_WAITING", 5)
    fleet = FleetHarness()

    async def story() -> None:
        await fleet.engine.handle(create("few", 1))
        while not caplog.messages:
            await asyncio.sleep(0)
        await fleet.engine.handle(create("many", 20))

    with caplog.at_level(logging.INFO, "fairwarning"):
        during(fleet, story)

    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    # The second set has 21 lines, and the queue has kept the last four.
    assert warning.getMessage() == "log_lines_lost journal_lines=17"


def test_an_engine_that_reads_its_state_again_has_lost_no_lines(caplog: pytest.LogCaptureFixture) -> None:
    fleet = FleetHarness()

    async def story() -> None:
        await fleet.engine.handle(create("web", 1))
        while not caplog.messages:
            await asyncio.sleep(0)
        fleet.engine.feed.start_over()
        await fleet.engine.handle(create("app", 1))

    with caplog.at_level(logging.INFO, "fairwarning"):
        during(fleet, story)

    assert [message.split()[0] for message in caplog.messages] == ["set_created", "set_created"]
