"""Random histories of one, two and three deciders; ``python -m tests.deciders`` plays many more."""

from pathlib import Path

import pytest

from tests.deciders.history import SETTINGS, play


@pytest.mark.parametrize("name", SETTINGS)
def test_several_deciders_do_what_one_would(name: str, tmp_path: Path) -> None:
    counts = play(0, SETTINGS[name], "memory", tmp_path)

    assert counts["changed"] > 20


@pytest.mark.parametrize("name", ["three nodes", "with pauses"])
def test_several_deciders_on_sqlite_do_what_one_would(name: str, tmp_path: Path) -> None:
    counts = play(0, SETTINGS[name], "sqlite", tmp_path)

    assert counts["changed"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("store", "seeds"), [("memory", 25), ("sqlite", 3)])
def test_several_deciders_do_what_one_would_for_long(
    name: str, store: str, seeds: int, tmp_path: Path
) -> None:
    for seed in range(1000, 1000 + seeds):
        directory = tmp_path / str(seed)
        directory.mkdir()
        play(seed, SETTINGS[name], store, directory)
