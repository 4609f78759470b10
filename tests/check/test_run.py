"""Scenarios are played one beside the other, and none spoils another's result."""

import asyncio
import os

from fairwarning.check.pace import Pace
from fairwarning.check.play import Run
from fairwarning.check.report import Result
from fairwarning.check.run import check
from fairwarning.check.scenario import load


def test_a_play_that_breaks_off_is_a_result_like_any_other() -> None:
    ended: list[Result] = []
    impossible = Run(("no\0program",), os.environ, Pace(quick=True))

    (result,) = asyncio.run(check([load("preempt")], impossible, 1, lambda _: None, ended.append))

    assert (result.word, result.problem) == ("not played", "the play broke off: embedded null byte")
    assert ended == [result]
