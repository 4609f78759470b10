"""A random history of nodes and two primaries: which connection stands where is a matter of chance."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP

from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId
from tests.cluster.database_link import LinkState
from tests.cluster.two_primaries import MACHINES, Node, Pair, Way, hang_up

#: How long a history goes on with one primary, and then with two, in seconds.
BEFORE, BESIDE = 0.5, (1.0, 2.0, 4.0)

#: How long the old primary stands still, in seconds: long enough for connections in use to be given up.
FROZEN = (5.2, 6.5)

#: How long connections are left alone, at most, in seconds. A lost connection may heal what others broke.
PAUSES = (0.1, 0.5, 1.5)


class Disagreement:
    """Callers on all nodes, and what happens to the connections of the nodes."""

    def __init__(self, servers: Pair, way: Way, nodes: list[Node], chance: Random) -> None:
        self._servers = servers
        self._way = way
        self._nodes = nodes
        self._chance = chance
        self._number = 0

    async def play(self) -> None:
        """Promote the standby while the nodes work, let connections come and go, and kill one server."""
        callers = [asyncio.create_task(self._call(node)) for node in self._nodes]
        await asyncio.sleep(BEFORE)
        await asyncio.to_thread(self._servers.promote)
        if self._chance.random() < 0.7:
            await self._freeze()
        pause = self._chance.choice(PAUSES)
        try:
            async with asyncio.timeout(self._chance.choice(BESIDE)):
                while True:
                    await asyncio.sleep(self._chance.random() * pause)
                    await self._disturb(self._chance.choice(self._nodes))
        except TimeoutError:
            pass
        finally:
            for caller in callers:
                caller.cancel()
            ended = await asyncio.gather(*callers, return_exceptions=True)
        assert {type(end) for end in ended} == {asyncio.CancelledError}

    async def end(self) -> None:
        """Leave one of the two servers, which all links lead to."""
        if self._chance.random() < 0.3:
            self._servers.old, self._servers.new = self._servers.new, self._servers.old
        self._servers.old.signal(SIGKILL)
        for node in self._nodes:
            for link in node.links:
                link.change(LinkState.UP)
            if self._way is Way.VIRTUAL_ADDRESS:
                node.links[0].lead_to(str(self._servers.new.directory))

    async def _freeze(self) -> None:
        """Let the old primary stand still and come back; connections that were not used stay with it."""
        if self._way is Way.VIRTUAL_ADDRESS:
            for node in self._nodes:
                node.links[0].lead_to(str(self._servers.new.directory))
        self._servers.old.signal(SIGSTOP)
        try:
            await asyncio.sleep(self._chance.uniform(*FROZEN))
        finally:
            self._servers.old.signal(SIGCONT)

    async def _call(self, node: Node) -> None:
        """Announce, approve and cancel on a node."""
        events: list[EventId] = []
        while True:
            self._number += 1
            name, machine = str(self._number), self._chance.randrange(MACHINES)
            try:
                event = await node.restart(machine, name)
                events.append(event)
                if self._chance.random() < 0.5:
                    await self._chance.choice((node.approve, node.cancel))(self._chance.choice(events))
            except FairWarningError:
                pass
            await asyncio.sleep(self._chance.random() * 0.1)

    async def _disturb(self, node: Node) -> None:
        change = self._move if self._way is Way.VIRTUAL_ADDRESS else self._part
        kinds: Mapping[Callable[[Node], Awaitable[None]], int] = {self._hang_up: 5, self._cut: 1, change: 3}
        (kind,) = self._chance.choices(list(kinds), list(kinds.values()))
        await kind(node)

    async def _hang_up(self, node: Node) -> None:
        """End some connections of a node, wherever they stand."""
        connections = node.connections()
        some = self._chance.sample(connections, self._chance.randrange(1, len(connections)))
        for server in (self._servers.old, self._servers.new):
            await hang_up(server, some)

    async def _cut(self, node: Node) -> None:
        """End all connections of a node through one of its links."""
        self._chance.choice(node.links).cut()

    async def _move(self, node: Node) -> None:
        """Let the virtual address lead a node to the other server, more often to the new one."""
        server = self._servers.old if self._chance.random() < 0.3 else self._servers.new
        node.links[0].lead_to(str(server.directory))

    async def _part(self, node: Node) -> None:
        """Put one server out of the reach of a node, or both of them into it."""
        link, other = self._chance.sample(node.links, 2)
        other.change(LinkState.UP)
        link.change(LinkState.UP if link.state is LinkState.CUT else LinkState.CUT)
