"""Two nodes on PostgreSQL, each with connections of its own: what they share, they share there too."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.http1.messages import Response
from fairwarning.operator.history import follow as follow_feed
from fairwarning.store.postgres.store import PostgresStore
from tests.fleet_harness import run
from tests.nodes.node import TOKEN, Node, follow, following, two_nodes_on
from tests.nodes.test_console_on_nodes import log_in
from tests.nodes.test_deployments_on_nodes import (
    BEFORE,
    deploy,
    let_leases_end,
    rest,
    state,
    written,
)
from tests.nodes.test_news_from_other_nodes import LONG, lines, restart, shown, wait_for_change
from tests.nodes.test_reading_your_writes import DEPLOYMENT, SET, VERSION, make_group, make_set
from tests.postgres import empty_database

WEB = Blueprint(name="web", count=2)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    """Two nodes on an empty database; their clock is behind the database's, which refuses the future."""
    dsn = empty_database()
    first, second = (run(PostgresStore.open(dsn)) for _ in range(2))
    yield two_nodes_on(first, second, WEB, token=TOKEN, start=datetime.now(UTC) - timedelta(hours=1))
    for store in (first, second):
        run(store.close())


def test_what_one_node_has_stored_is_found_on_the_other(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    make_group(first)
    make_set(first)

    (event,) = first.operator.cause("restart", "web_0").events
    operation = first.management.send("DELETE", f"{SET}{VERSION}").headers["Azure-AsyncOperation"]

    assert second.operator.send("GET", f"/events/{event.id}").status_code == 200
    assert second.management.send("GET", operation.removeprefix("https://127.0.0.1:8443")).status_code == 200
    assert second.operator.refused("GET", "/machines/nothing").status == 404


def test_sessions_tokens_and_logouts_are_those_of_both(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    log_in(first.console)
    second.console.cookies.update(first.console.cookies)
    logged_in = second.console.send("GET", "/").status_code
    token = first.management.tokens.make("https://somewhere")

    first.console.press("/logout", "/")
    follow(second)

    assert (logged_in, second.console.send("GET", "/").status_code) == (200, 303)
    assert second.management.tokens.is_valid(token)


def test_a_guest_and_a_feed_of_one_node_hear_of_the_other(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    before = shown(first)

    async def story() -> tuple[Response, list[int]]:
        async with following(second), asyncio.timeout(10):
            guest = wait_for_change(second, f'"{second.fleet.incarnation("web")}"')
            feed = follow_feed(second.engine, second.engine.position, second.operator.shutdown, LONG)
            reading = asyncio.create_task(lines(feed, second.engine.position + 1))
            await first.engine.handle(restart())
            return await guest.answered, await reading

    response, read = run(story())

    assert response.status == 200
    assert read == [number for number in shown(first) if number not in before]


def test_a_deployment_of_a_node_that_dies_comes_to_its_end_once(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    make_group(first)
    first.store.cut_after = BEFORE + 1

    status = deploy(first)
    rest(second)
    at_once = state(second)
    let_leases_end(second)
    rest(second)

    assert (status, at_once, state(second)) == (503, "Running", "Succeeded")
    assert len(written(second, DEPLOYMENT)) == len(["begun", "taken over", "ended"])
