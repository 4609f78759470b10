"""After any history, a database is sound, and its backup restores the same fleet."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from fairwarning.core.model import Scope
from fairwarning.core.stored.kinds import SESSIONS_ENDED
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.operations import back_up, check_database, restore
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.ports import FleetSnapshot, Store
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.store.test_pruned_histories import SLICES, ForgetfulSqlite
from tests.store.test_replay import HISTORIES, Player, Step, in_order

JUMP = 1234


async def snapshot(directory: Path) -> FleetSnapshot:
    store = await SqliteStore.open(directory)
    try:
        return await store.snapshot()
    finally:
        await store.close()


def play(history: Sequence[Step], open_store: Callable[[], Awaitable[Store]], name: str = "") -> None:
    asyncio.run(Player(open_store, name).play(history))


def own_texts(snapshot: FleetSnapshot) -> dict[str, str]:
    """Return the texts that a restore does not write itself."""
    return {key: text for key, text in snapshot.texts.items() if key != SESSIONS_ENDED.key()}


def moved(scope: Scope) -> Scope:
    return replace(scope, incarnation=scope.incarnation + JUMP)


def check_round_trip(old: Path, new: Path) -> None:
    """Back a directory up, restore it and compare."""
    source, target, file = DataDirectory(old), DataDirectory(new), old / "backup"
    assert check_database(source).findings.kept == []

    back_up(source, file, clock=ManualClock(NOON))
    restore(target, file, jump=JUMP, clock=ManualClock(NOON), hold=False)

    assert check_database(target).findings.kept == []
    before, after = asyncio.run(snapshot(old)), asyncio.run(snapshot(new))
    moved = {
        one: replace(scope, incarnation=scope.incarnation + JUMP) for one, scope in before.scopes.items()
    }
    assert in_order(after.scopes) == in_order(moved)
    assert (own_texts(after), after.polled) == (own_texts(before), before.polled)
    assert after.position == before.position + 2
    incarnations = {set_id: name.incarnation + JUMP for set_id, name in before.sets.items()}
    assert {set_id: name.incarnation for set_id, name in after.sets.items()} == {**incarnations, "": JUMP}


@settings(max_examples=6)
@given(HISTORIES)
def test_the_backup_of_any_history_restores_the_same_fleet(history: Sequence[Step]) -> None:
    check_history(history)


@pytest.mark.slow
@settings(max_examples=200)
@given(HISTORIES)
def test_the_backups_of_many_histories_restore_the_same_fleets(history: Sequence[Step]) -> None:
    check_history(history)


def check_history(history: Sequence[Step]) -> None:
    with TemporaryDirectory() as directory:
        old, new = Path(directory, "old"), Path(directory, "new")
        play(history, lambda: SqliteStore.open(old))

        check_round_trip(old, new)


@settings(max_examples=5)
@given(HISTORIES, SLICES)
def test_so_does_the_backup_of_a_pruned_history(history: Sequence[Step], most: int) -> None:
    with TemporaryDirectory() as directory:
        old, new = Path(directory, "old"), Path(directory, "new")

        async def opened() -> Store:
            store = await ForgetfulSqlite.open(old)
            assert isinstance(store, ForgetfulSqlite)
            store.most = most
            return store

        play(history, opened)

        check_round_trip(old, new)


@settings(max_examples=3)
@given(HISTORIES, HISTORIES)
def test_a_restored_fleet_goes_on_like_any_other(history: Sequence[Step], more: Sequence[Step]) -> None:
    with TemporaryDirectory() as directory:
        old, new, newest = Path(directory, "old"), Path(directory, "new"), Path(directory, "newest")
        play(history, lambda: SqliteStore.open(old))
        back_up(DataDirectory(old), old / "backup", clock=ManualClock(NOON))
        restore(DataDirectory(new), old / "backup", jump=JUMP, clock=ManualClock(NOON), hold=False)
        play(more, lambda: SqliteStore.open(new), "more ")

        assert check_database(DataDirectory(new)).findings.kept == []
        back_up(DataDirectory(new), new / "backup", clock=ManualClock(NOON))
        restore(DataDirectory(newest), new / "backup", jump=JUMP, clock=ManualClock(NOON), hold=False)
        assert check_database(DataDirectory(newest)).findings.kept == []
