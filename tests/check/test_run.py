"""Scenarios are played one beside the other, and none spoils another's result."""

import asyncio
import os

from fairwarning.check.report import ScenarioResult
from fairwarning.check.run import check
from fairwarning.check.run_scenario import CheckRequest
from fairwarning.check.scenario import load
from fairwarning.check.timing import Timing


def test_a_play_that_breaks_off_is_a_result_like_any_other() -> None:
    ended: list[ScenarioResult] = []
    impossible = CheckRequest(("no\0program",), os.environ, Timing(quick=True))

    (result,) = asyncio.run(check([load("preempt")], impossible, 1, lambda _: None, ended.append))

    assert (result.word, result.problem) == ("not played", "the play broke off: embedded null byte")
    assert ended == [result]
