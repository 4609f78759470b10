"""A database that nodes of two releases use, and what a version says about data that it does not know."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.changes import TextChanged
from fairwarning.core.policy import Policy
from fairwarning.core.stored.releases import NEWEST, OLDEST
from fairwarning.database.backup import open_backup, read_backup
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.operations import FleetDatabase, back_up, restore
from fairwarning.database.postgres import PostgresDatabase
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import IncompatibleStoreError, NodeReport
from fairwarning.store.examine import examine
from fairwarning.store.memory import MemoryStore
from fairwarning.store.migrate import NewerDatabaseError
from fairwarning.store.postgres.address import Address
from fairwarning.store.postgres.connection import DatabaseServer, PostgresConnection, Session
from fairwarning.store.postgres.schema import migrate, steps
from fairwarning.store.postgres.store import migrate_database
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.database.editing import edit, replace_in_body
from tests.postgres import execute, migrated_template, new_database
from tests.store.stores import Node, made, opened, postgres_nodes

#: The schema of release 0.2.
OF_0_2 = 3


def database_of_0_2() -> str:
    """Return a database with the tables of release 0.2."""

    async def make(dsn: str) -> None:
        async def nothing(session: Session, new_timeline: bool) -> None:
            pass

        connection = PostgresConnection(DatabaseServer(Address(dsn), nothing))
        await connection.work(lambda session: migrate(session, steps()[:OF_0_2]))
        await connection.close()

    dsn = new_database()
    asyncio.run(make(dsn))
    execute(dsn, "UPDATE meta SET readable_from = 1")
    return dsn


def unfinished() -> str:
    """Return a database of this version that nodes of release 0.2 may use."""
    dsn = new_database(migrated_template())
    execute(dsn, "UPDATE meta SET readable_from = 1")
    return dsn


def readable_from(dsn: str) -> object:
    ((number,),) = execute(dsn, "SELECT readable_from FROM meta")
    return number


@pytest.mark.rule("U-01")
@pytest.mark.parametrize("make", [new_database, database_of_0_2], ids=["no tables", "tables of 0.2"])
def test_a_database_in_which_nothing_is_stored_is_finished_at_once(make: Callable[[], str]) -> None:
    dsn = make()

    asyncio.run(migrate_database(Address(dsn)))

    assert readable_from(dsn) == len(steps())


@pytest.mark.rule("U-01")
@pytest.mark.parametrize(
    "use",
    [
        pytest.param("UPDATE ledger SET last = 1", id="lines"),
        pytest.param("INSERT INTO document (key, body, stamp, checksum) VALUES ('a', '', 1, 1)", id="a row"),
        pytest.param(
            "INSERT INTO node (id, name, address, position, offset_us, release, beat)"
            " VALUES ('n', 'n', '', 0, 0, '0.2.0', clock_timestamp())",
            id="a node",
        ),
    ],
)
def test_a_database_that_is_in_use_waits_until_it_is_finished(use: str) -> None:
    dsn = database_of_0_2()
    execute(dsn, use)

    asyncio.run(migrate_database(Address(dsn)))
    asyncio.run(migrate_database(Address(dsn)))

    assert readable_from(dsn) == 1


@pytest.mark.rule("U-01")
def test_a_store_learns_from_its_database_who_reads_it() -> None:
    async def story() -> None:
        dsn = unfinished()
        async with postgres_nodes(dsn, 1) as (store,):
            before = store.oldest_reader
            PostgresDatabase(dsn).finish()
            async with postgres_nodes(dsn, 1) as (later,):
                assert later.oldest_reader is NEWEST
            beat = await store.heartbeat(NodeReport("n1", "alpha", "", 0, timedelta(0), "0.3.0"))

            assert (before, store.oldest_reader) == (OLDEST, NEWEST)
            assert [member.reads for member in beat.members] == [NEWEST]

    asyncio.run(story())


@pytest.mark.rule("U-01")
def test_stores_of_one_server_have_no_older_reader(tmp_path: Path) -> None:
    async def story() -> None:
        for kind in ("memory", "sqlite"):
            async with opened(kind, tmp_path) as store:
                assert store.oldest_reader is NEWEST

    asyncio.run(story())


def commit_as_0_2(dsn: str) -> str:
    """Store a batch as nodes of release 0.2 do, without saying what they know."""
    ((answer,),) = execute(dsn, """SELECT commit_batch('{"stamp": 5, "expected": [], "lines": []}')::text""")
    return str(answer)


@pytest.mark.rule("U-02")
def test_after_the_end_of_the_migration_no_batch_of_an_earlier_release_is_stored() -> None:
    dsn = unfinished()
    before = commit_as_0_2(dsn)

    PostgresDatabase(dsn).finish()

    assert '"last"' in before
    with pytest.raises(Exception, match="only a newer version can use the database") as refused:
        commit_as_0_2(dsn)
    assert getattr(refused.value, "sqlstate", "") == "40001"


@pytest.mark.rule("U-02")
def test_a_node_that_stood_still_while_it_became_too_old_stores_nothing_and_says_why() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            await store.commit(Node().decide((TextChanged(key="a", text="1"),)))
            execute(dsn, "UPDATE meta SET schema = 99, readable_from = 99")
            execute(dsn, "INSERT INTO migration VALUES (99, '0099-later', '', '9.9.0')")

            with pytest.raises(NewerDatabaseError, match=r"install version 9\.9\.0 or newer"):
                await store.commit(Node().decide((TextChanged(key="b", text="2"),)))

        assert execute(dsn, "SELECT key FROM document") == [("a",)]

    asyncio.run(story())


@pytest.mark.rule("U-03")
@pytest.mark.parametrize(
    ("table", "where", "columns", "unknown"),
    [
        ("journal", "seq = 2", {"kind": "Dreamt"}, "the kind Dreamt"),
        ("machine", "name = 'web_0'", {}, "'asleep'"),
    ],
    ids=["a kind of line", "a member of an enum"],
)
def test_server_and_doctor_know_data_of_a_newer_version_from_damage(
    tmp_path: Path, table: str, where: str, columns: dict[str, str], unknown: str
) -> None:
    async def read() -> None:
        store = await SqliteStore.open(tmp_path)
        try:
            await store.snapshot()
            await store.journal()
        finally:
            await store.close()

    asyncio.run(make_directory(tmp_path))
    if columns:
        edit(tmp_path, table, where, **columns)
    else:
        replace_in_body(tmp_path, table, where, '"power":"running"', '"power":"asleep"')

    with pytest.raises(IncompatibleStoreError, match=f"{unknown}.*: a newer version wrote this") as stopped:
        asyncio.run(read())
    problem = str(examine(tmp_path).problem)

    assert "a newer version wrote this" in problem
    assert unknown in problem
    assert "damage" not in problem + str(stopped.value)


@pytest.mark.rule("U-03")
def test_a_node_stops_at_a_kind_of_value_that_a_newer_version_wrote() -> None:
    async def story() -> None:
        store = MemoryStore()
        known = Engine(store, ManualClock(NOON), SimulatedDriver(), Policy())
        await known.open()
        await store.commit(Node().decide((TextChanged(key="plan:1", text="{}"),)))

        for read in (known.catch_up, Engine(store, ManualClock(NOON), SimulatedDriver(), Policy()).open):
            with pytest.raises(IncompatibleStoreError, match=r"the key plan:1 .* a newer version wrote this"):
                await read()

    asyncio.run(story())


@pytest.mark.rule("U-03")
@pytest.mark.parametrize(
    "of_the_service", [False, True], ids=["a value of the state", "a value of the service"]
)
def test_the_doctor_names_a_kind_of_value_that_a_newer_version_wrote(
    tmp_path: Path, of_the_service: bool
) -> None:
    async def write() -> None:
        async with opened("sqlite", tmp_path) as store:
            if of_the_service:
                await store.put_value("plan:1", "{}")
            else:
                await store.commit(Node().decide((TextChanged(key="plan:1", text="{}"),)))

    asyncio.run(write())

    problem = str(examine(tmp_path).problem)

    assert "(the key plan:1): a newer version wrote this" in problem
    assert "damage" not in problem


async def make_directory(directory: Path) -> None:
    async with opened("sqlite", directory) as store:
        await store.commit(Node().decide(made("web", "web_0")))


@pytest.mark.rule("U-04")
def test_a_backup_has_the_format_of_the_oldest_release_that_may_use_its_database(tmp_path: Path) -> None:
    dsn = unfinished()
    directory = DataDirectory(tmp_path / "data")
    asyncio.run(make_directory(tmp_path / "data"))

    def version(database: FleetDatabase, name: str) -> int:
        back_up(database, tmp_path / name)
        with open_backup(tmp_path / name) as file:
            return read_backup(tmp_path / name, file).header.version

    before = version(PostgresDatabase(dsn), "before")
    PostgresDatabase(dsn).finish()

    assert (before, version(PostgresDatabase(dsn), "after"), version(directory, "directory")) == (1, 2, 2)


@pytest.mark.rule("U-01")
def test_a_restored_database_has_nothing_to_wait_for(tmp_path: Path) -> None:
    dsn = unfinished()
    back_up(PostgresDatabase(dsn), tmp_path / "backup")

    restore(PostgresDatabase(dsn), tmp_path / "backup")

    assert readable_from(dsn) == len(steps())
