"""A store in one SQLite file.

One thread writes and another reads: the event loop never waits for the disk, and the writer never waits for
a reader. A batch is one transaction, which is on the disk when ``commit`` returns. The SQL is
plain, so that another database can run the same statements.

A COMMIT that fails may nevertheless be on the disk, and after a failed sync the operating system's view of
the file cannot be trusted. The store then recovers before the next read or write: it opens the database
again, checks it, and copies the log into the database file.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from fairwarning.core.model import EventId, ScopeId
from fairwarning.core.stored.releases import NEWEST
from fairwarning.engine.ports import Batch, Entry, FleetSnapshot, Lease
from fairwarning.store.checks import (
    WITH_HEADER,
    Header,
    check_at_start,
    check_journal_end,
    check_loaded,
    check_structure,
    read_header,
    select_rows,
)
from fairwarning.store.connection import (
    SqliteConnection,
    UncertainCommitError,
    connect,
    transaction,
    translate_errors,
)
from fairwarning.store.entries import Receipts
from fairwarning.store.errors import (
    DatabaseNotEmptyError,
    DataDirectoryInUseError,
    DataDirectoryUnusableError,
    StoreFailedError,
    WrongDatabaseError,
)
from fairwarning.store.following import Followers
from fairwarning.store.leases import next_lease, released, renewed
from fairwarning.store.marker import MARKER, Marker, MarkerFile, read_marker
from fairwarning.store.migrate import check_not_newer, migrate, migrations, schema
from fairwarning.store.pruning import MARK, prune, size
from fairwarning.store.rows import (
    Row,
    ScopeReader,
    claim_row,
    read_documents,
    read_entry,
    read_leases,
    read_notes,
    read_polls,
    read_sets,
    row_checksum,
    verified_rows,
    with_checksum,
)
from fairwarning.store.writing import insert_rows, is_empty, write_batch

Result = TypeVar("Result")

DATABASE, LOCK = "fairwarning.db", "lock"

#: FULL syncs the log at every commit: an approval is on the disk before it is answered. What is deleted is
#: overwritten: the parameters of a deployment may be secret.
WRITING = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 5000",
)
#: Who reads everything reads each page once; what a larger cache takes for it stays with the process.
READING = ("PRAGMA query_only = ON", "PRAGMA busy_timeout = 5000", "PRAGMA cache_size = -256")

UPSERT_NOTE = """
    INSERT INTO note (key, value, checksum) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum
"""
DELETE_NOTE = "DELETE FROM note WHERE key = ?"
UPSERT_CLAIM = """
    INSERT INTO claim (key, owner, fence, until, checksum) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        owner = excluded.owner, fence = excluded.fence, until = excluded.until, checksum = excluded.checksum
