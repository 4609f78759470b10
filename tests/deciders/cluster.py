"""Few nodes on one store, for stories in which everything happens in a known order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, Command, CreateSet, Schedule
from fairwarning.core.model import (
    OPERATOR,
    Event,
    EventId,
    HostId,
    MachineRef,
    Scope,
    ScopeId,
    VmName,
    derive_id,
)
from fairwarning.core.policy import Policy
from fairwarning.engine.ports import Batch, Entry
from fairwarning.engine.requests import Build, Caller, Plan, Result
from tests.deciders.asking import fixed
from tests.deciders.audit import AuditedStore
from tests.deciders.link import Link, Weather
from tests.deciders.node import LoopClock, Node, check_equal
from tests.deciders.stores import STORES

CALM = Weather()

#: Called before a batch reaches the store, and after it is stored but before the answer arrives.
Hook = Callable[[Batch], Awaitable[None]]


async def nothing(batch: Batch) -> None:
    """Do nothing."""


class HookedLink(Link):
    """A link on which something happens just before or after a batch is stored."""

    before: Hook = staticmethod(nothing)
    after: Hook = staticmethod(nothing)

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        await self.before(batch)
        entries = await super().commit(batch)
        await self.after(batch)
        return entries


class Cluster:
    """Nodes on one audited store.

    A node hears of the others' lines only while it ``listens``, or when the store has told it that it is
    behind.
    """

    def __init__(self, store: AuditedStore) -> None:
        self.store = store
        self.links: list[HookedLink] = []
        self.nodes: list[Node] = []
        self._numbers = count(1)
        self._listening: list[asyncio.Task[None]] = []

    async def start(self, weather: Weather = CALM) -> Node:
        """Start a node."""
        link = HookedLink(self.store, weather, Random(len(self.nodes)))
        node = Node(self.store, link, LoopClock(), lambda: next(self._numbers))
        await node.open()
        self.links.append(link)
        self.nodes.append(node)
        return node

    def listen(self, *nodes: Node) -> None:
        """Let nodes follow the journal."""
        self._listening += [asyncio.create_task(node.follow()) for node in nodes]

    async def catch_up(self) -> None:
        """Let every node hear of everything."""
        following = [asyncio.create_task(node.follow()) for node in self.nodes]
        while any(node.position < self.store.position for node in self.nodes):
            await asyncio.sleep(0.01)
        for task in following:
            task.cancel()

    async def check(self) -> None:
        """Check that every node ends up with what the store has."""
        await self.catch_up()
        snapshot = await self.store.snapshot()
        for node in self.nodes:
            check_equal(node.replica, snapshot)
        for violation in self.store.violations:
            raise violation

    def caller(self) -> Caller:
        """Return an operator with a new request."""
        return Caller(OPERATOR, f"request {next(self._numbers)}")

    async def ask(self, node: Node, build: Build) -> Result:
        """Ask a node for something."""
        return await node.submit(self.caller(), build)

    async def do(self, node: Node, *commands: Command) -> Result:
        """Let a node carry out commands as one request."""
        return await self.ask(node, fixed(*commands))

    async def create(self, node: Node, name: str, machines: int = 1, host: str | None = None) -> None:
        """Create a set."""
        blueprint = Blueprint(name=name, count=machines, host=None if host is None else HostId(host))
        await self.do(node, CreateSet(seed=name, blueprint=blueprint))

    async def announce(self, node: Node, *machines: str, cause: str = "restart") -> EventId:
        """Announce an event on machines, and return the id of the first."""
        event = derive_id(cause, *machines)
        await self.do(node, Schedule(id=event, cause=cause, machines=tuple(map(ref, machines))))
        return event

    def scope(self, name: str) -> Scope:
        """Return a scope as it is stored."""
        return self.store.state.scopes[ScopeId(name)]

    def event_of(self, name: str) -> Event:
        """Return the only event of a scope as it is stored."""
        (event,) = self.scope(name).events.values()
        return event


def ref(machine: str) -> MachineRef:
    """Return the machine ``web_0`` of the set ``web``."""
    return MachineRef(ScopeId(machine.rpartition("_")[0]), VmName(machine))


def restart(key: str, *machines: str) -> Schedule:
    """Return a command that restarts machines."""
    return Schedule(id=derive_id(key), cause="restart", machines=tuple(map(ref, machines)))


def approve(scope: str, *events: EventId) -> Approve:
    """Return a command that approves events of a scope."""
    return Approve(scope=ScopeId(scope), ids=events)


def on_host(key: str, host: str) -> Build:
    """Return a request for the reboot of a host, whoever is on it."""
    return lambda view: Plan(
        (Schedule(id=derive_id(key), cause="host-reboot", machines=view.machines_on_host(host)),)
    )


async def open_cluster(kind: str = "memory", directory: Path = Path()) -> Cluster:
    """Return a cluster without nodes on a new store."""
    return Cluster(AuditedStore(await STORES[kind](directory), Policy(start_enabled=True)))
