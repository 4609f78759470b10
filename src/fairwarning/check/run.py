"""Runs several scenarios at a time and reports each result."""

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
    request: CheckRequest,
    jobs: int,
    on_start: Callable[[Scenario], None],
    on_result: Callable[[ScenarioResult], None],
) -> list[ScenarioResult]:
    """Return the results of all scenarios, in their order; at most ``jobs`` run at a time."""
    slots = asyncio.Semaphore(jobs)

    async def check_scenario(scenario: Scenario) -> ScenarioResult:
        async with slots:
            on_start(scenario)
            result = await _result(scenario, request)
            on_result(result)
            return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(check_scenario(scenario)) for scenario in scenarios]
    return [task.result() for task in tasks]


async def _result(scenario: Scenario, request: CheckRequest) -> ScenarioResult:
    loop, speed = asyncio.get_running_loop(), request.timing.speed_of(scenario)
    began = loop.time()
    try:
        observed = await run_scenario(scenario, request)
    except CannotPlayError as problem:
        took = timedelta(seconds=loop.time() - began)
        return ScenarioResult(scenario=scenario, speed=speed, took=took, problem=str(problem))
    return ScenarioResult(
        scenario=scenario,
        speed=speed,
        took=timedelta(seconds=loop.time() - began),
        verdicts=judge(scenario, observed, request.timing),
        output="".join(f"{text}\n" if text else "" for text in observed.output.values()).strip(),
    )
