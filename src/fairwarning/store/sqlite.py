"""Keeps the fleet in one SQLite file.

One thread writes and another reads, so that the event loop never waits for the disk, nor the writer for a
reader. One commit of a batch is one transaction that has reached the disk when it returns. The SQL is plain,
so that another database can take the same statements.

A commit that failed at its very end may have been kept. What the operating system says about the file from
then on is not to be trusted: the database is opened anew, checked, and written from its log into its file
before anybody reads or writes again.
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
    rows_of,
)
from fairwarning.store.connection import SqliteConnection, connect, explained, transaction
from fairwarning.store.entries import number
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
    JournalRow,
    Writes,
    event_row,
    intact,
    journal_row,
    machine_row,
    read_entry,
    read_scopes,
    read_texts,
    row_checksum,
    scope_row,
    text_row,
)

Result = TypeVar("Result")

DATABASE, LOCK = "fairwarning.db", "lock"

#: An approval that was answered has reached the disk: FULL syncs the log at every commit.
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

KEEP_SCOPE = """
    INSERT INTO scope (id, set_name, kind, version, incarnation, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        set_name = excluded.set_name, kind = excluded.kind, version = excluded.version,
        incarnation = excluded.incarnation, body = excluded.body, checksum = excluded.checksum
"""
KEEP_MACHINE = """
    INSERT INTO machine (scope, name, body, checksum) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body, checksum = excluded.checksum
"""
KEEP_EVENT = """
    INSERT INTO event (scope, id, status, not_before, barrier, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (scope, id) DO UPDATE SET
        status = excluded.status, not_before = excluded.not_before, barrier = excluded.barrier,
        body = excluded.body, checksum = excluded.checksum
"""
KEEP_DOCUMENT = """
    INSERT INTO document (key, body, checksum) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET body = excluded.body, checksum = excluded.checksum
"""
DELETE_DOCUMENT = "DELETE FROM document WHERE key = ?"
ADD_LINE = """
    INSERT INTO journal (seq, at, scope, version, kind, event, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
KEEP_NOTE = """
    INSERT INTO note (key, value, checksum) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum
"""
KEEP_HEADER = "UPDATE header SET commits = ?, last_line = ?, checksum = ?"

KEEP_LAST_INCARNATION = """
    INSERT INTO last_incarnation (set_id, incarnation, checksum) VALUES (?, ?, ?)
    ON CONFLICT (set_id) DO UPDATE SET incarnation = excluded.incarnation, checksum = excluded.checksum
    WHERE excluded.incarnation > incarnation
"""

LINES = f"{rows_of('journal')} WHERE seq > ?{{only}} ORDER BY seq LIMIT ?"
NEWEST_LINE = f"{rows_of('journal')} ORDER BY seq DESC LIMIT 1"


class SqliteStore:
    """Keeps the fleet of one server in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / DATABASE
        self._lock = -1
        self._writer = SqliteConnection(self._path)
        self._reader = SqliteConnection(self._path)
        self._header = Header("", 0, 0)
        self._marker: MarkerFile | None = None
        self._loaded = False
        self._unsettled = False
        self._settling = asyncio.Lock()

    @classmethod
    async def open(cls, directory: Path) -> "SqliteStore":
        """Return the store kept in ``directory``, made or brought up to date as needed.

        Raises:
            DataDirectoryInUse: another server has it.
            DataDirectoryUnusable: it cannot be made or written to.
            DatabaseDamaged: the file is not what was written, or not the one that belongs here.
            NewerDatabase: a later version wrote it.
        """
        store = cls(directory)
        try:
            await store._writer.open(store._claim)
            await store._writer.work(store._take_up)
            await store._reader.open(lambda: _connect(store._path, READING))
        except BaseException:
            await store.close()
            raise
        return store

    async def load(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes as of the last commit."""
        if self._loaded:
            return await self._read(_load)
        # Both go through all of it, so they do so at once.
        scopes, _ = await asyncio.gather(self._read(_load), asyncio.to_thread(self._check_loaded))
        self._loaded = True
        return scopes

    async def last_incarnations(self) -> Mapping[str, int]:
        """Return the highest incarnation that a removed scope of each set had, by set id."""
        return await self._read(_last_incarnations)

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        """Keep all commits or none, in order, and return the journal lines of each."""
        return await self._write(lambda database, header: _commit(database, header, commits))

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
    ) -> Sequence[Entry]:
        """Return the first ``limit`` journal lines behind ``after``: of an event, of a scope, or all."""
        return await self._read(
            lambda database: _journal(database, after, limit, {"event": event, "scope": scope})
        )

    async def newest(self) -> Entry | None:
        """Return the last line of the journal."""
        return await self._read(_newest)

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines that nobody needs; return through how many it went."""

        def slice_off(database: sqlite3.Connection, header: Header) -> tuple[Header, int]:
            with transaction(database, "BEGIN IMMEDIATE"):
                passed = prune(database, _pruned(database), before, most, keep, max(1, spare))
                if passed:
                    database.execute(KEEP_NOTE, text_row(MARK, str(passed[-1])))
                return _count(database, header, 0), len(passed)

        return await self._write(slice_off)

    async def pruned(self) -> int:
        """Return up to which line the journal was pruned."""
        return await self._read(_pruned)

    async def size(self) -> int:
        """Return how many bytes of the file are in use; what was freed is used again."""
        return await self._read(size)

    async def documents(self) -> Mapping[str, str]:
        """Return every text that was kept beside the fleet, in order of its making."""
        rows = f"{rows_of('document')} ORDER BY position"
        return await self._read(lambda database: read_texts("document", database.execute(rows)))

    async def note(self, key: str, value: str) -> None:
        """Remember a fact about the service itself."""
        await self._write(lambda database, header: _note(database, header, key, value))

    async def noted(self, key: str) -> str | None:
        """Return a fact remembered by ``note``."""
        return await self._read(lambda database: _noted(database, key))

    async def close(self) -> None:
        """Finish what is being written, then let go of the database and its directory."""
        await self._reader.close()
        await self._writer.close()
        if self._marker is not None:
            self._marker.close()
            self._marker = None
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    async def _read(self, job: Callable[[sqlite3.Connection], Result]) -> Result:
        await self._settle()
        return await self._reader.work(job)

    async def _write(self, job: Callable[[sqlite3.Connection, Header], tuple[Header, Result]]) -> Result:
        await self._settle()

        def write(database: sqlite3.Connection) -> Result:
            self._header, result = job(database, self._header)
            if self._marker is not None:
                self._marker.put(self._header.commits)
            return result

        try:
            return await self._writer.work(write)
        except UnknownOutcomeError:
            self._unsettled = True
            raise

    async def _settle(self) -> None:
        """Find out what was kept, if that is unknown, and bring it to the disk."""
        if not self._unsettled:
            return
        async with self._settling:
            if not self._unsettled:
                return
            await self._reader.disconnect()
            await self._writer.disconnect()
            await self._writer.open(lambda: _connect(self._path, WRITING))
            await self._writer.work(self._take_up_again)
            await self._reader.open(lambda: _connect(self._path, READING))
            self._unsettled = False

    def _claim(self) -> sqlite3.Connection:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with explained(self._path):
                check_presence(self._path, read_marker(self._directory))
            _make_private(self._path)
        except BlockingIOError as problem:
            raise DataDirectoryInUseError(self._directory) from problem
        except OSError as problem:
            raise DataDirectoryUnusableError(self._directory, problem.strerror or str(problem)) from problem
        return _connect(self._path, WRITING)

    def _take_up(self, database: sqlite3.Connection) -> None:
        marker = read_marker(self._directory)
        check_identity(self._path, database, marker)
        if schema(database) < WITH_HEADER:
            check_structure(database)  # what gets its first checksums now is taken for true from now on
        migrate(database, migrations())
        check_at_start(database)
        header = self._header = read_header(database)
        try:
            self._marker = MarkerFile(self._directory, Marker(header.database, header.commits))
        except OSError as problem:
            raise DataDirectoryUnusableError(self._directory, problem.strerror or str(problem)) from problem
        self._marker.put(header.commits)

    def _check_loaded(self) -> None:
        with explained(self._path), closing(connect(self._path, READING)) as database:
            check_loaded(database)

    def _take_up_again(self, database: sqlite3.Connection) -> None:
        check_identity(self._path, database, read_marker(self._directory))
        check_journal_end(database)
        self._header = read_header(database)
        ((busy, _, _),) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise StoreFailedError(self._path, "somebody else is reading it")


def check_presence(path: Path, marker: Marker | None) -> None:
    """Miss a database that was here."""
    if marker is not None and not (path.exists() and path.stat().st_size):
        gone = "it is empty" if path.exists() else "it is missing"
        raise WrongDatabaseError(path, f"{gone}, and {MARKER} says that there was one")


def check_identity(path: Path, database: sqlite3.Connection, marker: Marker | None) -> None:
    """Tell another database, or an earlier state of it, from the one that was here last."""
    if marker is None:
        return
    if schema(database) < WITH_HEADER:
        raise WrongDatabaseError(path, f"it has no id, and {MARKER} says {marker.database}")
    header = read_header(database)
    if header.database != marker.database:
        raise WrongDatabaseError(path, f"its id is {header.database}, and {MARKER} says {marker.database}")
    if header.commits < marker.commits:
        lost = marker.commits - header.commits
        raise WrongDatabaseError(path, f"it is older than what was here: its last {lost} changes are missing")


def _make_private(path: Path) -> None:
    """Let nobody else read the database; what SQLite makes beside it gets the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if one.exists() and one.stat().st_mode & 0o077:
            one.chmod(0o600)


def _connect(path: Path, settings: Sequence[str]) -> sqlite3.Connection:
    with explained(path):
        return connect(path, settings)


def _load(database: sqlite3.Connection) -> Mapping[ScopeId, Scope]:
    with transaction(database, "BEGIN"):
        return read_scopes(
            database.execute(f"{rows_of('scope')} ORDER BY position"),
            database.execute(f"{rows_of('machine')} ORDER BY position"),
            database.execute(f"{rows_of('event')} ORDER BY position"),
        )


def _last_incarnations(database: sqlite3.Connection) -> Mapping[str, int]:
    rows = intact("last_incarnation", database.execute(rows_of("last_incarnation")))
    return {set_id.decode(): incarnation for set_id, incarnation, _ in rows}


def _commit(
    database: sqlite3.Connection, header: Header, commits: Sequence[Commit]
) -> tuple[Header, list[list[Entry]]]:
    with transaction(database, "BEGIN IMMEDIATE"):
        _check(database, commits)
        numbered = number(commits, header.last_line)
        writes = Writes(commits)
        last_incarnations: dict[str, int] = {}
        for commit in commits:
            remember_removed(last_incarnations, commit.changes)
        removed = ((*one, row_checksum(*one)) for one in last_incarnations.items())
        database.executemany(KEEP_LAST_INCARNATION, removed)
        database.executemany(DELETE_SCOPE, ((scope,) for scope in writes.wiped))
        database.executemany(DELETE_MACHINE, writes.machines.dropped())
        database.executemany(DELETE_EVENT, writes.events.dropped())
        database.executemany(KEEP_SCOPE, map(scope_row, writes.scopes.values()))
        database.executemany(KEEP_MACHINE, map(machine_row, writes.machines))
        database.executemany(KEEP_EVENT, map(event_row, writes.events))
        documents = {key: text for commit in commits for key, text in commit.documents.items()}
        database.executemany(DELETE_DOCUMENT, ((key,) for key, text in documents.items() if text is None))
        kept = (text_row(key, text) for key, text in documents.items() if text is not None)
        database.executemany(KEEP_DOCUMENT, kept)
        database.executemany(ADD_LINE, (journal_row(entry) for entries in numbered for entry in entries))
        return _count(database, header, sum(map(len, numbered))), numbered


def _note(database: sqlite3.Connection, header: Header, key: str, value: str) -> tuple[Header, None]:
    with transaction(database, "BEGIN IMMEDIATE"):
        database.execute(KEEP_NOTE, text_row(key, value))
        return _count(database, header, 0), None


def _count(database: sqlite3.Connection, before: Header, lines: int) -> Header:
    """Write down that the database is written once more."""
    after = Header(before.database, before.commits + 1, before.last_line + lines)
    checksum = row_checksum(after.database, after.commits, after.last_line)
    database.execute(KEEP_HEADER, (after.commits, after.last_line, checksum))
    return after


def _check(database: sqlite3.Connection, commits: Sequence[Commit]) -> None:
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
    wanted = {column: value for column, value in only.items() if value is not None}
    lines = LINES.format(only="".join(f" AND {column} = ?" for column in wanted))
    return _entries(database.execute(lines, (after, *wanted.values(), limit)))


def _newest(database: sqlite3.Connection) -> Entry | None:
    return next(iter(_entries(database.execute(NEWEST_LINE))), None)


def _entries(rows: Iterable[JournalRow]) -> list[Entry]:
    return [read_entry(row) for row in intact("journal", rows)]


def _noted(database: sqlite3.Connection, key: str) -> str | None:
    rows = database.execute(f"{rows_of('note')} WHERE key = ?", (key,))
    return read_texts("note", rows).get(key)


def _pruned(database: sqlite3.Connection) -> int:
    return int(_noted(database, MARK) or 0)
