"""Many readers of the feed and of live pages do not slow the server down."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import httpx2
import msgspec
import pytest
from starlette.types import Message

from fairwarning.config import ListenerLimits, Settings
from fairwarning.console.live import PageRenderer
from fairwarning.console.page import Fragment
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.model import ScopeKind
from fairwarning.engine.feed import Feed
from fairwarning.engine.time_control import TimeControl
from fairwarning.operator import schemas
from fairwarning.operator.app import create_app
from fairwarning.server import FleetServer
from fairwarning.streams import Streams
from tests.fleet_harness import FleetHarness, run
from tests.operator.operator_client import OperatorTestClient, address, operator_client

WEB = Blueprint(name="web", count=3)
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)
SELDOM = timedelta(hours=1)
UNREAD = 'fairwarning_http_closed_total{listener="operator",reason="unread"} 1'
ENGINE = FleetHarness().engine


class FeedReader:
    """A reader of the feed, in process."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message.get("body"):
            self.bodies.append(message["body"])


@asynccontextmanager
async def listening(client: OperatorTestClient) -> AsyncIterator[FeedReader]:
    """Read the feed from now on, for as long as the block lasts."""
    reader = FeedReader()
    request = {
        "type": "http",
        "method": "GET",
        "path": "/fleet/v1/feed",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8080")],
    }
    task = asyncio.create_task(client.app(request, reader.receive, reader.send))
    try:
        while not reader.bodies:
            await asyncio.sleep(0)
        yield reader
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_a_change_is_rendered_once_for_all_readers() -> None:
    client = operator_client(WEB)

    async def story() -> list[bytes]:
        async with AsyncExitStack() as stack:
            readers = [await stack.enter_async_context(listening(client)) for _ in range(50)]
            await client.stage.engine.remark(
                ActionNote(deed=OperatorAction.SPEED, detail="twice", by="alice")
            )
            while any(len(reader.bodies) < 2 for reader in readers):
                await asyncio.sleep(0)
            return [reader.bodies[1] for reader in readers]

    bodies = run(story())

    assert b'"by":"alice"' in bodies[0]
    assert len({id(body) for body in bodies}) == 1


def test_lines_that_arrive_together_are_sent_together() -> None:
    client = operator_client(WEB)

    async def story() -> list[bytes]:
        async with listening(client) as reader:
            notes = [ActionNote(deed=OperatorAction.SPEED, detail=str(n), by="alice") for n in range(10)]
            await asyncio.gather(*map(client.stage.engine.remark, notes))
            while len(reader.bodies) < 2:
                await asyncio.sleep(0)
            return reader.bodies[1:]

    (together,) = run(story())

    assert together.count(b"\nevent: speed\n") == 10


def test_one_feed_too_many_is_refused_until_another_ends() -> None:
    client = operator_client(WEB)
    app = create_app(
        Control(client.stage.engine), endpoints=address, shutdown=client.shutdown, streams=Streams(2)
    )
    client = OperatorTestClient(client.stage, app, client.shutdown)

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            return await http.get("/fleet/v1/feed")

    async def story() -> tuple[httpx2.Response, bytes]:
        async with listening(client):
            async with listening(client):
                refused = await ask()
            async with listening(client) as third:
                return refused, third.bodies[0]

    refused, first = run(story())

    problem = msgspec.json.decode(refused.content, type=schemas.ProblemBody)
    assert (problem.status, refused.headers["retry-after"]) == (503, "5")
    assert problem.detail.startswith("2 live feeds and pages are open")
    assert first == b": listening\n\n"


def test_a_feed_that_is_not_read_is_closed_with_a_reason_and_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = ListenerLimits(unread=timedelta(milliseconds=50))
    settings = Settings(blueprints=(DB,), port_base=0, limits=limits)

    async def story() -> bytes:
        async with FleetServer(settings) as server:
            port = int(server.operator_url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /fleet/v1/feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b": listening")
            with socket.create_connection(("127.0.0.1", port)) as unread:
                unread.sendall(b"GET /fleet/v1/feed?after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                long = ActionNote(deed=OperatorAction.SPEED, detail="x" * 50_000, by="alice")
                async with httpx2.AsyncClient(base_url=server.operator_url) as http:
                    while UNREAD not in (await http.get("/metrics")).text:
                        await server.engine.remark(long)
                        await reader.readuntil(b"\n\n")
            last = ActionNote(deed=OperatorAction.SPEED, detail="the last", by="bob")
            await server.engine.remark(last)
            received = await reader.readuntil(b"the last")
            writer.close()
            return received

    with caplog.at_level(logging.WARNING, "fairwarning.listener"):
        received = asyncio.run(asyncio.wait_for(story(), 60))

    assert received.endswith(b"the last")
    (message,) = caplog.messages
    assert 'path=/fleet/v1/feed problem="the client did not read the response"' in message


# -- live pages


class Page:
    """A page that counts how often it is rendered."""

    def __init__(self) -> None:
        self.renderings = 0

    async def fragments(self) -> Sequence[Fragment]:
        self.renderings += 1
        await asyncio.sleep(0)
        return (Fragment(id="a", html=str(self.renderings)),)


def test_a_page_is_rendered_once_for_all_tabs_that_show_it() -> None:
    page = Page()

    async def story() -> set[int]:
        renderer = PageRenderer(Feed(), TimeControl(ENGINE), SELDOM)
        pages = await asyncio.gather(*(renderer.render("page", page.fragments) for _ in range(50)))
        return {id(shown) for shown in pages}

    seen = asyncio.run(story())

    assert (page.renderings, len(seen)) == (1, 1)


def test_a_page_is_rendered_again_once_for_all_tabs_after_a_change() -> None:
    page = Page()

    async def story() -> set[str]:
        feed = Feed()
        renderer = PageRenderer(feed, TimeControl(ENGINE), timedelta(milliseconds=1))
        before = await renderer.render("page", page.fragments)
        feed.start_over()
        feed.start_over()
        after = await asyncio.gather(*(renderer.render("page", page.fragments) for _ in range(50)))
        return {before.message(None).decode(), *(one.message(before).decode() for one in after)}

    assert len(asyncio.run(story())) == 2
    assert page.renderings == 2


def test_a_tab_that_is_closed_does_not_cancel_the_rendering_for_the_others() -> None:
    page = Page()

    async def story() -> str:
        renderer = PageRenderer(Feed(), TimeControl(ENGINE), SELDOM)
        first = asyncio.create_task(renderer.render("page", page.fragments))
        second = asyncio.create_task(renderer.render("page", page.fragments))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).digest

    assert asyncio.run(story())
    assert page.renderings == 1
