"""Keeps the fleet in one SQLite file.

One thread writes and another reads, so that the event loop never waits for the disk, nor the writer for a
reader. One commit of a batch is one transaction that has reached the disk when it returns. The SQL is plain,
so that another database can take the same statements.

    FairWarningError
    ├── DataDirectoryInUse      another server has it
    ├── DataDirectoryUnusable   it cannot be made or written to
    ├── DatabaseDamaged         the file is not what was written
    ├── StoreFailed             the disk is full, the file is gone, …
    ├── NewerDatabase           (migrate) a later version wrote it
    └── ChangedMigration        (migrate) it was made by other means than ours
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from fairwarning.core.errors import Conflict, FairWarningError
from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.engine.ports import Commit, Entry
from fairwarning.store.entries import number
from fairwarning.store.migrate import migrate, migrations
from fairwarning.store.pruning import prune, pruned, size
from fairwarning.store.rows import (
    Unreadable,
    Writes,
    event_row,
    journal_row,
    machine_row,
    read_entry,
    read_scopes,
    scope_row,
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
    INSERT INTO scope (id, set_name, kind, version, incarnation, body) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        set_name = excluded.set_name, kind = excluded.kind, version = excluded.version,
        incarnation = excluded.incarnation, body = excluded.body
"""
KEEP_MACHINE = """
    INSERT INTO machine (scope, name, body) VALUES (?, ?, ?)
    ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body
"""
KEEP_EVENT = """
    INSERT INTO event (scope, id, status, not_before, barrier, body) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (scope, id) DO UPDATE SET
        status = excluded.status, not_before = excluded.not_before, barrier = excluded.barrier,
        body = excluded.body
"""
KEEP_DOCUMENT = """
    INSERT INTO document (key, body) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body
"""
DELETE_DOCUMENT = "DELETE FROM document WHERE key = ?"
ADD_LINE = "INSERT INTO journal (seq, at, scope, version, kind, event, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
KEEP_NOTE = """
    INSERT INTO note (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

LAST_LINE = "SELECT coalesce(max(seq), 0) FROM journal"
LINES = "SELECT seq, at, version, kind, body FROM journal WHERE seq > ?{only} ORDER BY seq LIMIT ?"
NEWEST_LINE = "SELECT seq, at, version, kind, body FROM journal ORDER BY seq DESC LIMIT 1"


class DataDirectoryInUse(FairWarningError):
    """Another server keeps its fleet here."""

    status_hint = 500

    def __init__(self, directory: Path) -> None:
        super().__init__(f"data directory {directory} is in use by another server")
        self.directory = directory


class DataDirectoryUnusable(FairWarningError):
    """Nothing can be kept here."""

    status_hint = 500

    def __init__(self, directory: Path, problem: str) -> None:
        super().__init__(f"data directory {directory} cannot be used: {problem}")
        self.directory = directory
        self.problem = problem


class DatabaseDamaged(FairWarningError):
    """The database does not hold what was written to it."""

    status_hint = 500

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"database {path} is damaged: {problem}")
        self.path = path
        self.problem = problem


class StoreFailed(FairWarningError):
    """The database could not do what it was asked; nothing of it was kept."""

    status_hint = 503

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"database {path} failed: {problem}")
        self.path = path
        self.problem = problem


class Connection:
    """A connection to the database, and the one thread that uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._database: sqlite3.Connection | None = None

    async def open(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Take up what ``connect`` gives."""
        self._database = await self._in_thread(connect)

    async def work(self, job: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do a job with the database; those who asked earlier come first."""
        database = self._database
        if database is None:
            raise StoreFailed(self._path, "it is not open")

        def work() -> Result:
            with _explained(self._path):
                return job(database)

        return await self._in_thread(work)

    async def close(self) -> None:
        """Finish what is being done, then let go."""
        database, self._database = self._database, None
        if database is not None:
            await self._in_thread(database.close)
        self._thread.shutdown()

    async def _in_thread(self, job: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)


class SqliteStore:
    """Keeps the fleet of one server in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / DATABASE
        self._lock = -1
        self._writer = Connection(self._path)
        self._reader = Connection(self._path)

    @classmethod
    async def open(cls, directory: Path) -> "SqliteStore":
        """Return the store kept in ``directory``, made or brought up to date as needed.

        Raises:
            DataDirectoryInUse: another server has it.
            DataDirectoryUnusable: it cannot be made or written to.
            DatabaseDamaged: the file is not what was written.
            NewerDatabase: a later version wrote it.
        """
        store = cls(directory)
        try:
            await store._writer.open(store._claim)
            await store._writer.work(lambda database: migrate(database, migrations()))
            await store._reader.open(lambda: _connect(store._path, READING))
        except BaseException:
            await store.close()
            raise
        return store

    async def load(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes as of the last commit."""
        return await self._reader.work(_load)

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        """Keep all commits or none, in order, and return the journal lines of each."""
        return await self._writer.work(lambda database: _commit(database, commits))

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
    ) -> Sequence[Entry]:
        """Return the first ``limit`` journal lines behind ``after``: of an event, of a scope, or all."""
        return await self._reader.work(
            lambda database: _journal(database, after, limit, {"event": event, "scope": scope})
        )

    async def newest(self) -> Entry | None:
        """Return the last line of the journal."""
        return await self._reader.work(_newest)

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines that nobody needs; return through how many it went."""

        def slice_off(database: sqlite3.Connection) -> int:
            with _transaction(database, "BEGIN IMMEDIATE"):
                return prune(database, before, most, keep, max(1, spare))

        return await self._writer.work(slice_off)

    async def pruned(self) -> int:
        """Return up to which line the journal was pruned."""
        return await self._reader.work(pruned)

    async def size(self) -> int:
        """Return how many bytes of the file are in use; what was freed is used again."""
        return await self._reader.work(size)

    async def documents(self) -> Mapping[str, str]:
        """Return every text that was kept beside the fleet, in order of its making."""
        rows = "SELECT key, body FROM document ORDER BY position"
        return await self._reader.work(lambda database: dict(database.execute(rows)))

    async def note(self, key: str, value: str) -> None:
        """Remember a fact about the service itself."""
        await self._writer.work(lambda database: database.execute(KEEP_NOTE, (key, value)).close())

    async def noted(self, key: str) -> str | None:
        """Return a fact remembered by ``note``."""
        return await self._reader.work(lambda database: _noted(database, key))

    async def close(self) -> None:
        """Finish what is being written, then let go of the database and its directory."""
        await self._reader.close()
        await self._writer.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _claim(self) -> sqlite3.Connection:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _make_private(self._path)
        except BlockingIOError as problem:
            raise DataDirectoryInUse(self._directory) from problem
        except OSError as problem:
            raise DataDirectoryUnusable(self._directory, problem.strerror or str(problem)) from problem
        return _connect(self._path, WRITING)


def _make_private(path: Path) -> None:
    """Let nobody else read the database; what SQLite makes beside it gets the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if one.exists() and one.stat().st_mode & 0o077:
            one.chmod(0o600)


