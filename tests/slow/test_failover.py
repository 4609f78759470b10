"""A primary dies or freezes while several nodes approve; a script promotes its synchronous standby."""

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import Approve, Command, CreateSet, Schedule
from fairwarning.core.errors import ContendedError, StorageError, UnknownEventError
from fairwarning.core.model import OPERATOR, EventId, MachineRef, ScopeId, VmName, derive_id
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import SystemClock, new_request_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Entry
from fairwarning.engine.requests import Caller
from fairwarning.store.postgres.store import PostgresStore
from tests.deciders.asking import fixed
from tests.deciders.node import check_equal
from tests.needs import lack
from tests.postgres import Server, execute, find_programs, new_server

#: Two nodes, and on each of them as many callers, which share their sets with a caller of the other node.
NODES, CALLERS, MACHINES = 2, 8, 400

#: How long the database is away before the standby is promoted, in seconds.
NOTICED_AFTER = 1.0


@dataclass
class Tally:
    """What the callers were told."""

    approved: list[EventId] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    #: Acknowledged approvals that are not stored, and approvals that are stored twice.
    lost: int = 0
    doubled: int = 0
    #: The time without any acknowledged approval, at most, in seconds.
    silence: float = 0.0
    _last: float | None = None

    def note(self, event: EventId) -> None:
        """Note an acknowledged approval."""
        now = asyncio.get_running_loop().time()
        self.silence = max(self.silence, now - (self._last or now))
        self._last = now
        self.approved.append(event)


@pytest.fixture
def programs() -> Path:
    folder = find_programs()
    if folder is None:
        lack("needs the programs of PostgreSQL")
    return folder


@pytest.fixture
def servers(programs: Path) -> Iterator[tuple[Server, Server]]:
    """Start a primary and its synchronous standby."""
    with ExitStack() as stack:
        primary = new_server(programs)
        stack.callback(primary.end)
        primary.start()
        standby = primary.standby()
        stack.callback(standby.end)
        standby.start("cluster_name=standby")
        execute(primary.dsn(), "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (standby)'")
        execute(primary.dsn(), "SELECT pg_reload_conf()")
        until = time.monotonic() + 30
        while execute(primary.dsn(), "SELECT sync_state FROM pg_stat_replication") != [("quorum",)]:
            assert time.monotonic() < until, "the standby is not synchronous"
            time.sleep(0.02)
        yield primary, standby


async def ask(engine: Engine, command: Command) -> None:
    await engine.submit(Caller(OPERATOR, new_request_id()), fixed(command))


async def approve_all(engine: Engine, scope: ScopeId, machines: range, tally: Tally) -> None:
    """Announce the restart of one machine after the other, and approve it."""
    for number in machines:
        machine = VmName(f"{scope}_{number}")
        event = derive_id(machine)
        try:
            await ask(engine, Schedule(id=event, cause="restart", machines=(MachineRef(scope, machine),)))
            await ask(engine, Approve(scope=scope, ids=(event,)))
        except (StorageError, ContendedError, UnknownEventError) as problem:
            tally.refused[type(problem).__name__] += 1
        else:
            tally.note(event)


async def acknowledged(tally: Tally, number: int) -> None:
    """Return once so many approvals were acknowledged."""
    async with asyncio.timeout(60):
        while len(tally.approved) < number:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def nodes(dsn: str) -> AsyncIterator[list[Engine]]:
    """Run nodes that follow the journal of one database."""
    async with AsyncExitStack() as stack:
        engines = []
        for _ in range(NODES):
            store = await PostgresStore.open(dsn, migrate=True)
            stack.push_async_callback(store.close)
            engine = Engine(store, SystemClock(), SimulatedDriver(), Policy(start_enabled=True))
            await engine.open()
            stack.push_async_callback(engine.close)
            stack.callback(asyncio.create_task(engine.follow()).cancel)
            engines.append(engine)
        yield engines


