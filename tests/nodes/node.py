"""Nodes with all of their APIs, in one process and on one store.

A node follows the journal only while a test says so (``following``): the other nodes stay behind.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fairwarning.access import stored_secret
from fairwarning.arm.app import create_app as create_management
from fairwarning.arm.context import ArmContext
from fairwarning.arm.tokens import load_tokens
from fairwarning.arm.upkeep import Upkeep
from fairwarning.console.app import create_app as create_console
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import MachineRef
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Batch, Entry, Heartbeat, Lease, Member, NodeReport, Store, StoreState
from fairwarning.metadata.app import MetadataApp
from fairwarning.operator.app import create_app as create_operator
from fairwarning.store.errors import StoreFailedError
from fairwarning.store.memory import MemoryStore
from tests.arm.arm_client import URL as MANAGEMENT
from tests.arm.arm_client import ArmClient, WallClock
from tests.console.console_client import ConsoleTestClient
from tests.fleet_harness import NOON, FleetHarness, run
from tests.guest import UNHURRIED
from tests.operator.operator_client import OperatorTestClient
from tests.store.gate import Gate

TOKEN = "correct horse battery"


class StoreLink(Gate):
    """The way from a node to a store that several nodes share; it can be held up and cut."""

    state = StoreState.READY

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.inner = store
        #: The number of batches after which the store does not answer any more; None if it always does.
        self.cut_after: int | None = None

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        if self.cut_after is not None:
            self._check()
            self.cut_after -= 1
        return await super().commit(batch)

    async def last(self) -> int:
        self._check()
        return await super().last()

    async def claim(self, key: str, owner: str, now: datetime, lasts: timedelta) -> Lease | None:
        self._check()
        return await super().claim(key, owner, now, lasts)

    async def release(self, lease: Lease) -> None:
        self._check()
        await super().release(lease)

    async def heartbeat(self, report: NodeReport) -> Heartbeat:
        return Heartbeat(NOON, (Member(report, NOON),))

    async def leave(self, node: str) -> None:
        pass

    def _check(self) -> None:
        if self.cut_after is not None and self.cut_after <= 0:
            raise StoreFailedError(Path("the network"), "no answer")


@dataclass(frozen=True)
class Node:
    """One node, and a client of each of its APIs."""

    store: StoreLink
    fleet: FleetHarness
    operator: OperatorTestClient
    console: ConsoleTestClient
    management: ArmClient
    context: ArmContext
    upkeep: Upkeep
    guests: MetadataApp

    @property
    def engine(self) -> Engine:
        return self.fleet.engine


def start_node(
    inner: Store,
    *,
    token: str | None = None,
    clock: ManualClock | None = None,
    uptime: Callable[[], float] = lambda: 0.0,
) -> Node:
    """Start a node on a store that it shares with others; without ``uptime``, its state never gets stale."""
    store = StoreLink(inner)
    fleet = FleetHarness(store=store, clock=clock, uptime=uptime)
    wall, shutdown = WallClock(), asyncio.Event()
    control = Control(fleet.engine)
    secret = bytes.fromhex(run(stored_secret(store, "console-secret")))
    console = create_console(
        control, endpoints=_no_endpoint, token=token, shutdown=shutdown, wall=wall, secret=secret
    )
    context = ArmContext(fleet.engine, open_endpoints=open_nothing)
    tokens = run(load_tokens(store, wall, token))
    return Node(
        store,
        fleet,
        OperatorTestClient(
            fleet, create_operator(control, endpoints=_no_endpoint, shutdown=shutdown), shutdown
        ),
        ConsoleTestClient(fleet, console, shutdown),
        ArmClient(create_management(context, base_url=MANAGEMENT, tokens=tokens), tokens, wall, fleet),
        context,
        Upkeep(context),
        MetadataApp(control, UNHURRIED),
    )


def two_nodes(*blueprints: Blueprint, token: str | None = None) -> tuple[Node, Node]:
    """Start two nodes that know the same fleet, on a store in memory."""
    store = MemoryStore()
    return two_nodes_on(store, store, *blueprints, token=token)


def two_nodes_on(
    first: Store, second: Store, *blueprints: Blueprint, token: str | None = None, start: datetime = NOON
) -> tuple[Node, Node]:
    """Start two nodes that know the same fleet, on two connections to one store."""
    clock = ManualClock(start)
    for blueprint in blueprints:
        FleetHarness(store=first, clock=clock).make(blueprint)
    return start_node(first, token=token, clock=clock), start_node(second, token=token, clock=clock)


@asynccontextmanager
async def following(*nodes: Node) -> AsyncIterator[None]:
    """Let nodes follow the journal for as long as the block lasts."""
    tasks = [asyncio.create_task(node.engine.follow()) for node in nodes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def follow(*nodes: Node) -> None:
    """Let nodes follow the journal to its end."""
    for node in nodes:
        run(node.engine.catch_up())


def _no_endpoint(machine: MachineRef) -> None:
    return None


async def open_nothing(machines: object) -> None:
    """Open no endpoints: guests call the app."""
