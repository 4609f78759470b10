"""The properties of the store on disk, beyond the contract of all stores."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, get_args

import pytest

from fairwarning import __version__
from fairwarning.core.changes import EventChanged, EventMilestone, PollsRecorded, ScopeRemoved, TextChanged
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import Scope, ScopeId
from fairwarning.engine.ports import Entry, FleetSnapshot, Line
from fairwarning.store.errors import (
    DatabaseDamagedError,
    DataDirectoryInUseError,
    DataDirectoryUnusableError,
    StoreFailedError,
)
from fairwarning.store.examine import examine
from fairwarning.store.marker import MARKER
from fairwarning.store.migrate import (
    ChangedMigrationError,
    Migration,
    NewerDatabaseError,
    migrate,
    migrations,
)
from fairwarning.store.rows import COLUMNS, KIND_OF, KINDS, row_checksum
from fairwarning.store.sqlite import DATABASE, LINES, SqliteStore
from fairwarning.store.writing import STAMP
from tests.conftest import NOON
from tests.store.stores import Node, WaitingStamps, event, made

T = TypeVar("T")
WEB = ScopeId("web")


def kept(number: int) -> EventChanged:
    return EventChanged(
        scope=WEB, event=event("web", number, "a"), what=EventMilestone.SCHEDULED, by="operator"
    )


def with_store(directory: Path, story: Callable[[SqliteStore], Coroutine[None, None, T]]) -> T:
    async def scene() -> T:
        store = await SqliteStore.open(directory)
        try:
            return await story(store)
        finally:
            await store.close()

    return asyncio.run(scene())


FIRST_LINES: tuple[Line, ...] = (*made("web", "b", "a"), kept(2), kept(1))


async def filled(store: SqliteStore) -> Node:
    node = Node()
    await store.commit(node.decide(FIRST_LINES))
    await store.put_value("clock", "noon")
    return node


def edit(directory: Path, *statements: str) -> None:
    """Change the database without the store, with correct checksums."""
    with closing(sqlite3.connect(directory / DATABASE, isolation_level=None)) as database:
        database.create_function("row_checksum", -1, row_checksum)
        reseal = [
            f"UPDATE {table} SET checksum = row_checksum({', '.join(columns)})"
            for table, columns in COLUMNS.items()
        ]
        for statement in (*statements, *reseal):
            database.execute(statement)


def test_a_store_opened_again_holds_the_same(tmp_path: Path) -> None:
    node = with_store(tmp_path, filled)

    async def story(store: SqliteStore) -> tuple[Scope, list[Entry], str | None]:
        scopes = (await store.snapshot()).scopes
        return scopes[WEB], list(await store.journal()), await store.get_value("clock")

    scope, lines, note = with_store(tmp_path, story)

    assert scope == node.scopes[WEB]
    assert (list(scope.machines), list(scope.events)) == (["b", "a"], ["E2", "E1"])
    assert [line.change for line in lines] == list(FIRST_LINES)
    assert note == "noon"


def test_a_store_opened_again_holds_the_same_stamps_texts_polls_and_lines(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> tuple[FleetSnapshot, list[Entry], int]:
        return await store.snapshot(), list(await store.journal()), await store.last()

    async def first_story(store: SqliteStore) -> tuple[FleetSnapshot, list[Entry], int]:
        node = await filled(store)
        text = TextChanged(key="a", text="1")
        await store.commit(node.decide((text, PollsRecorded(at=NOON, scopes=(WEB,))), made("db")))
        await store.commit(node.decide((ScopeRemoved(scope=ScopeId("db"), set_id="db", incarnation=9),)))
        return await story(store)

    before = with_store(tmp_path, first_story)

    assert with_store(tmp_path, story) == before
    assert before[0].sets["db"].incarnation == 9


def test_a_store_opened_again_recognises_its_newest_batch(tmp_path: Path) -> None:
    newest = Node().decide(made("db", "a"))

    async def story(store: SqliteStore) -> list[Entry]:
        return list(await store.commit(newest))

    with_store(tmp_path, filled)
    stored = with_store(tmp_path, story)

    assert with_store(tmp_path, story) == stored
    assert [line.seq for line in stored] == [6, 7]


def test_a_fence_grows_across_restarts(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> int:
        lease = await store.claim("host", "a node", NOON, timedelta(seconds=1))
        assert lease is not None
        await store.release(lease)
        return lease.fence

    assert [with_store(tmp_path, story) for _ in range(3)] == [1, 2, 3]


def test_followers_hear_of_a_batch_whose_caller_has_gone(tmp_path: Path) -> None:
    batch = Node().decide(made("web"))
    expected = WaitingStamps(batch.expected)

    async def story(store: SqliteStore) -> list[int]:
        seen = asyncio.ensure_future(anext(store.follow(0)))
        writing = asyncio.create_task(store.commit(batch._replace(expected=expected)))
        while not expected.reached.is_set():
            await asyncio.sleep(0)
        writing.cancel()
        expected.go_on.set()
        return [line.seq for line in await seen]

    assert with_store(tmp_path, story) == [1]


def test_a_store_opened_again_numbers_its_journal_on(tmp_path: Path) -> None:
    node = with_store(tmp_path, filled)

    async def story(store: SqliteStore) -> int:
        (line,) = await store.commit(node.decide((kept(3),)))
        return line.seq

    assert with_store(tmp_path, story) == len(FIRST_LINES) + 1


def test_of_a_removed_scope_no_row_is_left(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        node = await filled(store)
        await store.commit(node.decide((PollsRecorded(at=NOON, scopes=(WEB,)),)))
        await store.commit(node.decide((ScopeRemoved(scope=WEB),)))

    with_store(tmp_path, story)

    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        tables = "SELECT name FROM machine UNION SELECT id FROM event UNION SELECT scope FROM poll"
        rows = [*database.execute(tables)]
    assert rows == []


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        node = await filled(store)
        edit(tmp_path, "UPDATE machine SET body = 'left alone'", "UPDATE event SET body = 'left alone'")
        await store.commit(node.decide((kept(2),)))

    with_store(tmp_path, story)

    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        machines = [*database.execute("SELECT name FROM machine WHERE body = 'left alone'")]
        events = [*database.execute("SELECT id FROM event WHERE body = 'left alone'")]
    assert (machines, events) == ([("b",), ("a",)], [("E1",)])


def test_a_commit_has_reached_the_disk_when_it_returns(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> tuple[object, object]:
        settings = await store._writer.work(
            lambda database: (
                database.execute("PRAGMA synchronous").fetchone()[0],
                database.execute("PRAGMA journal_mode").fetchone()[0],
            )
        )
        return settings

    full = 2
    assert with_store(tmp_path, story) == (full, b"wal")


def test_the_loop_goes_on_while_the_disk_is_busy(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> int:
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(store.commit(Node().decide(made("web"))))
            turns = 0
            while not writing.done() and turns < 100:
                await asyncio.sleep(0)
                turns += 1
            other.execute("ROLLBACK")
            await writing
        return turns

    assert with_store(tmp_path, story) == 100


def test_closing_waits_for_what_is_being_written(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path)
        writing = asyncio.create_task(store.commit(Node().decide(made("web"))))
        await asyncio.sleep(0)
        await store.close()
        await writing

    asyncio.run(story())

    async def loaded(store: SqliteStore) -> list[ScopeId]:
        return list((await store.snapshot()).scopes)

    assert with_store(tmp_path, loaded) == [WEB]


def test_a_closed_store_says_so_and_leaves_no_thread(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path)
        await store.close()
        await store.close()
        with pytest.raises(StoreFailedError, match="is not open"):
            await store.snapshot()

    asyncio.run(story())

    assert [one.name for one in threading.enumerate() if one.name.startswith("store")] == []


def test_a_data_directory_serves_one_server_at_a_time(tmp_path: Path) -> None:
    async def story(_: SqliteStore) -> None:
        with pytest.raises(DataDirectoryInUseError) as refusal:
            await SqliteStore.open(tmp_path)

        assert str(refusal.value) == f"data directory {tmp_path} is in use by another server"

    with_store(tmp_path, story)
    with_store(tmp_path, filled)


def test_a_data_directory_is_made_when_missing(tmp_path: Path) -> None:
    with_store(tmp_path / "deep" / "down", filled)

    assert (tmp_path / "deep" / "down" / DATABASE).exists()


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")

    with pytest.raises(DataDirectoryUnusableError, match="taken cannot be used: "):
        with_store(tmp_path / "taken", filled)


def overwrite_all(path: Path) -> None:
    path.write_bytes(b"this is no database at all. " * 400)


def overwrite_the_end(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (size - 4096))


def garble_an_event(path: Path) -> None:
    edit(path.parent, "UPDATE event SET body = '{\"id\":1}'")


def garble_a_line(path: Path) -> None:
    edit(path.parent, "UPDATE journal SET body = '{' WHERE seq = 1")


def date_a_line_wrongly(path: Path) -> None:
    edit(path.parent, "UPDATE journal SET at = 'yesterday' WHERE seq = 1")


DAMAGE = [
    pytest.param(overwrite_all, id="a file that is no database"),
    pytest.param(overwrite_the_end, id="pages that were overwritten"),
    pytest.param(garble_an_event, id="an event that is none"),
    pytest.param(garble_a_line, id="a journal line that is none"),
    pytest.param(date_a_line_wrongly, id="a journal line of no time"),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_database_is_named(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    with_store(tmp_path, filled)
    damage(tmp_path / DATABASE)

    async def read(store: SqliteStore) -> None:
        await store.snapshot()
        await store.journal()

    with pytest.raises(DatabaseDamagedError, match=f"database {tmp_path / DATABASE} is damaged: "):
        with_store(tmp_path, read)


def test_a_database_that_cannot_be_written_fails_without_keeping_anything(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        node = await filled(store)
        before = await store.snapshot()
        batch = node.decide((kept(3),))
        edit(tmp_path, "CREATE TRIGGER full BEFORE INSERT ON journal BEGIN SELECT raise(ABORT, 'full'); END")
        with pytest.raises(StoreFailedError, match="failed: full"):
            await store.commit(batch)

        assert await store.snapshot() == before
        edit(tmp_path, "DROP TRIGGER full")
        await store.commit(batch)

    with_store(tmp_path, story)


DUE = "SELECT scope FROM event WHERE status = 'Scheduled' AND not_before <= ? ORDER BY not_before"
INDEXED = [
    pytest.param(
        LINES.format(only=" AND event = ?", order=""),
        (0, "E", 1),
        "journal_event",
        id="the lines of an event",
    ),
    pytest.param(
        LINES.format(only=" AND scope = ?", order=""), (0, "web", 1), "journal_scope", id="those of a scope"
    ),
    *(
        pytest.param(query, ("web",), "sqlite_autoindex", id=f"the stamp of a {kind}")
        for kind, query in STAMP.items()
    ),
    pytest.param(DUE, ("2026",), "event_due", id="the events that are due"),
]


@pytest.mark.parametrize(("query", "given", "index"), INDEXED)
def test_what_is_looked_for_often_is_found_by_index(
    tmp_path: Path, query: str, given: tuple[str | int, ...], index: str
) -> None:
    with_store(tmp_path, filled)

    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {query}", given)]

    assert [index in step for step in plan] == [True]


def test_every_kind_of_change_can_be_read_back() -> None:
    assert set(KIND_OF) == set(get_args(Line))
    assert set(KINDS) == set(KIND_OF.values())


def test_a_journal_from_before_machines_had_askers_is_read_still(tmp_path: Path) -> None:
    with_store(tmp_path, filled)
    edit(tmp_path, "UPDATE journal SET body = json_remove(body, '$.by') WHERE kind = 'MachineChanged'")

    async def story(store: SqliteStore) -> list[Line]:
        return [line.change for line in await store.journal()]

    assert with_store(tmp_path, story) == list(FIRST_LINES)


def test_migrations_are_numbered_from_one_without_gaps() -> None:
    assert [step.number for step in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    with_store(tmp_path, filled)
    edit(tmp_path, "PRAGMA user_version = 99", "INSERT INTO migration VALUES (99, '0099-later', '', '9.9.0')")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        database.execute("ALTER TABLE header RENAME TO fleet_header")

    with pytest.raises(NewerDatabaseError, match="schema 99") as refusal:
        with_store(tmp_path, filled)

    assert str(refusal.value) == (
        f"the database has schema 99, this version ({__version__}) knows schemas up to {len(migrations())}; "
        "install version 9.9.0 or newer, or restore a backup from before the upgrade"
    )
    assert str(examine(tmp_path).problem) == str(refusal.value)


def test_a_later_version_that_left_no_release_is_refused_too(tmp_path: Path) -> None:
    with_store(tmp_path, filled)
    edit(tmp_path, "PRAGMA user_version = 99", "INSERT INTO migration (number) VALUES (99)")
    edit(tmp_path, "ALTER TABLE migration DROP COLUMN release")

    with pytest.raises(NewerDatabaseError, match="install the version that wrote the database, or restore"):
        with_store(tmp_path, filled)


def test_a_schema_number_that_no_migration_left_is_damage(tmp_path: Path) -> None:
    with_store(tmp_path, filled)
    edit(tmp_path, "PRAGMA user_version = 99")

    with pytest.raises(DatabaseDamagedError, match="it has schema 99, but its last migration is"):
        with_store(tmp_path, filled)


def test_the_release_that_migrates_a_database_is_recorded(tmp_path: Path) -> None:
    with_store(tmp_path, filled)

    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        releases = list(database.execute("SELECT DISTINCT release FROM migration"))

    assert releases == [(__version__,)]


FIRST = Migration(1, "0001-first", "CREATE TABLE one (a TEXT) STRICT;")
SECOND = Migration(2, "0002-second", "ALTER TABLE one ADD COLUMN b TEXT; -- done")
BROKEN = Migration(2, "0002-broken", "CREATE TABLE two (a TEXT); INSERT INTO nowhere VALUES (1);")


def columns(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [name for (name,) in database.execute("SELECT name FROM pragma_table_info('one')")]


def bring_up(path: Path, *steps: Migration) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        migrate(database, steps)


def test_migrations_run_once_each_and_in_order(tmp_path: Path) -> None:
    bring_up(tmp_path / "x", FIRST)
    bring_up(tmp_path / "x", FIRST, SECOND)
    bring_up(tmp_path / "x", FIRST, SECOND)

    assert columns(tmp_path / "x") == ["a", "b"]


def test_a_migration_that_was_edited_after_it_ran_is_refused(tmp_path: Path) -> None:
    bring_up(tmp_path / "x", FIRST)

    with pytest.raises(ChangedMigrationError, match="migration 0001-first has changed since") as refusal:
        bring_up(tmp_path / "x", replace(FIRST, sql=f"{FIRST.sql} "), SECOND)

    assert isinstance(refusal.value, FairWarningError)
    assert columns(tmp_path / "x") == ["a"]


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    bring_up(tmp_path / "x", FIRST)

    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        bring_up(tmp_path / "x", FIRST, BROKEN)
    bring_up(tmp_path / "x", FIRST, SECOND)

    assert columns(tmp_path / "x") == ["a", "b"]


def test_the_database_is_for_its_owner_alone_wherever_it_lies(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / DATABASE).touch(0o644)

    async def story(store: SqliteStore) -> dict[str, int]:
        await filled(store)
        return {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    modes = with_store(tmp_path, story)

    database = {f"{DATABASE}{end}": 0o600 for end in ("", "-wal", "-shm")}
    assert modes == {**database, "lock": 0o600, MARKER: 0o600}


def test_what_a_killed_server_left_readable_is_made_private(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as before:
        before.execute("PRAGMA journal_mode = WAL")
        before.execute("CREATE TABLE old (x)")
        for path in tmp_path.iterdir():
            path.chmod(0o644)

        with_store(tmp_path, filled)

        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_reader_sees_the_last_commit_while_another_is_being_written(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> list[int]:
        node = await filled(store)
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(store.commit(node.decide((kept(3),))))
            await asyncio.sleep(0)

            seen = [len(await store.journal()), len((await store.snapshot()).scopes[WEB].events)]

            other.execute("ROLLBACK")
            await writing
        return [*seen, len(await store.journal())]

    assert with_store(tmp_path, story) == [5, 2, 6]
