"""A database falls back to a copy of itself that lacks the newest batches, while nodes decide."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import count
from random import Random

import pytest

from bench.delegate import Delegate
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, Command, CreateSet
from fairwarning.core.errors import UnknownEventError
from fairwarning.core.model import OPERATOR, ScopeId, derive_id
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError
from fairwarning.engine.ports import Batch, Entry, FleetSnapshot, GapError
from fairwarning.engine.requests import Caller
from fairwarning.store.following import Followers
from fairwarning.store.memory import MemoryStore
from tests.deciders.asking import fixed
from tests.deciders.cluster import approve, restart
from tests.deciders.node import LoopClock, check_equal
from tests.deciders.virtual_time import run

MACHINES = 40


class Database(Delegate):
    """A store that can fall back to a copy of itself."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.followers = Followers()
        self._fallen_back = 0
        self._batches: dict[int, Batch] = {}

    @property
    def history(self) -> int:
        return self._fallen_back

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        entries = await super().commit(batch)
        self._batches[batch.stamp] = batch
        self.followers.wake()
        return entries

    async def fall_back(self, lost: int) -> None:
        """Lose the newest batches."""
        kept = list(self._batches.values())[: max(1, len(self._batches) - lost)]
        self._inner = MemoryStore()
        self._batches = {batch.stamp: batch for batch in kept}
        for batch in kept:
            await self._inner.commit(batch)
        self._fallen_back += 1
        self.followers.wake()


class Connection(Delegate):
    """A node's way to the database; as in PostgreSQL, a snapshot has to be read after lines were lost."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        #: Cleared while the node can read neither the journal nor a snapshot.
        self.readable = asyncio.Event()
        self.readable.set()
        self.snapshots = 0
        self._database = database
        self._loaded = database.history

    async def snapshot(self) -> FleetSnapshot:
        self.snapshots += 1
        await self.readable.wait()
        snapshot = await super().snapshot()
        self._loaded = self.history
        return snapshot._replace(history=self.history)

    def follow(self, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        history = self.history

        async def read(start: int, limit: int) -> tuple[Sequence[Entry], int]:
            await self.readable.wait()
            if not history == self.history == self._loaded:
                raise GapError
            return await self._database.journal(after=start, limit=limit), 0

        return self._database.followers.follow(after, read)


class Node(Engine):
    """An engine that follows the journal of a database."""

    def __init__(self, database: Database, numbers: Iterator[int]) -> None:
        self.connection = Connection(database)
        super().__init__(
            self.connection,
            LoopClock(),
            SimulatedDriver(),
            Policy(start_enabled=True),
            new_stamp=lambda: next(numbers),
        )
        self.following: asyncio.Task[None] | None = None
        self._numbers = numbers

    async def ask(self, command: Command) -> None:
        await self.submit(Caller(OPERATOR, f"request {next(self._numbers)}"), fixed(command))

    async def create(self, name: str) -> None:
        await self.ask(CreateSet(seed=name, blueprint=Blueprint(name=name, count=MACHINES)))

    async def check(self, database: Database) -> None:
        """Check that the node ends up with what the database has."""
        await self.catch_up()
        check_equal(self._replica, await database.snapshot())


async def open_nodes(database: Database, number: int = 2) -> list[Node]:
    """Start nodes that know the set ``web``."""
    numbers = count(1)
    nodes = [Node(database, numbers) for _ in range(number)]
    for node in nodes:
        await node.open()
        node.following = asyncio.create_task(node.follow())
    await nodes[0].create("web")
    await asyncio.sleep(0.1)
    return nodes


def events_in(database: FleetSnapshot) -> set[str]:
    return set(database.scopes[ScopeId("web")].events)


def test_a_request_does_not_wait_for_lines_that_are_lost() -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        b.connection.readable.clear()
        await a.ask(restart("lost", "web_0"))
        request = asyncio.create_task(b.ask(restart("kept", "web_1")))
        await asyncio.sleep(0.1)

        await database.fall_back(1)
        b.connection.readable.set()
        async with asyncio.timeout(1):
            await request

        assert events_in(await database.snapshot()) == {derive_id("kept")}
        await a.check(database)
        await b.check(database)

    run(story())


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_change_that_is_lost_before_its_answer_is_made_again(lost: int) -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        b.connection.readable.clear()
        await a.create("app")
        request = asyncio.create_task(b.create("db"))
        await asyncio.sleep(0.1)

        await database.fall_back(lost)
        b.connection.readable.set()
        async with asyncio.timeout(1):
            await request

        assert (await database.snapshot()).scopes.keys() == {"web", "db", "app"} - (
            {"app"} if lost == 2 else set()
        )
        await a.check(database)
        await b.check(database)

    run(story())


@pytest.mark.parametrize("written", [1, 5, 9], ids=["fewer", "as many", "more"])
def test_a_request_is_not_refused_on_a_state_that_is_lost(written: int) -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        for number in range(5):
            await a.ask(restart(f"lost {number}", f"web_{number}"))
        await asyncio.sleep(0.1)
        b.connection.readable.clear()
        await database.fall_back(5)
        for number in range(written):
            await a.ask(restart(f"new {number}", f"web_{number}"))

        event = derive_id("new 0")
        request = asyncio.create_task(b.ask(approve("web", event)))
        await asyncio.sleep(0.5)
        b.connection.readable.set()
        await request

        await a.check(database)
        await b.check(database)
        assert b.scope(ScopeId("web")).events[event].approved_by is not None
        assert b.connection.snapshots == 2  # at the start, and one for all who wait

    run(story())


def test_readers_start_over_when_the_state_is_replaced_by_an_earlier_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        database = Database()
        _, b = await open_nodes(database)
        await b.create("lost")

        with b.feed.subscribe() as subscription:
            await database.fall_back(1)
            with pytest.raises(LaggingError):
                await subscription.next()

        assert b.scopes().keys() == {"web"}

    run(story())
    assert "database_lost_lines known=82 last=41" in caplog.text


@pytest.mark.parametrize("seed", range(12))
def test_nodes_go_on_together_whenever_their_database_loses_lines(seed: int) -> None:
    chance = Random(seed)
    database = Database()

    async def call(node: Node, machines: range) -> int:
        stored = 0
        for number in machines:
            event = derive_id(str(number))
            try:
                await node.ask(restart(str(number), f"web_{number}"))
                await node.ask(Approve(scope=ScopeId("web"), ids=(event,)))
            except UnknownEventError:  # its announcement was lost
                continue
            stored += 1
            await asyncio.sleep(chance.random() * 0.02)
        return stored

    async def story() -> None:
        nodes = await open_nodes(database, 3)
        share = MACHINES // 8
        callers = [
            asyncio.create_task(call(chance.choice(nodes), range(part * share, (part + 1) * share)))
            for part in range(8)
        ]
        for _ in range(4):
            await asyncio.sleep(chance.random() * 0.03)
            node = chance.choice(nodes)
            node.connection.readable.clear()
            await asyncio.sleep(chance.random() * 0.01)
            await database.fall_back(chance.randrange(4))
            await asyncio.sleep(chance.random() * 0.01)
            node.connection.readable.set()
        async with asyncio.timeout(1):
            stored = await asyncio.gather(*callers)

        assert sum(stored) > 0
        for node in nodes:
            await node.check(database)

    run(story())
