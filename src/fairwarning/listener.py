"""Listens for operators and tools: serves an ASGI app, and gives no client more than its share.

uvicorn speaks HTTP. Whom it talks to, how long a request may take to arrive, how large it may be and how long
an answer waits for its reader is decided here, for every listener alike.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from fairwarning.config import ListenerLimits
from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn._types import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, Scope
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: How many connections are accepted before everybody else gets a turn.
_ACCEPTED = 64
#: How many connections the system keeps for us until we accept them.
_BACKLOG = 1024
#: How long connections wait when there is no descriptor for another, in seconds.
_REST = 1.0
#: How long to wait before the same thing is logged again, in seconds.
_LOG_AGAIN = 1.0

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

log = logging.getLogger("fairwarning.listener")


class Reason(StrEnum):
    """Why a connection was closed before its client closed it."""

    FULL = "full"
    HANDSHAKE = "handshake"
    HEAD = "head"
    BODY = "body"
    UNREAD = "unread"
    TOO_LARGE = "too_large"


_EXPLAINED = {
    Reason.FULL: "as many connections are open as may be",
    Reason.HANDSHAKE: "the TLS handshake failed or took too long",
    Reason.HEAD: "the head of a request took too long",
    Reason.BODY: "the body of a request took too long",
    Reason.UNREAD: "the client did not read what it was sent",
    Reason.TOO_LARGE: "the client sent too much",
}
_WARNED = frozenset({Reason.FULL, Reason.UNREAD, Reason.TOO_LARGE})


class HttpListener:
    """Serves one app at one address."""

    def __init__(self, name: str, limits: ListenerLimits, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self.limits = limits
        self.open = 0
        self.accepted = 0
        self.closed: Counter[Reason] = Counter()
        self._tls = tls
        self._connecting: set[asyncio.Task[None]] = set()
        self._logged: dict[Reason, float] = {}
        self._unlogged: Counter[Reason] = Counter()

    @property
    def scheme(self) -> str:
        """What its URLs begin with."""
        return "http" if self._tls is None else "https"

    @asynccontextmanager
    async def serve(self, app: "ASGIApp", bound: socket.socket) -> AsyncIterator[None]:
        """Serve ``app`` on a bound socket for as long as the block lasts."""
        import uvicorn

        class Server(uvicorn.Server):
            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield  # signals belong to the command line

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                self.servers = []  # connections are accepted below, where they can be counted
                self.started = True

        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            # A caller might name any address; it is the one they call from that is throttled.
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        server = Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.001)
        bound.setblocking(False)
        bound.listen(_BACKLOG)
        self._resume(bound, server)
        try:
            yield
        finally:
            asyncio.get_running_loop().remove_reader(bound)
            bound.close()
            for task in self._connecting:
                task.cancel()
            await asyncio.gather(*self._connecting, return_exceptions=True)
            server.should_exit = True
            await serving

    def dropped(self, reason: Reason, client: object = None, path: str = "") -> None:
        """Count a connection that is closed, and log it unless that was done a moment ago."""
        self.closed[reason] += 1
        self._unlogged[reason] += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged.get(reason, -_LOG_AGAIN) < _LOG_AGAIN:
            return
        self._logged[reason] = now
        # Browsers open connections that they may need and then do not: that alone is no cause for a warning.
        level = logging.WARNING if reason in _WARNED else logging.INFO
        log.log(
            level,
            "connections_closed listener=%s reason=%s count=%d open=%d limit=%d client=%s path=%s: %s",
            self.name,
            reason.value,
            self._unlogged.pop(reason),
            self.open,
            self.limits.connections,
            client,
            path or "-",
            _EXPLAINED[reason],
        )

    def _resume(self, bound: socket.socket, server: "uvicorn.Server") -> None:
        if bound.fileno() >= 0:
            asyncio.get_running_loop().add_reader(bound, self._accept, bound, server)

    def _accept(self, bound: socket.socket, server: "uvicorn.Server") -> None:
        for _ in range(_ACCEPTED):
            try:
                connected, client = bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                log.error("connection_not_accepted listener=%s problem=%s", self.name, problem)
                loop = asyncio.get_running_loop()
                loop.remove_reader(bound)
                loop.call_later(_REST, self._resume, bound, server)
                return
            self.accepted += 1
            if self.open >= self.limits.connections:
                self._refuse(connected, client)
                continue
            self.open += 1
            connection = _Connection(self, server, client)
            task = asyncio.create_task(self._connect(connected, connection, client))
            self._connecting.add(task)
            task.add_done_callback(partial(self._connected, connected, connection))

    def _refuse(self, connected: socket.socket, client: object) -> None:
        with connected, suppress(OSError):
            connected.setblocking(False)
            if self._tls is None:
                connected.send(_busy(self.limits.connections))
                connected.shutdown(socket.SHUT_WR)
                # Closed with a request unread, the connection would be reset and the answer lost.
                connected.recv(self.limits.head_bytes)
        self.dropped(Reason.FULL, client)

    async def _connect(self, connected: socket.socket, connection: "_Connection", client: object) -> None:
        connected.setblocking(False)
        patience = None if self._tls is None else self.limits.head.total_seconds()
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                connected,
                ssl=self._tls,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience and 1.0,
            )
        except OSError:
            connection.release()
            self.dropped(Reason.HANDSHAKE, client)

    def _connected(
        self, connected: socket.socket, connection: "_Connection", task: "asyncio.Task[None]"
    ) -> None:
        self._connecting.discard(task)
        if task.cancelled():
            connection.release()
            connected.close()


class _Connection(asyncio.Protocol):
    """One client, as uvicorn talks to it, held to the limits."""

    def __init__(self, listener: HttpListener, server: "uvicorn.Server", client: object) -> None:
        self._listener = listener
        self._limits = listener.limits
        self._client = client
        self._app = server.config.loaded_app
        self._http = _http(server)
        self._http.app = self._answer
        self._transport: asyncio.Transport | None = None
        self._arriving = _Deadline(self._late)
        self._unread = _Deadline(self._not_read)
        self._path = ""
        self._received = 0
        self._most = self._limits.head_bytes
        self._body_due = False
        self._released = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._arriving.set(self._limits.head)
        self._http.connection_made(transport)
        # Paused as soon as anything is left unsent, so that the deadline of who does not read is always set.
        # With TLS that may be now: the end of the handshake is not sent yet.
        transport.set_write_buffer_limits(high=1)

    def data_received(self, data: bytes) -> None:
        """Pass on what arrives unless it is too much."""
        if self._received > self._most:
            self._drop(Reason.TOO_LARGE, _TOO_LARGE if self._waiting else b"")
            return
        self._received += len(data)
        self._http.data_received(data)

    def eof_received(self) -> None:
        """Pass on that the client sends nothing more."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        self._unread.set(self._limits.unread)
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        self._unread.clear()
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what the connection held."""
        self._arriving.clear()
        self._unread.clear()
        self.release()
        self._http.connection_lost(exc)

    def release(self) -> None:
        """Leave the place to another connection, once."""
        if not self._released:
            self._released = True
            self._listener.open -= 1

    async def _answer(self, scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable") -> None:
        assert scope["type"] == "http"
        self._path, self._most = scope["path"], self._limits.request_bytes
        self._body_due = _has_body(scope["headers"])
        self._expect_body()

        async def arriving() -> "ASGIReceiveEvent":
            message = await receive()
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                self._body_due = False
                self._expect_body()
            return message

        try:
            await self._app(scope, arriving, send)
        finally:
            self._arriving.set(self._limits.head)
            # The rest of a body that nobody wanted is still on its way; it is no head.
            if not self._body_due:
                self._received, self._most = 0, self._limits.head_bytes

    @property
    def _waiting(self) -> bool:
        """Whether no request is being answered, nor the rest of one still arriving."""
        return self._most == self._limits.head_bytes

    def _expect_body(self) -> None:
        if self._body_due:
            self._arriving.set(self._limits.body)
        else:
            self._arriving.clear()

    def _late(self) -> None:
        if self._waiting:
            self._drop(Reason.HEAD, _TOO_SLOW if self._received else b"")
        else:
            self._drop(Reason.BODY, b"")

    def _not_read(self) -> None:
        self._listener.dropped(Reason.UNREAD, self._client, self._path)
        if self._transport is not None:
            self._transport.abort()

    def _drop(self, reason: Reason, answer: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._listener.dropped(reason, self._client, self._path)
        if answer:
            transport.write(answer)
            transport.close()
        else:
            transport.abort()


class _Deadline:
    """Calls somebody unless it is cleared in time."""

    def __init__(self, missed: Callable[[], None]) -> None:
        self._missed = missed
        self._timer: asyncio.TimerHandle | None = None

    def set(self, patience: timedelta) -> None:
        """Start anew."""
        self.clear()
        self._timer = asyncio.get_running_loop().call_later(patience.total_seconds(), self._missed)

    def clear(self) -> None:
        """Call nobody."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def families(listeners: Iterable[HttpListener]) -> Iterator[MetricFamily]:
    """Return what listeners counted, as monitoring reads it."""
    every = list(listeners)
    named = [(one, {"listener": one.name}) for one in every]
    yield MetricFamily(
        "fairwarning_http_connections",
        MetricType.GAUGE,
        "Open connections of operators and tools",
        tuple(Sample(one.open, labels) for one, labels in named),
    )
    yield MetricFamily(
        "fairwarning_http_connections_total",
        MetricType.COUNTER,
        "Connections of operators and tools",
        tuple(Sample(one.accepted, labels) for one, labels in named),
    )
    closed = [
        Sample(one.closed[reason], {**labels, "reason": reason.value})
        for one, labels in named
        for reason in Reason
    ]
    yield MetricFamily(
        "fairwarning_http_closed_total",
        MetricType.COUNTER,
        "Connections closed because of a limit",
        tuple(closed),
    )


def _http(server: "uvicorn.Server") -> "HttpToolsProtocol | H11Protocol":
    """Return what speaks HTTP: the faster one of uvicorn's if it is installed."""
    config, state, shared = server.config, server.server_state, server.lifespan.state
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol(config, state, shared)
    return HttpToolsProtocol(config, state, shared)


def _has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 ") != b"")
        for name, value in headers
    )


def _busy(limit: int) -> bytes:
    detail = f"all {limit} connections that this address serves are open; try again in a second"
    body = f'{{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"{detail}"}}'.encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
