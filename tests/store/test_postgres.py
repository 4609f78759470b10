"""What only the store in PostgreSQL does: several nodes, migrations, partitions, and a lost past."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.core.changes import TextChanged
from fairwarning.engine.ports import (
    GapError,
    IncompatibleStoreError,
    Member,
    NodeReport,
    StaleBatchError,
    StoreState,
)
from fairwarning.store.errors import (
    AnswerLostError,
    ClockAheadError,
    DatabaseAwayError,
    DatabaseUnsuitableError,
    OlderDatabaseError,
)
from fairwarning.store.migrate import ChangedMigrationError, NewerDatabaseError
from fairwarning.store.postgres import open_postgres
from fairwarning.store.postgres.address import Address
from fairwarning.store.postgres.connection import (
    PATIENCE,
    DatabaseServer,
    PostgresConnection,
    Session,
    check_server,
)
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.rows import KINDS
from tests.postgres import empty_database, execute, migrated_template, new_database
from tests.store.stores import Node, made, postgres_nodes
from tests.store.stories import NOON, gone, happened
from tests.store.test_pruning import at_hours

REPORT = NodeReport("n1", "alpha", "http://10.0.0.1:8080", 7, timedelta(milliseconds=-3), "0.1", "12")


def text(number: int) -> TextChanged:
    return TextChanged(key="a", text=str(number))


# -- several nodes


def test_a_node_hears_of_the_batches_of_another_at_once() -> None:
    async def story() -> None:
        async with postgres_nodes(empty_database()) as (one, other):
            pages = other.follow(0)
            waiting = asyncio.ensure_future(anext(pages))
            while other._listener is None or not other._followers._waiting:
                await asyncio.sleep(0)

            kept = await one.commit(Node().decide(made("web", "a")))

            assert list(await asyncio.wait_for(waiting, 10)) == list(kept)
            await pages.aclose()

    asyncio.run(story())


def test_of_two_batches_that_meet_one_is_stored() -> None:
    async def story() -> None:
        async with postgres_nodes(empty_database()) as stores:
            batches = [Node().decide(made("web", str(number))) for number in range(2)]

            outcomes = await asyncio.gather(
                *(store.commit(batch) for store, batch in zip(stores, batches, strict=True)),
                return_exceptions=True,
            )

            refused = [one for one in outcomes if isinstance(one, StaleBatchError)]
            assert len(refused) == 1
            assert await stores[0].last() == refused[0].last == 2

    asyncio.run(story())


def test_a_batch_is_recognised_whichever_node_sends_it_again() -> None:
    async def story() -> None:
        async with postgres_nodes(empty_database()) as (one, other):
            batch = Node().decide(made("web", "a"))
            kept = await one.commit(batch)

            assert await other.commit(batch) == kept

    asyncio.run(story())


def test_a_batch_is_forgotten_after_a_day() -> None:
    async def story() -> None:
        dsn = empty_database()
        async with postgres_nodes(dsn, 1) as (store,):
            node = Node()
            await store.commit(first := node.decide((text(1),)))
            await store.commit(second := node.decide((text(2),)))
            execute(dsn, f"UPDATE receipt SET at = at - interval '25 h' WHERE stamp = {first.stamp}")
            await store.commit(node.decide((text(3),)))

            assert len(await store.commit(second)) == 1
            with pytest.raises(StaleBatchError):
                await store.commit(first)

    asyncio.run(story())


def test_nodes_see_each_other_until_they_leave_or_their_heartbeats_end() -> None:
    async def story() -> None:
        dsn = empty_database()
        async with postgres_nodes(dsn, 1) as (store,):
            other = REPORT._replace(id="n2", name="beta")
            first = await store.heartbeat(REPORT)
            both = await store.heartbeat(other)
            execute(dsn, "UPDATE node SET beat = beat - interval '4 s' WHERE id = 'n1'")
            alone = await store.heartbeat(other)
            back = await store.heartbeat(REPORT._replace(position=9))
            await store.leave("n2")
            last = await store.heartbeat(REPORT)

            assert first.members == (Member(REPORT, first.members[0].beat_at),)
            assert abs(first.now - datetime.now(UTC)) < timedelta(seconds=5)
            assert [member.report for member in both.members] == [REPORT, other]
            assert [member.report.id for member in alone.members] == ["n2"]
            assert [member.report.position for member in back.members] == [9, 7]
            assert [member.report.id for member in last.members] == ["n1"]

    asyncio.run(story())


def test_what_was_decided_in_the_future_is_refused() -> None:
    async def story() -> None:
        async with postgres_nodes(empty_database(), 1) as (store,):
            batch = Node().decide((text(1),))
            late, soon = (
                batch._replace(
                    parts=(batch.parts[0]._replace(at=datetime.now(UTC) + timedelta(seconds=ahead)),)
                )
                for ahead in (5, 0.5)
            )

            with pytest.raises(ClockAheadError) as refusal:
                await store.commit(late)

            assert timedelta(seconds=3) < refusal.value.ahead < timedelta(seconds=6)
            assert "ahead of the database's" in str(refusal.value)
            assert len(await store.commit(soon)) == 1

    asyncio.run(story())


def test_a_commit_whose_caller_gives_up_is_stored() -> None:
    async def story() -> None:
        dsn = empty_database()
        async with postgres_nodes(dsn) as (store, other):
            await store.last()
            caller = asyncio.create_task(store.commit(Node().decide((text(1),))))
            while not store._writer._jobs:
                await asyncio.sleep(0)

            caller.cancel()

            await asyncio.wait(store._writer._jobs)
            assert caller.cancelled() or caller.cancelling()
            assert await other.last() == 1

    asyncio.run(story())


# -- the journal


def test_partitions_are_added_before_they_are_needed_and_dropped_when_they_are_empty() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        execute(dsn, "UPDATE ledger SET partition_lines = 10")
        async with postgres_nodes(dsn, 1) as (store,):
            node = Node()
            execute(dsn, "UPDATE ledger SET last = 99994")
            await store.commit(node.decide((*made("web", "a"), happened(1))))
            ahead = partitions(dsn)
            for _ in range(4):
                await store.commit(node.decide([text(number) for number in range(15)]))
            grown = partitions(dsn)
            execute(dsn, "UPDATE pruning SET mark = 99994")
            await store.prune(None, 1000, ())
            first, *lines = [line.seq for line in await store.journal()]

            assert ahead == [1, 100001]
            assert grown == [1, *range(100001, 100061, 10)]
            assert (first, lines) == (99997, [100057])
            assert partitions(dsn) == [1, 100051]

    asyncio.run(story())


def test_partitions_whose_lines_are_all_too_old_are_dropped_one_at_a_time() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        execute(dsn, "UPDATE ledger SET partition_lines = 10, last = 100000")
        execute(dsn, "UPDATE pruning SET mark = 100000")
        async with postgres_nodes(dsn, 1) as (store,):
            node = Node()
            first = [*made("web", "a"), *(happened(number) for number in range(18))]
            batches = [node.decide(first), node.decide([text(1)] * 20), node.decide([text(2)] * 5)]
            for hours, batch in enumerate(batches):
                await store.commit(at_hours(batch, hours))
            empty = await store.size()
            young = await store.prune(NOON + timedelta(minutes=90), 7, ())
            kept = partitions(dsn)
            await store.commit(node.decide([gone(number) for number in range(18)]))
            dropped = [await store.prune(NOON + timedelta(minutes=90), 7, ())]
            fewer = partitions(dsn)
            dropped += [await store.prune(NOON + timedelta(minutes=90), 7, ()) for _ in range(4)]
            rest = [line.seq for line in await store.journal()]

            assert (young, kept) == (7, list(range(100001, 100051, 10)))
            assert fewer == list(range(100011, 100071, 10))
            assert (dropped, await store.pruned()) == ([3, 7, 7, 7, 0], 100040)
            assert rest == list(range(100041, 100064))
            assert partitions(dsn) == [100041, 100051, 100061]
            assert await store.size() < empty

    asyncio.run(story())


def partitions(dsn: str) -> list[object]:
    listed = [first for (first,) in execute(dsn, "SELECT first FROM journal_partition ORDER BY first")]
    found = execute(
        dsn, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'journal'::regclass"
    )
    assert sorted(f"journal_{first}" for first in listed) == sorted(str(name) for (name,) in found)
    return listed


def test_a_missing_line_is_a_gap() -> None:
    async def story() -> None:
        dsn = empty_database()
        async with postgres_nodes(dsn, 1) as (store,):
            await store.commit(Node().decide((text(1), text(2))))
            execute(dsn, "DELETE FROM journal WHERE seq = 1")
            await store.close()

        async with postgres_nodes(dsn, 1) as (store,):
            with pytest.raises(GapError):
                await anext(store.follow(0))

    asyncio.run(story())


#: What a failover to a copy that lacks the last batch leaves, and what may be stored after it.
LOSE = """
    DELETE FROM journal WHERE seq > 1; DELETE FROM receipt WHERE last > 1; UPDATE ledger SET last = 1;
