"""What the store in PostgreSQL does when the database hangs, restarts, refuses writes or loses answers."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from datetime import UTC, datetime
from random import Random

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fairwarning.core.changes import TextChanged
from fairwarning.core.errors import StorageError
from fairwarning.engine.ports import Batch, Entry, StoreState
from fairwarning.store.errors import (
    AnswerLostError,
    DatabaseAwayError,
    DatabaseBusyError,
    DatabaseReadOnlyError,
)
from fairwarning.store.postgres import connection as connections
from fairwarning.store.postgres import store as stores
from fairwarning.store.postgres.address import Address
from fairwarning.store.postgres.store import PostgresStore, migrate_database
from tests.cluster.database_link import DatabaseLink, LinkState
from tests.postgres import (
    Server,
    empty_database,
    execute,
    find_programs,
    migrated_template,
    new_database,
    new_server,
)
from tests.store.stores import Node, postgres_nodes

#: The number of commits that wait for the ledger.
WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%commit_batch%'
"""

WAITING_FOR_LEDGER = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM ledger%'
        AND pid <> pg_backend_pid()
"""

LISTENING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
)


def texts(*keys: str) -> Batch:
    """Return a batch that stores texts under new keys."""
    return Node().decide([TextChanged(key=key, text="") for key in keys])


async def send(store: PostgresStore, batch: Batch) -> list[Entry]:
    """Commit a batch as a node does: after a lost answer the same batch is sent again."""
    async with asyncio.timeout(30):
        while True:
            try:
                return list(await store.commit(batch))
            except StorageError:
                await asyncio.sleep(0.01)


@contextmanager
def locked_ledger(dsn: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Let all commits wait during the block, as a frozen server does."""
    with psycopg.connect(dsn) as holder:
        holder.execute("SELECT FROM ledger FOR UPDATE")
        yield holder


async def waiting_commits(dsn: str, number: int) -> None:
    """Return once so many commits wait for the ledger."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%commit_batch%'"
    )
    async with asyncio.timeout(30):
        while execute(dsn, waiting) != [(number,)]:
            await asyncio.sleep(0.01)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for answers and for a connection for a fraction of a second."""
    monkeypatch.setattr(stores, "ANSWER_WITHIN", 0.3)
    monkeypatch.setattr(connections, "PATIENCE", 0.3)


def test_every_outcome_is_known_when_connections_are_cut_at_random_moments() -> None:
    async def story() -> None:
        dsn, chance, loop, lost = empty_database(), Random(1), asyncio.get_running_loop(), 0
        async with postgres_nodes(dsn, 1) as (store,):
            await store.commit(texts("key 0"))
            before = loop.time()
            await store.commit(texts("key 1"))
            took, number = loop.time() - before, 1
            while number < 60 or lost <= 5:
                number += 1
                assert number < 1000
                batch = texts(f"key {number}")
                await store._writer.query("SELECT")
                session = store._writer._session
                assert session is not None
                timer = loop.call_later(chance.random() * 2 * took, session._hang_up)
                try:
                    (line,) = await store.commit(batch)
                except AnswerLostError:
                    lost += 1
                    (line,) = await send(store, batch)
                timer.cancel()
                assert (line.seq, line.stamp) == (number + 1, batch.stamp)
            lines = await store.journal()

            assert [line.change for line in lines] == [
                TextChanged(key=f"key {one}", text="") for one in range(number + 1)
            ]

    asyncio.run(story())


