"""A store in PostgreSQL, which several nodes share.

A batch is one call of the function ``commit_batch``: one round trip, so that a node that stops in the middle
of a commit holds no lock that the others wait for. The function locks the one row of the ledger first. That
orders all batches and numbers the journal without gaps, and a gap shows that lines are missing.

The journal is the replication log. A node is told of new lines by NOTIFY, which is only a hint, and looks at
least once a second. After a failover the database may have lost lines that this node knows. So every new
connection looks for the newest line that this store has read or heard of. If it is gone, or is a different
one, a new *history* begins: all followers get a ``GapError``, and the next snapshot replaces what the node
knows. A new history begins on every new timeline of the database, too: one line that two timelines share does
not prove that they share all lines before it, because a batch that was sent to both may have the same number.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime, timedelta
from types import MappingProxyType

import psycopg
from psycopg.rows import TupleRow

from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId, ScopeId
from fairwarning.core.stored.releases import OLDEST, DataRelease
from fairwarning.engine.ports import (
    GONE_AFTER,
    Batch,
    Entry,
    FleetSnapshot,
    GapError,
    Heartbeat,
    Lease,
    Member,
    NodeReport,
    StaleBatchError,
    StoreState,
)
from fairwarning.store.following import Followers
from fairwarning.store.leases import next_lease, released, renewed
from fairwarning.store.postgres.address import Address
from fairwarning.store.postgres.batch import encode_batch, number_from_one, read_answer
from fairwarning.store.postgres.connection import ANSWER_WITHIN, DatabaseServer, PostgresConnection, Session
from fairwarning.store.postgres.schema import (
    RELEASE_OF,
    check_schema,
    data_release,
    migrate,
    newer_database,
    steps,
)
from fairwarning.store.rows import (
    COLUMNS,
    ScopeReader,
    claim_row,
    instant,
    read_documents,
    read_entry,
    read_leases,
    read_notes,
    read_polls,
    read_sets,
    verified_lines,
    with_checksum,
)

#: A position that no journal has: a batch with it is stale unless it is stored already.
NO_LINE = -1

#: How often a node looks for new lines that it was not told of, in seconds.
LOOK_EVERY = 1.0

#: The bytes of a batch that take the database a second, at worst: a large batch is waited for longer.
BYTES_PER_SECOND = 1_000_000

COMMIT = "SELECT commit_batch(%s, %s)::text"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
FIND_LINE = "SELECT last, (SELECT stamp FROM journal WHERE seq = %s) FROM ledger"
LAST_LINE = "SELECT last, (SELECT stamp FROM journal WHERE seq = last) FROM ledger"
END = "SELECT last, mark FROM ledger, pruning"
SIZE = """
    SELECT written - removed + (
        SELECT sum(pg_total_relation_size(name::regclass))
        FROM unnest(ARRAY['scope', 'machine', 'event', 'poll', 'fleet_set', 'document', 'note', 'claim']) name
    ) FROM ledger, pruning
"""
PUT_NOTE = """
    INSERT INTO note (key, value, checksum) VALUES (%s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum
"""
ADD_NOTE = "INSERT INTO note (key, value, checksum) VALUES (%s, %s, %s) ON CONFLICT (key) DO NOTHING"
#: Writes a lease unless another one than the given owner, fence and end was written meanwhile.
SWAP_CLAIM = """
    INSERT INTO claim (key, owner, fence, until, checksum) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET
        owner = excluded.owner, fence = excluded.fence, until = excluded.until, checksum = excluded.checksum
    WHERE (claim.owner, claim.fence, claim.until) = (%s, %s, %s)
    RETURNING key
"""
BEAT = """
    WITH beat AS (
        INSERT INTO node (id, name, address, position, offset_us, release, inventory, reads, beat)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, clock_timestamp())
        ON CONFLICT (id) DO UPDATE SET
            name = excluded.name, address = excluded.address, position = excluded.position,
            offset_us = excluded.offset_us, release = excluded.release, inventory = excluded.inventory,
            reads = excluded.reads, beat = excluded.beat
        RETURNING *
    ), forgotten AS (
        DELETE FROM node WHERE beat < clock_timestamp() - interval '1 day'
    ), live AS (
        SELECT * FROM beat
        UNION ALL
        SELECT * FROM node WHERE id <> %s AND beat >= clock_timestamp() - %s
    )
    SELECT clock_timestamp(), readable_from, id, name, address, position, offset_us, release, inventory,
        reads, beat
    FROM live, meta ORDER BY id
