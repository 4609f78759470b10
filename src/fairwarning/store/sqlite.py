"""A store in one SQLite file.

One thread writes and another reads: the event loop never waits for the disk, and the writer never waits for
a reader. A batch of commits is one transaction, which is on the disk when ``commit`` returns. The SQL is
plain, so that another database can run the same statements.

A COMMIT that fails may nevertheless be on the disk, and after a failed sync the operating system's view of
the file cannot be trusted. The store then recovers before the next read or write: it opens the database
again, checks it, and copies the log into the database file.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from fairwarning.core.changes import remember_removed
from fairwarning.core.errors import ConflictError
from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.engine.ports import Commit, Entry
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
from fairwarning.store.connection import SqliteConnection, connect, transaction, translate_errors
from fairwarning.store.entries import number_lines
from fairwarning.store.errors import (
    DataDirectoryInUseError,
    DataDirectoryUnusableError,
    StoreFailedError,
    UnknownOutcomeError,
    WrongDatabaseError,
)
from fairwarning.store.marker import MARKER, Marker, MarkerFile, read_marker
from fairwarning.store.migrate import migrate, migrations, schema
from fairwarning.store.pruning import MARK, prune, size
from fairwarning.store.rows import (
    BatchWrites,
    JournalRow,
    event_row,
    journal_row,
    machine_row,
    read_entry,
    read_scopes,
    read_texts,
    row_checksum,
    scope_row,
    text_row,
    verified_rows,
)

Result = TypeVar("Result")

DATABASE, LOCK = "fairwarning.db", "lock"

#: FULL syncs the log at every commit: an approval is on the disk before it is answered.
WRITING = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 5000",
)
READING = ("PRAGMA query_only = ON", "PRAGMA busy_timeout = 5000")

DELETE_SCOPE = "DELETE FROM scope WHERE id = ?"
DELETE_MACHINE = "DELETE FROM machine WHERE scope = ? AND name = ?"
DELETE_EVENT = "DELETE FROM event WHERE scope = ? AND id = ?"

UPSERT_SCOPE = """
    INSERT INTO scope (id, set_name, kind, version, incarnation, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        set_name = excluded.set_name, kind = excluded.kind, version = excluded.version,
        incarnation = excluded.incarnation, body = excluded.body, checksum = excluded.checksum
"""
UPSERT_MACHINE = """
    INSERT INTO machine (scope, name, body, checksum) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body, checksum = excluded.checksum
"""
UPSERT_EVENT = """
    INSERT INTO event (scope, id, status, not_before, barrier, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (scope, id) DO UPDATE SET
        status = excluded.status, not_before = excluded.not_before, barrier = excluded.barrier,
        body = excluded.body, checksum = excluded.checksum
"""
UPSERT_DOCUMENT = """
    INSERT INTO document (key, body, checksum) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET body = excluded.body, checksum = excluded.checksum
"""
DELETE_DOCUMENT = "DELETE FROM document WHERE key = ?"
ADD_LINE = """
    INSERT INTO journal (seq, at, scope, version, kind, event, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
UPSERT_NOTE = """
    INSERT INTO note (key, value, checksum) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum
"""
UPDATE_HEADER = "UPDATE header SET commits = ?, last_line = ?, checksum = ?"

UPSERT_LAST_INCARNATION = """
    INSERT INTO last_incarnation (set_id, incarnation, checksum) VALUES (?, ?, ?)
    ON CONFLICT (set_id) DO UPDATE SET incarnation = excluded.incarnation, checksum = excluded.checksum
    WHERE excluded.incarnation > incarnation
"""

LINES = f"{select_rows('journal')} WHERE seq > ?{{only}} ORDER BY seq LIMIT ?"
NEWEST_LINE = f"{select_rows('journal')} ORDER BY seq DESC LIMIT 1"


class SqliteStore:
    """The fleet of one server, stored in one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / DATABASE
        self._lock = -1
        self._writer = SqliteConnection(self._path)
        self._reader = SqliteConnection(self._path)
        self._header = Header("", 0, 0)
        self._marker: MarkerFile | None = None
        self._loaded = False
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

    async def load(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes as of the last commit."""
        if self._loaded:
            return await self._read(_load)
        # Both read all rows, so they run at the same time.
        scopes, _ = await asyncio.gather(self._read(_load), asyncio.to_thread(self._check_loaded))
        self._loaded = True
        return scopes

    async def last_incarnations(self) -> Mapping[str, int]:
        """Return the highest incarnation among the removed scopes of each set, by set id."""
        return await self._read(_last_incarnations)

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        """Store all commits or none, in order, and return the journal lines of each."""
        return await self._write(lambda database, header: _commit(database, header, commits))

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
    ) -> Sequence[Entry]:
        """Return the first ``limit`` journal lines after line ``after``: of an event, of a scope, or all."""
        return await self._read(
            lambda database: _journal(database, after, limit, {"event": event, "scope": scope})
        )

    async def newest(self) -> Entry | None:
        """Return the last line of the journal."""
        return await self._read(_newest)

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines that are not needed; return the number of lines examined."""

        def prune_slice(database: sqlite3.Connection, header: Header) -> tuple[Header, int]:
            with transaction(database, "BEGIN IMMEDIATE"):
                examined = prune(database, _pruned(database), before, most, keep, max(1, spare))
                if examined:
                    database.execute(UPSERT_NOTE, text_row(MARK, str(examined[-1])))
                return _increment_header(database, header, 0), len(examined)

        return await self._write(prune_slice)

    async def pruned(self) -> int:
        """Return the last line of the pruned part."""
        return await self._read(_pruned)

    async def size(self) -> int:
        """Return the number of bytes of the file that are in use."""
        return await self._read(size)

    async def documents(self) -> Mapping[str, str]:
        """Return the texts that other packages store with the fleet, in order of creation."""
        rows = f"{select_rows('document')} ORDER BY position"
        return await self._read(lambda database: read_texts("document", database.execute(rows)))

    async def note(self, key: str, value: str) -> None:
        """Store a value about the service itself."""
        await self._write(lambda database, header: _put_note(database, header, key, value))

    async def noted(self, key: str) -> str | None:
        """Return a value that ``note`` stored; None if there is none."""
        return await self._read(lambda database: _get_note(database, key))

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

    async def _write(self, job: Callable[[sqlite3.Connection, Header], tuple[Header, Result]]) -> Result:
        await self._recover_if_needed()

        def write(database: sqlite3.Connection) -> Result:
            self._header, result = job(database, self._header)
            if self._marker is not None:
                self._marker.put(self._header.commits)
            return result

        try:
            return await self._writer.work(write)
        except UnknownOutcomeError:
            self._outcome_unknown = True
            raise

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
        marker = read_marker(self._directory)
        check_identity(self._path, database, marker)
        if schema(database) < WITH_HEADER:
            check_structure(database)  # rows get their first checksums now, so they must be right
        migrate(database, migrations())
        check_at_start(database)
        header = self._header = read_header(database)
        try:
            self._marker = MarkerFile(self._directory, Marker(header.database, header.commits))
        except OSError as problem:
            raise DataDirectoryUnusableError(self._directory, problem.strerror or str(problem)) from problem
        self._marker.put(header.commits)

    def _check_loaded(self) -> None:
        with translate_errors(self._path), closing(connect(self._path, READING)) as database:
            check_loaded(database)

    def _recover(self, database: sqlite3.Connection) -> None:
        check_identity(self._path, database, read_marker(self._directory))
        check_journal_end(database)
        self._header = read_header(database)
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


def _load(database: sqlite3.Connection) -> Mapping[ScopeId, Scope]:
    with transaction(database, "BEGIN"):
        return read_scopes(
            database.execute(f"{select_rows('scope')} ORDER BY position"),
            database.execute(f"{select_rows('machine')} ORDER BY position"),
            database.execute(f"{select_rows('event')} ORDER BY position"),
        )


def _last_incarnations(database: sqlite3.Connection) -> Mapping[str, int]:
    rows = verified_rows("last_incarnation", database.execute(select_rows("last_incarnation")))
    return {set_id.decode(): incarnation for set_id, incarnation, _ in rows}


def _commit(
    database: sqlite3.Connection, header: Header, commits: Sequence[Commit]
) -> tuple[Header, list[list[Entry]]]:
    with transaction(database, "BEGIN IMMEDIATE"):
        _check_versions(database, commits)
        numbered = number_lines(commits, header.last_line)
        writes = BatchWrites(commits)
        last_incarnations: dict[str, int] = {}
        for commit in commits:
            remember_removed(last_incarnations, commit.changes)
        removed = ((*columns, row_checksum(*columns)) for columns in last_incarnations.items())
        database.executemany(UPSERT_LAST_INCARNATION, removed)
        database.executemany(DELETE_SCOPE, ((scope,) for scope in writes.wiped))
        database.executemany(DELETE_MACHINE, writes.machines.removed_keys())
        database.executemany(DELETE_EVENT, writes.events.removed_keys())
        database.executemany(UPSERT_SCOPE, map(scope_row, writes.scopes.values()))
        database.executemany(UPSERT_MACHINE, map(machine_row, writes.machines))
        database.executemany(UPSERT_EVENT, map(event_row, writes.events))
        documents = {key: text for commit in commits for key, text in commit.documents.items()}
        database.executemany(DELETE_DOCUMENT, ((key,) for key, text in documents.items() if text is None))
        upserts = (text_row(key, text) for key, text in documents.items() if text is not None)
        database.executemany(UPSERT_DOCUMENT, upserts)
        database.executemany(ADD_LINE, (journal_row(entry) for entries in numbered for entry in entries))
        return _increment_header(database, header, sum(map(len, numbered))), numbered


def _put_note(database: sqlite3.Connection, header: Header, key: str, value: str) -> tuple[Header, None]:
    with transaction(database, "BEGIN IMMEDIATE"):
        database.execute(UPSERT_NOTE, text_row(key, value))
        return _increment_header(database, header, 0), None


def _increment_header(database: sqlite3.Connection, before: Header, lines: int) -> Header:
    """Count a commit and its journal lines in the header of the database."""
    after = Header(before.database, before.commits + 1, before.last_line + lines)
    checksum = row_checksum(after.database, after.commits, after.last_line)
    database.execute(UPDATE_HEADER, (after.commits, after.last_line, checksum))
    return after


def _check_versions(database: sqlite3.Connection, commits: Sequence[Commit]) -> None:
    versions: dict[ScopeId, int] = {}
    for commit in commits:
        for scope_id, expected in commit.expected.items():
            if scope_id not in versions:
                versions[scope_id] = _version(database, scope_id)
            if versions[scope_id] != expected:
                raise ConflictError(scope_id, expected)
            versions[scope_id] = commit.after[scope_id].version if scope_id in commit.after else 0


def _version(database: sqlite3.Connection, scope_id: ScopeId) -> int:
    for (version,) in database.execute("SELECT version FROM scope WHERE id = ?", (scope_id,)):
        return int(version)
    return 0


def _journal(
    database: sqlite3.Connection, after: int, limit: int, only: Mapping[str, str | None]
) -> Sequence[Entry]:
    filters = {column: value for column, value in only.items() if value is not None}
    lines = LINES.format(only="".join(f" AND {column} = ?" for column in filters))
    return _entries(database.execute(lines, (after, *filters.values(), limit)))


def _newest(database: sqlite3.Connection) -> Entry | None:
    return next(iter(_entries(database.execute(NEWEST_LINE))), None)


def _entries(rows: Iterable[JournalRow]) -> list[Entry]:
    return [read_entry(row) for row in verified_rows("journal", rows)]


def _get_note(database: sqlite3.Connection, key: str) -> str | None:
    rows = database.execute(f"{select_rows('note')} WHERE key = ?", (key,))
    return read_texts("note", rows).get(key)


def _pruned(database: sqlite3.Connection) -> int:
    return int(_get_note(database, MARK) or 0)
