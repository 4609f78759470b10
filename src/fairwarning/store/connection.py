"""A connection to SQLite, the thread that uses it, and the translation of its errors."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from os import W_OK, access
from pathlib import Path
from typing import TypeVar

from fairwarning.store.errors import (
    DatabaseDamagedError,
    NewerContentError,
    NewerDataError,
    StoreFailedError,
    UnknownOutcomeError,
    UnreadableRowError,
)
from fairwarning.store.rows import row_checksum

Result = TypeVar("Result")

#: Errors of a damaged database; SQLITE_ERROR is one of them because the statements themselves are correct.
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})

#: Errors of the disk under the database.
DISK = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})

#: Errors of COMMIT after which the transaction is certainly not committed; after any other error it may be.
NOT_COMMITTED = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})


class UncertainCommitError(Exception):
    """A COMMIT failed, and the transaction may be committed or not."""

    def __init__(self, problem: sqlite3.DatabaseError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class SqliteConnection:
    """A connection to the database, and the one thread that uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._database: sqlite3.Connection | None = None

    async def open(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Use the connection that ``connect`` returns."""
        self._database = await self._in_thread(connect)

    async def work(self, job: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run a job with the database in its thread, after the jobs before it."""
        database = self._database
        if database is None:
            raise StoreFailedError(self._path, "it is not open")

        def work() -> Result:
            with translate_errors(self._path):
                return job(database)

        return await self._in_thread(work)

    async def disconnect(self) -> None:
        """Finish the current job and close the database; it can be opened again."""
        database, self._database = self._database, None
        if database is not None:
            await self._in_thread(database.close)

    async def close(self) -> None:
        """Finish the current job, then close the database and end the thread."""
        await self.disconnect()
        self._thread.shutdown()

    async def _in_thread(self, job: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)


def connect(path: Path | str, settings: Sequence[str], *, uri: bool = False) -> sqlite3.Connection:
    """Return a connection that reads texts as bytes, so that checksums are checked before decoding."""
    database = sqlite3.connect(path, isolation_level=None, uri=uri)
    try:
        database.text_factory = bytes
        database.create_function("row_checksum", -1, row_checksum, deterministic=True)
        for setting in settings:
            database.execute(setting)
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def transaction(database: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit everything that is written in the block, or nothing."""
    database.execute(begin)
    try:
        yield
    except BaseException:
        _roll_back(database)
        raise
    try:
        database.execute("COMMIT")
    except sqlite3.DatabaseError as problem:
        _roll_back(database)
        if _code(problem) & 0xFF in NOT_COMMITTED:
            raise
        raise UncertainCommitError(problem) from problem


def _roll_back(database: sqlite3.Connection) -> None:
    with suppress(sqlite3.DatabaseError):  # the caller reports the first error
        if database.in_transaction:
            database.execute("ROLLBACK")


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate SQLite's errors in the block into errors of the store, with SQLite's message."""
    try:
        yield
    except NewerContentError as problem:
        raise NewerDataError(path, problem) from problem
    except UnreadableRowError as problem:
        raise DatabaseDamagedError(path, str(problem)) from problem
    except UncertainCommitError as problem:
        raise UnknownOutcomeError(path, _describe(path, problem.problem)) from problem
    except UnicodeDecodeError as problem:
        # SQLite's message about the damage may quote bytes that are not UTF-8.
        raise DatabaseDamagedError(path, problem.object.decode(errors="replace")) from problem
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as problem:
        raise _store_error(path, problem) from problem


def _store_error(path: Path, problem: sqlite3.DatabaseError) -> DatabaseDamagedError | StoreFailedError:
    code = _code(problem)
    if "user-defined function" in str(problem):
        return DatabaseDamagedError(path, "a row contains text that is not UTF-8")
    if code & 0xFF in DAMAGED:
        return DatabaseDamagedError(path, str(problem))
    if code == sqlite3.SQLITE_READONLY and access(path, W_OK):
        return DatabaseDamagedError(path, "its header says that it is read-only")
    return StoreFailedError(path, _describe(path, problem))


def _describe(path: Path, problem: sqlite3.DatabaseError) -> str:
    """Return SQLite's message; for a disk error with the free space, which may be the reason."""
    if _code(problem) & 0xFF not in DISK:
        return str(problem)
    return f"{problem}; {shutil.disk_usage(path.parent).free / 1e6:.1f} MB are free"


def _code(problem: sqlite3.DatabaseError) -> int:
    # Errors that Python itself raises, for a text that is not UTF-8, have no code.
    code: int = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code
