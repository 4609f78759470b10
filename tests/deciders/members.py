"""Nodes that know each other: heartbeats on a store in memory, timers, and clocks that may be wrong."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random

from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.ports import (
    GONE_AFTER,
    Batch,
    Driver,
    Entry,
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

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        self._check()
        return await super().commit(batch)

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
        name: str,
    ) -> None:
        super().__init__(store, link, clock, new_stamp, driver=driver, node_id=name)
        self.membership.name = name
        self.shared = link
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.membership.join(self.shared)
        await self.open()
        self.heartbeats = self._run(self.membership.run())
        self._run(self.follow())
        self._run(timer.run(self, self.clock))

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

    def _run(self, work: Coroutine[object, None, None]) -> asyncio.Task[None]:
        self._tasks.append(asyncio.create_task(work))
        return self._tasks[-1]


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
        link: type[SharedLink] = SharedLink,
    ) -> MemberNode:
        """Start a node that follows the journal, sends heartbeats and handles deadlines."""
        way = link(self.store, weather, Random(len(self.nodes)), table or self.table)
        new_stamp = partial(next, self._numbers)
        node = MemberNode(
            self.store,
            way,
            LoopClock(ahead),
            new_stamp,
            driver or SimulatedDriver(),
            f"node {len(self.nodes)}",
        )
        await node.start()
        self.links.append(way)
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
