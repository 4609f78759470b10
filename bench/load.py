"""Callers of a server, with their connections, and a closed loop that keeps all of them busy.

One thread and one epoll, so that a load needs one core and no tools. Each caller has a source address of its
own, by which the metadata API knows its machine.
"""

import errno
import re
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

#: Lets ``connect`` choose the port, so that many connections can share a source address.
IP_BIND_ADDRESS_NO_PORT = 24

#: A server that answers no caller for this many seconds has failed.
PATIENCE = 10.0

#: Connections that may wait to be accepted, with every server.
QUEUE = 50

PATH = "/metadata/scheduledevents?api-version=2020-07-01"

Address = tuple[str, int]

_FINE = b"HTTP/1.1 200 "
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_FIELDS = "Host: 169.254.169.254\r\nUser-Agent: bench\r\nAccept: */*\r\nMetadata: true\r\n"
_PLAIN = f"GET {PATH} HTTP/1.1\r\n{_FIELDS}".encode()

#: Makes heads unique: no number repeats, in any load.
_NUMBERS = count(time.time_ns())

#: The request of an ordinary poll.
POLL = _PLAIN + b"\r\n"


class UnansweredError(Exception):
    """The server did not answer as expected; there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How callers behave."""

    new_connection: bool = False
    unique_heads: bool = False


MODES: Mapping[str, Mode] = {
    "keep-alive": Mode(),
    "new connection each": Mode(new_connection=True),
    "unique heads": Mode(unique_heads=True),
}


class ClientConnection:
    """One connection of one caller."""

    __slots__ = ("_length", "_received", "_socket", "fd", "source")

    def __init__(self, source: str, sock: socket.socket) -> None:
        self.source = source
        self.fd = sock.fileno()
        self._socket = sock
        self._received = b""
        self._length = 0

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.send(request)

    def receive(self) -> bytes | None:
        """Read what has arrived; return the answer once it is complete."""
        data = self._socket.recv(65536)
        if not data:
            raise UnansweredError(f"the server hung up on {self.source}")
        if self._received:
            data = self._received + data
        if not data.startswith(_FINE[: len(data)]):
            raise UnansweredError(f"{self.source} received {data.splitlines()[0]!r}")
        if len(data) != self._length:
            self._length = answer_length(data)
            if len(data) < self._length or not self._length:
                self._received = data
                return None
        self._received = b""
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class ClientConnections:
    """Connections to one server, for as long as the ``with`` block lasts."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._epoll = select.epoll()
        self._connections: dict[int, ClientConnection] = {}
        self._heard = time.monotonic()

    def __enter__(self) -> "ClientConnections":
        return self

    def __exit__(self, *problem: object) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._epoll.close()

    def connect(self, source: str) -> ClientConnection:
        """Connect to the server from an address."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((source, 0))
            # On loopback the handshake is complete on return, even with EINPROGRESS.
            if sock.connect_ex(self.address) not in (0, errno.EINPROGRESS):
                raise UnansweredError(f"{self.address} accepts no connections")
        except BaseException:
            sock.close()
            raise
        connection = self._connections[sock.fileno()] = ClientConnection(source, sock)
        self._epoll.register(connection.fd, select.EPOLLIN)
        return connection

    def connect_all(self, sources: Sequence[str]) -> list[ClientConnection]:
        """Return one connection per caller, each answered once; connects no more at a time than can queue."""
        connected: list[ClientConnection] = []
        for start in range(0, len(sources), QUEUE):
            connections = [self.connect(source) for source in sources[start : start + QUEUE]]
            for connection in connections:
                self.answer(connection, POLL)
            connected += connections
        return connected

    def reconnect(self, connection: ClientConnection) -> ClientConnection:
        """Close a connection, and connect again from the same address."""
        del self._connections[connection.fd]
        connection.close()
        return self.connect(connection.source)

    def answers(self, pause: float) -> Iterator[tuple[ClientConnection, bytes]]:
        """Yield the answers that have arrived, or arrive within ``pause`` seconds.

        Raises:
            UnansweredError: there was no answer for too long.
        """
        now = time.monotonic()
        for fd, _ in self._epoll.poll(pause):
            connection = self._connections[fd]
            answer = connection.receive()
            if answer is not None:
                self._heard = now
                yield connection, answer
        if now - self._heard > PATIENCE:
            raise UnansweredError(f"{self.address} is silent")

    def start_waiting(self) -> None:
        """Start the time limit for the next answer."""
        self._heard = time.monotonic()

    def answer(self, connection: ClientConnection, request: bytes) -> bytes:
        """Send a request and return its answer; answers on other connections are dropped."""
        connection.send(request)
        self.start_waiting()
        while True:
            for answered, answer in self.answers(1.0):
                if answered is connection:
                    return answer


class Load(ClientConnections):
    """Callers that send a poll, wait for the complete answer, and send the next."""

    def __init__(self, address: Address, sources: Sequence[str], mode: Mode) -> None:
        super().__init__(address)
        self._mode = mode
        self._head = _heads(mode)
        self._sources = sources

    def __enter__(self) -> "Load":
        try:
            for source in self._sources:
                self.connect(source).send(self._head())
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self, seconds: float, at_least: int = 0) -> int:
        """Keep all callers busy for some time and a number of answers; return the number of answers."""
        answered = 0
        head, new_connection = self._head, self._mode.new_connection
        end = time.monotonic() + seconds
        self.start_waiting()
        while time.monotonic() < end or answered < at_least:
            for connection, _ in self.answers(1.0):
                answered += 1
                caller = self.reconnect(connection) if new_connection else connection
                caller.send(head())
        return answered


def answer_length(data: bytes) -> int:
    """Return the length of the answer that begins with ``data``; 0 while its head is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return 0
    length = _LENGTH.search(data, 0, end + 2)
    if length is None:
        raise UnansweredError("an answer without Content-Length")
    return end + 4 + int(length[1])


def waiting(tag: str) -> bytes:
    """Return the long poll of a guest that waits until its document differs from ``tag``."""
    return f"GET {PATH}&wait=300 HTTP/1.1\r\n{_FIELDS}If-None-Match: {tag}\r\n\r\n".encode()


def approval(event: str) -> bytes:
    """Return the request that approves an event."""
    body = f'{{"StartRequests":[{{"EventId":"{event}"}}]}}'
    return f"POST {PATH} HTTP/1.1\r\n{_FIELDS}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _heads(mode: Mode) -> Callable[[], bytes]:
    """Return a function that makes the next request: the same bytes each time, or unique ones."""
    if not mode.unique_heads:
        return lambda: POLL
    return lambda: b"%bx-ms-client-request-id: %032x\r\n\r\n" % (_PLAIN, next(_NUMBERS))
