"""Connections to PostgreSQL that survive its restarts and failovers.

No statement is ever cancelled: a cancelled commit that waits for its standby is visible at once, although
the standby does not have it. So every job runs in a task of its own, which goes on if its caller is
cancelled. A server that does not answer in time is hung up on instead: the socket is shut down, and what the
job did is then unknown. The next try connects again, to any host of the address that accepts writes.

After a failover without fencing, two servers may accept writes. So all connections stand on one server, which
is known by its timeline and by the start of its process. A connection that reaches a newer server takes all
others along: what a job brings from a server that was left does not count. An older server is refused until
the newer one has been silent for ``SILENT_AFTER`` and no host of the address leads to it.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.rows import TupleRow

from fairwarning.core.errors import StorageError
from fairwarning.engine.ports import StaleBatchError, StoreState
from fairwarning.store.errors import (
    AnswerLostError,
    DatabaseAwayError,
    DatabaseBusyError,
    DatabaseDamagedError,
    DatabaseReadOnlyError,
    DatabaseRefusedError,
    DatabaseUnsuitableError,
    NewerContentError,
    NewerDataError,
    UnreadableRowError,
)
from fairwarning.store.postgres.address import Address

Result = TypeVar("Result")
Rows = Sequence[TupleRow]

#: How long an answer is waited for before the server is hung up on, in seconds.
ANSWER_WITHIN = 5.0

#: How long a job tries to get a connection, and how long it rests between two tries, in seconds.
PATIENCE, REST = 5.0, 0.1

#: How long a server has to be silent before connections may go back to an older one, in seconds.
SILENT_AFTER = 5.0

#: The number of rows of a slice: reading a slice keeps the event loop busy for a few milliseconds.
SLICE = 500

OLDEST_SERVER = 150000

#: Whatever the settings of the server or the role say: changes that were answered are on the disk, and no
#: limit of the server cancels a commit.
SETUP = """
    SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
        left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_postmaster_start_time(),
        set_config('idle_in_transaction_session_timeout', '60s', false), set_config('timezone', 'UTC', false),
        set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
        CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
            THEN set_config('transaction_timeout', '0', false) END,
        CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
            THEN set_config('synchronous_commit', 'on', false) END
"""

LEFT = "the answer came from a server that a newer one has replaced"

#: Serialization failure, deadlock, lock timeout: nothing was stored, and the same statement may succeed.
BUSY = frozenset({"40001", "40P01", "55P03"})


class BytesLoader(Loader):
    """Reads texts as bytes, so that checksums are checked before decoding."""

    def load(self, data: Buffer) -> bytes:
        """Return the bytes of a text."""
        return bytes(data)


class ServerRun(NamedTuple):
    """A server between its start and its end; a promoted or restarted server is larger than before."""

    #: The timeline in hexadecimal digits: a promotion begins a new one.
    timeline: bytes
    started: datetime


#: What is known of a server before it was asked.
NOT_ASKED = ServerRun(b"", datetime.min.replace(tzinfo=UTC))


class Session:
    """An open connection on which every answer is waited for a limited time."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        #: The server at its other end.
        self.server = NOT_ASKED
        self._connection = connection

    @property
    def broken(self) -> bool:
        """Whether the connection can no longer be used."""
        return self._connection.closed

    @property
    def pid(self) -> int:
        """The number of the server's process, which its notifications carry."""
        return self._connection.info.backend_pid

    async def query(self, statement: str, *values: object, within: float = ANSWER_WITHIN) -> Rows:
        """Run a statement and return its rows; hang up if there is no answer in time."""
        timer = asyncio.get_running_loop().call_later(within, self._hang_up)
        try:
            cursor = await self._connection.execute(statement.encode(), values or None)
            return await cursor.fetchall() if cursor.description else ()
        finally:
            timer.cancel()

    async def slices(self, statement: str) -> AsyncIterator[Rows]:
        """Yield the rows of a query in slices, inside a transaction."""
        await self.query(f"DECLARE slices NO SCROLL CURSOR FOR {statement}")
        while rows := await self.query(f"FETCH {SLICE} FROM slices"):
            yield rows
        await self.query("CLOSE slices")

    @asynccontextmanager
    async def transaction(self, begin: str) -> AsyncIterator[None]:
        """Run the statements of the block in a transaction that only reads."""
        await self.query(begin)
        try:
            yield
        finally:
            if not self.broken:
                await self.query("ROLLBACK")

    async def notified(self, within: float, own: int | None) -> bool:
        """Wait for a notification; False if only the session ``own`` has sent some. Raise if disconnected."""
        senders = [one.pid async for one in self._connection.notifies(timeout=within, stop_after=1)]
        if not senders:
            await self.query("SELECT")
        return not senders or any(sender != own for sender in senders)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    def _hang_up(self) -> None:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as one:
            one.shutdown(socket.SHUT_RDWR)


