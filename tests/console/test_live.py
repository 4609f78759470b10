"""Live updates of pages."""

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
from fairwarning.console.sessions import LIFETIME
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import AddMachines, Schedule
from fairwarning.core.model import ScopeId
from fairwarning.engine.feed import Feed
from fairwarning.engine.time_control import TimeControl
from tests.conftest import NOON
from tests.console.console_client import ConsoleTestClient, console_client, csrf_token
from tests.fleet_harness import FleetHarness, run

WEB = Blueprint(name="web", count=3)
AT_ONCE = timedelta(0)
SELDOM = timedelta(hours=1)
ENGINE = FleetHarness().engine


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
    keys = {fragment.id: fragment.key or fragment.html for fragment in before}

    assert [fragment.id for fragment in changed(keys, now)] == sent


def test_a_digest_names_what_a_page_shows() -> None:
    assert digest([part("a", "1")]) == digest([part("a", "1")])
    assert digest([part("a", "1")]) != digest([part("a", "2")])
    assert digest([part("a", "1"), part("b", "")]) != digest([part("a", ""), part("b", "1")])
    assert digest([part("a", "1", key="k")]) == digest([part("a", "2", key="k")])


# -- the stream by itself


class Page:
    """A page of one fragment."""

    def __init__(self, html: str) -> None:
        self.html = html

    async def render(self) -> ShownPage:
        return ShownPage((part("a", self.html),))


def test_a_browser_that_has_what_the_page_shows_is_sent_nothing() -> None:
    page = Page("one")

    async def first() -> list[bytes]:
        stream = messages(
            Feed(), TimeControl(ENGINE), page.render, (await page.render()).digest, asyncio.Event()
        )
        async with aclosing(stream):
            return [await anext(stream), await anext(stream)]

    assert run(first()) == [b": listening\n\n", b": quiet\n\n"]


def test_a_browser_that_has_something_else_is_sent_all_of_it_under_its_digest() -> None:
    page = Page("two\nlines")

    async def first() -> bytes:
        stream = messages(Feed(), TimeControl(ENGINE), page.render, "something old", asyncio.Event())
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
    async def render() -> ShownPage:
        return ShownPage((part('"><script>', "text"),))

    async def first() -> bytes:
        async with aclosing(messages(Feed(), TimeControl(ENGINE), render, "", asyncio.Event())) as stream:
            await anext(stream)
            return await anext(stream)

    assert b"<script>" not in run(first())


def test_news_are_told_at_once() -> None:
    page, feed = Page("one"), Feed()

    async def scenario() -> bytes:
        stream = messages(
            feed, TimeControl(ENGINE), page.render, "", asyncio.Event(), interval=AT_ONCE, refresh=SELDOM
        )
        async with aclosing(stream):
            await anext(stream)
            await anext(stream)
            page.html = "two"
            # A stream that may have missed lines renders again, because any line may have been missed.
            feed.start_over()
            return await anext(stream)

    assert b"two" in run(scenario())


def test_a_clock_that_moves_is_told_at_once() -> None:
    page, time_control = Page("one"), TimeControl(FleetHarness().engine)

    async def scenario() -> bytes:
        stream = messages(
            Feed(), time_control, page.render, "", asyncio.Event(), interval=AT_ONCE, refresh=SELDOM
        )
        async with aclosing(stream):
            await anext(stream)
            await anext(stream)
            page.html = "two"
            await time_control.advance(timedelta(minutes=5))
            return await anext(stream)

    assert b"two" in run(scenario())


def test_a_stream_ends_when_the_server_does() -> None:
    page, shutdown = Page("one"), asyncio.Event()

    async def scenario() -> list[bytes]:
        stream = messages(
            Feed(), TimeControl(ENGINE), page.render, "", shutdown, interval=SELDOM, refresh=SELDOM
        )
        first = [await anext(stream), await anext(stream)]
        shutdown.set()
        return [*first, *[message async for message in stream]]

    assert len(run(scenario())) == 2


# -- the stream of a page


@asynccontextmanager
async def following(client: ConsoleTestClient, query: str, **headers: str) -> AsyncIterator["Tab"]:
    """Keep a stream open as a browser would, and end it by shutting the server down."""
    tab = Tab()
    serving = asyncio.create_task(client.app(_asked(query, **headers), tab.receive, tab.send))
    try:
        yield tab
    finally:
        client.shutdown.set()
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
    """A browser tab: everything it received."""

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
    client = console_client(WEB)
    query = live_query(client.page("/"))

    async def scenario() -> str:
        async with following(client, query) as tab:
            await tab.until(": quiet")
            ref = client.stage.ref("web_1")
            command = Schedule(id=client.stage.new_id(), cause="restart", machines=(ref,))
            await client.stage.engine.handle(command)
            return await tab.until("cell:web/web_1")

    sent = run(scenario())

    assert "is-warned" in sent
    assert "cell:web/web_0" not in sent
    assert 'id="map:web"' not in sent


