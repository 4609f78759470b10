"""Scenarios run at the same time, and each has a result of its own."""

import asyncio
import os

from fairwarning.check.report import ScenarioResult
from fairwarning.check.run import check
from fairwarning.check.run_scenario import CheckRequest
from fairwarning.check.scenario import Timing, load


def test_a_scenario_that_is_aborted_has_a_result() -> None:
    ended: list[ScenarioResult] = []
    impossible = CheckRequest(("no\0program",), os.environ, Timing(quick=True))

    (result,) = asyncio.run(check([load("preempt")], impossible, 1, lambda _: None, ended.append))

    assert (result.word, result.problem) == ("not played", "the scenario was aborted: embedded null byte")
    assert ended == [result]
