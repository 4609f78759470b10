"""The same on PostgreSQL: its own kinds of damage, and fleets that move between the stores."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from fairwarning import __version__
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import AddMachines, CreateSet
from fairwarning.core.model import ScopeId, derive_id
from fairwarning.core.policy import Policy
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.errors import NoDatabaseError, NodesRunningError, UnusableBackupError
from fairwarning.database.operations import back_up, check_database, restore
from fairwarning.database.postgres import PostgresDatabase
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import FleetSnapshot, NodeReport
from fairwarning.store.errors import DatabaseAwayError, DatabaseNotEmptyError
from fairwarning.store.migrate import NewerDatabaseError
from fairwarning.store.postgres.schema import steps
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.database.test_round_trip import own_texts
from tests.postgres import empty_database, execute, new_database
from tests.store.damage import fill
from tests.store.test_replay import HISTORIES, Player, Step, in_order


async def filled(dsn: str) -> None:
    store = await PostgresStore.open(dsn)
    try:
        await fill(store, 12)
    finally:
        await store.close()


async def snapshot(dsn: str) -> FleetSnapshot:
    store = await PostgresStore.open(dsn)
    try:
        return await store.snapshot()
    finally:
        await store.close()


async def sqlite_snapshot(directory: Path) -> FleetSnapshot:
    store = await SqliteStore.open(directory)
    try:
        return await store.snapshot()
    finally:
        await store.close()


@pytest.fixture
def dsn() -> str:
    address = empty_database()
    asyncio.run(filled(address))
    return address


def found(dsn: str) -> list[tuple[str, str]]:
    report = check_database(PostgresDatabase(dsn))
    return [(finding.kind.value, finding.where) for finding in report.findings.kept]


def test_a_sound_database_has_no_findings(dsn: str) -> None:
    report = check_database(PostgresDatabase(dsn))

    assert report.findings.kept == []
    assert report.rows["journal"] == 66
    assert (report.proved, report.partly_proved, report.unproved) == (2, 0, 0)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE machine SET body = body || ' ' WHERE name = 'web_0'", ("checksum", "machine web/web_0")),
        ("UPDATE journal SET body = body || ' ' WHERE seq = 20", ("checksum", "journal line 20")),
        ("DELETE FROM journal WHERE seq = 20", ("gap", "journal line 20")),
        ("UPDATE ledger SET last = last + 1", ("end", "journal")),
        ("UPDATE journal SET ends = 20 WHERE seq = 20", ("batch", "journal line 20")),
        ("DELETE FROM event WHERE id = 'E0'", ("event", "event web/E0")),
        ("DELETE FROM poll WHERE scope = 'web'", ("poll", "poll web")),
        ("UPDATE receipt SET stamp = 5 WHERE last = 66", ("receipt", "receipt 5")),
        ("INSERT INTO receipt VALUES (5, 66, 67)", ("receipt", "receipt 5")),
        ("UPDATE journal_partition SET until = 60", ("partition", "journal line 60")),
        (
            "CREATE TABLE journal_x PARTITION OF journal FOR VALUES FROM (900000) TO (900001)",
            ("partition", "journal_x"),
        ),
        ("UPDATE migration SET checksum = 'x' WHERE number = 1", ("structure", "migration")),
    ],
)
def test_every_kind_of_damage_is_one_finding(dsn: str, statement: str, expected: tuple[str, str]) -> None:
    execute(dsn, f"BEGIN; {statement}; COMMIT")
    try:
        assert found(dsn) == [expected]
    finally:
        execute(dsn, "DROP TABLE IF EXISTS journal_x; UPDATE journal_partition SET until = 100001")
        checksum = steps()[0].checksum
        execute(dsn, f"UPDATE migration SET checksum = '{checksum}' WHERE number = 1")


def test_a_partition_may_be_full(dsn: str) -> None:
    execute(dsn, "UPDATE journal_partition SET until = 67")
    try:
        assert found(dsn) == []
    finally:
        execute(dsn, "UPDATE journal_partition SET until = 100001")


def test_a_database_is_read_as_it_was_at_one_moment(dsn: str) -> None:
    with PostgresDatabase(dsn).read() as tables:
        execute(dsn, "DELETE FROM machine")

        assert len(list(tables.rows("machine"))) == 16


def test_a_fleet_moves_from_postgresql_to_sqlite_and_back(dsn: str, tmp_path: Path) -> None:
    before = asyncio.run(snapshot(dsn))
    directory, file = DataDirectory(tmp_path / "data"), tmp_path / "backup"

    back_up(PostgresDatabase(dsn), file, clock=ManualClock(NOON))
    restore(directory, file, jump=1000, clock=ManualClock(NOON), hold=False)
    back_up(directory, tmp_path / "again", clock=ManualClock(NOON))
    other = PostgresDatabase(empty_database())
    restore(other, tmp_path / "again", jump=1000, clock=ManualClock(NOON), hold=False)

    assert check_database(directory).findings.kept == []
    assert check_database(other).findings.kept == []
    after = asyncio.run(snapshot(dsn))
    assert after.position == before.position + 4
    assert [len(scope.machines) for scope in after.scopes.values()] == [8, 8]
    assert [scope.incarnation for scope in after.scopes.values()] == [
        scope.incarnation + 2000 for scope in before.scopes.values()
    ]
    assert (own_texts(after), after.polled) == (own_texts(before), before.polled)


@settings(max_examples=3)
@given(HISTORIES)
def test_any_history_survives_the_way_to_postgresql_and_back(history: Sequence[Step]) -> None:
    with TemporaryDirectory() as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        asyncio.run(Player(lambda: SqliteStore.open(old)).play(history))
        database = PostgresDatabase(empty_database())

        back_up(DataDirectory(old), old / "backup", clock=ManualClock(NOON))
        restore(database, old / "backup", jump=500, clock=ManualClock(NOON), hold=False)
        assert check_database(database).findings.kept == []
        back_up(database, old / "again", clock=ManualClock(NOON))
        restore(DataDirectory(new), old / "again", jump=500, clock=ManualClock(NOON), hold=False)

        assert check_database(DataDirectory(new)).findings.kept == []
        before, after = asyncio.run(sqlite_snapshot(old)), asyncio.run(sqlite_snapshot(new))
        assert after.position == before.position + 4
        assert [(one[1], one[2]) for one in in_order(after.scopes)] == [
            (one[1], one[2]) for one in in_order(before.scopes)
        ]
        assert [scope.incarnation for scope in after.scopes.values()] == [
            scope.incarnation + 1000 for scope in before.scopes.values()
        ]
        assert (own_texts(after), after.polled) == (own_texts(before), before.polled)


def test_a_pruned_journal_is_restored_with_its_mark(dsn: str, tmp_path: Path) -> None:
    async def prune() -> int:
        store = await PostgresStore.open(dsn)
        await store.prune(None, 30, ())
        mark = await store.pruned()
        await store.close()
        return mark

    mark = asyncio.run(prune())
    back_up(PostgresDatabase(dsn), tmp_path / "backup", clock=ManualClock(NOON))
    database = PostgresDatabase(empty_database())
    restore(database, tmp_path / "backup", clock=ManualClock(NOON))

    report = check_database(database)
    assert mark == 30
    assert report.findings.kept == []
    assert (report.complete_after, report.partly_proved, report.unproved) == (mark, 2, 0)


def test_nodes_go_on_after_a_restore(dsn: str, tmp_path: Path) -> None:
    back_up(PostgresDatabase(dsn), tmp_path / "backup")
    address = empty_database()
    restore(PostgresDatabase(address), tmp_path / "backup")

    asyncio.run(filled_more(address))

    assert found(address) == []


async def filled_more(dsn: str) -> None:
    store = await PostgresStore.open(dsn)
    await store.put_value("numbers/9", "value")
    lease = await store.claim("host 0", "a node", NOON, timedelta(minutes=1))
    assert lease is not None
    assert lease.fence > 1_000_000
    await store.close()


def test_a_node_that_runs_during_a_restore_reads_everything_anew(tmp_path: Path) -> None:
    async def story() -> None:
        address = empty_database()
        store = await PostgresStore.open(address)
        engine = Engine(store, ManualClock(NOON), SimulatedDriver(), Policy())
        await engine.open()
        await engine.handle(CreateSet(seed=derive_id("web"), blueprint=Blueprint(name="web", count=2)))
        back_up(PostgresDatabase(address), tmp_path / "backup")
        empty_database()
        await asyncio.to_thread(restore, PostgresDatabase(address), tmp_path / "backup", jump=1000)

        await engine.catch_up()
        added = await engine.handle(AddMachines(seed=derive_id("more"), scope=ScopeId("web"), number=1))

        assert engine.scopes()[ScopeId("web")].incarnation == 1001
        assert added
        await engine.close()
        await store.close()

    asyncio.run(story())


def test_a_backup_is_restored_only_into_an_empty_database(dsn: str, tmp_path: Path) -> None:
    back_up(PostgresDatabase(dsn), tmp_path / "backup")

    with pytest.raises(DatabaseNotEmptyError):
        restore(PostgresDatabase(dsn), tmp_path / "backup")
    assert found(dsn) == []


def test_a_database_without_tables_gets_them(dsn: str, tmp_path: Path) -> None:
    back_up(PostgresDatabase(dsn), tmp_path / "backup")
    database = PostgresDatabase(new_database())

    with pytest.raises(NoDatabaseError):
        check_database(database)
    restore(database, tmp_path / "backup")

    assert check_database(database).findings.kept == []


def test_a_changed_file_leaves_an_empty_database(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    back_up(PostgresDatabase(dsn), file)
    file.write_bytes(file.read_bytes()[:-20])
    database = PostgresDatabase(empty_database())

    with pytest.raises(UnusableBackupError):
        restore(database, file)

    database.check_empty()


def node(release: str) -> NodeReport:
    return NodeReport("n1", "alpha", "", 0, timedelta(0), release)


async def beat(dsn: str, release: str) -> None:
    store = await PostgresStore.open(dsn)
    await store.heartbeat(node(release))
    await store.close()


def test_a_database_that_nodes_use_is_not_restored_into(dsn: str, tmp_path: Path) -> None:
    back_up(PostgresDatabase(dsn), tmp_path / "backup")
    address = empty_database()
    asyncio.run(beat(address, __version__))

    with pytest.raises(NodesRunningError, match="alpha"):
        restore(PostgresDatabase(address), tmp_path / "backup")


@pytest.mark.rule("U-02")
def test_a_migration_is_finished_only_without_nodes_that_do_not_know_the_schema() -> None:
    dsn = new_database()
    database = PostgresDatabase(dsn)
    with pytest.raises(NoDatabaseError):
        database.finish()

    assert database.migrate() == (0, len(steps()))
    assert database.migrate() == (len(steps()), len(steps()))
    asyncio.run(beat(dsn, "0.0.9"))
    execute(dsn, "UPDATE node SET reads = 0")
    with pytest.raises(NodesRunningError, match=r"alpha \(release 0\.0\.9\)"):
        database.finish()
    asyncio.run(beat(dsn, "0.3.7"))
    assert database.finish() == len(steps())


def test_a_release_does_not_lock_itself_out_of_a_newer_database() -> None:
    dsn = new_database()
    database = PostgresDatabase(dsn)
    database.migrate()
    execute(dsn, "UPDATE meta SET schema = 99")

    assert database.finish() == len(steps())
    assert database.migrate() == (99, 99)


def test_a_database_that_only_a_newer_version_can_use_is_refused() -> None:
    dsn = new_database()
    database = PostgresDatabase(dsn)
    database.migrate()
    execute(dsn, "UPDATE meta SET schema = 99, readable_from = 99")
    execute(dsn, "INSERT INTO migration VALUES (99, '0099-later', '', '9.9.0')")

    for refused in (database.migrate, database.finish, lambda: check_database(database)):
        with pytest.raises(NewerDatabaseError, match=r"install version 9\.9\.0 or newer"):
            refused()


def test_an_address_never_shows_its_password(tmp_path: Path) -> None:
    database = PostgresDatabase(f"host={tmp_path} dbname=fleet user=me password=secret")

    with pytest.raises(DatabaseAwayError) as refused:
        check_database(database)

    assert "secret" not in str(refused.value)
    assert "secret" not in database.name
