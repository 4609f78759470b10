"""Callers of a server: lines on which they ask and hear, and the closed loop that keeps all of them busy.

One thread and one epoll, so that a load needs one core and no tools. Each caller comes from an address of
its own, because that is how the metadata service knows who is calling.
"""

import errno
import re
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

#: Leaves the choice of the port to ``connect``, so that many connections can share a source address.
IP_BIND_ADDRESS_NO_PORT = 24

#: A server that answers nobody for so many seconds has failed.
PATIENCE = 10.0

#: So many connections wait for any server to take them.
QUEUE = 50

PATH = "/metadata/scheduledevents?api-version=2020-07-01"

Address = tuple[str, int]

_FINE = b"HTTP/1.1 200 "
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_FIELDS = "Host: 169.254.169.254\r\nUser-Agent: bench\r\nAccept: */*\r\nMetadata: true\r\n"
_PLAIN = f"GET {PATH} HTTP/1.1\r\n{_FIELDS}".encode()

#: What makes heads unique: no number comes twice, in whatever load.
_NUMBERS = count(time.time_ns())

#: What a caller asks that has nothing special to say.
POLL = _PLAIN + b"\r\n"


class Unanswered(Exception):
    """The server did not answer as it should; there is nothing to measure."""


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


class Line:
    """One connection of one caller."""

    __slots__ = ("_connection", "_received", "_whole", "fd", "source")

    def __init__(self, source: str, connection: socket.socket) -> None:
        self.source = source
        self.fd = connection.fileno()
        self._connection = connection
        self._received = b""
        self._whole = 0

    def ask(self, request: bytes) -> None:
        """Send a request."""
        self._connection.send(request)

    def hear(self) -> bytes | None:
        """Read what came; return the answer once it is whole."""
        data = self._connection.recv(65536)
        if not data:
            raise Unanswered(f"the server hung up on {self.source}")
        if self._received:
            data = self._received + data
        if not data.startswith(_FINE[: len(data)]):
            raise Unanswered(f"{self.source} was told {data.splitlines()[0]!r}")
        if len(data) != self._whole:
            self._whole = whole_answer(data)
            if len(data) < self._whole or not self._whole:
                self._received = data
                return None
        self._received = b""
        return data

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class Lines:
    """Connections to one server, for as long as the ``with`` block lasts."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._epoll = select.epoll()
        self._lines: dict[int, Line] = {}
        self._heard = time.monotonic()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *problem: object) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        self._epoll.close()

    def connect(self, source: str) -> Line:
        """Call the server from an address."""
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind((source, 0))
            # On loopback the handshake is over when this returns, even if it says it is in progress.
            if connection.connect_ex(self.address) not in (0, errno.EINPROGRESS):
                raise Unanswered(f"{self.address} takes no connections")
        except BaseException:
            connection.close()
            raise
        line = self._lines[connection.fileno()] = Line(source, connection)
        self._epoll.register(line.fd, select.EPOLLIN)
        return line

    def welcomed(self, sources: Sequence[str]) -> list[Line]:
        """Return lines on which each caller has been answered once; not more at a time than can queue."""
        found: list[Line] = []
        for start in range(0, len(sources), QUEUE):
            lines = [self.connect(source) for source in sources[start : start + QUEUE]]
            for line in lines:
                self.answer(line, POLL)
            found += lines
        return found

    def again(self, line: Line) -> Line:
        """Hang up, and call again from the same address."""
        del self._lines[line.fd]
        line.close()
        return self.connect(line.source)

    def answers(self, pause: float) -> Iterator[tuple[Line, bytes]]:
        """Yield the answers that are there, or that come within ``pause`` seconds.

        Raises:
            Unanswered: there has been none for too long.
        """
        now = time.monotonic()
        for fd, _ in self._epoll.poll(pause):
            line = self._lines[fd]
            answer = line.hear()
            if answer is not None:
                self._heard = now
                yield line, answer
        if now - self._heard > PATIENCE:
            raise Unanswered(f"{self.address} is silent")

    def expect(self) -> None:
        """Start waiting: whoever was not asked before now cannot have been silent."""
        self._heard = time.monotonic()

    def answer(self, line: Line, request: bytes) -> bytes:
        """Ask on a line and return the answer; nobody else is heard meanwhile."""
        line.ask(request)
        self.expect()
        while True:
            for heard, answer in self.answers(1.0):
                if heard is line:
                    return answer


class Load(Lines):
    """Callers that ask, wait for the whole answer, and ask again."""

    def __init__(self, address: Address, sources: Sequence[str], mode: Mode) -> None:
        super().__init__(address)
        self._mode = mode
        self._head = _heads(mode)
        self._sources = sources

    def __enter__(self) -> "Load":
        try:
            for source in self._sources:
                self.connect(source).ask(self._head())
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self, seconds: float, at_least: int = 0) -> int:
        """Keep all callers busy for some time and some answers; return how many answers they got."""
        answered = 0
        head, new_connection = self._head, self._mode.new_connection
        end = time.monotonic() + seconds
        self.expect()
        while time.monotonic() < end or answered < at_least:
            for line, _ in self.answers(1.0):
                answered += 1
                caller = self.again(line) if new_connection else line
                caller.ask(head())
        return answered


def whole_answer(data: bytes) -> int:
    """Return how long the answer that begins with ``data`` is; 0 while its head is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return 0
    length = _LENGTH.search(data, 0, end + 2)
    if length is None:
        raise Unanswered("an answer without Content-Length")
    return end + 4 + int(length[1])


def waiting(tag: str) -> bytes:
    """Return the request of a guest that waits until its document is another than ``tag``."""
    return f"GET {PATH}&wait=300 HTTP/1.1\r\n{_FIELDS}If-None-Match: {tag}\r\n\r\n".encode()


def approval(event: str) -> bytes:
    """Return the request that starts an event."""
    body = f'{{"StartRequests":[{{"EventId":"{event}"}}]}}'
    return f"POST {PATH} HTTP/1.1\r\n{_FIELDS}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _heads(mode: Mode) -> Callable[[], bytes]:
    """Return what makes the next request: always the same bytes, or never."""
    if not mode.unique_heads:
        return lambda: POLL
    return lambda: b"%bx-ms-client-request-id: %032x\r\n\r\n" % (_PLAIN, next(_NUMBERS))
