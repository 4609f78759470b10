"""Guests that send as much as they can, in several ways, from a process of low priority."""

import errno
import os
import select
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.load import IP_BIND_ADDRESS_NO_PORT, POLL, Address

_UNKNOWN = b"GET /nothing HTTP/1.1\r\nHost: h\r\nMetadata: true\r\n\r\n"
_POST = b"POST /nothing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
_HEAD = b"HEAD /nothing HTTP/1.1\r\nHost: h\r\nMetadata: true\r\n\r\n"
#: Bytes per write.
_SENT = 64 * 1024


@dataclass(frozen=True, slots=True)
class Abuse:
    """What an abuser sends repeatedly, on how many connections, and how."""

    request: bytes
    connections: int = 64
    #: Bytes of the request per write.
    piece: int = _SENT
    reads: bool = True
    #: Whether each connection is closed as soon as it is open.
    closes: bool = False
    #: Whether no machine has the address of the abuser.
    unknown: bool = False
    abusers: int = 1


ABUSES: Mapping[str, Abuse] = {
    "unknown paths": Abuse(_UNKNOWN),
    "unknown paths, one connection": Abuse(_UNKNOWN, connections=1),
    "polls": Abuse(POLL),
    "one-byte chunks": Abuse(_POST + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n"),
    "answers left unread": Abuse(_UNKNOWN, reads=False),
    "heads byte by byte": Abuse(_UNKNOWN, piece=1),
    "HEAD requests": Abuse(_HEAD),
    "garbage": Abuse(b"nonsense\r\n\r\n"),
    "connections opened and closed": Abuse(b"", closes=True),
    "unknown callers": Abuse(POLL, unknown=True),
    "ten guests with unknown paths": Abuse(_UNKNOWN, abusers=10),
}


@contextmanager
def abusing(address: Address, abuse: Abuse, sources: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Start a process of abusers, which runs only on idle CPU time; give a function that lets it begin."""
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_abuse, args=(theirs, address, abuse, sources), daemon=True)
    process.start()
    try:
        ours.recv()
        yield lambda: ours.send(None)
    finally:
        process.kill()
        process.join()


def _abuse(pipe: "Connection[None, None]", address: Address, abuse: Abuse, sources: Sequence[str]) -> None:
    os.nice(19)
    pipe.send(None)
    pipe.recv()
    if abuse.closes:
        while True:
            for source in sources:
                with suppress(OSError):
                    _connect(address, source).close()
    _Abusers(address, abuse, sources).run()


def _connect(address: Address, source: str) -> socket.socket:
    sock = socket.socket()
    try:
        sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((source, 0))
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


class _Abusers:
    def __init__(self, address: Address, abuse: Abuse, sources: Sequence[str]) -> None:
        self._address = address
        self._abuse = abuse
        self._data = abuse.request * max(1, _SENT // len(abuse.request))
        self._epoll = select.epoll()
        self._sources: dict[int, str] = {}
        self._open: dict[int, socket.socket] = {}
        self._sent: dict[int, int] = {}
        for source in [*sources] * abuse.connections:
            self._connect(source)

    def run(self) -> None:
        """Send until the process is killed."""
        while True:
            for fd, events in self._epoll.poll(1.0):
                try:
                    self._serve(self._open[fd], events)
                except BlockingIOError:
                    pass
                except OSError:
                    self._reconnect(fd)

    def _connect(self, source: str) -> None:
        sock = _connect(self._address, source)
        events = select.EPOLLOUT | (select.EPOLLIN if self._abuse.reads else 0)
        self._epoll.register(sock.fileno(), events)
        self._open[sock.fileno()], self._sources[sock.fileno()] = sock, source
        self._sent[sock.fileno()] = 0

    def _reconnect(self, fd: int) -> None:
        self._open.pop(fd).close()
        with suppress(OSError):
            self._connect(self._sources.pop(fd))

    def _serve(self, sock: socket.socket, events: int) -> None:
        if events & select.EPOLLIN and not sock.recv(_SENT):
            raise OSError(errno.ECONNRESET, "the server closed the connection")
        if events & select.EPOLLOUT:
            fd = sock.fileno()
            begin = self._sent[fd]
            sent = sock.send(memoryview(self._data)[begin : begin + self._abuse.piece])
            self._sent[fd] = (begin + sent) % len(self._data)
