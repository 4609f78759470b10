"""A database falls back to a copy of itself that lacks the newest batches, while nodes decide."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import count
from random import Random

import pytest

from bench.delegate import Delegate
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone, TextChanged
from fairwarning.core.commands import Command, CreateSet
from fairwarning.core.errors import StorageError, UnknownEventError
from fairwarning.core.model import OPERATOR, EventId, HostId, ScopeId, derive_id
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError
from fairwarning.engine.ports import Batch, Entry, FleetSnapshot, GapError, Part, StaleBatchError
from fairwarning.engine.requests import Build, Caller
from fairwarning.store.following import Followers
from fairwarning.store.memory import MemoryStore
from tests.conftest import NOON
from tests.deciders.asking import fixed, note_refusal
from tests.deciders.cluster import approve, on_host, restart
from tests.deciders.link import NotReachedError
from tests.deciders.node import LoopClock, check_equal
from tests.deciders.virtual_time import run

MACHINES = 40


class Database(Delegate):
    """A store that can fall back to a copy of itself."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.followers = Followers()
        #: How often it has fallen back.
        self.fallbacks = 0
        self._batches: dict[int, Batch] = {}

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        entries = await super().commit(batch)
        self._batches[batch.stamp] = batch
        self.followers.wake()
        return entries

    async def fall_back(self, lost: int) -> None:
        """Lose the newest batches, but for the first."""
        kept = list(self._batches.values())[: max(1, len(self._batches) - lost)]
        copy = MemoryStore()
        for batch in kept:
            await copy.commit(batch)
        self._inner = copy
        self._batches = {batch.stamp: batch for batch in kept}
        self.fallbacks += 1
        self.followers.wake()


