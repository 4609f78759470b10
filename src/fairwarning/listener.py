"""A listener for the operator API, the management API and the console: serves an ASGI app within limits.

uvicorn speaks HTTP. This module accepts the connections and enforces the limits of ``ListenerLimits``: how
many connections are open, how long a request may take to arrive, how large it may be, how many requests wait
behind each other, and how long a response waits for a client that does not read.
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
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import TYPE_CHECKING

from fairwarning.config import ListenerLimits
from fairwarning.formats.log_messages import LogMessage
from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample
from fairwarning.throttle import network_of

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as ASGIScope
    from uvicorn._types import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, ASGISendEvent, Scope
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Connections that are accepted in one loop iteration.
_ACCEPT_BATCH = 64
#: Connections that the kernel queues until they are accepted.
_BACKLOG = 1024
#: Seconds without accepting after an accept failed, most often because no descriptor was left.
_ACCEPT_PAUSE = 1.0
#: Bytes that uvicorn parses before the limits are checked.
_PIECE = 16 * 1024
#: Seconds between two log lines about the same reason.
_LOG_INTERVAL = 1.0

_REQUEST_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

log = logging.getLogger("fairwarning.listener")


class Reason(StrEnum):
    """Why the listener closed a connection."""

    FULL = "full"
    HANDSHAKE = "handshake"
    HEAD = "head"
    BODY = "body"
    UNREAD = "unread"
    TOO_LARGE = "too_large"


_EXPLANATIONS = {
    Reason.FULL: "the connection limit is reached, of the listener or of the address of the client",
    Reason.HANDSHAKE: "the TLS handshake failed or took too long",
    Reason.HEAD: "the head of a request took too long to arrive",
    Reason.BODY: "the body of a request took too long to arrive",
    Reason.UNREAD: "the client did not read the response",
    Reason.TOO_LARGE: "the request is too large",
}
_WARNING_REASONS = frozenset({Reason.FULL, Reason.UNREAD, Reason.TOO_LARGE})


class ReplaceableApp:
    """An ASGI app that can be made anew while it serves: requests under way keep the one they began with."""

    def __init__(self, make: "Callable[[], ASGIApp]") -> None:
        self._make = make
        self._app = make()

    def renew(self) -> None:
        """Serve the next requests with a new app."""
        self._app = self._make()

    async def __call__(self, scope: "ASGIScope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        await self._app(scope, receive, send)


class HttpListener:
    """Serves one app at one address."""

    def __init__(self, name: str, limits: ListenerLimits, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self.limits = limits
        self.open = 0
        self.accepted = 0
        self.closed: Counter[Reason] = Counter()
        self._tls = tls
        self._per_address = min(limits.per_address, max(1, limits.connections // 2))
        self._open_by_caller: Counter[str] = Counter()
        self._connecting: set[asyncio.Task[None]] = set()
        self._logged: dict[Reason, float] = {}
        self._unlogged: Counter[Reason] = Counter()

    @property
    def scheme(self) -> str:
        """The scheme of the URLs."""
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
            # A proxy header could name any address; the throttle needs the address of the connection.
            proxy_headers=False,
            timeout_graceful_shutdown=ceil(self.limits.grace.total_seconds()),
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

    def record_close(self, reason: Reason, client: object = None, path: str = "") -> None:
        """Count a closed connection, and log the reason at most once per interval."""
        self.closed[reason] += 1
        self._unlogged[reason] += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged.get(reason, -_LOG_INTERVAL) < _LOG_INTERVAL:
            return
        self._logged[reason] = now
        # Browsers open spare connections and never use them; that deserves no warning.
        level = logging.WARNING if reason in _WARNING_REASONS else logging.INFO
        log.log(
            level,
            LogMessage(
                "connections_closed",
                listener=self.name,
                reason=reason,
                count=self._unlogged.pop(reason),
                open=self.open,
                limit=self.limits.connections,
                client=client,
                path=path or None,
                problem=_EXPLANATIONS[reason],
            ),
        )

    def _resume(self, bound: socket.socket, server: "uvicorn.Server") -> None:
        if bound.fileno() >= 0:
            asyncio.get_running_loop().add_reader(bound, self._accept, bound, server)

    def _accept(self, bound: socket.socket, server: "uvicorn.Server") -> None:
        for _ in range(_ACCEPT_BATCH):
            try:
                connected, client = bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                log.error(LogMessage("connection_not_accepted", listener=self.name, problem=problem))
                loop = asyncio.get_running_loop()
                loop.remove_reader(bound)
                loop.call_later(_ACCEPT_PAUSE, self._resume, bound, server)
                return
            self.accepted += 1
            caller = _caller(client)
            if limit := self._reached_limit(caller):
                self._refuse(connected, client, limit)
                continue
            self.open += 1
            self._open_by_caller[caller] += 1
            connection = _Connection(self, server, client, partial(self._release, caller))
            task = asyncio.create_task(self._connect(connected, connection, client))
            self._connecting.add(task)
            task.add_done_callback(partial(self._connected, connected, connection))

    def _reached_limit(self, caller: str) -> str:
        """Name the limit that a further connection of a caller would exceed; empty if there is none."""
        if self.open >= self.limits.connections:
            return f"all {self.limits.connections} connections that this address serves are open"
        if caller and self._open_by_caller[caller] >= self._per_address:
            return f"all {self._per_address} connections that your address may have are open"
        return ""

    def _release(self, caller: str) -> None:
        self.open -= 1
        self._open_by_caller[caller] -= 1
        if not self._open_by_caller[caller]:
            del self._open_by_caller[caller]

    def _refuse(self, connected: socket.socket, client: object, limit: str) -> None:
        with connected, suppress(OSError):
            connected.setblocking(False)
            if self._tls is None:
                connected.send(_busy(limit))
                connected.shutdown(socket.SHUT_WR)
                # Closing a socket with unread bytes resets the connection, and the response could be lost.
                connected.recv(self.limits.head_bytes)
        self.record_close(Reason.FULL, client)

    async def _connect(self, connected: socket.socket, connection: "_Connection", client: object) -> None:
        connected.setblocking(False)
        timeout = None if self._tls is None else self.limits.head.total_seconds()
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                connected,
                ssl=self._tls,
                ssl_handshake_timeout=timeout,
                ssl_shutdown_timeout=timeout and 1.0,
            )
        except OSError:
            connection.release()
            self.record_close(Reason.HANDSHAKE, client)

    def _connected(
        self, connected: socket.socket, connection: "_Connection", task: "asyncio.Task[None]"
    ) -> None:
        self._connecting.discard(task)
        if task.cancelled():
            connection.release()
            connected.close()


class _Connection(asyncio.Protocol):
    """One connection: passes everything on to uvicorn, within the limits."""

    def __init__(
        self, listener: HttpListener, server: "uvicorn.Server", client: object, on_release: Callable[[], None]
    ) -> None:
        self._listener = listener
        self._on_release = on_release
        self._limits = listener.limits
        self._client = client
        self._app = server.config.loaded_app
        self._http = _http(server)
        self._http.app = self._answer
        self._transport: asyncio.Transport | None = None
        self._arrival = _Deadline(self._arrival_missed)
        self._unread = _Deadline(self._unread_missed)
        self._path = ""
        self._received = 0  # since the last moment at which no request was to be answered
        self._head_received = 0  # of the head that is arriving
        self._released = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._arrival.set(self._limits.head)
        self._http.connection_made(transport)
        # Pauses writing as soon as anything is unsent, so that the deadline for reading is always set.
        # With TLS this may be now: the end of the handshake is not sent yet.
        transport.set_write_buffer_limits(high=1)

    def data_received(self, data: bytes) -> None:
        """Pass on what arrives, until the client has sent too much."""
        for start in range(0, len(data), _PIECE):
            self._pass_on(data[start : start + _PIECE])
            if self._transport is None or self._transport.is_closing():
                return
            if self._has_too_much():
                self._drop(Reason.TOO_LARGE, _TOO_LARGE if self._idle else b"")
                return

    def eof_received(self) -> None:
        """Pass on that the client sends nothing more."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        self._unread.set(self._limits.unread)
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Continue: the client reads."""
        self._unread.clear()
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything: the connection is closed."""
        self._arrival.clear()
        self._unread.clear()
        self.release()
        self._http.connection_lost(exc)

    def release(self) -> None:
        """Free the slot of this connection; further calls do nothing."""
        if not self._released:
            self._released = True
            self._on_release()

    async def _answer(self, scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable") -> None:
        assert scope["type"] == "http"
        self._path = scope["path"]
        if _has_body(scope["headers"]):
            self._arrival.set(self._limits.body)
        else:
            self._arrival.clear()

        async def receive_body() -> "ASGIReceiveEvent":
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                self._arrival.clear()
            return message

        async def send_response(message: "ASGISendEvent") -> None:
            await send(message)
            # The app may go on after its response, while the next request is answered already.
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._response_sent()

        await self._app(scope, receive_body, send_response)

    def _response_sent(self) -> None:
        self._arrival.set(self._limits.head)
        if self._idle:
            self._received = 0

    def _pass_on(self, piece: bytes) -> None:
        before, in_body = self._http.cycle, self._body_arriving
        self._http.data_received(piece)
        self._received += len(piece)
        in_head = self._http.cycle is before and not in_body
        self._head_received = self._head_received + len(piece) if in_head else 0

    def _has_too_much(self) -> bool:
        # h11 parses one request at a time and has no such queue: there, all that waits counts as a head.
        waiting = len(getattr(self._http, "pipeline", ()))
        return (
            waiting > self._limits.pipelined
            or self._head_received > self._limits.head_bytes
            or self._received > self._limits.request_bytes
        )

    @property
    def _body_arriving(self) -> bool:
        """Whether the newest request lacks a part of its body."""
        return self._http.cycle is not None and self._http.cycle.more_body

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered, and no rest of a request is arriving."""
        return self._http.cycle is None or (self._http.cycle.response_complete and not self._body_arriving)

    def _arrival_missed(self) -> None:
        if self._idle:
            self._drop(Reason.HEAD, _REQUEST_TIMEOUT if self._received else b"")
        else:
            self._drop(Reason.BODY, b"")

    def _unread_missed(self) -> None:
        self._listener.record_close(Reason.UNREAD, self._client, self._path)
        if self._transport is not None:
            self._transport.abort()

    def _drop(self, reason: Reason, response: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._listener.record_close(reason, self._client, self._path)
        if response:
            transport.write(response)
            transport.close()
        else:
            transport.abort()


class _Deadline:
    """Calls a function unless it is cleared in time."""

    def __init__(self, missed: Callable[[], None]) -> None:
        self._missed = missed
        self._timer: asyncio.TimerHandle | None = None

    def set(self, delay: timedelta) -> None:
        """Start, or start again."""
        self.clear()
        self._timer = asyncio.get_running_loop().call_later(delay.total_seconds(), self._missed)

    def clear(self) -> None:
        """Do not call the function."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def families(listeners: Iterable[HttpListener]) -> Iterator[MetricFamily]:
    """Return the metric families of listeners."""
    labelled = [(listener, {"listener": listener.name}) for listener in listeners]
    yield MetricFamily(
        "fairwarning_http_connections",
        MetricType.GAUGE,
        "Open connections to the operator and management APIs.",
        tuple(Sample(listener.open, labels) for listener, labels in labelled),
    )
    yield MetricFamily(
        "fairwarning_http_connections_total",
        MetricType.COUNTER,
        "Connections accepted by the operator and management APIs.",
        tuple(Sample(listener.accepted, labels) for listener, labels in labelled),
    )
    closed = [
        Sample(listener.closed[reason], {**labels, "reason": reason.value})
        for listener, labels in labelled
        for reason in Reason
    ]
    yield MetricFamily(
        "fairwarning_http_closed_total",
        MetricType.COUNTER,
        "Connections closed because of a limit.",
        tuple(closed),
    )


def _http(server: "uvicorn.Server") -> "HttpToolsProtocol | H11Protocol":
    """Return an HTTP protocol of uvicorn: the faster one if httptools is installed."""
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


def _caller(client: object) -> str:
    """Return whom a connection counts for; empty for a client on this machine."""
    if not isinstance(client, tuple):
        return ""  # a Unix socket
    address = ip_address(client[0].partition("%")[0])
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return "" if address.is_loopback else network_of(str(address))


def _busy(limit: str) -> bytes:
    detail = f"{limit}; try again in a second"
    body = f'{{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"{detail}"}}'.encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
