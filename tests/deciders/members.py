"""Nodes that know each other: heartbeats on a store in memory, timers, and clocks that may be wrong."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from random import Random

from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.ports import (
    GONE_AFTER,
    Driver,
    Heartbeat,
    Member,
    NodeReport,
    StoreState,
)
from tests.deciders.audit import AuditedStore
from tests.deciders.cluster import CALM, Cluster, HookedLink, open_cluster
from tests.deciders.link import NotReachedError, Weather
from tests.deciders.node import LoopClock, Node

SECOND = timedelta(seconds=1)


class NodeTable:
    """The nodes of a store, and the clock of its database."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.state = StoreState.READY
        self._members: dict[str, Member] = {}

    def beat(self, report: NodeReport) -> Heartbeat:
        now = self.clock.now()
        self._members[report.id] = Member(report, now)
        alive = (one for one in self._members.values() if now - one.beat_at <= GONE_AFTER)
        return Heartbeat(now, tuple(alive))

    def remove(self, node: str) -> None:
        self._members.pop(node, None)


class SharedLink(HookedLink):
    """A link to a store that knows its nodes."""

    def __init__(self, inner: AuditedStore, weather: Weather, chance: Random, nodes: NodeTable) -> None:
        super().__init__(inner, weather, chance)
        self._nodes = nodes

    @property
    def state(self) -> StoreState:
        return self._nodes.state

    async def heartbeat(self, report: NodeReport) -> Heartbeat:
        self.counts["heartbeat"] += 1
        with self._calling():
            await self._travel(NotReachedError)
            self._check()
            beat = self._nodes.beat(report)
            await self._travel(NotReachedError)
            return beat

    async def leave(self, node: str) -> None:
        with self._calling():
            self._check()
            self._nodes.remove(node)

    def _check(self) -> None:
        if self.state is not StoreState.READY:
            raise NotReachedError


class MemberNode(Node):
    """A node with a timer and heartbeats."""

    def __init__(
        self,
        store: AuditedStore,
        link: SharedLink,
        clock: LoopClock,
        new_stamp: Callable[[], int],
        driver: Driver,
    ) -> None:
        super().__init__(store, link, clock, new_stamp, driver=driver)
        self.shared = link
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, name: str) -> None:
        await self.membership.join(self.shared, name, "1.0")
        await self.open()
        for work in (self.follow(), self.membership.run(), timer.run(self, self.clock)):
            self._run(work)

    def kill(self) -> None:
        """End the node as SIGKILL does: nothing is told to anybody."""
        for task in self._tasks:
            task.cancel()
        self.shared.kill()

    async def end(self) -> None:
        """End the node as a node ends that is asked to."""
        await self.membership.leave()
        for task in self._tasks:
            task.cancel()
        await self.close()

    def _run(self, work: Coroutine[object, None, None]) -> None:
        self._tasks.append(asyncio.create_task(work))


class Members(Cluster):
    """A cluster whose nodes know each other and act by themselves."""

    def __init__(self, store: AuditedStore) -> None:
        super().__init__(store)
        self.table = NodeTable()

    async def join(
        self,
        *,
        weather: Weather = CALM,
        ahead: Callable[[], timedelta] = timedelta,
        driver: Driver | None = None,
        table: NodeTable | None = None,
    ) -> MemberNode:
        """Start a node that follows the journal, sends heartbeats and handles deadlines."""
        link = SharedLink(self.store, weather, Random(len(self.nodes)), table or self.table)
        clock = LoopClock(ahead)
        node = MemberNode(self.store, link, clock, lambda: next(self._numbers), driver or SimulatedDriver())
        await node.start(f"node {len(self.nodes)}")
        self.links.append(link)
        self.nodes.append(node)
        return node

    def now(self) -> datetime:
        """Return the time by the clock of the database."""
        return self.table.clock.now()

    async def sleep_until(self, instant: datetime) -> None:
        """Wait until an instant by the clock of the database."""
        await asyncio.sleep((instant - self.now()).total_seconds())


async def open_members() -> Members:
    """Return a cluster without nodes, on a new store in memory."""
    return Members((await open_cluster()).store)
