"""An HTTP server with any number of listeners, their connections and one timer for all time limits.

A caller is identified by the listener, never by the request: ``listen_tcp`` asks a function about the
peer's address, ``listen_unix`` gives a socket to one caller. ``connection.py`` speaks HTTP,
``epoll_transport.py`` and ``asyncio_transport.py`` carry the bytes. ``docs/poll.md`` follows a request
through all of them.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from fairwarning.http1 import sockets
from fairwarning.http1.connection import Connection
from fairwarning.http1.limits import Limits
from fairwarning.http1.metrics import ServerMetrics
from fairwarning.http1.request_clock import Moment, RequestClock
from fairwarning.http1.server_state import Answer, C, FastPathRoutes, ListenerConnections, ServerState
from fairwarning.http1.transport import AcceptingSocket, Peer, TransportFactory

A = TypeVar("A")
Address = TypeVar("Address", covariant=True)

#: Returns a socket bound to a host and a port.
Bind: TypeAlias = Callable[[str, int], socket.socket]

#: Connections whose time limits are checked in one loop iteration.
_SWEEP_BATCH = 1024


class Listener(Generic[Address]):
    """One address at which connections are accepted."""

    def __init__(
        self,
        address: Address,
        acceptor: AcceptingSocket,
        connections: ListenerConnections[C],
        on_close: Callable[[], None],
    ) -> None:
        self.address = address
        self._acceptor = acceptor
        self._connections = connections
        self._on_close = on_close
        self._closed = False

    async def finish(self) -> None:
        """Stop accepting, and wait until the requests under way are answered; the server is closing."""
        self._acceptor.close()
        connections, server = self._connections, self._connections.server
        for connection in tuple(connections.open):
            connection.prepare_close()
        with suppress(TimeoutError):
            async with asyncio.timeout(server.limits.linger):
                await connections.wait_closed()
        moment = server.clock.moment()
        for connection in tuple(connections.open):
            connection.finish(moment)
        await connections.wait_closed()

    def disconnect(self, callers: Collection[object]) -> None:
        """Abort the connections of some callers: the next connection is identified anew."""
        for connection in tuple(self._connections.open):
            if connection.caller in callers:
                connection.abort()

    async def close(self) -> None:
        """Stop accepting, and abort the connections."""
        if self._closed:
            return
        self._closed = True
        self._acceptor.close()
        self._on_close()
        for connection in tuple(self._connections.open):
            connection.abort()
        await self._connections.wait_closed()


class HttpServer(Generic[C]):
    """Serves one application on any number of listeners."""

    def __init__(
        self,
        answer: Answer[C],
        now: Callable[[], datetime],
        limits: Limits | None = None,
        *,
        fast_path: FastPathRoutes[C] | None = None,
        bind: Bind = sockets.bind_tcp,
        portable: bool = sys.platform != "linux",
    ) -> None:
        self._clock = RequestClock(asyncio.get_running_loop().time, now)
        self._state = ServerState(answer, self._clock, limits or Limits(), fast_path)
        self._bind = bind
        self._portable = portable
        self._transports: TransportFactory | None = None
        self._listeners: dict[ListenerConnections[C], Listener[object]] = {}
        self._sweeper: asyncio.Handle | None = None

    async def listen_tcp(
        self, host: str, port: int, identify: Callable[[Peer], C | None]
    ) -> Listener[tuple[str, int]]:
        """Listen at an address, where callers are identified by theirs; port 0 takes any free port."""
        bound = self._bind(host, port)
        address: tuple[str, int] = bound.getsockname()[:2]
        return await self._listen(address, bound, identify, lambda: None)

    async def listen_unix(self, path: Path, caller: C, mode: int = 0o600) -> Listener[Path]:
        """Listen at a unix socket that belongs to one caller."""
        bound, socket_file = sockets.bind_unix(path, mode)
        return await self._listen(path, bound, lambda peer: caller, socket_file.remove)

    def metrics(self) -> ServerMetrics:
        """Return the counters as they are now."""
        return self._state.counters.read()

    async def close(self) -> None:
        """Stop listening, give the requests under way a moment, and close every connection."""
        self._state.closing = True
        listeners = tuple(self._listeners.values())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._state.limits.grace):
                await asyncio.gather(*(listener.finish() for listener in listeners))
        for listener in listeners:
            await listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        if self._transports is not None:
            self._transports.close()
            self._transports = None

    async def _listen(
        self,
        address: A,
        bound: socket.socket,
        identify: Callable[[Peer], C | None],
        remove_socket_file: Callable[[], None],
    ) -> Listener[A]:
        state, connections = self._state, ListenerConnections(self._state)

        def on_connect(peer: Peer, moment: Moment) -> Connection[C] | None:
            caller = identify(peer)
            account = state.account(caller, peer[0])
            if state.rejects_silently(caller, account, moment.time):
                return None
            return Connection(connections, caller, account)

        def on_close() -> None:
            del self._listeners[connections]
            state.listeners -= 1
            remove_socket_file()

        acceptor = await self._running_transports().open(bound, on_connect)
        listener = Listener(address, acceptor, connections, on_close)
        self._listeners[connections] = listener
        state.listeners += 1
        return listener

    def _running_transports(self) -> TransportFactory:
        if self._sweeper is None:
            self._sweep()
        if self._transports is None:
            self._transports = _new_transports(self._clock, portable=self._portable)
        return self._transports

    def _sweep(self) -> None:
        self._state.cache.expire(self._clock.moment().time)
        # One timer for all connections: a timer per connection would cost more than the connection.
        self._expire([connection for group in self._listeners for connection in group.open])

    def _expire(self, remaining: Sequence[Connection[C]]) -> None:
        moment = self._clock.moment()
        for connection in remaining[:_SWEEP_BATCH]:
            connection.expire(moment)
        loop, limits = asyncio.get_running_loop(), self._state.limits
        if len(remaining) > _SWEEP_BATCH:
            self._sweeper = loop.call_soon(self._expire, remaining[_SWEEP_BATCH:])
        else:
            self._sweeper = loop.call_later(min(limits.idle, limits.head) / 4, self._sweep)


def _new_transports(clock: RequestClock, *, portable: bool) -> TransportFactory:
    if portable:
        from fairwarning.http1.asyncio_transport import AsyncioTransports

        return AsyncioTransports(clock)
    from fairwarning.http1.epoll_transport import EpollTransports

    return EpollTransports(clock)
