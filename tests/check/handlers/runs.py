"""Runs scenarios with different handlers at the same time; they mostly wait."""

import asyncio
import os
from collections.abc import Sequence

from fairwarning.check.judge import ExpectationOutcome
from fairwarning.check.lateness import LatenessWatch
from fairwarning.check.report import ScenarioResult
from fairwarning.check.run import play
from fairwarning.check.run_scenario import CheckRequest
from fairwarning.check.scenario import Timing, load
from tests.check.sandboxed import skip_without_sandbox

Run = tuple[str, tuple[str, ...]]


def run_all(runs: Sequence[Run], jobs: int) -> dict[Run, ScenarioResult]:
    """Return the result of each scenario with its handler."""
    return dict(zip(runs, asyncio.run(_all(runs, jobs)), strict=True))


async def _all(runs: Sequence[Run], jobs: int) -> list[ScenarioResult]:
    slots = asyncio.Semaphore(jobs)

    async def run_one(scenario: str, command: tuple[str, ...]) -> ScenarioResult:
        async with slots:
            request = CheckRequest(command, os.environ, Timing(quick=True))
            # A watch that does not run finds no lateness, so every run is judged.
            return await play(load(scenario), request, LatenessWatch())

    return await asyncio.gather(*(run_one(*run) for run in runs))


def broken(result: ScenarioResult) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return what a handler did wrong, by expectation and rule; skip where there is no sandbox."""
    skip_without_sandbox(result.problem or "")
    assert result.problem is None, result.problem
    violations = [verdict for verdict in result.verdicts if verdict.outcome is ExpectationOutcome.BROKEN]
    return {(verdict.expect, verdict.rule): verdict.sentences for verdict in violations}
