"""Pages that change under one's eyes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta

import httpx2
import pytest
from starlette.types import Message

from fairwarning.console.live import ShownPage, changed, digest, messages
from fairwarning.console.page import Fragment
from fairwarning.console.pages import fleet
from fairwarning.console.sessions import LIFE
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import AddMachines, Schedule
from fairwarning.core.model import ScopeId
from fairwarning.engine.feed import Feed
from fairwarning.engine.time_control import TimeControl
from tests.conftest import NOON
from tests.console.console_client import Lobby, lobby, proof
from tests.stage import Stage, run

WEB = Blueprint(name="web", count=3)
AT_ONCE = timedelta(0)
SELDOM = timedelta(hours=1)
ENGINE = Stage().engine


def part(id: str, html: str, *, key: str | None = None, within: str | None = None) -> Fragment:
    return Fragment(id=id, html=html, key=key, within=within)


LIST = part("list", "<ul>1</ul>", key="a b")


@pytest.mark.parametrize(
    ("before", "now", "sent"),
    [
        pytest.param([part("a", "1")], [part("a", "1")], [], id="what is the same is not sent"),
        pytest.param([part("a", "1"), part("b", "1")], [part("a", "1"), part("b", "2")], ["b"],
                     id="what differs is sent alone"),
        pytest.param([part("a", "1", key="k")], [part("a", "2", key="k")], [], id="a key decides"),
        pytest.param([part("a", "1", key="k")], [part("a", "1", key="l")], ["a"], id="a new key is a change"),
        pytest.param([LIST, part("a", "1", within="list")], [LIST, part("a", "2", within="list")], ["a"],
                     id="an inner fragment is sent without its outer one"),
        pytest.param([LIST, part("a", "1", within="list")],
                     [part("list", "<ul>2</ul>", key="a c"), part("a", "2", within="list")], ["list"],
                     id="an inner fragment comes with its outer one"),
        pytest.param([], [LIST, part("in", "1", key="x", within="list"), part("deep", "1", within="in")],
                     ["list"], id="however deep it lies"),
    ],
)  # fmt: skip
def test_only_what_differs_is_sent(
    before: Sequence[Fragment], now: Sequence[Fragment], sent: Sequence[str]
) -> None:
    seen = {one.id: one.html if one.key is None else one.key for one in before}

    assert [one.id for one in changed(seen, now)] == sent


def test_a_digest_names_what_a_page_shows() -> None:
    assert digest([part("a", "1")]) == digest([part("a", "1")])
    assert digest([part("a", "1")]) != digest([part("a", "2")])
    assert digest([part("a", "1"), part("b", "")]) != digest([part("a", ""), part("b", "1")])
    assert digest([part("a", "1", key="k")]) == digest([part("a", "2", key="k")])


# -- the stream by itself


class Page:
    """A page of one fragment, and how often it was looked at."""

    def __init__(self, html: str) -> None:
        self.html = html
        self.looks = 0

    async def look(self) -> ShownPage:
        self.looks += 1
        return ShownPage((part("a", self.html),))


def test_whoever_has_what_the_page_shows_is_sent_nothing() -> None:
    page = Page("one")

    async def first() -> list[bytes]:
        stream = messages(Feed(), TimeControl(ENGINE), page.look, (await page.look()).name, asyncio.Event())
        async with aclosing(stream):
            return [await anext(stream), await anext(stream)]

    assert run(first()) == [b": listening\n\n", b": quiet\n\n"]


def test_whoever_has_something_else_is_sent_all_of_it_under_its_name() -> None:
    page = Page("two\nlines")

    async def first() -> bytes:
        stream = messages(Feed(), TimeControl(ENGINE), page.look, "something old", asyncio.Event())
        async with aclosing(stream):
            await anext(stream)
            return await anext(stream)

    sent = run(first()).decode().splitlines()

    name = digest([part("a", "two\nlines")])
    assert sent == [
        f"id: {name}",
        'data: <hx-partial id="a" hx-swap="outerMorph">two',
        "data: lines</hx-partial>",
        "",
    ]


def test_an_id_cannot_break_out_of_its_place() -> None:
    async def look() -> ShownPage:
        return ShownPage((part('"><script>', "text"),))

    async def first() -> bytes:
        async with aclosing(messages(Feed(), TimeControl(ENGINE), look, "", asyncio.Event())) as stream:
            await anext(stream)
            return await anext(stream)

    assert b"<script>" not in run(first())


def test_news_are_told_at_once() -> None:
    page, feed = Page("one"), Feed()

    async def story() -> bytes:
        stream = messages(
            feed, TimeControl(ENGINE), page.look, "", asyncio.Event(), pace=AT_ONCE, glance=SELDOM
        )
        async with aclosing(stream):
            await anext(stream)
            await anext(stream)
            page.html = "two"
            # Whoever may have missed something looks again: what it was may be anything.
            feed.start_over()
            return await anext(stream)

    assert b"two" in run(story())


def test_a_clock_that_moves_is_told_at_once() -> None:
    page, journeys = Page("one"), TimeControl(Stage().engine)

    async def story() -> bytes:
        stream = messages(Feed(), journeys, page.look, "", asyncio.Event(), pace=AT_ONCE, glance=SELDOM)
        async with aclosing(stream):
            await anext(stream)
            await anext(stream)
            page.html = "two"
            await journeys.advance(timedelta(minutes=5))
            return await anext(stream)

    assert b"two" in run(story())


def test_a_stream_ends_when_the_server_does() -> None:
    page, closing = Page("one"), asyncio.Event()

    async def story() -> list[bytes]:
        stream = messages(Feed(), TimeControl(ENGINE), page.look, "", closing, pace=SELDOM, glance=SELDOM)
        told = [await anext(stream), await anext(stream)]
        closing.set()
        return [*told, *[one async for one in stream]]

    assert len(run(story())) == 2


# -- the stream of a page


@asynccontextmanager
async def following(desk: Lobby, query: str, **headers: str) -> AsyncIterator["Tab"]:
    """Keep a stream open as a browser would, and end it by closing the server."""
    tab = Tab()
    serving = asyncio.create_task(desk.app(_asked(query, **headers), tab.receive, tab.send))
    try:
        yield tab
    finally:
        desk.closing.set()
        await serving


def _asked(query: str, **headers: str) -> dict[str, object]:
    return {
        "type": "http",
        "method": "GET",
        "path": "/live",
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1:8080"), *((k.encode(), v.encode()) for k, v in headers.items())],
    }


class Tab:
    """What a browser's tab was sent."""

    def __init__(self) -> None:
        self.sent = ""
        self._news = asyncio.Event()

    async def receive(self) -> dict[str, object]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        body = message.get("body")
        self.sent += body.decode() if isinstance(body, bytes) else ""
        self._news.set()

    async def until(self, text: str) -> str:
        """Return all that was sent once it has a text in it."""
        while text not in self.sent:
            self._news.clear()
            await self._news.wait()
        return self.sent


