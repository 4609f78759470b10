"""A random history: several nodes on one store, clients that ask them for things, and mishaps."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

from fairwarning.core.commands import SetHold, Tick
from fairwarning.core.decide import decide
from fairwarning.core.errors import FairWarningError, StorageError
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import OPERATOR, HostId
from fairwarning.core.policy import Policy
from fairwarning.engine import decider
from fairwarning.engine.engine import BATCH_SIZE
from fairwarning.engine.ports import AggregateKind, Store
from fairwarning.engine.replica import Replica
from fairwarning.engine.requests import Caller
from tests.deciders.asking import HOSTS, Client, fixed
from tests.deciders.audit import AuditedStore, check_barriers_do_not_hang
from tests.deciders.link import Link, Weather
from tests.deciders.node import LoopClock, Node, check_equal, check_indexes
from tests.deciders.stores import STORES
from tests.deciders.virtual_time import run

CHANGEABLE = Weather(lag=0.05, delay=0.004, loss=0.05, gap=0.02)
WATCHED, UNWATCHED = Policy(start_enabled=True), Policy()


@dataclass(frozen=True, slots=True)
class Settings:
    """What kind of history: how many nodes and rounds, what goes wrong, and how often."""

    nodes: int = 3
    rounds: int = 12
    requests: int = 12
    weather: Weather = CHANGEABLE
    #: How long the requests of one round take to come, in seconds.
    spread: float = 0.03
    #: How often a node dies in a round, and another one takes its place.
    deaths: float = 0.15
    #: How often a node is cut off from its store in a round, for longer than a request waits.
    cuts: float = 0.0
    #: Whether deciding yields to other tasks after every request.
    pauses: bool = False
    policy: Policy = WATCHED
    batch_size: int = BATCH_SIZE


#: The kinds of histories that every seed is tried with.
SETTINGS = {
    "one node": Settings(nodes=1),
    "two nodes": Settings(nodes=2),
    "guests that do not poll": Settings(nodes=2, policy=UNWATCHED),
    "nodes that are cut off": Settings(nodes=2, cuts=0.5),
    "three nodes": Settings(nodes=3),
    "late followers": Settings(weather=Weather(lag=0.5, delay=0.004, loss=0.02, gap=0.02)),
    "small batches": Settings(nodes=2, requests=30, batch_size=3),
    "all at once": Settings(nodes=2, requests=30, spread=0.004),
    "with pauses": Settings(
        rounds=6, requests=60, spread=0.02, weather=Weather(lag=0.005, delay=0.002, gap=0.05), pauses=True
    ),
    "slow store": Settings(weather=Weather(lag=0.02, delay=0.2, loss=0.1, gap=0.1)),
}


class History:
    """Nodes on one audited store."""

    def __init__(self, seed: int, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.chance = Random(seed)
        self.store = AuditedStore(store, settings.policy)
        self.client = Client(self.chance)
        self.nodes: list[Node] = []
        self._ahead = timedelta()
        self._number = 0

    async def play(self) -> Counter[str]:
        """Play all rounds, check everything, and return what happened."""
        for _ in range(self.settings.nodes):
            self.nodes.append(await self._start_node())
        for _ in range(self.settings.rounds):
            await self._play_round()
            await self._become_quiet()
            await self._check()
            assert not self.store.violations
            self.store.forget_points()
            if self.chance.random() < 0.2:
                self._ahead += timedelta(minutes=self.chance.choice((3, 6, 16, 400)))
        await self._end_holds()
        self._check_replay()
        for node in self.nodes:
            self.store.counts.update(node.link.counts)
            node.link.kill()
        return self.store.counts

    async def _start_node(self) -> Node:
        skew = timedelta(seconds=self.chance.uniform(-0.3, 0.3))
        link = Link(self.store, replace(self.settings.weather, loss=0.0), self.chance)
        clock = LoopClock(lambda: self._ahead + skew)
        node = Node(
            self.store, link, clock, lambda: self.chance.getrandbits(63) or 1, self.settings.batch_size
        )
        await node.open()
        link.weather = self.settings.weather
        node.following = asyncio.create_task(node.follow())
        return node

    async def _play_round(self) -> None:
        callers = [asyncio.create_task(self._call(index)) for index in self._choose_nodes()]
        if self.chance.random() < self.settings.deaths:
            await asyncio.sleep(self.chance.random() * self.settings.spread)
            index = self.chance.randrange(len(self.nodes))
            dead = self.nodes[index]
            dead.link.kill()
            self.store.counts["deaths"] += 1
            self.nodes[index] = await self._start_node()
            for caller in dead.callers:
                caller.cancel()
        if self.chance.random() < self.settings.cuts:
            await self._cut_off(self.chance.choice(self.nodes).link)
        await asyncio.gather(*callers)
        if self.chance.random() < 0.2:
            await self.store.prune(None, 1000, (), spare=20)

    async def _cut_off(self, link: Link) -> None:
        link.weather = replace(self.settings.weather, loss=1.0)
        await asyncio.sleep(self.chance.uniform(3.0, 8.0))
        link.weather = self.settings.weather

    def _choose_nodes(self) -> Iterator[int]:
        return (self.chance.randrange(len(self.nodes)) for _ in range(self.settings.requests))

    async def _call(self, index: int) -> None:
        await asyncio.sleep(self.chance.random() * self.settings.spread)
        node = self.nodes[index]
        self._number += 1
        key = f"r{self._number}"
        request = self.client.ask(key, self.store.state, LoopClock(lambda: self._ahead).now())
        if request is None:
            return
        caller = Caller(request.principal, key)
        asking = asyncio.ensure_future(node.submit(caller, request.build, request.note_refusal))
        node.callers.add(asking)
        try:
            await asking
        except FairWarningError:
            pass
        except asyncio.CancelledError:
            assert node not in self.nodes, "a request was cancelled on a living node"
        finally:
            node.callers.discard(asking)

    async def _become_quiet(self) -> None:
        if self.chance.random() < 0.3:
            await asyncio.gather(*(self._attend(node) for node in self.nodes))
        for node in self.nodes:
            if self.chance.random() < 0.2:
                for scope in list(node.scopes().values()):
                    for ref in list(scope.refs())[:1]:
                        node.record_poll(ref)
                await node.flush_polls()
            await node.close()
        for _ in range(1000):
            if all(node.position == self.store.position for node in self.nodes):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("a node never hears of the last line")

    async def _attend(self, node: Node) -> None:
        """Let a node do what is due, whether or not another one does."""
        with suppress(StorageError):
            await node.tick()

    async def _end_holds(self) -> None:
        """End all holds; once every node has done what is due, nothing waits without a reason (M-09)."""
        for node in self.nodes:
            node.link.weather = Weather()
        for host in (None, *map(HostId, HOSTS)):
            self._number += 1
            await self.nodes[0].submit(Caller(OPERATOR, f"r{self._number}"), fixed(SetHold(None, host)))
        for _ in range(3):
            await self._become_quiet()
            for node in self.nodes:
                await node.tick()
        await self._become_quiet()
        await self._check()
        fleet = FleetState(self.store.state.scopes, self.settings.policy, stored=self.store.state.texts.get)
        blocked = tuple(event.scope for event in fleet.events() if event.blocked)
        left = decide(fleet, (Tick(scopes=blocked),), self.nodes[0].clock.now()).changes
        assert not left, f"M-09: nothing is in the way of {left}"

    async def _check(self) -> None:
        snapshot = await self.store.snapshot()
        state = self.store.state
        assert (dict(snapshot.scopes), dict(snapshot.texts)) == (state.scopes, state.texts)
        assert dict(snapshot.polled) == state.polled
        removed = {name: one.incarnation for name, one in snapshot.sets.items() if one.incarnation}
        assert removed == state.last_incarnations
        assert {name: one.stamp for name, one in snapshot.sets.items()} == {
            aggregate.name: stamp
            for aggregate, stamp in self.store.stamps.items()
            if aggregate.kind is AggregateKind.SET
        }
        check_barriers_do_not_hang(state.scopes)
        for node in self.nodes:
            check_equal(node.replica, snapshot)
            check_indexes(node.replica, state)
        replayed = self._replayed()
        check_equal(replayed, snapshot)

    def _replayed(self) -> Replica:
        replica = Replica()
        for _, lines in groupby(self.store.entries, lambda entry: entry.ends):
            replica.apply(list(lines))
        return replica

    def _check_replay(self) -> None:
        check_indexes(self._replayed(), self.store.state)


@contextmanager
def _deciding_with(settings: Settings) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if settings.pauses:
            patch.setattr(decider, "PAUSE_AFTER", -1.0)
        yield


def play(seed: int, settings: Settings, store: str, directory: Path) -> Counter[str]:
    """Play a history to its end; an ``AssertionError`` tells of what must not happen."""

    async def story() -> Counter[str]:
        history = History(seed, settings, await STORES[store](directory))
        try:
            return await history.play()
        finally:
            await history.store.close()
            for violation in history.store.violations:
                raise violation

    # The histories lose requests on purpose; the errors about them are expected.
    logging.disable(logging.ERROR)
    try:
        with _deciding_with(settings):
            return run(story())
    finally:
        logging.disable(logging.NOTSET)
