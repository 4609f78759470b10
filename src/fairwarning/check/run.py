"""Runs several scenarios at a time and reports each result.

A scenario that could not be judged, because this machine ran late, is repeated at the end, beside no other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from fairwarning.check.judge import ExpectationOutcome, judge
from fairwarning.check.lateness import LatenessWatch, now
from fairwarning.check.report import ScenarioResult
from fairwarning.check.run_scenario import CheckRequest, run_scenario
from fairwarning.check.scenario import Scenario
from fairwarning.check.server import CannotPlayError


class ScenarioReporter(Protocol):
    """Is told of every scenario as it begins and ends."""

    def begin(self, scenario: Scenario) -> None:
        """A scenario begins."""
        ...

    def end(self, result: ScenarioResult) -> None:
        """A scenario has its result."""
        ...

    def postpone(self, result: ScenarioResult) -> None:
        """A scenario could not be judged and begins again later."""
        ...


async def check(
    scenarios: Sequence[Scenario],
    play: Callable[[Scenario], Awaitable[ScenarioResult]],
    jobs: int,
    reporter: ScenarioReporter,
) -> list[ScenarioResult]:
    """Return the results of all scenarios, in their order; at most ``jobs`` run at a time."""
    slots = asyncio.Semaphore(jobs)

    async def try_scenario(scenario: Scenario) -> ScenarioResult:
        async with slots:
            reporter.begin(scenario)
            result = await play(scenario)
            (reporter.postpone if _is_open(result) else reporter.end)(result)
            return result

    async def repeat(scenario: Scenario) -> ScenarioResult:
        reporter.begin(scenario)
        result = replace(await play(scenario), repeated=True)
        reporter.end(result)
        return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(try_scenario(scenario)) for scenario in scenarios]
    results = [task.result() for task in tasks]
    return [await repeat(result.scenario) if _is_open(result) else result for result in results]


def _is_open(result: ScenarioResult) -> bool:
    return result.outcome is ExpectationOutcome.NOT_JUDGED


async def play(scenario: Scenario, request: CheckRequest, watch: LatenessWatch) -> ScenarioResult:
    """Run a scenario once, and judge it by how late this machine ran from the start of the handler on."""
    began, speed = now(), request.timing.speed_of(scenario)
    try:
        observed = await run_scenario(scenario, request)
    except CannotPlayError as problem:
        return ScenarioResult(scenario=scenario, speed=speed, took=now() - began, problem=str(problem))
    handlers_began = min((life.begun for life in observed.lives), default=observed.ended)
    lateness = watch.lateness(began + handlers_began, began + observed.ended)
    return ScenarioResult(
        scenario=scenario,
        speed=speed,
        took=now() - began,
        verdicts=judge(scenario, replace(observed, lateness=lateness), request.timing),
        output="".join(f"{text}\n" if text else "" for text in observed.output.values()).strip(),
        lateness=lateness,
    )
