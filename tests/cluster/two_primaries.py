"""Two servers that both accept writes, and nodes whose connections may stand on either of them.

A standby is promoted while its primary lives: behind a virtual address, which leads new connections to the
promoted server while old ones stay where they are, or with both servers in the address of the database.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum, auto
from pathlib import Path

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import Approve, Cancel, Command, CreateSet, Schedule
from fairwarning.core.errors import StorageError
from fairwarning.core.model import OPERATOR, EventId, MachineRef, ScopeId, VmName, derive_id
from fairwarning.core.policy import Policy
from fairwarning.database.operations import check_database
from fairwarning.database.postgres import PostgresDatabase
from fairwarning.drivers.external import ExternalDriver
from fairwarning.engine.clock import SystemClock, new_request_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Entry
from fairwarning.engine.requests import Caller
from fairwarning.store.postgres.connection import PostgresConnection
from fairwarning.store.postgres.store import PostgresStore
from tests.cluster.database_link import DatabaseLink
from tests.deciders.asking import fixed
from tests.deciders.node import check_equal
from tests.postgres import Server, execute, new_server

#: Within how many seconds of one primary every node says what that primary has.
HEALED_WITHIN = 15.0

SCOPE, MACHINES = ScopeId("q"), 100


class Way(Enum):
    """How the nodes find the server that accepts writes."""

    VIRTUAL_ADDRESS = auto()
    BOTH_IN_THE_DSN = auto()


class Pair:
    """A primary and its asynchronous standby."""

    def __init__(self, old: Server, new: Server) -> None:
        self.old = old
        self.new = new

    def promote(self) -> None:
        """Make the standby a second primary; it has everything that the primary has at this moment."""
        ((end,),) = execute(self.old.dsn(), "SELECT pg_current_wal_lsn()")
        until = time.monotonic() + 30
        while execute(self.new.dsn(), f"SELECT pg_last_wal_replay_lsn() >= '{end}'") != [(True,)]:
            assert time.monotonic() < until, "the standby is behind"
            time.sleep(0.02)
        self.new.promote()


@asynccontextmanager
async def pair(programs: Path) -> AsyncIterator[Pair]:
    """Run a primary and a standby during the block."""
    async with AsyncExitStack() as stack:
        old = new_server(programs)
        stack.callback(old.end)
        await asyncio.to_thread(old.start)
        new = await asyncio.to_thread(old.standby)
        stack.callback(new.end)
        await asyncio.to_thread(new.start)
        yield Pair(old, new)


class Node:
    """An engine with its links to the servers."""

    def __init__(self, store: PostgresStore, links: Sequence[DatabaseLink]) -> None:
        self.store = store
        self.links = links
        self.engine = Engine(store, SystemClock(), ExternalDriver(), Policy(start_enabled=True))

    async def ask(self, command: Command) -> None:
        """Carry out a command on this node."""
        await self.engine.submit(Caller(OPERATOR, new_request_id()), fixed(command))

    async def restart(self, number: int, name: str) -> EventId:
        """Announce a restart of a machine of the scope."""
        machine = MachineRef(SCOPE, VmName(f"{SCOPE}_{number}"))
        event = derive_id(name)
        await self.ask(Schedule(id=event, cause="restart", machines=(machine,)))
        return event

    async def change_something(self, number: int) -> None:
        """Announce a freeze; a caller who is told that the outcome is unknown tries again."""
        machine = MachineRef(SCOPE, VmName(f"{SCOPE}_{number}"))
        for left in (2, 1, 0):
            try:
                freeze = Schedule(id=derive_id(new_request_id()), cause="freeze", machines=(machine,))
                return await self.ask(freeze)
            except StorageError:
                if not left:
                    raise

    async def approve(self, event: EventId) -> None:
        """Approve an event."""
        await self.ask(Approve(scope=SCOPE, ids=(event,)))

    async def cancel(self, event: EventId) -> None:
        """Cancel an event."""
        await self.ask(Cancel(scope=SCOPE, id=event))

    def connections(self) -> list[PostgresConnection]:
        """Return what the store keeps open for batches, questions and snapshots."""
        return [self.store._writer, self.store._control, self.store._reader]

    def events(self) -> set[EventId]:
        """Return the events that the node knows."""
        return set(self.engine.scope(SCOPE).events)


@asynccontextmanager
async def nodes(servers: Pair, way: Way, number: int, *, empty: bool = True) -> AsyncIterator[list[Node]]:
    """Run nodes; the first creates a scope of some machines, on the old primary, if that is ``empty``."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(number):
            behind = [servers.old] if way is Way.VIRTUAL_ADDRESS else [servers.old, servers.new]
            links = [
                await stack.enter_async_context(DatabaseLink(str(server.directory), 5432).serve())
                for server in behind
            ]
            ports = ",".join(str(link.port) for link in links)
            hosts = ",".join("127.0.0.1" for _ in links)
            dsn = f"host={hosts} port={ports} user=postgres dbname=postgres sslmode=disable"
            store = await PostgresStore.open(dsn, migrate=True)
            stack.push_async_callback(store.close)
            node = Node(store, links)
            await node.engine.open()
            stack.push_async_callback(node.engine.close)
            following = asyncio.create_task(node.engine.follow())
            stack.callback(following.cancel)
            found.append(node)
        if empty:
            await found[0].ask(CreateSet(seed=SCOPE, blueprint=Blueprint(name=SCOPE, count=MACHINES)))
        yield found


async def hang_up(server: Server, connections: Sequence[PostgresConnection]) -> None:
    """End connections inside a server."""
    pids = [connection.pid for connection in connections if connection.pid is not None]
    statement = f"SELECT pg_terminate_backend(pid) FROM unnest(ARRAY{pids}::int[]) pid"
    await asyncio.to_thread(execute, server.dsn(), statement)


async def healed(found: Sequence[Node], survivor: Server) -> None:
    """Wait until every node says what the only primary has, and check that primary."""
    until = time.monotonic() + HEALED_WITHIN
    store = await PostgresStore.open(survivor.dsn())
    try:
        while True:
            snapshot = await store.snapshot()
            try:
                for node in found:
                    check_equal(node.engine._replica, snapshot)
                break
            except AssertionError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.1)
        lines: list[Entry] = []
        while page := await store.journal(after=len(lines)):
            lines += page
    finally:
        await store.close()
    assert impossible_steps(lines) == []
    report = await asyncio.to_thread(check_database, PostgresDatabase(survivor.dsn()))
    assert [f"{finding.where}: {finding.problem}" for finding in report.findings.kept] == []


def impossible_steps(lines: Sequence[Entry]) -> list[str]:
    """Return the steps of events that were never announced, or were over already."""
    pending: set[EventId] = set()
    found = []
    for line in lines:
        if isinstance(line.change, EventChanged):
            step, event = line.change.what, line.change.event.id
            if step is EventMilestone.SCHEDULED:
                pending.add(event)
            elif event not in pending:
                found.append(f"line {line.seq}: {event} {step}")
            if step in (EventMilestone.CANCELLED, EventMilestone.FINISHED):
                pending.discard(event)
    return found