@pytest.mark.parametrize("commit", [False, True], ids=["a question is asked again", "a commit is unknown"])
def test_an_answer_does_not_count_if_its_server_is_left_before_the_caller_reads_it(
    commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SILENT_AFTER", 0.0)

    async def story() -> None:
        histories: list[int] = []
        async with postgres_nodes(new_database(migrated_template()), 1) as (store,):
            newer = connections.ServerRun(b"FFFFFFFF", datetime.max.replace(tzinfo=UTC))

            async def ask(session: connections.Session) -> int:
                await session.query("SELECT")
                if not histories:
                    asyncio.get_running_loop().call_soon(setattr, store._server, "_current", newer)
                histories.append(store.history)
                return store.history

            if commit:
                with pytest.raises(AnswerLostError):
                    await store._writer.work(ask, commit=True)
                assert histories == [0]
            else:
                assert await store._control.work(ask) == store.history == 1
                assert histories == [0, 1]

    asyncio.run(story())


def test_a_line_that_is_read_while_the_store_moves_to_a_server_without_it_is_lost() -> None:
    async def story() -> None:
        dsn, copy = new_database(migrated_template()), new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            address = Address(copy)
            elsewhere = await connections.DatabaseServer(address, store._connected).connect()
            with psycopg.connect(copy) as holder:
                holder.execute("LOCK TABLE ledger")
                moving = asyncio.create_task(store._connected(elsewhere, False))
                async with asyncio.timeout(30):
                    while execute(copy, WAITING_FOR_LEDGER) != [(1,)]:
                        await asyncio.sleep(0.01)
                await store.commit(texts("a"))
            await moving
            await elsewhere.close()

            assert store.history == 1

    asyncio.run(story())


@pytest.mark.usefixtures("hasty")
def test_a_server_that_does_not_answer_is_hung_up_on_and_the_batch_is_stored_once() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            batch = texts("a")
            with locked_ledger(dsn):
                with pytest.raises(AnswerLostError) as problem:
                    await store.commit(batch)
                state = store.state

            (line,) = await send(store, batch)

            assert problem.value.outcome_unknown
            assert str(problem.value).endswith("it is unknown whether the change was stored")
            assert state is StoreState.AWAY
            assert (line.seq, await store.last(), store.state) == (1, 1, StoreState.READY)

    asyncio.run(story())


@pytest.mark.usefixtures("hasty")
def test_a_commit_that_others_keep_from_the_ledger_is_tried_again_and_then_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = connections.SETUP.replace("'lock_timeout', '0'", "'lock_timeout', '20ms'")
    monkeypatch.setattr(connections, "SETUP", setup)

    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            batch = texts("a")
            with locked_ledger(dsn), pytest.raises(DatabaseBusyError) as problem:
                await store.commit(batch)

            assert not problem.value.outcome_unknown
            assert store.state is StoreState.READY
            assert len(await store.commit(batch)) == 1

    asyncio.run(story())


def test_limits_that_a_database_sets_for_its_sessions_cut_no_commit() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        ((name,),) = execute(dsn, "SELECT current_database()")
        for limit in ("statement_timeout", "lock_timeout"):
            execute(dsn, f"ALTER DATABASE {name} SET {limit} = '100ms'")
        async with postgres_nodes(dsn, 1) as (store,):
            with locked_ledger(dsn) as holder:
                commit = asyncio.create_task(store.commit(texts("a")))
                await waiting_commits(dsn, 1)
                holder.execute("SET statement_timeout = 0")
                await asyncio.to_thread(holder.execute, "SELECT pg_sleep(0.3)")

            assert len(await commit) == 1

    asyncio.run(story())


def test_a_node_listens_again_when_the_schema_has_not_fitted_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "LOOK_EVERY", 0.01)

    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            execute(dsn, "UPDATE meta SET schema = 0")
            async with store._listen():
                listener = store._listener
                assert listener is not None
                ended, _ = await asyncio.wait([listener], timeout=0.3)

                assert not ended

    asyncio.run(story())


def test_a_commit_that_waits_is_stored_although_its_caller_gives_up() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        async with postgres_nodes(dsn, 1) as (store,):
            with locked_ledger(dsn):
                caller = asyncio.create_task(store.commit(texts("a")))
                await waiting_commits(dsn, 1)

                caller.cancel()

                await asyncio.wait([caller])
                assert caller.cancelled()

        assert execute(dsn, "SELECT last FROM ledger") == [(1,)]

    asyncio.run(story())


class ReturningLink(DatabaseLink):
    """A link that is up again once it has refused a connection."""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refused = self.state is LinkState.CUT
        await super().accept(reader, writer)
        if refused:
            self.state = LinkState.UP


def test_a_database_that_comes_back_between_two_tries_is_not_taken_for_read_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.0)

    async def story() -> None:
        dsn = empty_database()
        server = conninfo_to_dict(dsn)
        link = ReturningLink(str(server["host"]), int(server.get("port") or 5432))
        async with link.serve():
            store = await PostgresStore.open(make_conninfo(dsn, host="127.0.0.1", port=link.port))
            link.change(LinkState.CUT)

            with suppress(StorageError):
                await store.last()

            assert store.state is not StoreState.READ_ONLY
            await store.close()

    asyncio.run(story())


