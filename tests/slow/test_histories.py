"""Twenty thousand steps of random histories; ``python -m tests.histories --steps N`` takes more."""

import pytest

from tests.histories.explore import explore

pytestmark = pytest.mark.slow

SEED = 12


@pytest.mark.timeout(900)
@pytest.mark.rule("L-01", "L-02", "L-04", "L-11", "L-13", "L-18", "T-13", "T-14", "T-16", "T-24")
def test_no_history_of_twenty_thousand_steps_breaks_a_promise() -> None:
    tally = explore(SEED, 20_000)

    assert tally.met["two impacts of one machine in one commit"] > 100
    assert tally.met["machine removed"] > 100
    assert tally.met["Preempt finished"] > 10
