"""A PostgreSQL database, read while nodes may run.

The rows are those of SQLite, with three differences that are hidden here: the checksum of a journal line does
not cover its numbers, the pruned mark is a row of its own, and the journal has partitions and receipts.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import Connection, IsolationLevel
from psycopg.rows import TupleRow

from fairwarning.database.errors import NoDatabaseError, NodesRunningError
from fairwarning.database.findings import DatabaseFinding, FindingKind
from fairwarning.database.restore import RestoredTables
from fairwarning.database.tables import ORDERED, StoredRow
from fairwarning.engine.ports import GONE_AFTER
from fairwarning.store.errors import (
    DatabaseAwayError,
    DatabaseNotEmptyError,
    DatabaseRefusedError,
    OlderDatabaseError,
)
from fairwarning.store.migrate import ChangedMigrationError
from fairwarning.store.postgres.address import Address
from fairwarning.store.postgres.connection import BytesLoader, is_lost
from fairwarning.store.postgres.schema import (
    FINISH,
    LIVE_NODES,
    LOCK,
    RELEASE_OF,
    STORED,
    data_release,
    newer_database,
    steps,
)
from fairwarning.store.postgres.store import migrate_database
from fairwarning.store.pruning import MARK
from fairwarning.store.rows import COLUMNS, Row, row_checksum

#: How many rows are fetched at once.
SLICE = 2000

#: The most partitions that a restored journal gets.
MOST_PARTITIONS = 1000

#: How far a standby may be behind the server that it follows; nothing if the server is no standby.
BEHIND = """
    SELECT CASE WHEN pg_is_in_recovery()
        THEN greatest(clock_timestamp() - coalesce(pg_last_xact_replay_timestamp(), clock_timestamp()), '0')
        ELSE '0'::interval END
"""
META = "SELECT schema, readable_from FROM meta"
MIGRATIONS = "SELECT number, checksum FROM migration"
#: The nodes that are alive and do not know a schema.
OUTDATED_NODES = """
    SELECT name, release FROM node WHERE beat >= clock_timestamp() - %s AND reads < %s ORDER BY name
"""

#: Receipts of batches that have lines, all of them after the pruned part, where the journal says otherwise.
FALSE_RECEIPTS = """
    SELECT receipt.stamp, receipt.last FROM receipt, pruning WHERE receipt.first > mark
        AND receipt.first <= receipt.last AND NOT EXISTS (
            SELECT FROM journal WHERE seq = receipt.last AND ends = seq AND stamp = receipt.stamp
        )
    ORDER BY receipt.last
"""
#: Lines of the journal that no partition has room for: between two partitions, or after the last one.
MISSING_PARTITIONS = """
    SELECT until FROM journal_partition part, pruning, ledger WHERE until > mark AND until <= last
        AND NOT EXISTS (SELECT FROM journal_partition next WHERE next.first = part.until)
    ORDER BY until
"""
#: Partitions that are listed and do not exist, or exist and are not listed.
UNKNOWN_PARTITIONS = """
    SELECT coalesce('journal_' || first, relname::text) FROM journal_partition FULL JOIN (
        SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'journal'::regclass
    ) child ON relname = 'journal_' || first
    WHERE first IS NULL OR relname IS NULL
"""
SET_END = """
    UPDATE ledger SET last = %s, written = (SELECT coalesce(sum(line_bytes(body)), 0) FROM journal)