"""
HANG_UP = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()
"""


@pytest.mark.parametrize("written", [0, 1, 5], ids=["nothing", "a line", "more lines"])
def test_after_the_database_has_lost_lines_a_snapshot_replaces_what_is_known(written: int) -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn) as (store, other):
            node = Node()
            await store.commit(node.decide((text(1),)))
            await store.commit(node.decide((text(2),)))
            before = await store.snapshot()
            pages = store.follow(before.position)
            waiting = asyncio.ensure_future(anext(pages))
            execute(dsn, LOSE)
            for number in range(written):
                await other.commit(Node().decide((TextChanged(key=f"k{number}", text=""),)))

            execute(dsn, HANG_UP)

            with pytest.raises(GapError):
                await asyncio.wait_for(waiting, 10)
            with pytest.raises(GapError):
                await anext(store.follow(before.position))
            after = await store.snapshot()
            assert (before.history, before.position) == (0, 2)
            assert (after.history, after.position) == (1, 1 + written)
            assert store.history == 1
            assert list(after.texts) == ["a", *(f"k{number}" for number in range(written))]
            batch = Node().decide((TextChanged(key="z", text="z"),))
            with pytest.raises(AnswerLostError):
                await store.commit(batch)
            kept = await store.commit(batch)
            assert await anext(store.follow(after.position)) == kept

    asyncio.run(story())


