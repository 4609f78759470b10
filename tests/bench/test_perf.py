"""Costs that hold on any machine: CPU ratios of one run, within twice the promised limits."""

import asyncio
import gc
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from bench import growth, pending, poll, report, scale, store
from bench.goals import GOALS
from bench.report import Section
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Cancel, CreateSet, Schedule
from fairwarning.core.model import ScopeId, ScopeKind
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore
from tests.fleet_harness import NOON

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]


def weak(section: Section, *goals: str) -> list[str]:
    """Return the goals that are missed by more than a factor of two, with their medians."""
    found = {result.id: result.spread for result in report.judge([section])}
    values = {goal: spread.median for goal in goals if (spread := found[goal]) is not None}
    assert values.keys() == set(goals)
    return [f"{goal}: {value:.2f}" for goal, value in values.items() if not GOALS[goal].half_kept(value)]


@pytest.mark.needs("nginx")  # the reference for polls
def test_a_poll_costs_at_most_twice_what_is_promised() -> None:
    section = poll.suite(replace(poll.QUICK, rounds=3, fixed_rate=0.1))

    assert weak(section, "G1", "G2", "G3", "G4a", "G4b") == []


def test_approvals_that_share_a_transaction_cost_at_most_twice_what_is_promised(tmp_path: Path) -> None:
    section = store.suite(store.QUICK, tmp_path)

    assert weak(section, "G14c") == []


def test_a_larger_fleet_makes_nothing_cost_twice_what_is_promised() -> None:
    effort = replace(scale.QUICK, rounds=7, times=25)

    section = scale.compare_fleets(effort)

    least = (effort.large / effort.small) ** -GOALS["G11"].must / 2
    assert {
        claim.name: median(claim.values) for claim in section.claims if median(claim.values) < least
    } == {}


def test_more_events_make_nothing_cost_twice_what_is_promised() -> None:
    effort = pending.Effort(pending=(1_000, 5_000), in_scope=(10, 100), rounds=3)

    found = pending.measure(effort)

    for what, sizes in found.items():
        least, most = min(sizes), max(sizes)
        allowed = (most / least) ** GOALS[pending.GROWTHS[what][1]].must * 2
        assert median(sizes[most]) / median(sizes[least]) <= allowed, what


def test_more_machines_make_no_poll_cost_twice_what_is_promised(tmp_path: Path) -> None:
    effort = growth.Effort(sizes=(1_000, 10_000), rounds=3, seconds=0.2)

    costs = growth.measure(effort, tmp_path).costs["keep-alive"]

    assert median(costs[10_000]) / median(costs[1_000]) <= 10 ** GOALS["G11"].must * 2


def test_an_event_in_a_large_set_costs_about_as_much_as_in_a_small_one() -> None:
    async def measure() -> dict[int, list[float]]:
        engine = Engine(MemoryStore(), ManualClock(NOON), SimulatedDriver(), Policy(start_enabled=True))
        await engine.open()
        for size in (10, 1_000):
            await engine.handle(CreateSet(seed="", blueprint=Blueprint(name=f"of{size}", count=size)))
        costs: dict[int, list[float]] = {10: [], 1_000: []}
        for _ in range(50):
            for size, values in costs.items():
                scope_id, event_id = ScopeId(f"of{size}"), new_event_id()
                machines = (next(engine.scope(scope_id).refs()),)
                begun = time.process_time()
                await engine.handle(Schedule(id=event_id, cause="restart", machines=machines))
                await engine.handle(Cancel(scope=scope_id, id=event_id))
                values.append(time.process_time() - begun)
        return costs

    costs = asyncio.run(measure())

    assert median(costs[1_000]) / median(costs[10]) <= 1.4


def test_a_machine_that_stands_alone_takes_at_most_two_kilobytes(tmp_path: Path) -> None:
    machines = 2_000

    async def opened() -> Engine:
        store = await SqliteStore.open(tmp_path)
        engine = Engine(store, ManualClock(NOON), SimulatedDriver(), Policy(start_enabled=True))
        await engine.open()
        return engine

    async def close(engine: Engine) -> None:
        await engine.close()
        await engine.store.close()

    async def build() -> None:
        engine = await opened()
        blueprints = (Blueprint(name=f"vm{n}", kind=ScopeKind.STANDALONE) for n in range(machines))
        await asyncio.gather(*(engine.handle(CreateSet(seed="", blueprint=one)) for one in blueprints))
        await close(engine)

    async def measure() -> float:
        gc.collect()
        tracemalloc.start()
        engine = await opened()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await close(engine)
        return size / machines

    asyncio.run(build())

    assert asyncio.run(measure()) <= 2_048
