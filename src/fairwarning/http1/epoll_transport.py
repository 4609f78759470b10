"""Lines on Linux: a private epoll set, nested in the event loop as one thing to read.

A transport of asyncio costs more than all else a poll needs. Here the loop is woken once for all connections
that have something to say, the clocks are read once, and each connection costs one read and one write.
"""

import asyncio
import logging
import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fairwarning.http1.request_clock import Moment, RequestClock
from fairwarning.http1.sockets import RESET_ON_CLOSE
from fairwarning.http1.transport import NOWHERE, ConnectionHandler, OnConnect, Peer

log = logging.getLogger("fairwarning.metadata")

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
#: Connections that are looked after in one turn of the loop, and those that are taken. The kernel gives
#: those that were not looked after precedence in the next, so few in a turn are fair, and soon done.
_BATCH = 64
_TAKEN = 64
#: How many connections wait to be taken.
_BACKLOG = 1024
#: The descriptor of a line that is closed: every use of it fails.
_CLOSED = -1
#: How much is read at a time.
_PIECE = 16 * 1024
#: How long nobody is taken after a connection could not be: most often no descriptor was left for it.
_REST = 0.5


class EpollTransports:
    """All connections of a server."""

    def __init__(self, almanac: RequestClock) -> None:
        self._almanac = almanac
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._lines: dict[int, _EpollTransport] = {}
        self._doors: dict[int, _EpollAcceptor] = {}
        self._loop.add_reader(self._epoll.fileno(), self._turn)

    async def open(self, bound: socket.socket, meet: OnConnect) -> "_EpollAcceptor":
        """Take connections at an address that was bound."""
        bound.setblocking(False)
        bound.listen(_BACKLOG)
        door = self._doors[bound.fileno()] = _EpollAcceptor(self, bound, meet)
        self._epoll.register(bound.fileno(), _IN)
        return door

    def close(self) -> None:
        """Give back the epoll set."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def take(self, fd: int, peer: Peer, meet: OnConnect, moment: Moment) -> None:
        """Begin a conversation, or close the connection."""
        party = meet(peer, moment)
        if party is None:
            os.close(fd)
            return
        os.set_blocking(fd, False)
        line = self._lines[fd] = _EpollTransport(self, fd)
        self._epoll.register(fd, _IN)
        line.party = party
        party.begin(line, moment)

    def watch(self, fd: int, events: int) -> None:
        """Change what is to be heard of a connection."""
        self._epoll.modify(fd, events)

    def forget_line(self, fd: int) -> None:
        """Hear nothing more of a connection that is about to be closed."""
        del self._lines[fd]

    def forget_door(self, fd: int) -> None:
        """Take no more connections at a door that is about to be closed."""
        del self._doors[fd]

    def _turn(self) -> None:
        moment = self._almanac.moment()
        lines = self._lines
        others: list[int] = []
        for fd, events in self._epoll.poll(0, _BATCH):
            line = lines.get(fd)
            if line is None:
                others.append(fd)
            elif events == _IN:
                line.hear(moment)
            else:
                line.ready(events, moment)
        # Last, so that no new connection has the number of one that this turn has news of.
        for fd in others:
            door = self._doors.get(fd)
            if door is not None:
                door.take(moment, max(1, _TAKEN // len(others)))


class _EpollAcceptor:
    def __init__(self, lines: EpollTransports, bound: socket.socket, meet: OnConnect) -> None:
        self._lines = lines
        self._socket = bound
        self._meet = meet
        self._rest: asyncio.TimerHandle | None = None

    def take(self, moment: Moment, most: int) -> None:
        """Take the connections that wait, but not so many that others would have to."""
        for _ in range(most):
            try:
                # What accept() is made of; it would make an object of the descriptor, at twice the cost.
                fd, peer = self._socket._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as problem:
                log.error("connection_not_taken problem=%s", problem)
                self._lines.watch(self._socket.fileno(), 0)
                self._rest = asyncio.get_running_loop().call_later(_REST, self._resume)
                return
            self._lines.take(fd, peer[:2] or NOWHERE, self._meet, moment)

    def close(self) -> None:
        """Take no more."""
        fd = self._socket.fileno()
        if fd < 0:
            return
        if self._rest is not None:
            self._rest.cancel()
        self._lines.forget_door(fd)
        self._socket.close()

    def _resume(self) -> None:
        self._lines.watch(self._socket.fileno(), _IN)


class _EpollTransport:
    """A connection; its descriptor is all there is of it, because a socket object costs as much as a line."""

    __slots__ = ("_events", "_fd", "_lines", "_out", "_then", "party", "writable")

    party: ConnectionHandler

    def __init__(self, lines: EpollTransports, fd: int) -> None:
        self._lines = lines
        self._fd = fd
        self._events = _IN
        self._out = b""
        self.writable = True
        self._then: Callable[[], None] | None = None

    def ready(self, events: int, moment: Moment) -> None:
        """Send what could not be sent before, and take what came."""
        if events & _OUT:
            self._flush(moment)
        if events & _IN:
            self.hear(moment)
        elif not events & _OUT:  # nothing can be read or written any more
            self.abort()

    def write(self, data: bytes) -> None:
        if not self.writable:
            self._out += data
            return
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # whom it was for is gone, as the next turn will tell
        if sent < len(data):
            self.writable = False
            self._out = data[sent:]
            self._watch(self._events | _OUT)

    def listen(self, wanted: bool) -> None:
        self._watch(self._events | _IN if wanted else self._events & ~_IN)

    def end(self) -> None:
        if self.writable:
            self._shut()
        else:
            self._then = self._shut

    def close(self) -> None:
        if self.writable:
            self.abort()
        else:
            self.listen(False)
            self._then = self.abort

    def abort(self) -> None:
        fd, self._fd = self._fd, _CLOSED
        if fd == _CLOSED:
            return
        self._lines.forget_line(fd)
        os.close(fd)
        self.party.lost()
        del self.party, self._then  # so that nobody has to look for circles

    def reset(self) -> None:
        with suppress(OSError), self._socket() as connection:  # a unix socket cannot linger
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.abort()

    def hear(self, moment: Moment) -> None:
        """Take what came."""
        try:
            data = os.read(self._fd, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            self.abort()
            return
        if data:
            self.party.received(data, moment)
        else:
            self.party.ended(moment)

    def _flush(self, moment: Moment) -> None:
        left, self._out, self.writable = self._out, b"", True
        self.write(left)
        if not self.writable:
            return
        self._watch(self._events & ~_OUT)
        if self._then is None:
            self.party.drained(moment)
        else:
            self._then()

    def _shut(self) -> None:
        with suppress(OSError), self._socket() as connection:
            connection.shutdown(socket.SHUT_WR)

    @contextmanager
    def _socket(self) -> Iterator[socket.socket]:
        """Give the connection for what only sockets can do; it stays open."""
        connection = socket.socket(fileno=self._fd)
        try:
            yield connection
        finally:
            connection.detach()

    def _watch(self, events: int) -> None:
        if events != self._events and self._fd != _CLOSED:
            self._events = events
            self._lines.watch(self._fd, events)
