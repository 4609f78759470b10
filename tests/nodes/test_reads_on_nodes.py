"""Whichever node shows a guest an event first: all nodes know when the guest first read it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.engine.clock import ManualClock
from fairwarning.http1.messages import Request, Response
from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from tests.fleet_harness import run
from tests.guest import EVENTS, METADATA, NEWEST
from tests.nodes.node import Node, follow, start_node, two_nodes_on
from tests.postgres import empty_database
from tests.store.gate import turns

WEB = Blueprint(name="web", count=2)
WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
SECOND = timedelta(seconds=1)


@pytest.fixture(params=["memory", "postgres"])
def nodes(request: pytest.FixtureRequest) -> Iterator[tuple[Node, Node]]:
    """Two nodes, with one clock that is behind the database's, which refuses the future."""
    start = datetime.now(UTC) - timedelta(hours=1)
    if request.param == "memory":
        store = MemoryStore()
        yield two_nodes_on(store, store, WEB, start=start)
        return
    dsn = empty_database()
    first, second = (run(PostgresStore.open(dsn)) for _ in range(2))
    yield two_nodes_on(first, second, WEB, start=start)
    for opened in (first, second):
        run(opened.close())


def poll(node: Node) -> None:
    reply = node.guests.answer(WEB_0, Request("GET", EVENTS, NEWEST, METADATA, b"", keep_alive=True))
    assert isinstance(reply, Response)


async def poll_and_store(node: Node) -> None:
    poll(node)
    await node.engine.flush_polls()


def reads(node: Node) -> dict[str, datetime]:
    """Return the first reads of the only pending event, as the operator API shows them."""
    (event,) = node.operator.events()
    return event.read


@pytest.mark.rule("R-30")
def test_a_read_on_one_node_is_known_on_the_other(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    now = first.fleet.now
    first.operator.cause("restart", "web_0")

    run(poll_and_store(first))
    follow(second)

    assert reads(first) == reads(second) == {"web_0": now}


@pytest.mark.rule("R-30")
def test_a_machine_that_moves_to_another_node_keeps_its_first_read(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    now = first.fleet.now
    first.operator.cause("restart", "web_0")
    run(poll_and_store(first))
    follow(second)
    second.fleet.clock.set(now + SECOND)

    run(poll_and_store(second))
    follow(first)

    assert reads(first) == reads(second) == {"web_0": now}


@pytest.mark.rule("R-30")
def test_the_earlier_of_two_reads_stays_even_if_it_is_stored_later(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    now = first.fleet.now
    first.operator.cause("restart", "web_0")
    follow(second)

    async def story() -> None:
        first.store.open = False
        poll(first)
        await turns()
        second.fleet.clock.set(now + SECOND)
        await poll_and_store(second)
        first.store.open = True
        await first.store.let_through()
        await first.engine.flush_polls()

    run(story())
    follow(first, second)

    assert reads(first) == reads(second) == {"web_0": now}


@pytest.mark.rule("R-30")
def test_a_node_that_joins_later_knows_the_first_reads() -> None:
    store, clock = MemoryStore(), ManualClock(datetime(2026, 11, 16, 12, tzinfo=UTC))
    first, _ = two_nodes_on(store, store, WEB)
    first.operator.cause("restart", "web_0")
    run(poll_and_store(first))

    later = start_node(store, clock=clock)

    assert reads(later) == reads(first) != {}


@pytest.mark.rule("R-30")
def test_a_read_that_is_not_stored_dies_with_its_node(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    first.operator.cause("restart", "web_0")
    follow(second)

    async def story() -> None:
        first.store.open = False
        poll(first)

    run(story())
    known = reads(first)
    follow(second)

    assert list(known) == ["web_0"]
    assert reads(second) == {}
    run(first.store.let_through())
