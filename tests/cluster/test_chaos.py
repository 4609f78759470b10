"""Three nodes on one database lose nothing when they are killed, frozen, cut off, or have a wrong clock."""

import asyncio
import sys
from pathlib import Path

import pytest

from fairwarning.engine.clock import new_request_id
from tests.cluster.answers import Outcome
from tests.cluster.run import KINDS, Report, run

pytestmark = pytest.mark.needs("gcc", "/usr/include/stdio.h")


def chaos(folder: Path, seconds: float) -> Report:
    """Run a cluster under failures and print what happened; a failed test shows the seed."""
    report = asyncio.run(run(folder, seconds, new_request_id()))
    sys.stdout.write(f"{report}\n")
    return report


def assert_busy(report: Report, *kinds: str) -> None:
    """The run tested something: there was something to lose, and several kinds of failures."""
    assert set(kinds) <= {write.kind for write in report.answers.writes if write.outcome is Outcome.DONE}
    assert len(report.failures) >= KINDS


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rule("R-12", "L-02")
def test_ten_seconds_of_failures_break_no_promise(tmp_path: Path) -> None:
    report = chaos(tmp_path, 10.0)

    assert report.violations == []
    assert_busy(report, "approve", "cause", "tag")


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_ten_minutes_of_failures_break_no_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        report = chaos(tmp_path, 600.0)

    assert report.violations == []
    assert_busy(report, "approve", "cancel", "cause", "restart", "rollout", "tag")