def test_reads_wait_for_a_database_that_is_away_together_and_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 1.0)

    async def story() -> None:
        dsn = empty_database()
        server = conninfo_to_dict(dsn)
        link = DatabaseLink(str(server["host"]), int(server.get("port") or 5432))
        clock = asyncio.get_running_loop().time
        async with link.serve():
            store = await PostgresStore.open(make_conninfo(dsn, host="127.0.0.1", port=link.port))
            await store.journal()
            link.change(LinkState.CUT)

            began = clock()
            first = await asyncio.gather(*(store.journal() for _ in range(20)), return_exceptions=True)
            waited = clock() - began
            second = await asyncio.gather(*(store.journal() for _ in range(20)), return_exceptions=True)
            waited_again = clock() - began - waited
            link.change(LinkState.UP)

            assert {type(problem) for problem in (*first, *second)} == {DatabaseAwayError}
            assert 1 < waited < 10
            assert waited_again < 1
            assert await store.journal() == []
            await store.close()

    asyncio.run(story())


@pytest.mark.usefixtures("hasty")
def test_a_read_only_database_is_a_state_that_ends_when_writes_are_accepted_again() -> None:
    async def story() -> None:
        dsn = new_database(migrated_template())
        ((name,),) = execute(dsn, "SELECT current_database()")
        async with postgres_nodes(dsn, 1) as (store,):
            await store._writer.query("SET default_transaction_read_only = on")
            execute(dsn, f"ALTER DATABASE {name} SET default_transaction_read_only = on")

            with pytest.raises(DatabaseReadOnlyError) as problem:
                await store.commit(texts("a"))
            state = store.state
            writing = make_conninfo(dsn, options="-c default_transaction_read_only=off")
            execute(writing, f"ALTER DATABASE {name} RESET ALL")

            assert not problem.value.outcome_unknown
            assert state is StoreState.READ_ONLY
            assert len(await store.commit(texts("a"))) == 1
            assert store.state is StoreState.READY

    asyncio.run(story())


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for this test alone."""
    programs = find_programs()
    if programs is None:
        pytest.skip("there are no programs to start a server with")
    server = new_server(programs)
    server.start()
    try:
        yield server
    finally:
        server.end()


@pytest.mark.usefixtures("hasty")
def test_a_server_that_restarts_is_away_for_a_while_and_followers_go_on(server: Server) -> None:
    async def story() -> None:
        dsn = server.dsn()
        await migrate_database(Address(dsn))
        async with postgres_nodes(dsn) as (store, other):
            await store.commit(texts("a"))
            seen: list[Entry] = []
            following = asyncio.create_task(follow(other, seen))

            server.stop()
            with pytest.raises(DatabaseAwayError):
                await store.last()
            state = store.state
            server.start()
            (line,) = await send(store, texts("b"))

            async with asyncio.timeout(30):
                while len(seen) < 2:
                    await asyncio.sleep(0.01)
            following.cancel()
            assert state is StoreState.AWAY
            assert store.state is StoreState.READY
            assert [entry.seq for entry in seen] == [1, 2]
            assert seen[1] == line

    asyncio.run(story())


async def follow(store: PostgresStore, seen: list[Entry]) -> None:
    """Follow a journal as a node does: after an error it begins again where it was."""
    while True:
        with suppress(StorageError):
            async with aclosing(store.follow(len(seen))) as pages:
                async for page in pages:
                    seen += page
        await asyncio.sleep(0.01)


def test_a_follower_ends_at_once_although_the_server_no_longer_answers_its_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "LOOK_EVERY", 0.05)

    async def story() -> None:
        dsn = new_database(migrated_template())
        server = conninfo_to_dict(dsn)
        async with DatabaseLink(str(server["host"]), int(server.get("port") or 5432)).serve() as link:
            store = await PostgresStore.open(make_conninfo(dsn, host="127.0.0.1", port=link.port))
            pages = store.follow(0)
            await store.commit(texts("a"))
            await anext(pages)
            async with asyncio.timeout(10):
                while execute(dsn, LISTENING) == [(0,)]:
                    await asyncio.sleep(0.01)
            link.change(LinkState.HANGING)
            await asyncio.sleep(0.3)  # the listener asks whether the server is there

            async with asyncio.timeout(2):
                await pages.aclose()

            link.change(LinkState.UP)
            async with asyncio.timeout(5):
                await store.close()

    asyncio.run(story())


@pytest.mark.usefixtures("hasty")
def test_a_database_that_was_never_there_is_away_and_its_password_is_not_shown() -> None:
    with pytest.raises(DatabaseAwayError) as problem:
        asyncio.run(PostgresStore.open("host=/nowhere user=fw password=geheim"))

    assert "geheim" not in str(problem.value)
    assert "/nowhere" in str(problem.value)
    assert problem.value.problem == "the database does not answer"