def _connect(path: Path, settings: Sequence[str]) -> sqlite3.Connection:
    with _explained(path):
        database = sqlite3.connect(path, isolation_level=None)
        try:
            for setting in settings:
                database.execute(setting)
        except BaseException:
            database.close()
            raise
        return database


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what went wrong in our words; what the database said comes along."""
    try:
        yield
    except Unreadable as problem:
        raise DatabaseDamaged(path, str(problem)) from problem
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as problem:
        primary = problem.sqlite_errorcode & 0xFF
        damaged = primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        raise (DatabaseDamaged if damaged else StoreFailed)(path, str(problem)) from problem


@contextmanager
def _transaction(database: sqlite3.Connection, begin: str) -> Iterator[None]:
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _load(database: sqlite3.Connection) -> Mapping[ScopeId, Scope]:
    with _transaction(database, "BEGIN"):
        return read_scopes(
            database.execute("SELECT version, incarnation, body FROM scope ORDER BY position"),
            database.execute("SELECT body FROM machine ORDER BY position"),
            database.execute("SELECT body FROM event ORDER BY position"),
        )


def _commit(database: sqlite3.Connection, commits: Sequence[Commit]) -> list[list[Entry]]:
    with _transaction(database, "BEGIN IMMEDIATE"):
        _check(database, commits)
        ((last,),) = database.execute(LAST_LINE)
        numbered = number(commits, last)
        writes = Writes(commits)
        database.executemany(DELETE_SCOPE, ((scope,) for scope in writes.wiped))
        database.executemany(DELETE_MACHINE, writes.machines.dropped())
        database.executemany(DELETE_EVENT, writes.events.dropped())
        database.executemany(KEEP_SCOPE, map(scope_row, writes.scopes.values()))
        database.executemany(KEEP_MACHINE, map(machine_row, writes.machines))
        database.executemany(KEEP_EVENT, map(event_row, writes.events))
        documents = {key: text for commit in commits for key, text in commit.documents.items()}
        database.executemany(DELETE_DOCUMENT, ((key,) for key, text in documents.items() if text is None))
        database.executemany(KEEP_DOCUMENT, (kept for kept in documents.items() if kept[1] is not None))
        database.executemany(ADD_LINE, (journal_row(entry) for entries in numbered for entry in entries))
    return numbered


def _check(database: sqlite3.Connection, commits: Sequence[Commit]) -> None:
    versions: dict[ScopeId, int] = {}
    for commit in commits:
        for scope_id, expected in commit.expected.items():
            if scope_id not in versions:
                versions[scope_id] = _version(database, scope_id)
            if versions[scope_id] != expected:
                raise Conflict(scope_id, expected)
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
    return [read_entry(row) for row in database.execute(lines, (after, *wanted.values(), limit))]


def _newest(database: sqlite3.Connection) -> Entry | None:
    for row in database.execute(NEWEST_LINE):
        return read_entry(row)
    return None


def _noted(database: sqlite3.Connection, key: str) -> str | None:
    for (value,) in database.execute("SELECT value FROM note WHERE key = ?", (key,)):
        return str(value)
    return None
