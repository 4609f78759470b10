"""Plays with different handlers, side by side; they mostly wait."""

import asyncio
import os
from collections.abc import Sequence

from fairwarning.check.judge import Outcome
from fairwarning.check.pace import Pace
from fairwarning.check.play import Run
from fairwarning.check.report import Result
from fairwarning.check.run import check
from fairwarning.check.scenario import load
from tests.check.sandboxed import skip_without_sandbox

Play = tuple[str, tuple[str, ...]]


def played(plays: Sequence[Play], jobs: int) -> dict[Play, Result]:
    """Return how each scenario went with its handler."""
    return dict(zip(plays, asyncio.run(_all(plays, jobs)), strict=True))


async def _all(plays: Sequence[Play], jobs: int) -> list[Result]:
    turns = asyncio.Semaphore(jobs)

    async def one(scenario: str, command: tuple[str, ...]) -> Result:
        async with turns:
            run = Run(command, os.environ, Pace(quick=True))
            (result,) = await check([load(scenario)], run, 1, lambda _: None, lambda _: None)
            return result

    return await asyncio.gather(*(one(*play) for play in plays))


def broken(result: Result) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return what a handler did wrong, by expectation and rule; skip where there is no sandbox."""
    skip_without_sandbox(result.problem or "")
    assert result.problem is None, result.problem
    wrong = (one for one in result.verdicts if one.outcome is Outcome.BROKEN)
    return {(one.expect, one.rule): one.sentences for one in wrong}
