"""Transports on Linux: a private epoll set, nested in the event loop as a single reader.

An asyncio transport costs more than everything else a poll needs. This module replaces it. All connections
are registered in an epoll set of their own, and the descriptor of that set is the only one the event loop
watches. When some connections are readable, the loop calls ``_serve_ready`` once. It reads the clocks once,
then serves up to ``_BATCH`` connections with one ``read`` and usually one ``write`` each. The kernel
reports connections that were not served first in the next call, so small batches are fair and return to the
loop soon.

A connection is known by its descriptor alone. The kernel reuses a descriptor as soon as it is closed, so
new connections are accepted last: no event of this batch can belong to a connection that replaced a closed
one.
"""

import asyncio
import logging
import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fairwarning.formats.log_messages import LogMessage
from fairwarning.http1.request_clock import Moment, RequestClock
from fairwarning.http1.sockets import RESET_ON_CLOSE
from fairwarning.http1.transport import NO_PEER, ConnectionHandler, OnConnect, Peer

log = logging.getLogger("fairwarning.metadata")

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
#: Connections that are served, and connections that are accepted, in one loop iteration.
_BATCH = 64
_ACCEPT_BATCH = 64
#: Connections that the kernel queues until they are accepted.
_BACKLOG = 1024
#: The descriptor of a closed transport: every system call with it fails.
_CLOSED = -1
_READ_SIZE = 16 * 1024
#: Seconds without accepting after an accept failed, most often because no descriptor was left.
_ACCEPT_PAUSE = 0.5


