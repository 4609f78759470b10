"""The proxy connects the names it has to one server, refuses all others, and every request is bounded."""

import asyncio
import socket
import struct
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar

import pytest

from fairwarning.sandbox import proxy as proxy_module
from fairwarning.sandbox.proxy import IDLE_LIMIT, MOST_CONNECTIONS, MOST_HEAD_BYTES, ConnectProxy
from tests.cli.server import free_port
from tests.virtual_time import LeapingLoop

T = TypeVar("T")

NAMES = ("management.azure.com", "login.microsoftonline.com")
CONNECT = b"CONNECT management.azure.com:443 HTTP/1.1\r\nHost: management.azure.com:443\r\n\r\n"


async def echo(reader: StreamReader, writer: StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def serving(proxy: ConnectProxy) -> AsyncIterator[tuple[str, int]]:
    """Serve during the block; give the address of the proxy."""
    task = asyncio.create_task(proxy.serve())
    try:
        host, _, port = proxy.url.removeprefix("http://").partition(":")
        yield host, int(port)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        proxy.stop()


def leaping(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine in a loop that skips its sleeps, and end the tasks that it leaves."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(coroutine)


def with_echo(
    client: Callable[[tuple[str, int]], Awaitable[T]],
    answer: Callable[[StreamReader, StreamWriter], Awaitable[None]] = echo,
    run: Callable[[Coroutine[object, object, T]], T] = asyncio.run,
) -> T:
    """Run a client of a proxy in front of a server that sends back what it gets."""

    async def served() -> T:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with serving(ConnectProxy(server.sockets[0].getsockname(), NAMES)) as address:
            try:
                return await client(address)
            finally:
                server.close()

    return run(served())


async def ask(address: tuple[str, int], request: bytes) -> bytes:
    """Send a request and return everything that comes back."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("name", [*NAMES, "MANAGEMENT.Azure.COM"])
def test_a_name_of_azure_is_connected_to_the_server(name: str) -> None:
    sent = bytes(range(256)) * 4000

    async def client(address: tuple[str, int]) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection(*address)
        # Some of it arrives with the request.
        writer.write(f"CONNECT {name}:443 HTTP/1.1\r\nX: y\r\n\r\n".encode() + sent[:100])
        status = await reader.readuntil(b"\r\n\r\n")
        writer.write(sent[100:])
        writer.write_eof()
        received = await reader.read()
        writer.close()
        await writer.wait_closed()
        return status, received

    status, received = with_echo(client)

    assert status.startswith(b"HTTP/1.1 200 ")
    assert received == sent


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        pytest.param(
            b"CONNECT example.com:443 HTTP/1.1\r\n\r\n",
            b"403 Forbidden",
            b"example.com:443 is not one of Azure's names that are served here: management.azure.com, ",
            id="another name",
        ),
        pytest.param(
            b"CONNECT management.azure.com:22 HTTP/1.1\r\n\r\n",
            b"403 Forbidden",
            b"management.azure.com:22 is not one",
            id="another port",
        ),
        pytest.param(
            b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n", b"403 Forbidden", b"[::1]:443 is not", id="an address"
        ),
        pytest.param(
            b"GET http://management.azure.com/ HTTP/1.1\r\n\r\n",
            b"405 Method Not Allowed",
            b"accepts CONNECT only",
            id="plain HTTP",
        ),
        pytest.param(b"\x16\x03\x01 hello\r\n\r\n", b"400 Bad Request", b"not a request", id="no HTTP"),
        pytest.param(
            b"CONNECT management.azure.com:443 HTTP/1.1\r\nX: " + b"x" * (MOST_HEAD_BYTES + 1),
            b"431 Request Header Fields Too Large",
            b"more than 16384 bytes",
            id="a large request",
        ),
    ],
)
def test_everything_else_is_refused_with_the_reason(request_: bytes, status: bytes, reason: bytes) -> None:
    head, _, body = with_echo(lambda address: ask(address, request_)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 " + status + b" (")
    assert b"Content-Type: text/plain" in head
    assert body.startswith(b"fairwarning: ")
    assert reason in body


def test_a_request_that_does_not_come_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "TIMEOUT", 0.05)

    answer = with_echo(lambda address: ask(address, b"CONNECT management"))

    assert answer.startswith(b"HTTP/1.1 408 ")


@asynccontextmanager
async def tunnel(address: tuple[str, int]) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    """Connect through the proxy, during the block."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(CONNECT)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def echoes(connection: tuple[StreamReader, StreamWriter]) -> bool:
    """Whether a byte comes back."""
    reader, writer = connection
    writer.write(b"x")
    return await reader.read(1) == b"x"


def test_connections_without_a_request_are_refused_while_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_module, "MOST_CONNECTIONS", 1)

    async def client(address: tuple[str, int]) -> tuple[bytes, bytes]:
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"CONNECT")
        refused = await ask(address, b"")
        writer.close()
        await writer.wait_closed()
        return refused, await ask(address, b"GET / HTTP/1.1\r\n\r\n")

    refused, later = with_echo(client)

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert later.startswith(b"HTTP/1.1 405 ")


