"""The listener keeps every client within the limits."""

import asyncio
import importlib
import logging
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import chain, count, islice, repeat
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fairwarning.arm.tls import certificates
from fairwarning.config import ListenerLimits
from fairwarning.engine.clock import SystemClock
from fairwarning.listener import HttpListener, Reason, families

AT_ONCE = timedelta(milliseconds=50)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
#: The address of clients that a test says nothing about.
LOCAL = repeat("127.0.0.1")


@pytest.fixture(autouse=True, params=["h11", "httptools"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("uvicorn.protocols.http.auto")  # fails if only one of its modules is missing
    if request.param == "h11":
        monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)


class Site:
    """An app behind a listener, and its clients."""

    def __init__(self, limits: ListenerLimits, tls: ssl.SSLContext | None) -> None:
        self.listener = HttpListener("operator", limits, tls)
        self.port = 0
        self.requests = 0
        self.released = asyncio.Event()
        self.ended = asyncio.Event()
        routes = [
            Route("/", self.hello, methods=["GET", "POST"]),
            Route("/refused", self.refused, methods=["POST"]),
            Route("/endless", self.endless),
            Route("/slow", self.slow),
            Route("/unfinished", self.unfinished),
        ]
        self.app = Starlette(routes=routes)

    async def hello(self, request: Request) -> Response:
        self.requests += 1
        body = await request.body()
        return PlainTextResponse(f"hello {len(body)}")

    async def refused(self, request: Request) -> Response:
        self.requests += 1
        return PlainTextResponse("unread", 413)

    async def slow(self, request: Request) -> Response:
        self.requests += 1
        await self.released.wait()
        return PlainTextResponse("slow")

    async def unfinished(self, request: Request) -> Response:
        """Respond, and go on working until another request was received."""

        async def work() -> None:
            await until(lambda: self.requests > 0)
            self.ended.set()

        return PlainTextResponse("unfinished", background=BackgroundTask(work))

    async def endless(self, request: Request) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield bytes(65536)
                await asyncio.sleep(0)

        return StreamingResponse(chunks())

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def send(self, data: bytes) -> bytes:
        """Send bytes, and return everything received until the connection is closed."""
        reader, writer = await self.connect()
        writer.write(data)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def get(self) -> bytes:
        """Return the status of a plain request."""
        reader, writer = await self.connect()
        writer.write(GET)
        status = (await reader.readline()).split()[1]
        writer.close()
        return status


class CrowdedSocket(socket.socket):
    """A listening socket whose clients have the addresses that a test names."""

    addresses: Iterator[str]

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        connected, (_, port) = super().accept()
        return connected, (next(self.addresses), port)


@asynccontextmanager
async def site(
    limits: ListenerLimits, tls: ssl.SSLContext | None = None, addresses: Iterator[str] = LOCAL
) -> AsyncIterator[Site]:
    """Give a site for as long as the block lasts; its clients have ``addresses``, one after the other."""
    served = Site(limits, tls)
    with CrowdedSocket(fileno=socket.create_server(("127.0.0.1", 0)).detach()) as bound:
        bound.addresses = addresses
        served.port = bound.getsockname()[1]
        async with served.listener.serve(served.app, bound):
            yield served


async def until(holds: Callable[[], bool]) -> None:
    """Return once a condition holds."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("sent", "answered", "reason"),
    [
        pytest.param(b"", b"", Reason.HEAD, id="a client that says nothing"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n", b"408", Reason.HEAD, id="half a head"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
            b"",
            Reason.BODY,
            id="half a body",
        ),
        pytest.param(GET + b"GET / HT", b"200", Reason.HEAD, id="half a second head"),
    ],
)
def test_what_does_not_arrive_in_time_is_not_waited_for(sent: bytes, answered: bytes, reason: Reason) -> None:
    async def story() -> tuple[bytes, Site]:
        async with site(ListenerLimits(head=AT_ONCE, body=AT_ONCE)) as here:
            return await asyncio.wait_for(here.send(sent), 20), here

    received, here = asyncio.run(story())

    assert answered in received
    assert here.listener.closed == {reason: 1}
    assert here.listener.open == 0


def test_a_body_in_time_is_read_however_large_the_head_may_be() -> None:
    async def story() -> bytes:
        async with site(ListenerLimits(head_bytes=500)) as here:
            reader, writer = await here.connect()
            head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n"
            writer.write(head + bytes(300_000))
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(story()).endswith(b"hello 300000")


def test_a_body_that_nobody_wants_is_let_pass() -> None:
    async def story() -> tuple[bytes, bytes]:
        async with site(ListenerLimits(head_bytes=500)) as here:
            reader, writer = await here.connect()
            writer.write(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
            refused = await reader.readuntil(b"unread")
            for _ in range(30):
                writer.write(bytes(100_000))
                await writer.drain()
            writer.write(GET)
            again = await reader.readuntil(b"hello 0")
            writer.close()
            return refused, again

    refused, again = asyncio.run(story())

    assert b" 413 " in refused
    assert b" 200 " in again


@pytest.mark.parametrize("first", [b"", GET], ids=["at first", "behind another request"])
def test_a_head_without_end_is_refused(first: bytes) -> None:
    async def story() -> tuple[bytes, Site]:
        async with site(ListenerLimits(head_bytes=10_000)) as here:
            reader, writer = await here.connect()
            writer.write(first)
            if first:
                await reader.readuntil(b"hello 0")
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
            try:
                while not reader.at_eof():
                    writer.write(b"X-More: " + bytes(100).hex().encode() * 40 + b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0)
                answer = await reader.read()
            except ConnectionError:
                answer = b""
            writer.close()
            return answer, here

    answer, here = asyncio.run(story())

    assert answer == b"" or b" 431 " in answer
    assert here.listener.closed == {Reason.TOO_LARGE: 1}


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(GET, id="without a body"),
        pytest.param(
            b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", id="with a body nobody reads"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="in chunks"
        ),
    ],
)
def test_requests_without_end_behind_each_other_are_cut_off(request_bytes: bytes) -> None:
    async def story() -> Site:
        async with site(ListenerLimits()) as here:
            reader, writer = await here.connect()
            reading = asyncio.create_task(reader.read())
            with suppress(ConnectionError):
                for _ in range(20):
                    writer.write(request_bytes * 1000)
                    await writer.drain()
                writer.write_eof()
            with suppress(ConnectionError):
                await reading
            writer.close()
            return here

    here = asyncio.run(story())

    assert here.listener.closed == {Reason.TOO_LARGE: 1}
    assert here.requests < 5_000


@pytest.mark.parametrize(
    ("waiting", "closed"),
    [
        pytest.param(2, {}, id="a few requests wait"),
        pytest.param(1000, {Reason.TOO_LARGE: 1}, id="many requests do not wait"),
    ],
)
def test_behind_a_request_under_way(waiting: int, closed: dict[Reason, int]) -> None:
    async def story() -> Site:
        async with site(ListenerLimits(head_bytes=1000, pipelined=2)) as here:
            reader, writer = await here.connect()
            writer.write(SLOW + GET * waiting)
            await until(lambda: here.requests == 1)
            here.released.set()
            writer.write_eof()
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"hello 0")
                await reader.readuntil(b"hello 0")
            writer.close()
            return here

    here = asyncio.run(story())

    assert here.listener.closed == closed
    assert here.requests == (1 if closed else 3)


def test_a_head_without_end_behind_a_request_under_way_is_cut_off() -> None:
    async def story() -> Site:
        async with site(ListenerLimits(head_bytes=10_000)) as here:
            reader, writer = await here.connect()
            writer.write(SLOW)
            await until(lambda: here.requests == 1)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000)
            with suppress(ConnectionError):
                await reader.read()
            here.released.set()
            writer.close()
            return here

    assert asyncio.run(story()).listener.closed == {Reason.TOO_LARGE: 1}


def test_requests_sent_together_are_answered_in_order() -> None:
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + bytes(50_000)

    async def story() -> tuple[list[bytes], Site]:
        async with site(ListenerLimits()) as here:
            reader, writer = await here.connect()
            writer.write(GET + post + GET)
            answers = [await reader.readuntil(b"hello " + size) for size in (b"0", b"50000", b"0")]
            writer.close()
            return answers, here

    answers, here = asyncio.run(story())

    assert [b" 200 " in answer for answer in answers] == [True, True, True]
    assert not here.listener.closed


def test_a_client_that_sends_one_request_after_the_other_may_send_any_number() -> None:
    large = b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"x" * 900)

    async def story() -> Site:
        async with site(ListenerLimits(head_bytes=1000, request_bytes=5000, pipelined=0)) as here:
            reader, writer = await here.connect()
            for _ in range(10):
                writer.write(large)
                await reader.readuntil(b"hello 0")
            writer.close()
            return here

    here = asyncio.run(story())

    assert here.requests == 10
    assert not here.listener.closed


def test_a_client_that_sends_bodies_nobody_reads_may_send_any_number() -> None:
    post = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + bytes(900)

    async def story() -> Site:
        async with site(ListenerLimits(head_bytes=1000, request_bytes=5000)) as here:
            reader, writer = await here.connect()
            for _ in range(10):
                writer.write(post)
                await reader.readuntil(b"unread")
            writer.close()
            return here

    here = asyncio.run(story())

    assert here.requests == 10
    assert not here.listener.closed


def test_a_request_keeps_its_time_whenever_the_work_for_the_previous_one_ends() -> None:
    async def story() -> tuple[bytes, Site]:
        async with site(ListenerLimits(head=AT_ONCE)) as here:
            reader, writer = await here.connect()
            writer.write(b"GET /unfinished HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"unfinished")
            writer.write(SLOW)
            await here.ended.wait()
            await here.send(b"")  # a silent client is cut off when its time is up
            here.released.set()
            answer = await reader.readuntil(b"slow")
            writer.close()
            return answer, here

    answer, here = asyncio.run(story())

    assert b" 200 " in answer
    assert here.listener.closed == {Reason.HEAD: 1}


def test_a_body_is_waited_for_after_a_client_was_told_to_continue() -> None:
    async def story() -> tuple[bytes, bytes]:
        async with site(ListenerLimits(head_bytes=500)) as here:
            reader, writer = await here.connect()
            head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 40000\r\n\r\n"
            writer.write(head)
            told = await reader.readuntil(b"\r\n\r\n")
            writer.write(bytes(40_000))
            answer = await reader.readuntil(b"hello 40000")
            writer.close()
            return told, answer

    told, answer = asyncio.run(story())

    assert b" 100 " in told
    assert b" 200 " in answer


def test_a_client_too_many_is_told_to_come_back_and_nobody_else_notices() -> None:
    async def story() -> tuple[bytes, bytes, bytes, Site]:
        async with site(ListenerLimits(connections=3)) as here:
            silent = [await here.connect() for _ in range(2)]
            reader, writer = await here.connect()
            writer.write(GET)
            await reader.readuntil(b"hello 0")
            refused = await here.send(GET)
            writer.write(GET)
            served = await reader.readuntil(b"hello 0")
            for _, one in (*silent, (reader, writer)):
                one.close()
            await until(lambda: here.listener.open == 0)
            return refused, served, await here.get(), here

    refused, served, later, here = asyncio.run(story())

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1\r\n" in refused
    assert b"all 3 connections" in refused
    assert b" 200 " in served
    assert later == b"200"
    assert here.listener.closed == {Reason.FULL: 1}


@pytest.mark.parametrize(
    ("crowd", "other"),
    [
        pytest.param(repeat("192.0.2.1"), "192.0.2.2", id="an IPv4 address"),
        pytest.param(
            repeat("::ffff:192.0.2.1"), "::ffff:192.0.2.2", id="an IPv4 address on a socket for both"
        ),
        pytest.param((f"2001:db8::{n}" for n in count(1)), "2001:db8:0:1::1", id="a network of IPv6"),
    ],
)
def test_one_address_cannot_take_the_connections_of_others(crowd: Iterator[str], other: str) -> None:
    async def story() -> tuple[bytes, bytes, bytes, Site]:
        addresses = chain(islice(crowd, 3), (other,), crowd)
        async with site(ListenerLimits(connections=10, per_address=2), addresses=addresses) as here:
            silent = [await here.connect() for _ in range(2)]
            refused, served = await here.send(GET), await here.get()
            for _, writer in silent:
                writer.close()
            await until(lambda: here.listener.open == 0)
            return refused, served, await here.get(), here

    refused, served, later, here = asyncio.run(story())

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"all 2 connections" in refused
    assert (served, later) == (b"200", b"200")
    assert here.listener.closed == {Reason.FULL: 1}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_a_proxy_on_this_machine_may_have_all_connections(address: str) -> None:
    async def story() -> Site:
        limits = ListenerLimits(connections=5, per_address=1)
        async with site(limits, addresses=repeat(address)) as here:
            clients = [await here.connect() for _ in range(5)]
            await until(lambda: here.listener.open == 5)
            for _, writer in clients:
                writer.close()
            return here

    assert not asyncio.run(story()).listener.closed


def test_one_address_never_has_all_connections_however_few_there_are() -> None:
    async def story() -> tuple[bytes, Site]:
        async with site(ListenerLimits(connections=4), addresses=repeat("192.0.2.1")) as here:
            silent = [await here.connect() for _ in range(2)]
            refused = await here.send(GET)
            for _, writer in silent:
                writer.close()
            return refused, here

    refused, here = asyncio.run(story())

    assert b"all 2 connections" in refused
    assert here.listener.closed == {Reason.FULL: 1}


def test_a_client_that_does_not_read_is_cut_off_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> tuple[bytes, Site]:
        async with site(ListenerLimits(unread=AT_ONCE)) as here:
            # The stream's reader buffers only so much while nothing is read from it.
            _, writer = await here.connect()
            writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: here.listener.closed.total() > 0)
            status = await here.get()
            writer.close()
            return status, here

    with caplog.at_level(logging.WARNING, "fairwarning.listener"):
        status, here = asyncio.run(story())

    assert status == b"200"
    assert here.listener.closed == {Reason.UNREAD: 1}
    (said,) = caplog.messages
    assert "reason=unread" in said
    assert "path=/endless" in said
    assert said.endswith('problem="the client did not read the response"')


def test_who_says_nothing_to_tls_is_not_waited_for(tmp_path: Path) -> None:
    tls = certificates(tmp_path, ("127.0.0.1",), SystemClock().now()).context()

    async def story() -> tuple[bytes, Site]:
        async with site(ListenerLimits(head=AT_ONCE), tls) as here:
            return await asyncio.wait_for(here.send(b""), 20), here

    received, here = asyncio.run(story())

    assert received == b""
    assert here.listener.closed == {Reason.HANDSHAKE: 1}
    assert here.listener.open == 0


def test_a_client_in_its_handshake_takes_a_place(tmp_path: Path) -> None:
    tls = certificates(tmp_path, ("127.0.0.1",), SystemClock().now()).context()

    async def story() -> tuple[bytes, Site]:
        async with site(ListenerLimits(connections=1), tls) as here:
            _, writer = await here.connect()
            refused = await here.send(b"")
            writer.close()
            return refused, here

    refused, here = asyncio.run(story())

    assert refused == b""
    assert here.listener.closed[Reason.FULL] == 1


def test_what_happens_all_the_time_is_logged_once_a_second_and_counted_always(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> Site:
        async with site(ListenerLimits(connections=0)) as here:
            for _ in range(20):
                await here.send(GET)
            return here

    with caplog.at_level(logging.WARNING, "fairwarning.listener"):
        here = asyncio.run(story())

    assert 1 <= len(caplog.messages) < 20
    counted = {family.name: family.samples for family in families([here.listener])}
    refused = [
        sample.value
        for sample in counted["fairwarning_http_closed_total"]
        if sample.labels["reason"] == "full"
    ]
    assert refused == [20]
    assert [sample.value for sample in counted["fairwarning_http_connections_total"]] == [20]


def test_a_server_that_ends_waits_for_no_silent_client() -> None:
    async def story() -> tuple[bytes, int]:
        async with site(ListenerLimits()) as here:
            reader, writer = await here.connect()
            writer.write(GET)
            await reader.readuntil(b"hello 0")
        rest = await reader.read()
        writer.close()
        return rest, here.listener.open

    assert asyncio.run(asyncio.wait_for(story(), 20)) == (b"", 0)


def test_tls_is_spoken_to_those_who_speak_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = certificates(tmp_path, ("127.0.0.1",), SystemClock().now())

    async def story() -> list[bytes]:
        async with site(ListenerLimits(), files.context()) as here:
            trusted = ssl.create_default_context(cafile=files.ca)
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port, ssl=trusted)
            statuses = []
            for _ in range(3):
                writer.write(GET)
                statuses.append((await reader.readuntil(b"hello 0")).split()[1])
            writer.close()
            return statuses

    assert asyncio.run(asyncio.wait_for(story(), 20)) == [b"200", b"200", b"200"]
    assert caplog.records == []


def test_a_server_that_ends_waits_for_no_handshake(tmp_path: Path) -> None:
    tls = certificates(tmp_path, ("127.0.0.1",), SystemClock().now()).context()

    async def story() -> tuple[bytes, int]:
        async with site(ListenerLimits(), tls) as here:
            reader, writer = await here.connect()
            await until(lambda: here.listener.open == 1)
        rest = await reader.read()
        writer.close()
        return rest, here.listener.open

    assert asyncio.run(asyncio.wait_for(story(), 20)) == (b"", 0)