async def ask_for_the_last_line(store: PostgresStore) -> None:
    assert await store.last() == 2


async def send_a_stale_batch(store: PostgresStore) -> None:
    with pytest.raises(StaleBatchError):
        await store.commit(Node().decide((text(9),)))


@pytest.mark.parametrize("hear", [ask_for_the_last_line, send_a_stale_batch])
def test_a_line_that_a_store_has_only_heard_of_is_missed_when_it_is_lost(
    hear: Callable[[PostgresStore], Awaitable[None]],
) -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn) as (store, other):
            node = Node()
            await other.commit(node.decide((text(1),)))
            await store.snapshot()
            await other.commit(node.decide((text(2),)))
            await hear(store)

            execute(dsn, LOSE)
            execute(dsn, HANG_UP)

            assert (await store.snapshot()).position == 1
            assert store.history == 1

    asyncio.run(story())


def test_a_batch_of_a_history_that_is_over_is_stale_unless_it_is_stored() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            node = Node()
            kept = node.decide((text(1),))._replace(history=0)
            entries = await store.commit(kept)
            await store.commit(node.decide((text(2),)))
            execute(dsn, LOSE)
            execute(dsn, HANG_UP)
            assert (await store.snapshot()).history == 1

            with pytest.raises(AnswerLostError):
                await store.commit(kept)
            assert await store.commit(kept) == entries
            batch = Node().decide((TextChanged(key="z", text="z"),))
            with pytest.raises(StaleBatchError):
                await store.commit(batch._replace(history=0))
            assert await store.commit(batch._replace(history=1))

    asyncio.run(story())


@pytest.mark.rule("U-03")
def test_a_kind_of_line_that_a_newer_version_wrote_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        dsn = empty_database()
        async with postgres_nodes(dsn) as (store, other):
            await store.commit(Node().decide((text(1),)))
            monkeypatch.delitem(KINDS, "TextChanged")

            with pytest.raises(IncompatibleStoreError, match=r"line 1 .*the kind TextChanged.*newer version"):
                await anext(other.follow(0))

    asyncio.run(story())


# -- the schema