def live_query(page: str) -> str:
    """Return what a page asks its stream for."""
    found = page.partition('hx-sse:connect="/live?')[2].partition('"')[0]
    return found.replace("&amp;", "&")


def test_a_page_that_is_fresh_is_sent_only_the_cell_that_changes() -> None:
    desk = lobby(WEB)
    query = live_query(desk.page("/"))

    async def story() -> str:
        async with following(desk, query) as tab:
            await tab.until(": quiet")
            ref = desk.stage.ref("web_1")
            await desk.stage.engine.handle(Schedule(id=desk.stage.new_id(), cause="restart", machines=(ref,)))
            return await tab.until("cell:web/web_1")

    sent = run(story())

    assert "is-warned" in sent
    assert "cell:web/web_0" not in sent
    assert 'id="map:web"' not in sent


def test_a_page_that_missed_something_is_sent_it_when_it_comes_back() -> None:
    desk = lobby(WEB)
    query = live_query(desk.page("/"))
    desk.stage.cause("restart", "web_1")

    async def story() -> str:
        async with following(desk, query) as tab:
            return await tab.until("is-warned")

    assert "cell:web/web_1" in run(story())


def test_the_last_event_id_counts_for_more_than_what_the_page_was_loaded_with() -> None:
    desk = lobby(WEB)
    desk.page("/")
    desk.stage.cause("restart", "web_1")
    now = live_query(desk.page("/")).rpartition("have=")[2]

    async def story() -> str:
        async with following(desk, "page=%2F&have=old", **{"last-event-id": now}) as tab:
            return await tab.until(": quiet")

    assert "data:" not in run(story())


