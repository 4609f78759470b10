"""An HTTPS proxy on loopback for programs that have the names of Azure's management API built in.

A program asks the proxy to connect to a name (HTTP ``CONNECT``) and then speaks TLS through the connection.
The proxy connects Azure's names to one server and refuses all other names, so the program cannot reach Azure
by mistake. The proxy neither reads nor changes what passes: the server's own certificate has these names.

Any program on this machine can connect to the proxy. So the number of connections, the size of a request, the
time that a request may take, and the time that a connection may be idle are limited. When there are too many
connections, the one that has been idle longest makes room.
"""

import asyncio
import re
import socket
import threading
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from fairwarning.sandbox.supervise import SandboxMode

#: The most connections at a time.
MOST_CONNECTIONS = 256
#: The largest request.
MOST_HEAD_BYTES = 16 * 1024
#: How many seconds a request may take, and the connection to the server.
TIMEOUT = 10.0
#: After how many seconds without a byte in either direction a connection to the server is closed.
IDLE_LIMIT = 300.0

_CHUNK = 64 * 1024
_REQUEST_LINE = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.[01]\r\n")
#: A refusal names at most this many characters of a target.
_LONGEST_TARGET = 255


class _RefusedError(Exception):
    """The proxy does not connect; the client gets the status and the reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason

    def response(self) -> bytes:
        """Return the response; the reason is in its first line too, which is what most programs print."""
        body = f"fairwarning: {self.reason}\n"
        return (
            f"HTTP/1.1 {self.status} {self.status.phrase} ({self.reason})\r\n"
            f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        ).encode("ascii")


class ConnectProxy:
    """A proxy that connects a few names to one server and refuses all others."""

    def __init__(self, server: tuple[str, int], names: Collection[str]) -> None:
        """Open the listening socket; connections wait until the proxy serves."""
        self._server = server
        self._names = tuple(names)
        self._targets = {f"{name}:443" for name in names}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=MOST_CONNECTIONS)
        self._connections: set[asyncio.Task[None]] = set()
        #: The time limits of the connections to the server: the first to expire was idle longest.
        self._tunnels: set[asyncio.Timeout] = set()
        self._stopping, self._stop = socket.socketpair()
        self._stopping.setblocking(False)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The URL of the proxy, as programs read it from ``HTTPS_PROXY``."""
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    def start(self) -> None:
        """Serve in the background, until ``stop``."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the proxy and its connections, and return when that is done."""
        with self._stop, self._stopping, self._listener:
            if self._thread is not None:
                self._stop.send(b".")
                self._thread.join()

    async def serve(self) -> None:
        """Serve until stopped or cancelled, and close the connections that are left."""
        server = await asyncio.start_server(self._accept, sock=self._listener, limit=MOST_HEAD_BYTES)
        try:
            await asyncio.get_running_loop().sock_recv(self._stopping, 1)
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = asyncio.create_task(self._handle(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _handle(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            with suppress(ConnectionError, IncompleteReadError):
                await self._connect(reader, writer)
        except _RefusedError as refused:
            with suppress(ConnectionError):
                writer.write(refused.response())
                await writer.drain()
        finally:
            writer.close()

    async def _connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        if len(self._connections) > MOST_CONNECTIONS and not self._make_room():
            reason = f"this proxy has {MOST_CONNECTIONS} connections already"
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        self._check(await _read_head(reader))
        try:
            async with asyncio.timeout(TIMEOUT):
                to_server = await asyncio.open_connection(*self._server)
        except OSError:
            reason = "the management API does not answer"
            raise _RefusedError(HTTPStatus.BAD_GATEWAY, reason) from None
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._relay((reader, writer), to_server)

    def _make_room(self) -> bool:
        """Close the tunnel that has been idle longest; return whether there was one."""
        open_tunnels = [tunnel for tunnel in self._tunnels if not tunnel.expired()]
        if not open_tunnels:
            return False
        longest_idle = min(open_tunnels, key=lambda tunnel: tunnel.when() or 0.0)
        self._tunnels.discard(longest_idle)
        longest_idle.reschedule(asyncio.get_running_loop().time())
        return True

    async def _relay(
        self, client: tuple[StreamReader, StreamWriter], server: tuple[StreamReader, StreamWriter]
    ) -> None:
        """Copy bytes in both directions until both sides have ended, one is lost, or both are idle."""
        idle = asyncio.timeout(IDLE_LIMIT)
        self._tunnels.add(idle)
        try:
            async with idle:
                await _copy_both(client, server, idle)
        except TimeoutError:
            # What is still to be sent must not keep the sockets open.
            client[1].transport.abort()
            server[1].transport.abort()
        finally:
            self._tunnels.discard(idle)
            server[1].close()

    def _check(self, head: bytes) -> None:
        """Refuse every request but one to connect to a name of the proxy, port 443."""
        line = _REQUEST_LINE.match(head)
        if line is None:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "this is not a request to a proxy")
        method, target = line[1].decode(), line[2].decode()
        if method != "CONNECT":
            reason = "this proxy is for HTTPS; it accepts CONNECT only"
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, reason)
        if target.lower() not in self._targets:
            names = ", ".join(self._names)
            reason = f"{target[:_LONGEST_TARGET]} is not one of Azure's names that are served here: {names}"
            raise _RefusedError(HTTPStatus.FORBIDDEN, reason)


@dataclass(frozen=True, slots=True)
class Proxied:
    """The mode in which a program has a proxy, besides what another mode gives it."""

    proxy: ConnectProxy
    mode: SandboxMode | None = None

    def enter(self) -> tuple[int, ...]:
        """Enter the other mode; the proxy needs nothing of the process."""
        return () if self.mode is None else self.mode.enter()

    def serve(self, descriptors: tuple[int, ...]) -> None:
        """Serve the proxy and the other mode, in the background."""
        self.proxy.start()
        if self.mode is not None:
            self.mode.serve(descriptors)


async def _read_head(reader: StreamReader) -> bytes:
    try:
        async with asyncio.timeout(TIMEOUT):
            return await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, f"no request in {TIMEOUT:g} s") from None
    except LimitOverrunError:
        reason = f"the request has more than {MOST_HEAD_BYTES} bytes"
        raise _RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason) from None


async def _copy_both(
    client: tuple[StreamReader, StreamWriter],
    server: tuple[StreamReader, StreamWriter],
    idle: asyncio.Timeout,
) -> None:
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_copy(client[0], server[1], idle))
            directions.create_task(_copy(server[0], client[1], idle))
    except* OSError:
        pass


async def _copy(source: StreamReader, sink: StreamWriter, idle: asyncio.Timeout) -> None:
    while chunk := await source.read(_CHUNK):
        if not idle.expired():
            idle.reschedule(asyncio.get_running_loop().time() + IDLE_LIMIT)
        sink.write(chunk)
        await sink.drain()
    sink.write_eof()