"""


class PostgresStore:
    """The fleet of several nodes, in a PostgreSQL database."""

    def __init__(self, address: Address) -> None:
        self._steps = steps()
        self._server = DatabaseServer(address, self._connected)
        #: Batches; short questions, heartbeats and leases; everything that may take longer.
        self._writer = PostgresConnection(self._server)
        self._control = PostgresConnection(self._server)
        self._reader = PostgresConnection(self._server)
        self._followers = Followers()
        #: What waits for notifications, now and before, and the number of followers.
        self._listener: asyncio.Task[None] | None = None
        self._listeners: set[asyncio.Task[None]] = set()
        self._listening = 0
        #: The newest line that was read or written, and its stamp; the largest number of a last line.
        self._newest = (0, 0)
        self._last = 0
        #: The history, now and at the last snapshot, and the last one that began because lines were missed.
        self._history = 0
        self._loaded_history = 0
        self._lost_history = 0
        self._oldest_reader = OLDEST

    @classmethod
    async def open(cls, dsn: str, *, migrate: bool = False) -> "PostgresStore":
        """Return the store in a database; its tables are created or changed only if ``migrate``.

        Raises:
            DatabaseAwayError: the database does not answer.
            DatabaseReadOnlyError: the database accepts no writes.
            DatabaseUnsuitableError: the address cannot be read, or the server is too old.
            NewerDatabaseError: only a newer version can use the database.
            OlderDatabaseError: the database has to be migrated first.
        """
        address = Address(dsn)
        if migrate:
            await migrate_database(address)
        store = cls(address)
        try:
            await store.last()
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def state(self) -> StoreState:
        """What the database can do, as the last calls have shown."""
        return self._server.state

    @property
    def history(self) -> int:
        """How often lines were lost that this store knew."""
        return self._history

    @property
    def oldest_reader(self) -> DataRelease:
        """The oldest release that may use the database, as the last heartbeat or connection has shown."""
        return self._oldest_reader

    async def snapshot(self) -> FleetSnapshot:
        """Return the whole state as of the last batch; it is read in slices."""
        snapshot = await self._reader.work(self._read_snapshot)
        self._loaded_history = snapshot.history
        if snapshot.stamp:
            self._note_line(snapshot.position, snapshot.stamp)
        return snapshot

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        """Store a batch, or none of it, and return its journal lines."""
        lines = number_from_one(batch)
        sent = encode_batch(batch, lines)
        within = ANSWER_WITHIN + len(sent) / BYTES_PER_SECOND

        async def commit(session: Session) -> Sequence[Entry]:
            argument = sent
            if batch.history not in (None, self._history):  # connecting may have shown that it is over
                argument = encode_batch(batch._replace(position=NO_LINE), lines)
            ((answer,),) = await session.query(COMMIT, argument, len(self._steps), within=within)
            return read_answer(batch, lines, answer)

        try:
            entries = await self._writer.work(commit, commit=True)
        except StaleBatchError as conflict:
            self._last = max(self._last, conflict.last)
            raise
        if entries:
            self._note_line(entries[-1].seq, entries[-1].stamp)
            self._followers.announce(entries)
        return entries

    async def last(self) -> int:
        """Return the number of the journal's last line."""
        ((last, _),) = await self._control.query(END)
        self._last = max(self._last, last)
        return int(last)

    async def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the lines after line ``after`` as they are stored, whole batches at once."""
        history = self._history

        def check_history(start: int) -> None:
            if not history == self._history == self._loaded_history:
                raise GapError(f"the database has lost lines up to line {start}")

        async def read(start: int, limit: int) -> tuple[Sequence[Entry], int]:
            page, pruned = await self._read_page(start, limit)
            check_history(start)
            if page:
                self._note_line(page[-1].seq, page[-1].stamp)
            return page, pruned

        async with self._listen(), aclosing(self._followers.follow(after, stamp, read)) as pages:
            async for page in pages:
                check_history(page[0].seq)  # a batch of this node comes without being read
                yield page

    async def claim(self, key: str, owner: str, now: datetime, lasts: timedelta) -> Lease | None:
        """Return a new lease with the next fence; None while another owner's lease lasts."""
        return await self._change_lease(key, lambda newest: next_lease(newest, key, owner, now, lasts))

    async def renew(self, lease: Lease, now: datetime, lasts: timedelta) -> Lease | None:
        """Return the lease with a later end; None if it is no longer the newest."""
        return await self._change_lease(lease.key, lambda newest: renewed(newest, lease, now, lasts))

    async def release(self, lease: Lease) -> None:
        """End a lease, unless it is no longer the newest."""
        await self._change_lease(lease.key, lambda newest: released(newest, lease))

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
        newest_first: bool = False,
    ) -> Sequence[Entry]:
        """Return ``limit`` journal lines after line ``after``: of an event, of a scope, or all."""
        filters = {"event": event, "scope": scope}
        return await self._reader.work(
            lambda session: _read_lines(session, after, limit, filters, newest_first)
        )

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines that are not needed; return the number of lines examined."""
        limit = None if before is None else instant(before)

        async def prune(session: Session) -> int:
            ((examined,),) = await session.query(
                "SELECT prune_journal(%s, %s, %s, %s)", limit, most, sorted(keep), spare
            )
            await session.query("SELECT drop_empty_partitions()")
            return int(examined)

        return await self._reader.work(prune)

    async def pruned(self) -> int:
        """Return the last line of the pruned part."""
        ((_, mark),) = await self._control.query(END)
        return int(mark)

    async def size(self) -> int:
        """Return the approximate size of the fleet and of the lines of the journal in bytes."""
        ((size,),) = await self._reader.query(SIZE)
        return int(size)

    async def put_value(self, key: str, value: str | None) -> None:
        """Store a value about the service itself; None removes it."""
        if value is None:
            await self._control.query("DELETE FROM note WHERE key = %s", key)
        else:
            await self._control.query(PUT_NOTE, *with_checksum(key, value))

    async def put_value_if_absent(self, key: str, value: str) -> str:
        """Store a value unless the key has one; return the value that the key has now."""

        async def put(session: Session) -> str | None:
            await session.query(ADD_NOTE, *with_checksum(key, value))
            return await _read_value(session, key)

        stored = await self._control.work(put)
        return value if stored is None else stored

    async def get_value(self, key: str) -> str | None:
        """Return a value that ``put_value`` stored; None if there is none."""
        return await self._control.work(lambda session: _read_value(session, key))

    async def heartbeat(self, report: NodeReport) -> Heartbeat:
        """Record that a node is alive, and return the database's time and the nodes that are alive."""
        node, name, address, position, offset, release, inventory = report
        microseconds = offset // timedelta(microseconds=1)
        known = len(self._steps)
        rows = await self._control.query(
            BEAT, node, name, address, position, microseconds, release, inventory, known, node, GONE_AFTER
        )
        now, readable_from, *_ = rows[0]
        if readable_from > known:
            newer = await self._control.query(RELEASE_OF, readable_from)
            raise newer_database(readable_from, known, newer)
        self._oldest_reader = data_release(readable_from)
        return Heartbeat(now, tuple(_member(row[2:]) for row in rows))

    async def leave(self, node: str) -> None:
        """Remove a node that ends, by its id."""
        await self._control.query("DELETE FROM node WHERE id = %s", node)

    async def close(self) -> None:
        """Finish what was begun, then close all connections."""
        self._stop_listening()
        if self._listeners:
            await asyncio.wait(self._listeners)
        for connection in (self._writer, self._control, self._reader):
            await connection.close()

    async def _connected(self, session: Session, new_timeline: bool) -> None:
        """Check that a new connection leads to the database that this store knows."""
        self._oldest_reader = await check_schema(session, self._steps)
        known = None
        while known != (self._newest, self._last):  # other connections may read lines meanwhile
            (seq, stamp), heard = known = self._newest, self._last
            ((last, found),) = await session.query(FIND_LINE, seq)
        lost = last < heard or (seq != 0 and found != stamp)
        if lost or new_timeline:
            self._newest, self._last = (0, 0), last
            self._history += 1
            self._lost_history = self._history if lost else self._lost_history
            self._followers.announce(())

    def _note_line(self, seq: int, stamp: int) -> None:
        self._newest = max(self._newest, (seq, stamp))
        self._last = max(self._last, seq)

    async def _read_snapshot(self, session: Session) -> FleetSnapshot:
        history, scopes = self._history, ScopeReader()
        lines_lost = self._lost_history > self._loaded_history
        async with session.transaction(SNAPSHOT):
            ((last, stamp),) = await session.query(LAST_LINE)
            async for rows in session.slices(f"{_select('machine')} ORDER BY position"):
                scopes.add_machines(rows)
            async for rows in session.slices(f"{_select('event')} ORDER BY position"):
                scopes.add_events(rows)
            async for rows in session.slices(f"{_select('scope')} ORDER BY position"):
                scopes.add_scopes(rows)
            texts, text_stamps = read_documents(())
            async for rows in session.slices(f"{_select('document')} ORDER BY position"):
                more_texts, more_stamps = read_documents(rows)
                texts |= more_texts
                text_stamps |= more_stamps
            sets = read_sets(())
            async for rows in session.slices(_select("fleet_set")):
                sets.update(read_sets(rows))
            polled: dict[ScopeId, datetime] = {}
            async for rows in session.slices(_select("poll")):
                polled.update(read_polls(rows, scopes.scopes))
        return FleetSnapshot(
            position=last,
            stamp=stamp or 0,
            scopes=MappingProxyType(scopes.scopes),
            scope_stamps=MappingProxyType(scopes.stamps),
            sets=MappingProxyType(sets),
            texts=MappingProxyType(texts),
            text_stamps=MappingProxyType(text_stamps),
            polled=MappingProxyType(polled),
            history=history,
            lines_lost=lines_lost,
        )

    async def _read_page(self, after: int, limit: int) -> tuple[Sequence[Entry], int]:
        """Return lines after a line, and the last line of the journal's pruned part."""

        async def read(session: Session) -> tuple[Sequence[Entry], int]:
            lines = await _read_lines(session, after, limit, {})
            if lines and lines[-1].seq - after == len(lines):
                return lines, 0  # nothing is missing between them
            ((_, mark),) = await session.query(END)
            return lines, int(mark)

        return await self._control.work(read)

    async def _change_lease(self, key: str, change: Callable[[Lease | None], Lease | None]) -> Lease | None:
        """Replace the newest lease of a key, unless ``change`` returns None."""

        async def swap(session: Session) -> Lease | None:
            while True:
                leases = read_leases(await session.query(f"{_select('claim')} WHERE key = %s", key))
                newest = leases.get(key)
                lease = change(newest)
                known = (None, None, None) if newest is None else claim_row(newest)[1:4]
                if lease is None or await session.query(SWAP_CLAIM, *claim_row(lease), *known):
                    return lease

        return await self._control.work(swap)

    @asynccontextmanager
    async def _listen(self) -> AsyncIterator[None]:
        """Wake followers in the block when another node stores something."""
        self._listening += 1
        if self._listener is None:
            self._listener = asyncio.create_task(self._wake_followers())
            self._listeners.add(self._listener)
            self._listener.add_done_callback(self._listeners.discard)
        try:
            yield
        finally:
            self._listening -= 1
            if not self._listening:
                self._stop_listening()

    def _stop_listening(self) -> None:
        # A server that does not answer holds up its end, which no follower waits for.
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.cancel()

    async def _wake_followers(self) -> None:
        own = asyncio.current_task()
        # A connection that is lost while psycopg ends a statement takes the place of the cancellation.
        while self._listener is own:
            # A database that this version cannot use is reported by what reads it.
            with suppress(psycopg.Error, FairWarningError):
                session = await self._server.connect()
                try:
                    await session.query("LISTEN fairwarning")
                    self._followers.wake()
                    while self._listener is own and not self._server.has_left(session):
                        # The batches of this node are announced by their commit.
                        if await session.notified(LOOK_EVERY, self._writer.pid):
                            self._followers.wake()
                finally:
                    await session.close()
            self._followers.wake()
            await asyncio.sleep(LOOK_EVERY)