class Connection(Delegate):
    """A node's way to the database; it notices lost lines as the store in PostgreSQL does."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        #: Cleared while the node can read neither the journal nor a snapshot.
        self.readable = asyncio.Event()
        self.readable.set()
        #: Why batches are not stored.
        self.problem: StorageError | None = None
        self.snapshots = 0
        self._database = database
        self._history = self._loaded = 0
        self._fallbacks = database.fallbacks
        self._newest = (0, 0)
        self._last = 0

    @property
    def history(self) -> int:
        return self._history

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        await self.look()
        if self.problem is not None:
            raise self.problem
        if batch.history not in (None, self._history):
            batch = batch._replace(position=-1)
        try:
            entries = await super().commit(batch)
        except StaleBatchError as conflict:
            self._last = max(self._last, conflict.last)
            raise
        self._note(entries)
        return entries

    async def last(self) -> int:
        await self.look()
        self._last = max(self._last, await super().last())
        return await super().last()

    async def snapshot(self) -> FleetSnapshot:
        self.snapshots += 1
        await self.readable.wait()
        await self.look()
        before, self._loaded = self._loaded, self._history
        snapshot = await super().snapshot()
        self._note(await self._database.journal(after=snapshot.position - 1))
        return snapshot._replace(history=self._history, lines_lost=self._history > before)

    def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        history = self._history

        async def read(start: int, limit: int) -> tuple[Sequence[Entry], int]:
            await self.readable.wait()
            await self.look()
            page = await self._database.journal(after=start, limit=limit)
            if not history == self._history == self._loaded:
                raise GapError
            self._note(page)
            return page, 0

        return self._database.followers.follow(after, stamp, read)

    async def look(self) -> None:
        """Connect again after the database has fallen back."""
        if self._fallbacks == self._database.fallbacks:
            return
        self._fallbacks = self._database.fallbacks
        seq, stamp = self._newest
        last = await self._database.last()
        found = {line.seq: line.stamp for line in await self._database.journal(after=seq - 1, limit=1)}
        if last < self._last or (seq and found.get(seq) != stamp):
            self._newest, self._last = (0, 0), last
            self._history += 1

    def _note(self, lines: Sequence[Entry]) -> None:
        for line in lines:
            self._newest = max(self._newest, (line.seq, line.stamp))
            self._last = max(self._last, line.seq)


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
        await self.request(fixed(command))

    async def request(self, build: Build) -> None:
        await self.submit(Caller(OPERATOR, f"request {next(self._numbers)}"), build, note_refusal)

    async def create(self, name: str, machines: int = 1, host: str | None = None) -> None:
        blueprint = Blueprint(name=name, count=machines, host=None if host is None else HostId(host))
        await self.ask(CreateSet(seed=name, blueprint=blueprint))


async def open_nodes(database: Database, number: int = 2) -> list[Node]:
    """Start nodes that know the set ``web``."""
    numbers = count(1)
    nodes = [Node(database, numbers) for _ in range(number)]
    for node in nodes:
        await node.open()
        node.following = asyncio.create_task(node.follow())
    await nodes[0].create("web", MACHINES)
    await asyncio.sleep(0.1)
    return nodes


async def check(database: Database, *nodes: Node) -> None:
    """Check that nodes end up with what the database has."""
    snapshot = await database.snapshot()
    for node in nodes:
        await node.catch_up()
        check_equal(node._replica, snapshot)


async def replace_the_last_set(database: Database, a: Node, b: Node, host: str) -> None:
    """Lose a set that both nodes know, and store another one, in as many lines, of which b does not know."""
    await a.create("lost")
    await asyncio.sleep(0.1)
    b.connection.readable.clear()
    await database.fall_back(1)
    await a.create("new", host=host)
    assert a.position == b.position


async def create_behind_unread_lines(a: Node, b: Node) -> asyncio.Task[None]:
    """Let a store the set ``app``, and b the set ``db`` behind it; b has to wait for the lines of a."""
    b.connection.readable.clear()
    await a.create("app")
    request = asyncio.create_task(b.create("db"))
    await asyncio.sleep(0.1)
    return request


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

        assert set((await database.snapshot()).scopes[ScopeId("web")].events) == {derive_id("kept")}
        await check(database, a, b)

    run(story())


@pytest.mark.parametrize(
    ("lost", "unread"),
    [
        pytest.param(0, 0.1, id="nothing is lost"),
        pytest.param(1, 0.1, id="the change is lost"),
        pytest.param(2, 0.1, id="the change and the one before are lost"),
        pytest.param(2, 8.0, id="and nothing can be read for a while"),
    ],
)
def test_a_change_that_is_lost_before_its_answer_is_made_again(lost: int, unread: float) -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        request = await create_behind_unread_lines(a, b)

        await database.fall_back(lost)
        await b.connection.look()
        await asyncio.sleep(unread)
        b.connection.readable.set()
        async with asyncio.timeout(1):
            await request

        found = (await database.snapshot()).scopes.keys()
        assert found == ({"web", "db"} if lost == 2 else {"web", "app", "db"})
        await check(database, a, b)

    run(story())


def test_a_change_that_may_be_lost_and_cannot_be_sent_again_is_not_answered_as_lost() -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        request = await create_behind_unread_lines(a, b)

        await database.fall_back(2)
        b.connection.problem = NotReachedError()
        b.connection.readable.set()
        with pytest.raises(StorageError, match="it is unknown whether this one is stored") as failure:
            await request

        assert failure.value.outcome_unknown

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
        caller = Caller(OPERATOR, "request")
        request = asyncio.create_task(b.submit(caller, fixed(approve("web", event))))
        await asyncio.sleep(0.5)
        b.connection.readable.set()
        await request

        await check(database, a, b)
        assert b.scope(ScopeId("web")).events[event].approved_by is not None
        assert b.connection.snapshots == 2  # at the start, and one for all who wait

    run(story())


@pytest.mark.parametrize("host", ["H1", "H2"], ids=["too few machines", "no machine"])
def test_a_question_that_no_stamp_covers_is_not_answered_from_a_state_that_is_lost(host: str) -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        await a.create("known", host="H1")
        await replace_the_last_set(database, a, b, host)

        request = asyncio.create_task(b.request(on_host("reboot", host)))
        await asyncio.sleep(0.5)
        b.connection.readable.set()
        await request

        found = (await database.snapshot()).scopes.values()
        assert {scope.id for scope in found if scope.events} == (
            {"known", "new"} if host == "H1" else {"new"}
        )
        await check(database, a, b)

    run(story())


def test_an_answer_beside_a_change_does_not_rest_on_a_state_that_is_lost() -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        await replace_the_last_set(database, a, b, "H1")

        change = asyncio.create_task(b.create("beside"))
        caller = Caller(OPERATOR, "request")
        answer = asyncio.create_task(b.submit(caller, on_host("reboot", "H1")))
        await asyncio.sleep(0.5)
        assert b.scopes().keys() == {"web", "lost"}
        b.connection.readable.set()
        await change
        assert b.scopes().keys() == {"web", "new", "beside"}
        await answer

        assert (await database.snapshot()).scopes[ScopeId("new")].events
        await check(database, a, b)

    run(story())


def test_a_reader_that_catches_up_learns_that_the_state_is_another_one() -> None:
    async def story() -> None:
        database = Database()
        a, b = await open_nodes(database)
        await a.create("lost")
        await asyncio.sleep(0.1)
        b.connection.readable.clear()
        await database.fall_back(1)

        newer = asyncio.create_task(b.catch_up())
        await asyncio.sleep(0.1)
        b.connection.readable.set()

        assert await newer
        assert b.scopes().keys() == {"web"}

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
    assert "database_lost_lines known=43 last=41" in caplog.text


def test_a_store_that_is_behind_its_followers_and_does_not_know_it_is_not_asked_all_the_time() -> None:
    async def story() -> int:
        database = Database()
        _, b = await open_nodes(database)
        await b.create("lost")
        b.connection._fallbacks += 1  # it does not notice

        await database.fall_back(1)
        await asyncio.sleep(10)

        return b.connection.snapshots

    assert run(story()) < 20


def test_a_database_that_falls_back_again_and_again_is_read_once_a_second() -> None:
    async def story() -> int:
        database = Database()
        _, b = await open_nodes(database)
        batch = Batch(stamp=1000, parts=(Part("lost", NOON, (TextChanged(key="operation:lost", text=""),)),))
        for number in range(200):
            await database.commit(batch._replace(stamp=1000 + number, texts={"operation:lost": ""}))
            await asyncio.sleep(0.025)
            await database.fall_back(1)
            await asyncio.sleep(0.025)
        return b.connection.snapshots

    assert run(story()) < 20


@pytest.mark.parametrize("seed", range(12))
def test_nodes_go_on_together_whenever_their_database_loses_lines(seed: int) -> None:
    chance = Random(seed)
    database = Database()
    #: The events that were approved, each with the number of fallbacks before.
    approved: list[tuple[int, EventId]] = []

    async def call(node: Node, machines: range) -> None:
        for number in machines:
            event, before = derive_id(str(number)), database.fallbacks
            try:
                await node.ask(restart(str(number), f"web_{number}"))
                await node.ask(approve("web", event))
            except UnknownEventError:  # its announcement was lost
                continue
            approved.append((before, event))
            await asyncio.sleep(chance.random() * 0.1)

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
        async with asyncio.timeout(3):  # between two reloads there is a rest
            await asyncio.gather(*callers)

        stored = {
            line.change.event.id
            for line in await database.journal(limit=10_000)
            if isinstance(line.change, EventChanged) and line.change.what is EventMilestone.APPROVED
        }
        kept = {event for before, event in approved if before == database.fallbacks}
        assert kept
        assert kept <= stored
        await check(database, *nodes)

    run(story())