#: Called with every new connection before it is used, and with whether its timeline is another one than that
#: of the connections before it.
Connected = Callable[[Session, bool], Awaitable[None]]


#: Statements that belong together, and what came of them on which connection.
Job = Callable[[Session], Awaitable[Result]]
Outcome = tuple[Session, Result | StaleBatchError]


class DatabaseServer:
    """The servers of an address, and what the last tries to reach them have shown."""

    def __init__(self, address: Address, connected: Connected) -> None:
        self.address = address
        self.state = StoreState.READY
        #: When and why a job has lost its patience; None since a server has answered.
        self.gave_up: tuple[float, StorageError] | None = None
        self._connected = connected
        #: The server on which all connections stand, and when it last answered.
        self._current: ServerRun | None = None
        self._answered = 0.0
        self._moving = asyncio.Lock()

    async def connect(self) -> Session:
        """Return a new connection that accepts writes, to the newest server that can be reached.

        Raises:
            DatabaseAwayError: no server answers.
            DatabaseReadOnlyError: the servers that answer accept no writes.
        """
        sessions: list[Session] = []
        moved_to: Session | None = None
        try:
            await self._look_for_servers(sessions)
            newest = max(sessions, key=lambda session: session.server)
            if await self._move_to(newest):
                moved_to = newest
        except psycopg.Error as problem:
            raise self.translate(problem) from problem
        finally:
            for session in sessions:
                if session is not moved_to:
                    await session.close()
        if moved_to is None:
            self.state = StoreState.AWAY
            raise DatabaseAwayError("only a server answers that a newer one has replaced")
        self.note_answer()
        return moved_to

    async def _look_for_servers(self, sessions: list[Session]) -> None:
        """Add a connection to the current server or a newer one, else one for every host that answers."""
        for first_host in range(self.address.hosts):
            try:
                session = await self._connect(first_host, sessions)
            except (psycopg.Error, StorageError):
                if not sessions:
                    raise
            else:
                if self._current is not None and session.server >= self._current:
                    return

    async def _connect(self, first_host: int, sessions: list[Session]) -> Session:
        try:
            session = await self._open("read-write", first_host)
        except psycopg.Error as problem:
            raise await self._explain(problem) from None
        sessions.append(session)
        ((version, encoding, timeline, started, *_),) = await session.query(SETUP)
        check_server(version, encoding)
        session.server = ServerRun(timeline, started)
        return session

    async def _move_to(self, session: Session) -> bool:
        """Let all connections stand on the server of a new one; False if it is older than theirs."""
        async with self._moving:
            before, server = self._current, session.server
            if before is not None and server < before and self._silence() < SILENT_AFTER:
                return False
            await self._connected(session, before is not None and server.timeline != before.timeline)
            self._current = server
            return True

    def _silence(self) -> float:
        return asyncio.get_running_loop().time() - self._answered

    def has_left(self, session: Session) -> bool:
        """Whether the connections stand on another server than a session."""
        return session.server != self._current

    def note_answer(self) -> None:
        """Note that the server does what it is asked."""
        self.state, self.gave_up = StoreState.READY, None
        self._answered = asyncio.get_running_loop().time()

    def note_patience_lost(self, problem: StorageError) -> None:
        """Note that a job gives up, unless only other transactions keep it waiting."""
        if self.state is not StoreState.READY:
            self.gave_up = asyncio.get_running_loop().time(), problem

    async def _open(self, kind: str, first_host: int = 0) -> Session:
        conninfo = self.address.conninfo(kind, first_host)
        connection = await AsyncConnection.connect(conninfo, autocommit=True)
        connection.adapters.register_loader("text", BytesLoader)
        return Session(connection)

    async def _explain(self, problem: psycopg.Error) -> StorageError:
        """Return why there is no connection that accepts writes."""
        try:
            session = await self._open("any")
        except psycopg.Error:
            return self._away(problem)
        try:
            ((read_only,),) = await session.query("SHOW transaction_read_only")
        except psycopg.Error:
            return self._away(problem)
        finally:
            await session.close()
        if read_only != b"on":  # a server has come back since the first try
            return self._away(problem)
        self.state = StoreState.READ_ONLY
        return DatabaseReadOnlyError()

    def translate(self, problem: psycopg.Error, *, commit: bool = False) -> StorageError:
        """Return the error of the store for an error of the database, and note the new state."""
        code = problem.sqlstate or ""
        if code == "25006":
            self.state = StoreState.READ_ONLY
            return DatabaseReadOnlyError()
        if code in BUSY:
            return DatabaseBusyError(_one_line(problem))
        if is_lost(problem):
            return self._away(problem, AnswerLostError if commit else DatabaseAwayError)
        return DatabaseRefusedError(f"{_one_line(problem)} (SQLSTATE {code or 'unknown'})")

    def _away(
        self, problem: psycopg.Error, error: type[DatabaseAwayError] = DatabaseAwayError
    ) -> DatabaseAwayError:
        self.state = StoreState.AWAY
        return error(_one_line(problem))