async def migrate_database(address: Address) -> None:
    """Bring a database to the schema of this version; nodes of the release before go on."""

    async def nothing(session: Session, new_timeline: bool) -> None:
        pass

    connection = PostgresConnection(DatabaseServer(address, nothing))
    try:
        await connection.work(lambda session: migrate(session, steps()))
    finally:
        await connection.close()


def _select(table: str) -> str:
    return f"SELECT {', '.join(COLUMNS[table])}, checksum FROM {table}"


async def _read_lines(
    session: Session, after: int, limit: int, only: Mapping[str, str | None], newest_first: bool = False
) -> Sequence[Entry]:
    filters = {column: value for column, value in only.items() if value is not None}
    conditions = "".join(f" AND {column} = %s" for column in filters)
    order = "DESC" if newest_first else "ASC"
    rows = await session.query(
        f"{_select('journal')} WHERE seq > %s{conditions} ORDER BY seq {order} LIMIT %s",
        after,
        *filters.values(),
        limit,
    )
    return [read_entry(row) for row in verified_lines(rows)]


async def _read_value(session: Session, key: str) -> str | None:
    return read_notes(await session.query(f"{_select('note')} WHERE key = %s", key)).get(key)


def _member(row: TupleRow) -> Member:
    node, name, address, position, offset, release, inventory, schema, beat = row
    report = NodeReport(
        node.decode(),
        name.decode(),
        address.decode(),
        position,
        timedelta(microseconds=offset),
        release.decode(),
        inventory.decode(),
    )
    return Member(report, beat, data_release(schema))
