"""A history that was pruned says where it begins, and tells readers what they may have missed."""

import asyncio
from contextlib import aclosing

import httpx2
import msgspec

from fairwarning.core.blueprint import Blueprint
from fairwarning.operator import schemas
from fairwarning.operator.history import follow
from tests.console.console_client import Lobby, lobby
from tests.fleet_harness import run
from tests.operator.operator_client import Office, office

WEB = Blueprint(name="web", count=3)


def pruned(desk: Office | Lobby) -> int:
    """Let two restarts pass, prune the first, and return up to which line that was."""
    desk.stage.cause("restart", "web_0")
    desk.stage.advance("20m")
    half = run(desk.stage.store.newest())
    desk.stage.cause("restart", "web_1")
    assert half is not None
    while run(desk.stage.store.pruned()) < half.seq:
        run(desk.stage.store.prune(None, 1, ()))
    return half.seq


def test_a_whole_history_says_nothing_of_where_it_begins() -> None:
    desk = office(WEB)
    desk.stage.cause("restart", "web_0")

    assert set(msgspec.json.decode(desk.get("/history"))) == {"history", "next"}


def test_a_pruned_history_says_where_it_begins() -> None:
    desk = office(WEB)
    upto = pruned(desk)

    page = desk.history()

    assert isinstance(page.begins, schemas.BeginningBody)
    assert page.begins.seq == upto + 1
    assert page.begins.at == page.history[0].at
    assert page.gap == schemas.GapBody(after=0, upto=upto)
    assert [line.kind for line in page.history] == ["scheduled"]


def test_who_has_seen_all_that_was_pruned_has_missed_nothing() -> None:
    desk = office(WEB)
    upto = pruned(desk)

    page = desk.history(f"?after={upto}")

    assert isinstance(page.begins, schemas.BeginningBody)
    assert page.gap is msgspec.UNSET


def test_a_reader_of_the_feed_is_told_of_the_gap_and_goes_on() -> None:
    desk = office(WEB)
    upto = pruned(desk)
    desk.closing.set()

    response = desk.send("GET", "/feed?after=2")

    gap, *lines = [message for message in httpx2.EventSource(response) if message.data]
    assert (gap.event, gap.id) == ("gap", "")
    assert msgspec.json.decode(gap.data, type=schemas.GapBody) == schemas.GapBody(after=2, upto=upto)
    assert [one.event for one in lines] == ["scheduled"]


def test_a_reader_of_the_feed_who_is_up_to_date_is_told_of_no_gap() -> None:
    desk = office(WEB)
    upto = pruned(desk)
    desk.closing.set()

    response = desk.send("GET", f"/feed?after={upto}")

    assert [one.event for one in httpx2.EventSource(response) if one.data] == ["scheduled"]


def test_what_is_pruned_while_a_reader_reads_is_told_once() -> None:
    desk = office(WEB)
    pruned(desk)

    async def story() -> list[bytes]:
        closing = asyncio.Event()
        async with aclosing(follow(desk.stage.engine, 0, closing)) as feed:
            told = [one.message for one in await anext(feed)]
            desk.stage.engine.feed.start_over()
            closing.set()
            return told + [one.message async for batch in feed for one in batch]

    told = run(story())

    assert sum(b"event: gap" in one for one in told) == 1


def test_the_page_of_the_history_says_where_it_begins() -> None:
    desk = lobby(WEB)
    whole = desk.page("/history")
    pruned(desk)

    page = desk.page("/history")

    assert "The history begins at" not in whole
    assert "The history begins at" in page
    assert "older lines were pruned" in page
