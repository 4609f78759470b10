"""A pruned history says where it begins, and readers learn which lines they may have missed."""

import asyncio
from contextlib import aclosing

import httpx2
import msgspec

from fairwarning.core.blueprint import Blueprint
from fairwarning.operator import schemas
from fairwarning.operator.history import follow
from tests.console.console_client import ConsoleTestClient, console_client
from tests.fleet_harness import run
from tests.operator.operator_client import OperatorTestClient, operator_client

WEB = Blueprint(name="web", count=3)


def pruned(client: OperatorTestClient | ConsoleTestClient) -> int:
    """Restart two machines, prune the lines of the first restart, and return the last pruned line."""
    client.stage.cause("restart", "web_0")
    client.stage.advance("20m")
    half = run(client.stage.store.last())
    client.stage.cause("restart", "web_1")
    while run(client.stage.store.pruned()) < half:
        run(client.stage.store.prune(None, 1, ()))
    return half


def test_a_complete_history_does_not_say_where_it_begins() -> None:
    client = operator_client(WEB)
    client.stage.cause("restart", "web_0")

    assert set(msgspec.json.decode(client.get("/history"))) == {"history", "next"}


def test_a_pruned_history_says_where_it_begins() -> None:
    client = operator_client(WEB)
    upto = pruned(client)

    page = client.history()

    assert isinstance(page.begins, schemas.BeginningBody)
    assert page.begins.seq == upto + 1
    assert page.begins.at == page.history[0].at
    assert page.gap == schemas.GapBody(after=0, upto=upto)
    assert [line.kind for line in page.history] == ["scheduled"]


def test_a_reader_that_has_all_pruned_lines_has_no_gap() -> None:
    client = operator_client(WEB)
    upto = pruned(client)

    page = client.history(f"?after={upto}")

    assert isinstance(page.begins, schemas.BeginningBody)
    assert page.gap is msgspec.UNSET


def test_a_feed_reports_the_gap_and_goes_on() -> None:
    client = operator_client(WEB)
    upto = pruned(client)
    client.shutdown.set()

    response = client.send("GET", "/feed?after=2")

    gap, *lines = [message for message in httpx2.EventSource(response) if message.data]
    assert (gap.event, gap.id) == ("gap", "")
    assert msgspec.json.decode(gap.data, type=schemas.GapBody) == schemas.GapBody(after=2, upto=upto)
    assert [one.event for one in lines] == ["scheduled"]


def test_a_feed_that_is_up_to_date_reports_no_gap() -> None:
    client = operator_client(WEB)
    upto = pruned(client)
    client.shutdown.set()

    response = client.send("GET", f"/feed?after={upto}")

    assert [one.event for one in httpx2.EventSource(response) if one.data] == ["scheduled"]


def test_a_gap_that_appears_while_the_feed_is_read_is_reported_once() -> None:
    client = operator_client(WEB)
    pruned(client)

    async def story() -> list[bytes]:
        shutdown = asyncio.Event()
        async with aclosing(follow(client.stage.engine, 0, shutdown)) as feed:
            messages = [one.message for one in await anext(feed)]
            client.stage.engine.feed.start_over()
            shutdown.set()
            return messages + [one.message async for batch in feed for one in batch]

    messages = run(story())

    assert sum(b"event: gap" in message for message in messages) == 1


def test_the_page_of_the_history_says_where_it_begins() -> None:
    client = console_client(WEB)
    whole = client.page("/history")
    pruned(client)

    page = client.page("/history")

    assert "The history begins at" not in whole
    assert "The history begins at" in page
    assert "older lines were pruned" in page
