"""Random histories of one, two and three deciders; ``python -m tests.deciders`` plays many more."""

import pytest

from tests.deciders.history import SETTINGS, play


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_several_deciders_do_what_one_would(name: str, seed: int) -> None:
    counts = play(seed, SETTINGS[name])

    assert counts["changed"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_several_deciders_do_what_one_would_for_long(name: str) -> None:
    for seed in range(1000, 1060):
        play(seed, SETTINGS[name])
