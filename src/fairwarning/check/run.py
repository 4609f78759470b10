"""Plays scenarios side by side and hands on each result as it comes."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from fairwarning.check.judge import judge
from fairwarning.check.report import ScenarioResult
from fairwarning.check.run_scenario import CheckRequest, run_scenario
from fairwarning.check.scenario import Scenario
from fairwarning.check.server import CannotPlayError


async def check(
    scenarios: Sequence[Scenario],
    run: CheckRequest,
    jobs: int,
    begun: Callable[[Scenario], None],
    ended: Callable[[ScenarioResult], None],
) -> list[ScenarioResult]:
    """Return how all scenarios went, in their order; at most ``jobs`` are played at a time."""
    turns = asyncio.Semaphore(jobs)

    async def one(scenario: Scenario) -> ScenarioResult:
        async with turns:
            begun(scenario)
            result = await _result(scenario, run)
            ended(result)
            return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(scenario)) for scenario in scenarios]
    return [task.result() for task in tasks]


async def _result(scenario: Scenario, run: CheckRequest) -> ScenarioResult:
    loop, speed = asyncio.get_running_loop(), run.pace.speed_of(scenario)
    zero = loop.time()
    try:
        observed = await run_scenario(scenario, run)
    except CannotPlayError as problem:
        took = timedelta(seconds=loop.time() - zero)
        return ScenarioResult(scenario=scenario, speed=speed, took=took, problem=str(problem))
    return ScenarioResult(
        scenario=scenario,
        speed=speed,
        took=timedelta(seconds=loop.time() - zero),
        verdicts=judge(scenario, observed, run.pace),
        output="".join(f"{text}\n" if text else "" for text in observed.output.values()).strip(),
    )
