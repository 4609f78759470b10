"""What can happen to connections, on either transport."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.http1 import sockets
from fairwarning.http1.asyncio_transport import AsyncioTransports
from fairwarning.http1.epoll_transport import EpollTransports
from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Request, Response
from fairwarning.http1.request_clock import RequestClock
from tests.http1.server_client import (
    NOON,
    PORTABLE,
    calling,
    exchange,
    get,
    identify,
    last,
    name_the_caller,
    new_server,
    read_answer,
)

pytestmark = pytest.mark.usefixtures("transports")

BIG = b"x" * 3_000_000


def answer_big(caller: str | None, request: Request) -> Response:
    return Response(200, BIG)


def test_an_answer_larger_than_the_connection_holds_arrives_whole_and_ends() -> None:
    async def story() -> list[bytes]:
        server = new_server(answer_big)
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (reader, writer):
            writer.write(get("/a") + last("/b"))
            bodies = [(await read_answer(reader))[1] for _ in range(2)]
            rest = await reader.read()
        await server.close()
        return [*bodies, rest]

    assert asyncio.run(story()) == [BIG, BIG, b""]


def test_a_client_that_reads_nothing_is_given_up() -> None:
    async def story() -> int:
        server = new_server(answer_big, Limits(idle=0.05, head=0.05))
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (_, writer):
            writer.write(get("/a"))
            while not server.metrics().responses:
                await asyncio.sleep(0)
            while server.metrics().connections:
                await asyncio.sleep(0.001)
        await server.close()
        return server.metrics().connections

    assert asyncio.run(asyncio.wait_for(story(), 10)) == 0


def test_a_client_that_resets_the_connection_in_the_middle_of_an_answer_is_gone() -> None:
    async def story() -> None:
        server = new_server(answer_big)
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (reader, writer):
            writer.write(get("/a"))
            await reader.readexactly(1)
        while server.metrics().connections:
            await asyncio.sleep(0.001)
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 10))


def test_connections_that_come_and_go_at_once_are_never_mistaken_for_one_another() -> None:
    names: dict[int, str] = {}

    async def one(address: tuple[str, int], number: int) -> bool:
        reader, writer = await asyncio.open_connection(*address)
        port: int = writer.get_extra_info("sockname")[1]
        names[port] = f"guest {number}"
        writer.write(get(f"/{number}"))
        status, body = await read_answer(reader)
        writer.transport.abort()
        return (status, body) == (200, f"guest {number} /{number} 0".encode())

    def late(caller: str | None, request: Request) -> Response:
        return name_the_caller(names[int(caller or "0")], request)

    async def story() -> list[bool]:
        server = new_server(late)
        listener = await server.listen_tcp("127.0.0.1", 0, lambda peer: str(peer[1]))
        right = []
        for turn in range(10):
            right += await asyncio.gather(*(one(listener.address, 40 * turn + n) for n in range(40)))
        await server.close()
        return right

    assert all(asyncio.run(story()))


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Let no further file or connection be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.dup(0)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_descriptors_no_connection_is_accepted_and_afterwards_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> tuple[int, int]:
        server = new_server(name_the_caller)
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        loop = asyncio.get_running_loop()
        async with calling(address) as (reader, writer):
            writer.write(get("/a"))
            await read_answer(reader)
            with socket.socket() as new:
                new.setblocking(False)
                with no_descriptors_left():
                    await loop.sock_connect(new, address)
                    await loop.sock_sendall(new, last("/b"))
                    writer.write(get("/c"))
                    served, _ = await read_answer(reader)
                    while not caplog.records:
                        await asyncio.sleep(0)
                answer = await loop.sock_recv(new, 1000)
        await server.close()
        return served, int(answer.split()[1])

    assert asyncio.run(asyncio.wait_for(story(), 20)) == (200, 200)


def test_a_client_of_a_unix_socket_that_is_gone_is_noticed(tmp_path: Path) -> None:
    async def story() -> str:
        server = new_server(name_the_caller)
        path = (await server.listen_unix(tmp_path / "s", "web_1")).address
        text = await exchange(path, get("/a") + last("/b"))
        async with calling(path) as (reader, writer):
            writer.write(get("/c"))
            await read_answer(reader)
        while server.metrics().connections:
            await asyncio.sleep(0.001)
        await server.close()
        return text

    text = asyncio.run(asyncio.wait_for(story(), 10))

    assert text.endswith("web_1 /b 0")


def test_what_was_done_is_counted() -> None:
    def answer(caller: str | None, request: Request) -> Response:
        return Response(int(request.path[1:]))

    async def story() -> tuple[dict[str, int], int, int, int]:
        server = new_server(answer, Limits(per_caller=1))
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (reader, writer):
            writer.write(get("/200") + get("/404") + get("/429") + get("/500") + b"nonsense\r\n\r\n")
            await exchange(address, b"")
            await reader.read()
        await server.close()
        metrics = server.metrics()
        return metrics.responses, metrics.throttled, metrics.accepted, metrics.rejected

    assert asyncio.run(story()) == ({"2xx": 1, "4xx": 3, "5xx": 2}, 1, 2, 1)


def test_a_connection_without_a_handler_is_closed_at_once() -> None:
    async def story() -> tuple[list[str], list[bytes]]:
        clock = RequestClock(asyncio.get_running_loop().time, lambda: NOON)
        transports = AsyncioTransports(clock) if PORTABLE[0] else EpollTransports(clock)
        bound = sockets.bind_tcp("127.0.0.1", 0)
        peers: list[str] = []
        acceptor = await transports.open(bound, lambda peer, moment: peers.append(peer[0]))
        received = []
        for _ in range(3):
            async with calling(bound.getsockname()) as (reader, _):
                received.append(await reader.read())
        acceptor.close()
        transports.close()
        return peers, received

    assert asyncio.run(asyncio.wait_for(story(), 10)) == (["127.0.0.1"] * 3, [b""] * 3)
