"""Health: a failed commit is reported until a commit succeeds."""

import pytest

from fairwarning.core.errors import FairWarningError, StorageError
from tests.engine.disk import WEB, Disk, broken
from tests.fleet_harness import FleetHarness, run


def test_an_engine_that_keeps_changes_is_healthy_without_trying() -> None:
    disk = Disk()
    stage = FleetHarness(WEB, store=disk)
    before = disk.tried

    run(stage.engine.check_health())

    assert (stage.engine.trouble, disk.tried) == ("", before)


def test_an_engine_that_cannot_store_changes_says_why_without_a_path() -> None:
    stage, _ = broken()

    with pytest.raises(StorageError) as refusal:
        run(stage.engine.check_health())

    assert stage.engine.trouble == str(refusal.value) == "changes cannot be stored: disk full"


def test_an_unexpected_error_is_described_in_the_log_only() -> None:
    stage, _ = broken(OSError(28, "No space left on device", "/srv/secret"))

    assert stage.engine.trouble == "changes cannot be stored: the server's log says why"


def test_asking_finds_out_that_changes_can_be_kept_again() -> None:
    stage, disk = broken()
    disk.wrong = None

    run(stage.engine.check_health())

    assert stage.engine.trouble == ""
    assert stage.cause("restart", "web_0")


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