async def play(dsn: str, tally: Tally, interrupt: Callable[[], Awaitable[None]]) -> None:
    """Let all callers approve before and after an interruption, and compare what they were told."""
    scopes = [ScopeId(f"s{number}") for number in range(CALLERS)]
    half = MACHINES // NODES
    async with nodes(dsn) as engines:
        for scope in scopes:
            await ask(engines[0], CreateSet(seed=scope, blueprint=Blueprint(name=scope, count=MACHINES)))
        callers = [
            asyncio.create_task(approve_all(engine, scope, range(part * half, (part + 1) * half), tally))
            for part, engine in enumerate(engines)
            for scope in scopes
        ]
        await acknowledged(tally, 300)
        await interrupt()
        await acknowledged(tally, len(tally.approved) + 300)
        for caller in callers:
            caller.cancel()
        ended = await asyncio.gather(*callers, return_exceptions=True)
        assert {type(end) for end in ended if end is not None} <= {asyncio.CancelledError}
        await asyncio.gather(*(engine.close() for engine in engines))
        await check(engines, tally)


async def check(engines: list[Engine], tally: Tally) -> None:
    """Compare the replicas and the acknowledged approvals with what is stored, and note what is lost."""
    store = engines[0].store
    last = await store.last()
    async with asyncio.timeout(60):
        while any(engine.position != last for engine in engines):
            await asyncio.sleep(0.01)
    snapshot = await store.snapshot()
    for engine in engines:
        check_equal(engine._replica, snapshot)
    lines: list[Entry] = []
    while page := await store.journal(after=len(lines), limit=5000):
        lines += page
    assert [line.seq for line in lines] == list(range(1, last + 1))
    stored = Counter(
        line.change.event.id
        for line in lines
        if isinstance(line.change, EventChanged) and line.change.what is EventMilestone.APPROVED
    )
    tally.lost = len([event for event in tally.approved if event not in stored])
    tally.doubled = len([event for event, times in stored.items() if times > 1])


def address_of_both(primary: Server, standby: Server) -> str:
    return make_conninfo(primary.dsn(), host=f"{primary.directory},{standby.directory}", port="5432,5432")


def tell(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    """Print what happened."""
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(tally.approved)} approvals acknowledged, {tally.lost} lost, {tally.doubled} doubled; "
            f"longest silence {tally.silence:.2f} s; refused: {dict(tally.refused)}\n"
        )


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.needs("ps")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "freezes"])
def test_nothing_acknowledged_is_lost_or_doubled_when_the_primary(
    end: signal.Signals, servers: tuple[Server, Server], capsys: pytest.CaptureFixture[str]
) -> None:
    primary, standby = servers
    tally = Tally()

    async def interrupt() -> None:
        primary.signal(end)
        await asyncio.sleep(NOTICED_AFTER)
        await asyncio.to_thread(standby.promote)

    try:
        asyncio.run(play(address_of_both(primary, standby), tally, interrupt))
    finally:
        primary.signal(signal.SIGKILL)

    tell(tally, capsys)
    assert (tally.lost, tally.doubled) == (0, 0)
    assert UnknownEventError.__name__ not in tally.refused
    assert tally.silence > NOTICED_AFTER


@pytest.mark.slow
@pytest.mark.needs("ps")
def test_nodes_go_on_with_what_is_left_when_a_standby_lacks_the_last_changes(
    servers: tuple[Server, Server], capsys: pytest.CaptureFixture[str]
) -> None:
    primary, standby = servers
    tally = Tally()

    async def interrupt() -> None:
        for server, setting in ((primary, "synchronous_standby_names"), (standby, "primary_conninfo")):
            execute(server.dsn(), f"ALTER SYSTEM SET {setting} = ''")
            execute(server.dsn(), "SELECT pg_reload_conf()")
        while execute(standby.dsn(), "SELECT 1 FROM pg_stat_wal_receiver"):
            await asyncio.sleep(0.02)
        await acknowledged(tally, len(tally.approved) + 100)
        primary.signal(signal.SIGKILL)
        await asyncio.to_thread(standby.promote)

    asyncio.run(play(address_of_both(primary, standby), tally, interrupt))

    tell(tally, capsys)
    assert tally.lost >= 50
    assert tally.doubled == 0