def test_a_page_whose_machine_is_gone_says_so() -> None:
    desk = lobby(WEB)
    query = live_query(desk.page("/machines/web_2"))
    desk.stage.cause("delete", "web_2", force=True)
    desk.stage.advance("1m")

    async def story() -> str:
        async with following(desk, query) as tab:
            return await tab.until("no machine named")

    assert "no machine named" in run(story())


def test_forms_of_a_page_that_is_open_still_prove_where_they_are_from() -> None:
    desk = lobby(WEB)

    async def story() -> str:
        async with following(desk, "page=%2F&have=old") as tab:
            return await tab.until("data-csrf")

    assert f'data-csrf="{proof(desk.page("/clock"))}"' in run(story())


@pytest.mark.parametrize("page", ["/nothing", "/live", "/static/console.css", "//evil.example/"])
def test_what_is_no_page_is_not_live(page: str) -> None:
    desk = lobby(WEB)

    response = desk.send("GET", f"/live?{httpx2.QueryParams({'page': page})}")

    assert response.status_code == 404


def test_a_form_that_nobody_can_fill_in_is_said_not_to_be_there() -> None:
    desk = lobby(WEB)

    async def story() -> str:
        async with following(desk, "page=%2Fcreate%2Fnonsense") as tab:
            return await tab.until("there is nothing at")

    assert "there is nothing at /create/nonsense" in run(story())


def test_a_fleet_that_grows_beyond_what_is_shown_one_by_one_is_drawn_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "MANY", 5)
    desk = lobby(WEB)
    query = live_query(desk.page("/"))

    async def story() -> str:
        async with following(desk, query) as tab:
            await tab.until(": quiet")
            await desk.stage.engine.handle(AddMachines(seed="more", scope=ScopeId("web"), count=3))
            return await tab.until("counts:web")

    assert '<hx-partial id="fleet"' in run(story())


def test_a_scope_that_grows_too_broad_for_a_neighbour_is_drawn_anew() -> None:
    desk = lobby(WEB)
    query = live_query(desk.page("/"))

    async def story() -> str:
        async with following(desk, query) as tab:
            await tab.until(": quiet")
            await desk.stage.engine.handle(AddMachines(seed="more", scope=ScopeId("web"), count=1))
            return await tab.until("cell:web/web_3")

    assert 'class="scope broad"' in run(story())


def logged_out(desk: Lobby, times: list[datetime]) -> None:
    assert desk.press("/logout", "/").status_code == 303


def run_out(desk: Lobby, times: list[datetime]) -> None:
    times.append(NOON + LIFE)


@pytest.mark.parametrize("over", [logged_out, run_out])
def test_a_tab_is_told_nothing_more_once_its_session_is_over(
    over: Callable[[Lobby, list[datetime]], None],
) -> None:
    times = [NOON]
    desk = lobby(WEB, token="correct horse battery", wall=lambda: times[-1])
    desk.send("POST", "/login", {"csrf": proof(desk.page("/login")), "token": "correct horse battery"})
    query, tab = live_query(desk.page("/")), Tab()
    cookie = "; ".join(f"{name}={value}" for name, value in desk.cookies.items())

    async def opened() -> asyncio.Task[None]:
        serving = asyncio.create_task(desk.app(_asked(query, cookie=cookie), tab.receive, tab.send))
        await tab.until(": quiet")
        return serving

    serving = run(opened())
    over(desk, times)
    desk.stage.cause("restart", "web_1")
    run(asyncio.wait_for(serving, 20))

    assert "is-warned" not in tab.sent