class PostgresConnection:
    """A connection that does one job at a time and is made again when it is lost."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._session: Session | None = None
        self._free = asyncio.Lock()
        self._jobs: set[asyncio.Task[object]] = set()
        self._closing = False

    async def work(self, job: Job[Result], *, commit: bool = False) -> Result:
        """Do a job, in a task that goes on if the caller is cancelled.

        A job whose connection is lost is done again, for up to ``PATIENCE`` after the loss. A commit is not:
        its caller has to know that it may be stored. When a job gives up, all that wait behind it fail, and
        later ones try only once, until a server has answered; commits have their patience nevertheless.
        """
        while True:
            task = asyncio.create_task(self._work(job, commit))
            self._jobs.add(task)
            task.add_done_callback(self._done)
            session, result = await asyncio.shield(task)
            # The server may have been left since the task has ended.
            has_left = self._server.has_left(session)
            if isinstance(result, StaleBatchError):
                if not has_left:
                    raise result
            elif not has_left:
                return result
            elif commit:
                raise AnswerLostError(LEFT)
            if self._closing:
                raise DatabaseAwayError(LEFT)

    @property
    def pid(self) -> int | None:
        """The number of the server's process; None while there is no connection."""
        return None if self._session is None or self._session.broken else self._session.pid

    async def query(self, statement: str, *values: object) -> Rows:
        """Run one statement and return its rows."""
        return await self.work(lambda session: session.query(statement, *values))

    async def close(self) -> None:
        """Finish the jobs, except those that wait for a database that is away; then close the connection."""
        self._closing = True
        if self._jobs:
            await asyncio.wait(self._jobs)
        await self._drop()

    def _done(self, task: asyncio.Task[object]) -> None:
        self._jobs.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that was cancelled does not look at it

    async def _work(self, job: Job[Result], commit: bool) -> Outcome[Result]:
        loop = asyncio.get_running_loop()
        asked, until = loop.time(), None
        async with self._free:
            if self._server.gave_up is not None and not commit:
                gave_up, reason = self._server.gave_up
                if asked <= gave_up:
                    raise reason
                until = asked
            while True:
                try:
                    return await self._try(job, commit)
                except (DatabaseAwayError, DatabaseBusyError, DatabaseReadOnlyError) as problem:
                    now = loop.time()
                    until = until or now + PATIENCE
                    if problem.outcome_unknown or self._closing:
                        raise
                    if now > until:
                        self._server.note_patience_lost(problem)
                        raise
                    await asyncio.sleep(REST)

    async def _try(self, job: Job[Result], commit: bool) -> Outcome[Result]:
        session = await self._connected()
        result: Result | StaleBatchError
        try:
            result = await job(session)
        except psycopg.Error as problem:
            await self._drop()
            raise self._server.translate(problem, commit=commit) from problem
        except StaleBatchError as conflict:
            result = conflict
        except UnreadableRowError as problem:
            if self._server.has_left(session):
                raise DatabaseAwayError(LEFT) from problem
            if isinstance(problem, NewerContentError):
                raise NewerDataError(str(self._server.address), problem) from problem
            raise DatabaseDamagedError(str(self._server.address), str(problem)) from problem
        if not self._server.has_left(session):
            self._server.note_answer()
        return session, result

    async def _connected(self) -> Session:
        """Return the connection; it is made anew if it was lost, or if the others stand on another server."""
        session = self._session
        if session is None or session.broken or self._server.has_left(session):
            await self._drop()
            session = self._session = await self._server.connect()
        return session

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def check_server(version: int, encoding: bytes) -> None:
    """Raise unless a server is new enough and stores every text."""
    if version < OLDEST_SERVER:
        found, needed = version // 10000, OLDEST_SERVER // 10000
        raise DatabaseUnsuitableError(
            f"PostgreSQL {found} is too old; PostgreSQL {needed} or newer is needed"
        )
    if encoding != b"UTF8":
        raise DatabaseUnsuitableError(f"the database has the encoding {encoding.decode()}; it has to be UTF8")


def is_lost(problem: psycopg.Error) -> bool:
    """Whether an error means that the connection or the server is gone."""
    code = problem.sqlstate
    if code is None:
        return isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError)
    return code.startswith(("08", "57P")) or code in ("53300", "25P03")


def _one_line(problem: psycopg.Error) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