"""


class PostgresTables:
    """All tables of a PostgreSQL database at one moment."""

    def __init__(self, connection: Connection[TupleRow]) -> None:
        self._connection = connection
        ((self.last_line,),) = connection.execute("SELECT last FROM ledger")
        ((self.behind,),) = connection.execute(BEHIND)
        self.oldest_reader = data_release(_meta(connection)[1])

    def rows(self, table: str) -> Iterator[StoredRow]:
        """Yield the rows of a table in order of creation."""
        if table == "journal":
            return map(_numbered_line, self._select(table, "seq"))
        order = "position" if table in ORDERED else COLUMNS[table][0]
        if table == "note":
            return self._values(self._select(table, order))
        return self._select(table, order)

    def problems(self) -> Iterator[DatabaseFinding]:
        """Yield what is wrong with migrations, receipts and partitions."""
        ran: dict[int, bytes] = dict(self._connection.execute(MIGRATIONS).fetchall())
        for step in steps():
            if ran.get(step.number) != step.checksum.encode():
                problem = str(ChangedMigrationError(step.name))
                yield DatabaseFinding(FindingKind.STRUCTURE, "migration", problem)
        for stamp, last in self._connection.execute(FALSE_RECEIPTS):
            problem = f"the journal has no such batch with the last line {last}"
            yield DatabaseFinding(FindingKind.RECEIPT, f"receipt {stamp}", problem)
        for (line,) in self._connection.execute(MISSING_PARTITIONS):
            yield DatabaseFinding(FindingKind.PARTITION, f"journal line {line}", "has no partition")
        for (name,) in self._connection.execute(UNKNOWN_PARTITIONS):
            problem = "is not both listed and part of the journal"
            yield DatabaseFinding(FindingKind.PARTITION, name.decode(), problem)

    def _select(self, table: str, order: str) -> Iterator[StoredRow]:
        columns = ", ".join((*COLUMNS[table], "checksum"))
        with self._connection.cursor(name="rows") as cursor:
            cursor.itersize = SLICE
            cursor.execute(f"SELECT {columns} FROM {table} ORDER BY {order}".encode())
            yield from cursor

    def _values(self, rows: Iterator[StoredRow]) -> Iterator[StoredRow]:
        ((mark,),) = self._connection.execute("SELECT mark FROM pruning")
        if mark:
            yield MARK.encode(), str(mark).encode(), row_checksum(MARK, str(mark))
        yield from rows


class PostgresDatabase:
    """A PostgreSQL database, by its address."""

    def __init__(self, dsn: str) -> None:
        self._address = Address(dsn)
        self.name = f"database {self._address}"

    @contextmanager
    def read(self) -> Iterator[PostgresTables]:
        """Yield all tables as they are now; nodes may go on writing.

        Raises:
            NoDatabaseError: the database has no tables of a fleet.
            OlderDatabaseError: the database has to be migrated first.
            NewerDatabaseError: only a newer version can use the database.
            DatabaseAwayError: the database does not answer.
        """
        with self._connect(self._address.session_for_reading) as connection:
            connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
            self._check_schema(connection)
            yield PostgresTables(connection)

    def check_empty(self) -> None:
        """Check that nothing is stored and that no node runs.

        Raises:
            DatabaseNotEmptyError: something is stored.
            NodesRunningError: nodes use the database.
        """
        with self._connect("read-write") as connection:
            if _meta(connection)[0]:
                self._check_empty(connection)

    def fill(self, tables: RestoredTables, last_line: int) -> None:
        """Create the tables if there are none, and write all rows in one transaction.

        Raises:
            DatabaseNotEmptyError: something is stored.
            NodesRunningError: nodes use the database.
        """
        self.migrate()
        with self._connect("read-write") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            connection.execute("SELECT FROM ledger FOR UPDATE")  # no node commits meanwhile
            self._check_schema(connection)
            self._check_empty(connection)
            _add_partitions(connection, last_line)
            for table, rows in tables:
                _insert(connection, table, rows)
            connection.execute(SET_END, (last_line,))
            connection.execute(FINISH, (len(steps()),))  # no node runs, and a backup may be of this release
            connection.commit()

    def migrate(self) -> tuple[int, int]:
        """Bring the database to the schema of this version; return its schema before and after.

        Raises:
            NewerDatabaseError: only a newer version can use the database.
        """
        with self._connect("read-write") as connection:
            before, readable_from = _meta(connection)
            _check_not_newer(connection, readable_from)
        if before < len(steps()):
            asyncio.run(migrate_database(self._address))
        return before, max(before, len(steps()))

    def finish(self) -> int:
        """Lock out earlier releases, and return the oldest schema that a node has to know from now on.

        Raises:
            NodesRunningError: a node runs that does not know the schema.
            OlderDatabaseError: the database has to be migrated first.
        """
        with self._connect("read-write") as connection:
            self._check_schema(connection)
            connection.execute("SELECT FROM meta FOR UPDATE")
            outdated = _names(connection.execute(OUTDATED_NODES, (GONE_AFTER, len(steps()))))
            if outdated:
                raise NodesRunningError(self.name, outdated)
            ((readable_from,),) = connection.execute(FINISH, (len(steps()),))
            connection.commit()
        return int(readable_from)

    def _check_schema(self, connection: Connection[TupleRow]) -> None:
        found, readable_from = _meta(connection)
        if not found:
            raise NoDatabaseError(self.name)
        _check_not_newer(connection, readable_from)
        if found < len(steps()):
            raise OlderDatabaseError(found, len(steps()))

    def _check_empty(self, connection: Connection[TupleRow]) -> None:
        if nodes := _names(connection.execute(LIVE_NODES, (GONE_AFTER,))):
            raise NodesRunningError(self.name, nodes)
        ((stored,),) = connection.execute(STORED)
        if stored:
            raise DatabaseNotEmptyError(self.name)

    @contextmanager
    def _connect(self, session: str) -> Iterator[Connection[TupleRow]]:
        """Yield a connection; a transaction that is not committed is rolled back."""
        try:
            connection = psycopg.connect(self._address.conninfo(session))
            try:
                connection.adapters.register_loader("text", BytesLoader)
                yield connection
            finally:
                connection.close()
        except psycopg.Error as problem:
            text = " ".join(str(problem).split())
            raise DatabaseAwayError(text) if is_lost(problem) else DatabaseRefusedError(text) from problem


def _meta(connection: Connection[TupleRow]) -> tuple[int, int]:
    """Return the schema, and the oldest schema that a node has to know; 0 if there are no tables."""
    ((exists,),) = connection.execute("SELECT to_regclass('meta') IS NOT NULL")
    if not exists:
        return 0, 0
    ((schema, readable_from),) = connection.execute(META)
    return schema, readable_from


def _check_not_newer(connection: Connection[TupleRow], readable_from: int) -> None:
    if readable_from > len(steps()):
        release = connection.execute(RELEASE_OF, (readable_from,)).fetchall()
        raise newer_database(readable_from, len(steps()), release)


def _names(nodes: Iterable[TupleRow]) -> list[tuple[str, str]]:
    return [(name.decode(), release.decode()) for name, release in nodes]


def _numbered_line(row: StoredRow) -> StoredRow:
    """Return a journal line with a checksum that covers its numbers; a wrong checksum stays wrong."""
    texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in row[:-1]]
    is_right = row_checksum(*texts[1:-1]) == row[-1]
    return *row[:-1], row_checksum(*texts) if is_right else -1


def _add_partitions(connection: Connection[TupleRow], last_line: int) -> None:
    """Make room for a journal; an old one has few partitions, each with more lines than usual."""
    ((usual,),) = connection.execute("SELECT partition_lines FROM ledger")
    connection.execute("UPDATE ledger SET partition_lines = %s", (max(usual, last_line // MOST_PARTITIONS),))
    connection.execute("SELECT add_partitions(%s)", (last_line + 1,))
    connection.execute("UPDATE ledger SET partition_lines = %s", (usual,))


def _insert(connection: Connection[TupleRow], table: str, rows: Iterable[Row]) -> None:
    columns = ", ".join((*COLUMNS[table], "checksum"))
    with connection.cursor() as cursor:
        marks = []
        with cursor.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
            for row in rows:
                if table == "note" and row[0] == MARK:
                    marks.append(row[1])
                elif table == "journal":
                    copy.write_row((*row[:-1], row_checksum(*row[1:-2])))
                else:
                    copy.write_row(row)
        for mark in marks:
            cursor.execute("UPDATE pruning SET mark = %s", (mark,))