def opening(dsn: str, *, migrate: bool = False) -> None:
    async def story() -> None:
        store = await PostgresStore.open(dsn, migrate=migrate)
        await store.close()

    asyncio.run(story())


def test_an_empty_database_is_migrated_only_if_asked_for() -> None:
    dsn = new_database()

    with pytest.raises(OlderDatabaseError, match="has schema 0, this version needs schema"):
        opening(dsn)
    opening(dsn, migrate=True)
    opening(dsn, migrate=True)
    opening(dsn)


def test_nodes_that_start_together_migrate_once() -> None:
    async def story() -> None:
        dsn = new_database()
        stores = await asyncio.gather(*(PostgresStore.open(dsn, migrate=True) for _ in range(3)))
        for store in stores:
            assert (await store.snapshot()).position == 0
            await store.close()

    asyncio.run(story())


def test_a_database_that_only_a_newer_version_can_read_is_refused() -> None:
    dsn = new_database(migrated_template())
    execute(dsn, "UPDATE meta SET schema = 99")
    opening(dsn)
    execute(dsn, "UPDATE meta SET readable_from = 98")

    with pytest.raises(NewerDatabaseError, match=r"98, .* install the version that wrote the database"):
        opening(dsn)

    execute(dsn, "INSERT INTO migration VALUES (98, '0098-later', '', '9.8.0')")
    with pytest.raises(NewerDatabaseError, match=r"98, .* install version 9\.8\.0 or newer"):
        opening(dsn)


def test_a_node_learns_with_a_heartbeat_that_it_has_become_too_old() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            execute(dsn, "UPDATE meta SET schema = 99, readable_from = 98")
            execute(dsn, "INSERT INTO migration VALUES (98, '0098-later', '', '9.8.0')")

            with pytest.raises(IncompatibleStoreError, match=r"install version 9\.8\.0 or newer"):
                await store.heartbeat(REPORT)

    asyncio.run(story())


def test_a_database_that_ran_another_text_of_a_migration_is_refused() -> None:
    dsn = new_database(migrated_template())
    execute(dsn, "UPDATE migration SET checksum = 'x' WHERE number = 1")

    with pytest.raises(ChangedMigrationError, match="0001"):
        opening(dsn)


# -- the server


def test_old_servers_and_other_encodings_are_refused() -> None:
    with pytest.raises(
        DatabaseUnsuitableError, match="PostgreSQL 14 is too old; PostgreSQL 15 or newer is needed"
    ):
        check_server(140011, b"UTF8")
    with pytest.raises(DatabaseUnsuitableError, match="the encoding LATIN1; it has to be UTF8"):
        check_server(150000, b"LATIN1")


def test_the_store_says_that_it_is_ready() -> None:
    async def story() -> None:
        store = await open_postgres(empty_database())
        assert store.state is StoreState.READY
        await store.close()

    asyncio.run(story())


#: Says whether a server loads psycopg, and what happens to a server that needs it and does not have it.
WITHOUT_PSYCOPG = """
import asyncio, sys
import fairwarning.server
print("psycopg" in sys.modules)
sys.modules["psycopg"] = None
from fairwarning.store.postgres import open_postgres
try:
    asyncio.run(open_postgres("host=x"))
except Exception as problem:
    print(problem)
"""


def test_psycopg_is_loaded_only_for_postgresql_and_its_absence_is_explained() -> None:
    command = [sys.executable, "-c", WITHOUT_PSYCOPG]
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert done.stdout == "False\nPostgreSQL needs psycopg: install fairwarning[postgres]\n"


# -- the end


def test_a_connection_that_is_closed_no_longer_waits_for_a_database_that_is_away() -> None:
    async def connected(session: Session, new_timeline: bool) -> None:
        raise AssertionError("there is no database")

    async def story() -> None:
        connection = PostgresConnection(DatabaseServer(Address("host=/nowhere"), connected))
        jobs = [asyncio.create_task(connection.query("SELECT")) for _ in range(3)]
        await asyncio.sleep(0)

        async with asyncio.timeout(PATIENCE / 2):
            await connection.close()

        for job in jobs:
            with pytest.raises(DatabaseAwayError):
                await job

    asyncio.run(story())
