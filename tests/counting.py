"""Fails a session in which fewer tests ran than were collected.

pytest-xdist distributes tests by node id: of several tests with one id, it silently runs only one.
"""

from collections.abc import Sequence

import pytest
from _pytest.terminal import TerminalReporter


class Counting:
    """Counts the collected and the reported tests of a session."""

    def __init__(self) -> None:
        self.collected = 0
        self.ran = 0
        self.lost = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.collected = len(ids)  # every worker collects the same tests

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "setup"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        stopped = session.shouldstop or session.shouldfail or session.config.option.collectonly
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not stopped:
            self.lost = self.ran != self.collected
        if self.lost:
            # Not TESTS_FAILED: a failed test that passes when it is tried again must not hide this.
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self.lost:
            terminalreporter.write_line(f"{self.collected} tests were collected, {self.ran} ran", red=True)
