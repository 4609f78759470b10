"""Random histories of maintenance; ``python -m tests.maintenance 1000`` plays more."""

import pytest

from tests.maintenance.explore import explore

RULES = [f"M-{number:02}" for number in range(1, 16)]


@pytest.mark.rule(*RULES)
def test_no_history_breaks_a_rule_of_maintenance() -> None:
    met = explore(range(100))

    assert met["started"] > 500


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.rule(*RULES)
@pytest.mark.parametrize("first", range(1000, 6000, 500))
def test_no_long_history_breaks_a_rule_of_maintenance(first: int) -> None:
    met = explore(range(first, first + 500))

    assert met["started"] > 2500
