"""A closed-loop load: every caller asks, waits for the whole answer, and asks again.

One thread and one epoll, so that the load needs one core and no tools. Each caller comes from an address of
its own, because that is how the metadata service knows who is calling.
"""

import errno
import re
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

#: Leaves the choice of the port to ``connect``, so that many connections can share a source address.
IP_BIND_ADDRESS_NO_PORT = 24

#: A server that answers nobody for so many seconds has failed.
PATIENCE = 10.0

PATH = "/metadata/scheduledevents?api-version=2020-07-01"

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_PLAIN = (
    f"GET {PATH} HTTP/1.1\r\nHost: 169.254.169.254\r\nUser-Agent: bench\r\nAccept: */*\r\nMetadata: true\r\n"
).encode()


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


@dataclass(slots=True)
class _Caller:
    source: str
    connection: socket.socket
    received: bytes = b""
    whole: int = 0


class Load:
    """Callers of one server, for as long as the ``with`` block lasts."""

    def __init__(self, address: tuple[str, int], sources: Sequence[str], mode: Mode) -> None:
        self._address = address
        self._mode = mode
        self._head = _heads(mode)
        self._epoll = select.epoll()
        self._callers: dict[int, _Caller] = {}
        self._sources = sources

    def __enter__(self) -> "Load":
        try:
            for source in self._sources:
                self._ask(self._connect(source))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def run(self, seconds: float, at_least: int = 0) -> int:
        """Keep all callers busy for some time and some answers; return how many answers they got."""
        answered = 0
        now = heard = time.monotonic()
        end = now + seconds
        while now < end or answered < at_least:
            got = sum(self._hear(fd) for fd, _ in self._epoll.poll(1.0))
            answered += got
            now = time.monotonic()
            heard = now if got else heard
            if now - heard > PATIENCE:
                raise Unanswered(f"{self._address} is silent")
        return answered

    def close(self) -> None:
        """Hang up."""
        for caller in self._callers.values():
            caller.connection.close()
        self._callers.clear()
        self._epoll.close()

    def _connect(self, source: str) -> _Caller:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind((source, 0))
            # On loopback the handshake is over when this returns, even if it says it is in progress.
            if connection.connect_ex(self._address) not in (0, errno.EINPROGRESS):
                raise Unanswered(f"{self._address} takes no connections")
        except BaseException:
            connection.close()
            raise
        caller = _Caller(source, connection)
        self._callers[connection.fileno()] = caller
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        return caller

    def _ask(self, caller: _Caller) -> None:
        caller.connection.send(self._head())

    def _hear(self, fd: int) -> int:
        """Read what came for a caller; return 1 if that was the rest of its answer."""
        caller = self._callers[fd]
        data = caller.connection.recv(65536)
        if not data:
            raise Unanswered(f"{self._address} hung up")
        if caller.received:
            data = caller.received + data
        if len(data) != caller.whole:
            caller.whole = whole_answer(data)
            if len(data) < caller.whole or not caller.whole:
                caller.received = data
                return 0
        if not data.startswith(b"HTTP/1.1 200 "):
            raise Unanswered(f"{self._address} said {data.splitlines()[0]!r}")
        caller.received = b""
        if self._mode.new_connection:
            caller = self._again(fd, caller)
        self._ask(caller)
        return 1

    def _again(self, fd: int, caller: _Caller) -> _Caller:
        del self._callers[fd]
        caller.connection.close()
        return self._connect(caller.source)


def whole_answer(data: bytes) -> int:
    """Return how long the answer that begins with ``data`` is; 0 while its head is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return 0
    length = _LENGTH.search(data, 0, end + 2)
    if length is None:
        raise Unanswered("an answer without Content-Length")
    return end + 4 + int(length[1])


def _heads(mode: Mode) -> Callable[[], bytes]:
    """Return what makes the next request: always the same bytes, or never."""
    if not mode.unique_heads:
        same = _PLAIN + b"\r\n"
        return lambda: same
    numbers = count()
    return lambda: b"%bx-ms-client-request-id: %032x\r\n\r\n" % (_PLAIN, next(numbers))