"""
UPDATE_HEADER = "UPDATE header SET commits = ?, last_line = ?, checksum = ?"

LINES = f"{select_rows('journal')} WHERE seq > ?{{only}} ORDER BY seq{{order}} LIMIT ?"
NEWEST_LINES = "SELECT seq, stamp, ends FROM journal ORDER BY seq DESC"


class SqliteStore:
    """The fleet of one server, stored in one data directory."""

    history = 0
    oldest_reader = NEWEST

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / DATABASE
        self._lock = -1
        self._writer = SqliteConnection(self._path)
        self._reader = SqliteConnection(self._path)
        self._header = Header("", 0, 0)
        self._marker: MarkerFile | None = None
        self._loaded = False
        self._receipts = Receipts()
        self._followers = Followers()
        self._outcome_unknown = False
        self._recovering = asyncio.Lock()

    @classmethod
    async def open(cls, directory: Path) -> "SqliteStore":
        """Return the store in ``directory``; the database is created or migrated as needed.

        Raises:
            DataDirectoryInUseError: another server uses the directory.
            DataDirectoryUnusableError: the directory cannot be created or written.
            DatabaseDamagedError: the database is not what was written, or does not belong to the directory.
            NewerDatabaseError: a newer version wrote the database.
        """
        store = cls(directory)
        try:
            await store._writer.open(store._lock_and_connect)
            await store._writer.work(store._prepare)
            await store._reader.open(lambda: _connect(store._path, READING))
        except BaseException:
            await store.close()
            raise
        return store

    async def snapshot(self) -> FleetSnapshot:
        """Return the whole state as of the last batch."""
        if self._loaded:
            return await self._read(_snapshot)
        # Both read all rows, so they run at the same time.
        snapshot, _ = await asyncio.gather(self._read(_snapshot), asyncio.to_thread(self._check_loaded))
        self._loaded = True
        return snapshot

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        """Store a batch, or none of it, and return its journal lines."""

        def commit(database: sqlite3.Connection, header: Header) -> tuple[Header, Sequence[Entry]]:
            known = self._receipts.get(batch.stamp)
            if known is not None:
                lines = _journal(database, known.start - 1, len(known), {})
                return header, [entry for entry in lines if entry.stamp == batch.stamp]
            with transaction(database, "BEGIN IMMEDIATE"):
                entries = write_batch(database, batch, header.last_line)
                after = _increment_header(database, header, len(entries))
            self._receipts.add(batch.stamp, range(header.last_line + 1, after.last_line + 1))
            return after, entries

        return await self._write(commit, self._followers.announce)

    async def last(self) -> int:
        """Return the number of the journal's last line."""
        await self._recover_if_needed()
        return self._header.last_line

    def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the lines after line ``after`` as they are stored, whole batches at once."""

        def read(database: sqlite3.Connection, start: int, limit: int) -> tuple[Sequence[Entry], int]:
            with transaction(database, "BEGIN"):
                return _journal(database, start, limit, {}), _pruned(database)

        return self._followers.follow(
            after, stamp, lambda start, limit: self._read(lambda database: read(database, start, limit))
        )

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
        only = {"event": event, "scope": scope}
        return await self._read(lambda database: _journal(database, after, limit, only, newest_first))

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines that are not needed; return the number of lines examined."""

        def prune_slice(database: sqlite3.Connection, header: Header) -> tuple[Header, int]:
            with transaction(database, "BEGIN IMMEDIATE"):
                examined = prune(database, _pruned(database), before, most, keep, max(1, spare))
                if examined:
                    database.execute(UPSERT_NOTE, with_checksum(MARK, str(examined[-1])))
                return _increment_header(database, header, 0), len(examined)

        return await self._write(prune_slice)

    async def pruned(self) -> int:
        """Return the last line of the pruned part."""
        return await self._read(_pruned)

    async def size(self) -> int:
        """Return the number of bytes of the file that are in use."""
        return await self._read(size)

    async def put_value(self, key: str, value: str | None) -> None:
        """Store a value about the service itself; None removes it."""
        await self._write(lambda database, header: _put_value(database, header, key, value))

    async def put_value_if_absent(self, key: str, value: str) -> str:
        """Store a value unless the key has one; return the value that the key has now."""

        def put(database: sqlite3.Connection, header: Header) -> tuple[Header, str]:
            present = _get_value(database, key)
            if present is not None:
                return header, present
            return _put_value(database, header, key, value)[0], value

        return await self._write(put)

    async def get_value(self, key: str) -> str | None:
        """Return a value that ``put_value`` stored; None if there is none."""
        return await self._read(lambda database: _get_value(database, key))

    async def fill(self, tables: Iterable[tuple[str, Iterable[Row]]], last_line: int) -> None:
        """Write all rows of another database into this empty one; its last line has this number.

        Raises:
            DatabaseNotEmptyError: something is stored already.
        """

        def fill(database: sqlite3.Connection, header: Header) -> tuple[Header, None]:
            with transaction(database, "BEGIN IMMEDIATE"):
                if not is_empty(database):
                    raise DatabaseNotEmptyError(str(self._directory))
                for table, rows in tables:
                    insert_rows(database, table, rows)
                return _increment_header(database, header, last_line), None

        await self._write(fill)

    async def close(self) -> None:
        """Finish the current write, then release the database and its directory."""
        await self._reader.close()
        await self._writer.close()
        if self._marker is not None:
            self._marker.close()
            self._marker = None
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    async def _read(self, job: Callable[[sqlite3.Connection], Result]) -> Result:
        await self._recover_if_needed()
        return await self._reader.work(job)

    async def _write(
        self,
        job: Callable[[sqlite3.Connection, Header], tuple[Header, Result]],
        announce: Callable[[Result, asyncio.AbstractEventLoop], None] | None = None,
    ) -> Result:
        await self._recover_if_needed()
        loop = asyncio.get_running_loop()

        # The task that waits for the result may be cancelled, so the thread itself notes what happened.
        def write(database: sqlite3.Connection) -> Result:
            if self._outcome_unknown:
                raise StoreFailedError(self._path, "the outcome of the write before is unknown")
            try:
                self._header, result = job(database, self._header)
            except UncertainCommitError:
                self._outcome_unknown = True
                raise
            if self._marker is not None:
                self._marker.put(self._header.commits)
            if announce is not None:
                announce(result, loop)
            return result

        return await self._writer.work(write)

    async def _change_lease(self, key: str, change: Callable[[Lease | None], Lease | None]) -> Lease | None:
        """Replace the newest lease of a key, unless ``change`` returns None."""

        def write(database: sqlite3.Connection, header: Header) -> tuple[Header, Lease | None]:
            with transaction(database, "BEGIN IMMEDIATE"):
                rows = database.execute(f"{select_rows('claim')} WHERE key = ?", (key,))
                lease = change(read_leases(rows).get(key))
                if lease is None:
                    return header, None
                database.execute(UPSERT_CLAIM, claim_row(lease))
                return _increment_header(database, header, 0), lease

        return await self._write(write)

    async def _recover_if_needed(self) -> None:
        """After a commit with an unknown outcome, find out what is stored and sync it to the disk."""
        if not self._outcome_unknown:
            return
        async with self._recovering:
            if not self._outcome_unknown:
                return
            await self._reader.disconnect()
            await self._writer.disconnect()
            await self._writer.open(lambda: _connect(self._path, WRITING))
            await self._writer.work(self._recover)
            await self._reader.open(lambda: _connect(self._path, READING))
            self._outcome_unknown = False
            self._followers.wake()

    def _lock_and_connect(self) -> sqlite3.Connection:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with translate_errors(self._path):
                check_presence(self._path, read_marker(self._directory))
            _make_private(self._path)
        except BlockingIOError as problem:
            raise DataDirectoryInUseError(self._directory) from problem
        except OSError as problem:
            raise DataDirectoryUnusableError(self._directory, problem.strerror or str(problem)) from problem
        return _connect(self._path, WRITING)

    def _prepare(self, database: sqlite3.Connection) -> None:
        check_not_newer(database, len(migrations()))  # first: this version may not know the header
        marker = read_marker(self._directory)
        check_identity(self._path, database, marker)
        if schema(database) < WITH_HEADER:
            check_structure(database)  # rows get their first checksums now, so they must be right
        migrate(database, migrations())
        check_at_start(database)
        header = self._read_end(database)
        try:
            self._marker = MarkerFile(self._directory, Marker(header.database, header.commits))
        except OSError as problem:
            raise DataDirectoryUnusableError(self._directory, problem.strerror or str(problem)) from problem
        self._marker.put(header.commits)

    def _read_end(self, database: sqlite3.Connection) -> Header:
        """Read where the journal ends, and recognise its newest batch from now on."""
        self._header = read_header(database)
        stamp, lines = _newest_batch(database)
        if stamp:
            self._receipts.add(stamp, lines)
        return self._header

    def _check_loaded(self) -> None:
        with translate_errors(self._path), closing(connect(self._path, READING)) as database:
            check_loaded(database)

    def _recover(self, database: sqlite3.Connection) -> None:
        check_identity(self._path, database, read_marker(self._directory))
        check_journal_end(database)
        self._read_end(database)
        ((busy, _, _),) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise StoreFailedError(self._path, "another process is reading it")