class EpollTransports:
    """All connections of a server."""

    def __init__(self, clock: RequestClock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._transports: dict[int, _EpollTransport] = {}
        self._acceptors: dict[int, _EpollAcceptor] = {}
        self._loop.add_reader(self._epoll.fileno(), self._serve_ready)

    async def open(self, bound: socket.socket, on_connect: OnConnect) -> "_EpollAcceptor":
        """Accept connections on a bound socket."""
        bound.setblocking(False)
        bound.listen(_BACKLOG)
        acceptor = self._acceptors[bound.fileno()] = _EpollAcceptor(self, bound, on_connect)
        self._epoll.register(bound.fileno(), _IN)
        return acceptor

    def close(self) -> None:
        """Close the epoll set."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def add(self, fd: int, peer: Peer, on_connect: OnConnect, moment: Moment) -> None:
        """Start to serve an accepted connection, or close it if it has no handler."""
        handler = on_connect(peer, moment)
        if handler is None:
            os.close(fd)
            return
        os.set_blocking(fd, False)
        transport = self._transports[fd] = _EpollTransport(self, fd)
        self._epoll.register(fd, _IN)
        transport.handler = handler
        handler.begin(transport, moment)

    def modify(self, fd: int, events: int) -> None:
        """Change the events that are reported for a descriptor."""
        self._epoll.modify(fd, events)

    def remove_transport(self, fd: int) -> None:
        """Forget a connection whose descriptor is about to be closed."""
        del self._transports[fd]

    def remove_acceptor(self, fd: int) -> None:
        """Forget an accepting socket that is about to be closed."""
        # Another process may have the socket open; closing it here would not end its events.
        self._epoll.unregister(fd)
        del self._acceptors[fd]

    def _serve_ready(self) -> None:
        moment = self._clock.moment()
        transports = self._transports
        others: list[int] = []
        for fd, events in self._epoll.poll(0, _BATCH):
            transport = transports.get(fd)
            if transport is None:
                others.append(fd)
            elif events == _IN:
                transport.read(moment)
            else:
                transport.handle_events(events, moment)
        # Last, so that no new connection has the descriptor of a connection this batch has an event for.
        for fd in others:
            acceptor = self._acceptors.get(fd)
            if acceptor is not None:
                acceptor.accept(moment, max(1, _ACCEPT_BATCH // len(others)))


class _EpollAcceptor:
    def __init__(self, transports: EpollTransports, bound: socket.socket, on_connect: OnConnect) -> None:
        self._transports = transports
        self._socket = bound
        self._on_connect = on_connect
        self._pause: asyncio.TimerHandle | None = None

    def accept(self, moment: Moment, limit: int) -> None:
        """Accept up to ``limit`` connections, so that open connections need not wait for new ones."""
        for _ in range(limit):
            try:
                # The first half of accept(); the second makes a socket object, which doubles the cost.
                fd, peer = self._socket._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as problem:
                log.error(LogMessage("connection_not_accepted", problem=problem))
                self._transports.modify(self._socket.fileno(), 0)
                self._pause = asyncio.get_running_loop().call_later(_ACCEPT_PAUSE, self._resume)
                return
            self._transports.add(fd, peer[:2] or NO_PEER, self._on_connect, moment)

    def close(self) -> None:
        """Stop accepting."""
        fd = self._socket.fileno()
        if fd < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._transports.remove_acceptor(fd)
        self._socket.close()

    def _resume(self) -> None:
        self._transports.modify(self._socket.fileno(), _IN)


class _EpollTransport:
    """One connection, as a bare descriptor: a socket object would cost as much memory as this object."""

    __slots__ = ("_after_flush", "_events", "_fd", "_transports", "_unsent", "handler", "writable")

    handler: ConnectionHandler

    def __init__(self, transports: EpollTransports, fd: int) -> None:
        self._transports = transports
        self._fd = fd
        self._events = _IN
        self._unsent = b""
        self.writable = True
        self._after_flush: Callable[[], None] | None = None

    def handle_events(self, events: int, moment: Moment) -> None:
        """Send what is unsent, and read what arrived."""
        if events & _OUT:
            self._flush(moment)
        if events & _IN:
            self.read(moment)
        elif not events & _OUT:  # an error or a hangup: nothing can be read or written any more
            self.abort()

    def write(self, data: bytes) -> None:
        if not self.writable:
            self._unsent += data
            return
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the client is gone; the next read closes the connection
        if sent < len(data):
            self.writable = False
            self._unsent = data[sent:]
            self._set_events(self._events | _OUT)

    def set_reading(self, wanted: bool) -> None:
        self._set_events(self._events | _IN if wanted else self._events & ~_IN)

    def write_eof(self) -> None:
        if self.writable:
            self._shut_down_writing()
        else:
            self._after_flush = self._shut_down_writing

    def close(self) -> None:
        if self.writable:
            self.abort()
        else:
            self.set_reading(False)
            self._after_flush = self.abort

    def abort(self) -> None:
        fd, self._fd = self._fd, _CLOSED
        if fd == _CLOSED:
            return
        self._transports.remove_transport(fd)
        os.close(fd)
        self.handler.lost()
        # Break the reference cycles; keeps these objects out of the garbage collector.
        del self.handler, self._after_flush

    def reset(self) -> None:
        with suppress(OSError), self._socket() as connection:  # a unix socket cannot linger
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.abort()

    def read(self, moment: Moment) -> None:
        """Read once, and pass on what arrived."""
        try:
            data = os.read(self._fd, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self.abort()
            return
        if data:
            self.handler.received(data, moment)
        else:
            self.handler.ended(moment)

    def _flush(self, moment: Moment) -> None:
        unsent, self._unsent, self.writable = self._unsent, b"", True
        self.write(unsent)
        if not self.writable:
            return
        self._set_events(self._events & ~_OUT)
        if self._after_flush is None:
            self.handler.drained(moment)
        else:
            self._after_flush()

    def _shut_down_writing(self) -> None:
        with suppress(OSError), self._socket() as connection:
            connection.shutdown(socket.SHUT_WR)

    @contextmanager
    def _socket(self) -> Iterator[socket.socket]:
        """Yield a socket object for calls that need one; the descriptor stays open."""
        connection = socket.socket(fileno=self._fd)
        try:
            yield connection
        finally:
            connection.detach()

    def _set_events(self, events: int) -> None:
        if events != self._events and self._fd != _CLOSED:
            self._events = events
            self._transports.modify(self._fd, events)
