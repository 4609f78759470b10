"""Costs that hold on any machine: CPU ratios of one run, within twice the promised limits."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from bench import growth, pending, poll, report, scale, store
from bench.goals import GOALS
from bench.report import Section

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