def check_presence(path: Path, marker: Marker | None) -> None:
    """Check that a directory with a marker has a database."""
    if marker is not None and not (path.exists() and path.stat().st_size):
        problem = "it is empty" if path.exists() else "it is missing"
        raise WrongDatabaseError(path, f"{problem}, but {MARKER} says that there was one")


def check_identity(path: Path, database: sqlite3.Connection, marker: Marker | None) -> None:
    """Check that a database is the one that the marker names, and not an older copy of it."""
    if marker is None:
        return
    if schema(database) < WITH_HEADER:
        raise WrongDatabaseError(path, f"it has no id, but {MARKER} says {marker.database}")
    header = read_header(database)
    if header.database != marker.database:
        raise WrongDatabaseError(path, f"its id is {header.database}, but {MARKER} says {marker.database}")
    if header.commits < marker.commits:
        lost = marker.commits - header.commits
        raise WrongDatabaseError(path, f"it is an older copy: the last {lost} changes are missing")


def _make_private(path: Path) -> None:
    """Make the database readable for its owner only; SQLite gives its other files the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if file.exists() and file.stat().st_mode & 0o077:
            file.chmod(0o600)


def _connect(path: Path, settings: Sequence[str]) -> sqlite3.Connection:
    with translate_errors(path):
        return connect(path, settings)


def _snapshot(database: sqlite3.Connection) -> FleetSnapshot:
    def rows(table: str) -> sqlite3.Cursor:
        return database.execute(select_rows(table))

    def in_order(table: str) -> sqlite3.Cursor:
        return database.execute(f"{select_rows(table)} ORDER BY position")

    with transaction(database, "BEGIN"):
        reader = ScopeReader()
        reader.add_machines(in_order("machine"))
        reader.add_events(in_order("event"))
        reader.add_scopes(in_order("scope"))
        texts, text_stamps = read_documents(in_order("document"))
        return FleetSnapshot(
            position=read_header(database).last_line,
            scopes=MappingProxyType(reader.scopes),
            scope_stamps=MappingProxyType(reader.stamps),
            sets=MappingProxyType(read_sets(rows("fleet_set"))),
            texts=MappingProxyType(texts),
            text_stamps=MappingProxyType(text_stamps),
            polled=MappingProxyType(read_polls(rows("poll"), reader.scopes)),
            stamp=_newest_batch(database)[0],
        )


def _newest_batch(database: sqlite3.Connection) -> tuple[int, range]:
    """Return the stamp of the newest batch, 0 if it has none, and the numbers of its lines."""
    rows = database.execute(NEWEST_LINES)
    last, stamp, _ = next(rows, (0, 0, 0))
    first = last
    for seq, *_ in takewhile(lambda row: row[2] == last, rows):
        first = seq
    return stamp, range(first, last + 1)


def _put_value(
    database: sqlite3.Connection, header: Header, key: str, value: str | None
) -> tuple[Header, None]:
    with transaction(database, "BEGIN IMMEDIATE"):
        if value is None:
            database.execute(DELETE_NOTE, (key,))
        else:
            database.execute(UPSERT_NOTE, with_checksum(key, value))
        return _increment_header(database, header, 0), None


def _increment_header(database: sqlite3.Connection, before: Header, lines: int) -> Header:
    """Count a commit and its journal lines in the header of the database."""
    after = Header(before.database, before.commits + 1, before.last_line + lines)
    checksum = row_checksum(after.database, after.commits, after.last_line)
    database.execute(UPDATE_HEADER, (after.commits, after.last_line, checksum))
    return after


def _journal(
    database: sqlite3.Connection,
    after: int,
    limit: int,
    only: Mapping[str, str | None],
    newest_first: bool = False,
) -> Sequence[Entry]:
    filters = {column: value for column, value in only.items() if value is not None}
    lines = LINES.format(
        only="".join(f" AND {column} = ?" for column in filters), order=" DESC" if newest_first else ""
    )
    rows = database.execute(lines, (after, *filters.values(), limit))
    return [read_entry(row) for row in verified_rows("journal", rows)]


def _get_value(database: sqlite3.Connection, key: str) -> str | None:
    rows = database.execute(f"{select_rows('note')} WHERE key = ?", (key,))
    return read_notes(rows).get(key)


def _pruned(database: sqlite3.Connection) -> int:
    return int(_get_value(database, MARK) or 0)
