"""A connection to SQLite, the thread that uses it, and its errors in our words."""

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
    StoreFailedError,
    UnknownOutcomeError,
    UnreadableRowError,
)
from fairwarning.store.rows import row_checksum

Result = TypeVar("Result")

#: Our statements are right, so a database that finds a mistake in one is not as we made it.
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})

#: What the disk under the database is to blame for.
DISK = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})

#: A commit that fails like this has not reached its end; any other failure leaves open whether it has.
NOT_COMMITTED = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})


class _UnknownOutcomeError(Exception):
    """A transaction failed at its very end."""

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
        """Take up what ``connect`` gives."""
        self._database = await self._in_thread(connect)

    async def work(self, job: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do a job with the database; those who asked earlier come first."""
        database = self._database
        if database is None:
            raise StoreFailedError(self._path, "it is not open")

        def work() -> Result:
            with explained(self._path):
                return job(database)

        return await self._in_thread(work)

    async def disconnect(self) -> None:
        """Finish what is being done and let go of the database; it can be opened again."""
        database, self._database = self._database, None
        if database is not None:
            await self._in_thread(database.close)

    async def close(self) -> None:
        """Finish what is being done, then let go."""
        await self.disconnect()
        self._thread.shutdown()

    async def _in_thread(self, job: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)


def connect(path: Path | str, settings: Sequence[str], *, uri: bool = False) -> sqlite3.Connection:
    """Return a connection whose texts are bytes: whether they are text is for their checksums to say."""
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
    """Keep all that is written in the block, or nothing."""
    database.execute(begin)
    try:
        yield
    except BaseException:
        _undo(database)
        raise
    try:
        database.execute("COMMIT")
    except sqlite3.DatabaseError as problem:
        _undo(database)
        if _code(problem) & 0xFF in NOT_COMMITTED:
            raise
        raise _UnknownOutcomeError(problem) from problem


def _undo(database: sqlite3.Connection) -> None:
    with suppress(sqlite3.DatabaseError):  # the first problem is the one to tell
        if database.in_transaction:
            database.execute("ROLLBACK")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say what went wrong in our words; what the database said comes along."""
    try:
        yield
    except UnreadableRowError as problem:
        raise DatabaseDamagedError(path, str(problem)) from problem
    except _UnknownOutcomeError as problem:
        raise UnknownOutcomeError(path, _said(path, problem.problem)) from problem
    except UnicodeDecodeError as problem:
        # Even what the database says about its damage may quote what is no text.
        raise DatabaseDamagedError(path, problem.object.decode(errors="replace")) from problem
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as problem:
        raise _explain(path, problem) from problem


def _explain(path: Path, problem: sqlite3.DatabaseError) -> DatabaseDamagedError | StoreFailedError:
    code = _code(problem)
    if "user-defined function" in str(problem):
        return DatabaseDamagedError(path, "a row without a checksum has a text in it that is not UTF-8")
    if code & 0xFF in DAMAGED:
        return DatabaseDamagedError(path, str(problem))
    if code == sqlite3.SQLITE_READONLY and access(path, W_OK):
        return DatabaseDamagedError(path, "its header says that it must not be written")
    return StoreFailedError(path, _said(path, problem))


def _said(path: Path, problem: sqlite3.DatabaseError) -> str:
    """Return what the database said; of a disk that failed also what is free, which may be why."""
    if _code(problem) & 0xFF not in DISK:
        return str(problem)
    return f"{problem}; {shutil.disk_usage(path.parent).free / 1e6:.1f} MB are free"


def _code(problem: sqlite3.DatabaseError) -> int:
    # Errors that Python finds by itself, in a text that is none, have no code.
    code: int = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code
