"""A damaged database is refused, or returns exactly what was stored: never anything else."""

import asyncio
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from fairwarning.core.errors import FairWarningError
from fairwarning.store.errors import DatabaseDamagedError
from fairwarning.store.examine import examine
from fairwarning.store.migrate import ChangedMigrationError
from fairwarning.store.sqlite import DATABASE
from tests.store.damage import (
    WAL,
    Damage,
    Sample,
    closed,
    flips,
    header_flips,
    killed,
    overwritten,
    read,
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return closed(tmp_path_factory.mktemp("closed"))


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return killed(tmp_path_factory.mktemp("killed"))


def served_wrongly(sample: Sample, damages: Iterable[Damage], scratch: Path) -> list[str]:
    """Return the damages after which a store returns wrong data, or fails with the wrong error."""
    wrong = []
    for damage in damages:
        directory = sample.copy(scratch / "copy")
        damage.do(directory)
        try:
            found = asyncio.run(read(directory))
            if found != sample.state:
                wrong.append(f"{damage.name}: a state that was never kept")
        except (DatabaseDamagedError, ChangedMigrationError):
            pass
        except Exception as problem:  # any other error breaks the contract
            wrong.append(f"{damage.name}: {problem!r}")
        shutil.rmtree(directory)
    return wrong


def test_what_is_whole_is_read_whole(stopped: Sample, left: Sample, tmp_path: Path) -> None:
    assert asyncio.run(read(stopped.copy(tmp_path / "stopped"))) == stopped.state
    assert asyncio.run(read(left.copy(tmp_path / "left"))) == left.state


def test_a_flipped_bit_in_the_database_is_never_served(stopped: Sample, tmp_path: Path) -> None:
    assert served_wrongly(stopped, flips(stopped, DATABASE, 60, seed=1), tmp_path) == []


def test_a_flipped_bit_in_the_log_is_never_served(left: Sample, tmp_path: Path) -> None:
    assert served_wrongly(left, flips(left, WAL, 40, seed=2), tmp_path) == []


def test_zeroed_pages_and_noise_are_never_served(stopped: Sample, tmp_path: Path) -> None:
    assert served_wrongly(stopped, overwritten(stopped, DATABASE, 12, seed=3), tmp_path) == []


def test_what_is_not_served_is_found_by_looking_at_all_of_it(stopped: Sample, tmp_path: Path) -> None:
    overlooked = []
    for damage in flips(stopped, DATABASE, 60, seed=8):
        looked_at, opened = stopped.copy(tmp_path / "looked at"), stopped.copy(tmp_path / "opened")
        damage.do(looked_at)
        damage.do(opened)
        if examine(looked_at).problem is None:
            try:
                asyncio.run(read(opened))
            except FairWarningError as problem:
                overlooked.append(f"{damage.name}: {problem}")
        shutil.rmtree(looked_at)
        shutil.rmtree(opened)

    assert overlooked == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_bit_of_the_header_and_no_flip_anywhere_is_served(
    stopped: Sample, left: Sample, tmp_path: Path
) -> None:
    damages = [*header_flips(stopped, DATABASE, 110), *flips(stopped, DATABASE, 1500, seed=4)]
    damages += overwritten(stopped, DATABASE, 60, seed=3)
    assert served_wrongly(stopped, damages, tmp_path) == []
    damages = [*header_flips(left, WAL, 64), *flips(left, WAL, 800, seed=5)]
    assert served_wrongly(left, damages, tmp_path) == []
    damages = [*flips(left, DATABASE, 200, seed=6), *overwritten(left, WAL, 200, seed=7)]
    assert served_wrongly(left, damages, tmp_path) == []


def cut_the_database(directory: Path) -> None:
    (directory / DATABASE).write_bytes((directory / DATABASE).read_bytes()[:-4096])


def empty_the_database(directory: Path) -> None:
    (directory / DATABASE).write_bytes(b"")


def remove_the_database(directory: Path) -> None:
    (directory / DATABASE).unlink()


def remove_the_log(directory: Path) -> None:
    (directory / WAL).unlink()


def cut_the_log(directory: Path) -> None:
    (directory / WAL).write_bytes((directory / WAL).read_bytes()[:-1])


def remove_all_but_the_marker(directory: Path) -> None:
    for path in directory.glob(f"{DATABASE}*"):
        path.unlink()


def swap_another_in(directory: Path) -> None:
    closed(directory / "other")
    remove_all_but_the_marker(directory)
    (directory / "other" / DATABASE).rename(directory / DATABASE)


LOSSES = [
    pytest.param(cut_the_database, id="the end of the database"),
    pytest.param(empty_the_database, id="what was in the database"),
    pytest.param(remove_the_database, id="the database"),
    pytest.param(remove_the_log, id="the log"),
    pytest.param(cut_the_log, id="the last byte of the log"),
    pytest.param(remove_all_but_the_marker, id="the database and its log"),
    pytest.param(swap_another_in, id="the database, which is another now"),
]


@pytest.mark.parametrize("lose", LOSSES)
def test_what_was_lost_is_missed(left: Sample, tmp_path: Path, lose: Callable[[Path], None]) -> None:
    directory = left.copy(tmp_path / "copy")
    lose(directory)

    with pytest.raises(DatabaseDamagedError) as refusal:
        asyncio.run(read(directory))

    assert str(directory / DATABASE) in str(refusal.value)
