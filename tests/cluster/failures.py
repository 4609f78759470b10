"""Failures of nodes, of their clocks and of their connections to the database, at random moments.

At least one node is left alone at any time: the cluster as a whole is expected to go on.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from tests.cluster.database_link import LinkState
from tests.cluster.nodes import Node

#: How long a node stands still, in seconds.
FREEZE = 5.0

#: Offsets of clocks: within what is tolerated, ahead and behind.
OFFSETS = (0.7, 3.0, 600.0, -3.0, -600.0)


class Failures:
    """Lets nodes fail until the time is up."""

    def __init__(
        self,
        nodes: Sequence[Node],
        chance: random.Random,
        over: asyncio.Event,
        hang_up: Callable[[Node], None],
    ) -> None:
        """Take what says that the time is up, and what ends a node's connections inside the database."""
        self.counts: Counter[str] = Counter()
        self._chance = chance
        self._over = over
        self._hang_up = hang_up
        self._idle = list(nodes)
        self._deck: list[str] = []
        self._kinds: Mapping[str, Callable[[Node], Awaitable[None]]] = {
            "kill": self._kill,
            "restart": self._restart,
            "freeze": self._freeze,
            "backends terminated": self._terminate_backends,
            "connections cut": self._cut,
            "database unreachable": self._unreachable,
            "answers lost": self._lose_answers,
            "link hanging": self._hang,
            "clock": self._skew,
        }

    async def run(self) -> None:
        """Let up to two nodes fail at a time, and end with all of them in order."""
        async with asyncio.TaskGroup() as both:
            for _ in range(max(1, len(self._idle) - 1)):
                both.create_task(self._fail())

    async def _pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the time is up."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def _fail(self) -> None:
        while not self._over.is_set():
            if not self._deck:
                self._deck = self._chance.sample(list(self._kinds), len(self._kinds))
            kind = self._deck.pop()
            node = self._idle.pop(self._chance.randrange(len(self._idle)))
            self.counts[kind] += 1
            await self._kinds[kind](node)
            self._idle.append(node)
            await self._pause(self._chance.uniform(0.0, 0.5))

    async def _kill(self, node: Node) -> None:
        node.kill()
        await self._pause(self._chance.choice((0.0, 0.5)))
        await node.start()

    async def _restart(self, node: Node) -> None:
        await node.stop()
        await node.start()

    async def _freeze(self, node: Node) -> None:
        node.freeze()
        await self._pause(FREEZE)
        node.thaw()

    async def _terminate_backends(self, node: Node) -> None:
        for _ in range(3):
            await asyncio.to_thread(self._hang_up, node)
            await self._pause(self._chance.uniform(0.0, 0.3))

    async def _cut(self, node: Node) -> None:
        for _ in range(3):
            node.link.cut()
            await self._pause(self._chance.uniform(0.0, 0.3))

    async def _unreachable(self, node: Node) -> None:
        await self._disturb(node, LinkState.CUT, self._chance.uniform(0.5, 3.0))

    async def _lose_answers(self, node: Node) -> None:
        for _ in range(5):
            await self._disturb(node, LinkState.ANSWERS_LOST, self._chance.uniform(0.01, 0.1))
            await self._pause(self._chance.uniform(0.1, 0.4))

    async def _hang(self, node: Node) -> None:
        await self._disturb(node, LinkState.HANGING, self._chance.uniform(1.0, 6.0))

    async def _disturb(self, node: Node, state: LinkState, seconds: float) -> None:
        node.link.change(state)
        await self._pause(seconds)
        node.link.change(LinkState.UP)

    async def _skew(self, node: Node) -> None:
        node.clock.set(timedelta(seconds=self._chance.choice(OFFSETS)))
        await self._pause(self._chance.uniform(1.0, 4.0))
        node.clock.set(timedelta(0))
