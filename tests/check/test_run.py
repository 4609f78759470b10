"""A scenario that cannot be run has a result, too."""

import asyncio
import os

from fairwarning.check.lateness import LatenessWatch
from fairwarning.check.run import play
from fairwarning.check.run_scenario import CheckRequest
from fairwarning.check.scenario import Timing, load


def test_a_scenario_that_is_aborted_has_a_result() -> None:
    impossible = CheckRequest(("no\0program",), os.environ, Timing(quick=True))

    result = asyncio.run(play(load("preempt"), impossible, LatenessWatch()))

    assert (result.word, result.problem) == ("not played", "the scenario was aborted: embedded null byte")
