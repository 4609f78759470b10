"""A server on real sockets, on either transport, and clients of it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Reply, Request, Response, failure
from fairwarning.http1.server import HttpServer
from fairwarning.http1.throttle import Rate

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
NAMES = {"127.0.0.1": "web_0"}
#: A work limit that is never reached.
FREE = Rate(1e9, 1e9)
QUICK = Limits(idle=0.05, head=0.05, grace=0.05)
#: Whether servers use the portable transport; the fixture ``transports`` runs a test with each.
PORTABLE = [False]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(
    params=[
        pytest.param(
            False, id="epoll", marks=pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
        ),
        pytest.param(True, id="portable"),
    ]
)
def transports(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test with each transport."""
    PORTABLE[0] = request.param
    yield
    PORTABLE[0] = False


def get(path: str, *lines: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/{version}", "Host: h", *lines, "", ""]).encode()


def last(path: str) -> bytes:
    return get(path, "Connection: close")


def name_the_caller(caller: str | None, request: Request) -> Response:
    if caller is None:
        return failure(403, "caller is unknown")
    return Response(200, f"{caller} {request.path} {len(request.body)}".encode())


def identify(peer: tuple[str, int]) -> str | None:
    return NAMES.get(peer[0])


class Held:
    """An application whose responses to ``/wait`` are held until ``go`` is set."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()

    def __call__(self, caller: str | None, request: Request) -> Reply:
        return self._wait(request) if request.path == "/wait" else name_the_caller(caller, request)

    async def _wait(self, request: Request) -> Response:
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return Response(200, b"waited")


def new_server(
    answer: Callable[[str | None, Request], Reply], limits: Limits | None = None, steps: Rate = FREE
) -> HttpServer[str]:
    return HttpServer(answer, lambda: NOON, replace(limits or Limits(), steps=steps), portable=PORTABLE[0])


@asynccontextmanager
async def serving(
    answer: Callable[[str | None, Request], Reply], limits: Limits | None = None, steps: Rate = FREE
) -> AsyncIterator[tuple[str, int]]:
    server = new_server(answer, limits, steps)
    listener = await server.listen_tcp("127.0.0.1", 0, identify)
    try:
        yield listener.address
    finally:
        await server.close()


@asynccontextmanager
async def calling(address: tuple[str, int] | Path, source: str = "127.0.0.1") -> AsyncIterator[Streams]:
    if isinstance(address, Path):
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@asynccontextmanager
async def talking(answer: Callable[[str | None, Request], Reply]) -> AsyncIterator[Streams]:
    async with serving(answer) as address, calling(address) as streams:
        yield streams


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read one response; return its status and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    (length,) = (line[16:] for line in head.split("\r\n") if line.startswith("Content-Length: "))
    return int(head.split(" ")[1]), await reader.readexactly(int(length))


async def exchange(
    address: tuple[str, int] | Path, raw: bytes, source: str = "127.0.0.1", half_close: bool = False
) -> str:
    """Send bytes and read until the server closes."""
    async with calling(address, source) as (reader, writer):
        writer.write(raw)
        if half_close:
            writer.write_eof()
        return (await reader.read()).decode()


def ask(raw: bytes, limits: Limits | None = None, source: str = "127.0.0.1") -> str:
    """Serve one exchange, and return everything the server sent."""

    async def scenario() -> str:
        async with serving(name_the_caller, limits) as address:
            return await exchange(address, raw, source)

    return asyncio.run(scenario())
