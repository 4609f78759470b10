"""Health: a failed commit is reported until something can be stored again, and asking costs little."""

import asyncio
from collections.abc import Sequence

import pytest

from fairwarning.core.commands import Poll
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.engine.decider import STUCK_AFTER
from fairwarning.engine.engine import CHECK_EVERY, Engine
from fairwarning.engine.membership import NotReadyReason
from fairwarning.engine.ports import Batch, Entry
from tests.engine.disk import WEB, Disk, broken
from tests.fleet_harness import FleetHarness, run
from tests.virtual_time import run_leaping


def reasons(engine: Engine) -> list[NotReadyReason]:
    return [problem.reason for problem in engine.problems() if problem.reason is not NotReadyReason.STARTING]


def test_an_engine_that_keeps_changes_is_healthy_without_trying() -> None:
    disk = Disk()
    stage = FleetHarness(WEB, store=disk)
    before = disk.tried

    run(stage.engine.check_health())

    assert (stage.engine.trouble, reasons(stage.engine), disk.tried) == ("", [], before)


def test_an_engine_that_cannot_store_changes_says_why_without_a_path() -> None:
    stage, _ = broken()

    run(stage.engine.check_health())

    assert stage.engine.trouble == "changes cannot be stored: disk full"
    assert reasons(stage.engine) == [NotReadyReason.STORAGE]


def test_an_unexpected_error_is_described_in_the_log_only() -> None:
    stage, _ = broken(OSError(28, "No space left on device", "/srv/secret"))

    assert stage.engine.trouble == "changes cannot be stored: the server's log says why"


def test_asking_finds_out_that_changes_can_be_kept_again() -> None:
    stage, disk = broken()
    disk.wrong = None

    run(stage.engine.check_health())

    assert stage.engine.trouble == ""
    assert stage.cause("restart", "web_0")


def test_however_many_ask_something_is_tried_once_a_second() -> None:
    async def story() -> int:
        for _ in range(50):
            await asyncio.gather(*(stage.engine.check_health() for _ in range(10)))
            await asyncio.sleep(0.1)
        return disk.tried

    stage, disk = broken()
    before = disk.tried

    assert run_leaping(story()) - before == 5


class Hanging(Disk):
    """A store that never answers."""

    hangs = False

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        if self.hangs:
            await asyncio.sleep(3600)
        return await super().commit(batch)


def test_no_caller_waits_for_a_store_that_does_not_answer() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await stage.engine.check_health()
        await stage.engine.check_health()
        took = loop.time() - begun
        await stage.engine.close()
        return took

    disk = Hanging()
    stage, _ = broken(store=disk)
    disk.hangs = True

    assert run_leaping(story()) <= 2 * CHECK_EVERY
    assert reasons(stage.engine) == [NotReadyReason.STORAGE]


def test_a_change_that_is_kept_ends_the_trouble() -> None:
    stage, disk = broken()
    disk.wrong = None

    stage.cause("restart", "web_0")

    assert stage.engine.trouble == ""


def test_a_refusal_is_no_trouble() -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(FairWarningError):
        stage.cancel("nothing")

    assert stage.engine.trouble == ""


def test_a_store_that_fails_for_a_while_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    stage, disk = broken()
    for _ in range(3):
        with pytest.raises(FairWarningError):
            stage.cause("restart", "web_0")
    disk.wrong = None
    stage.cause("restart", "web_0")

    lines = [record for record in caplog.records if str(record.msg).startswith("commit_failed")]

    assert len(lines) == 1


def test_a_node_is_stuck_if_its_store_has_not_answered_for_a_minute() -> None:
    async def story() -> tuple[bool, bool]:
        waiting = asyncio.create_task(
            stage.engine.handle(Poll(machine=MachineRef(ScopeId("web"), VmName("web_0"))))
        )
        await asyncio.sleep(STUCK_AFTER - 1)
        before = stage.engine.stuck
        await asyncio.sleep(2)
        waiting.cancel()
        return before, stage.engine.stuck

    disk = Hanging()
    stage = FleetHarness(WEB, store=disk, watched=False)
    disk.hangs = True

    assert run_leaping(story()) == (False, True)
