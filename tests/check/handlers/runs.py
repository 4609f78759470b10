"""Plays with different handlers, side by side; they mostly wait."""

import asyncio
import os
from collections.abc import Sequence

from fairwarning.check.judge import ExpectationOutcome
from fairwarning.check.report import ScenarioResult
from fairwarning.check.run import check
from fairwarning.check.run_scenario import CheckRequest
from fairwarning.check.scenario import load
from fairwarning.check.timing import Timing
from tests.check.sandboxed import skip_without_sandbox

Play = tuple[str, tuple[str, ...]]


def played(plays: Sequence[Play], jobs: int) -> dict[Play, ScenarioResult]:
    """Return how each scenario went with its handler."""
    return dict(zip(plays, asyncio.run(_all(plays, jobs)), strict=True))


async def _all(plays: Sequence[Play], jobs: int) -> list[ScenarioResult]:
    turns = asyncio.Semaphore(jobs)

    async def one(scenario: str, command: tuple[str, ...]) -> ScenarioResult:
        async with turns:
            run = CheckRequest(command, os.environ, Timing(quick=True))
            (result,) = await check([load(scenario)], run, 1, lambda _: None, lambda _: None)
            return result

    return await asyncio.gather(*(one(*play) for play in plays))


def broken(result: ScenarioResult) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return what a handler did wrong, by expectation and rule; skip where there is no sandbox."""
    skip_without_sandbox(result.problem or "")
    assert result.problem is None, result.problem
    wrong = (one for one in result.verdicts if one.outcome is ExpectationOutcome.BROKEN)
    return {(one.expect, one.rule): one.sentences for one in wrong}