def test_a_page_that_missed_something_is_sent_it_when_it_comes_back() -> None:
    client = console_client(WEB)
    query = live_query(client.page("/"))
    client.stage.cause("restart", "web_1")

    async def scenario() -> str:
        async with following(client, query) as tab:
            return await tab.until("is-warned")

    assert "cell:web/web_1" in run(scenario())


def test_the_last_event_id_counts_for_more_than_what_the_page_was_loaded_with() -> None:
    client = console_client(WEB)
    client.page("/")
    client.stage.cause("restart", "web_1")
    now = live_query(client.page("/")).rpartition("have=")[2]

    async def scenario() -> str:
        async with following(client, "page=%2F&have=old", **{"last-event-id": now}) as tab:
            return await tab.until(": quiet")

    assert "data:" not in run(scenario())


def test_a_page_whose_machine_is_gone_says_so() -> None:
    client = console_client(WEB)
    query = live_query(client.page("/machines/web_2"))
    client.stage.cause("delete", "web_2", force=True)
    client.stage.advance("1m")

    async def scenario() -> str:
        async with following(client, query) as tab:
            return await tab.until("no machine named")

    assert "no machine named" in run(scenario())


def test_forms_of_a_page_that_is_open_still_prove_where_they_are_from() -> None:
    client = console_client(WEB)

    async def scenario() -> str:
        async with following(client, "page=%2F&have=old") as tab:
            return await tab.until("data-csrf")

    assert f'data-csrf="{csrf_token(client.page("/clock"))}"' in run(scenario())


@pytest.mark.parametrize("page", ["/nothing", "/live", "/static/console.css", "//evil.example/"])
def test_what_is_no_page_is_not_live(page: str) -> None:
    client = console_client(WEB)

    response = client.send("GET", f"/live?{httpx2.QueryParams({'page': page})}")

    assert response.status_code == 404


def test_the_stream_of_a_form_that_does_not_exist_says_so() -> None:
    client = console_client(WEB)

    async def scenario() -> str:
        async with following(client, "page=%2Fcreate%2Fnonsense") as tab:
            return await tab.until("There is no page at")

    assert "There is no page at /create/nonsense" in run(scenario())


def test_a_fleet_that_grows_beyond_what_is_shown_one_by_one_is_drawn_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "MANY", 5)
    client = console_client(WEB)
    query = live_query(client.page("/"))

    async def scenario() -> str:
        async with following(client, query) as tab:
            await tab.until(": quiet")
            await client.stage.engine.handle(AddMachines(seed="more", scope=ScopeId("web"), number=3))
            return await tab.until("counts:web")

    assert '<hx-partial id="fleet"' in run(scenario())


def test_a_scope_that_grows_too_broad_for_a_neighbour_is_drawn_anew() -> None:
    client = console_client(WEB)
    query = live_query(client.page("/"))

    async def scenario() -> str:
        async with following(client, query) as tab:
            await tab.until(": quiet")
            await client.stage.engine.handle(AddMachines(seed="more", scope=ScopeId("web"), number=1))
            return await tab.until("cell:web/web_3")

    assert 'class="scope broad"' in run(scenario())


def logged_out(client: ConsoleTestClient, times: list[datetime]) -> None:
    assert client.press("/logout", "/").status_code == 303


def run_out(client: ConsoleTestClient, times: list[datetime]) -> None:
    times.append(NOON + LIFETIME)


@pytest.mark.parametrize("over", [logged_out, run_out])
def test_a_tab_is_told_nothing_more_once_its_session_is_over(
    over: Callable[[ConsoleTestClient, list[datetime]], None],
) -> None:
    times = [NOON]
    client = console_client(WEB, token="correct horse battery", wall=lambda: times[-1])
    form = {"csrf": csrf_token(client.page("/login")), "token": "correct horse battery"}
    client.send("POST", "/login", form)
    query, tab = live_query(client.page("/")), Tab()
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())

    async def opened() -> asyncio.Task[None]:
        serving = asyncio.create_task(client.app(_asked(query, cookie=cookie), tab.receive, tab.send))
        await tab.until(": quiet")
        return serving

    serving = run(opened())
    over(client, times)
    client.stage.cause("restart", "web_1")
    run(asyncio.wait_for(serving, 20))

    assert "is-warned" not in tab.sent