def test_a_tunnel_without_a_byte_for_five_minutes_is_closed() -> None:
    async def client(address: tuple[str, int]) -> tuple[list[bool], float]:
        async with tunnel(address) as connection:
            echoed = []
            for _ in range(3):
                await asyncio.sleep(299)
                echoed.append(await echoes(connection))
            begun = asyncio.get_running_loop().time()
            with suppress(ConnectionError):
                await connection[0].read()
            return echoed, asyncio.get_running_loop().time() - begun

    echoed, idle = with_echo(client, run=leaping)

    assert echoed == [True, True, True]
    assert idle == pytest.approx(IDLE_LIMIT)


def test_a_full_proxy_closes_the_tunnel_that_was_idle_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MOST_CONNECTIONS", 2)

    async def client(address: tuple[str, int]) -> tuple[bool, bytes, bool]:
        async with tunnel(address) as busy, tunnel(address) as idle:
            await asyncio.sleep(1)
            await echoes(busy)
            async with tunnel(address) as third:
                end = b""
                with suppress(ConnectionError):
                    end = await idle[0].read()
                return await echoes(third), end, await echoes(busy)

    assert with_echo(client, run=leaping) == (True, b"", True)


def test_silent_tunnels_do_not_lock_the_proxy() -> None:
    async def client(address: tuple[str, int]) -> bool:
        async with AsyncExitStack() as stack:
            for _ in range(MOST_CONNECTIONS + 20):
                await stack.enter_async_context(tunnel(address))
            return await echoes(await stack.enter_async_context(tunnel(address)))

    assert with_echo(client)


def test_a_server_that_reads_nothing_does_not_keep_a_tunnel() -> None:
    over = asyncio.Event()

    async def never(reader: StreamReader, writer: StreamWriter) -> None:
        await over.wait()
        writer.close()

    async def client(address: tuple[str, int]) -> float:
        async with tunnel(address) as (_, writer):
            writer.write(b"x" * 50_000_000)
            begun = asyncio.get_running_loop().time()
            with pytest.raises(ConnectionError):
                await writer.drain()
            idle = asyncio.get_running_loop().time() - begun
            over.set()
            await asyncio.sleep(1)
            return idle

    assert with_echo(client, never, run=leaping) == pytest.approx(IDLE_LIMIT)


ENDS = """
import socket
from fairwarning.sandbox.proxy import ConnectProxy

server = socket.create_server(("127.0.0.1", 0))
proxy = ConnectProxy(server.getsockname(), ("management.azure.com",))
proxy.start()
host, _, port = proxy.url.removeprefix("http://").partition(":")
accepted = []
for _ in range(10):
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"CONNECT management.azure.com:443 HTTP/1.1\\r\\n\\r\\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"x")
        connection, _ = server.accept()
        assert connection.recv(1) == b"x"
        accepted.append(connection)
proxy.stop()
"""


def test_a_proxy_with_connections_ends_in_silence() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, timeout=30)

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_proxy_that_never_served_can_be_stopped() -> None:
    proxy = ConnectProxy(("127.0.0.1", 1), NAMES)
    port = int(proxy.url.rpartition(":")[2])

    proxy.stop()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_client_that_is_lost_disturbs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def client(address: tuple[str, int]) -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return await ask(address, b"GET / HTTP/1.1\r\n\r\n")

    assert with_echo(client).startswith(b"HTTP/1.1 405 ")
    assert caplog.records == []


def test_a_server_that_does_not_listen_is_a_bad_gateway() -> None:
    async def run() -> bytes:
        async with serving(ConnectProxy(("127.0.0.1", free_port()), NAMES)) as address:
            return await ask(address, CONNECT)

    assert asyncio.run(run()).startswith(b"HTTP/1.1 502 ")
