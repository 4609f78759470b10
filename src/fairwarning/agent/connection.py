"""A connection for one HTTP exchange, with one deadline for all of it.

A socket's own timeout restarts with every byte, so a server that sends one byte every few seconds could
hold a client for hours. Here every step gets only the time that is left: connecting, the TLS handshake, each
write and each read. No thread watches the time, so an agent that cannot start threads still polls. Resolving
a name is not limited: the resolver has time limits of its own.
"""

import socket
import ssl
from collections.abc import Callable
from datetime import timedelta
from http.client import HTTPConnection
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING

from fairwarning.agent.clock import AgentSystemClock

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HTTPS_PORT = 443
TOO_LONG = "the answer took too long"

TimeLeft = Callable[[], float]


class TimedConnection(HTTPConnection):
    """A connection that ends ``limit`` after it was made; a context that closes it.

    Raises:
        TimeoutError: the exchange took too long.
    """

    def __init__(
        self,
        host: str,
        port: int | None,
        limit: timedelta,
        *,
        connect_limit: timedelta | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if tls is not None:
            self.default_port = HTTPS_PORT
        super().__init__(host, port)
        self._clock = AgentSystemClock()
        self._end = self._clock.elapsed() + limit
        self._connect_limit = limit if connect_limit is None else connect_limit
        self._tls = tls

    def connect(self) -> None:
        """Connect, and do the handshake of TLS."""
        limit = min(self._time_left(), self._connect_limit.total_seconds())
        connection = socket.create_connection((self.host, self.port), limit)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection.settimeout(self._time_left())
                connection = self._tls.wrap_socket(connection, server_hostname=self.host)
        except BaseException:
            connection.close()
            raise
        self.sock = _TimedSocket(connection, self._time_left)

    def __enter__(self) -> "TimedConnection":
        return self

    def __exit__(self, _: object, problem: BaseException | None, *__: object) -> None:
        self.close()
        if isinstance(problem, TimeoutError):
            raise TimeoutError(TOO_LONG) from None

    def _time_left(self) -> float:
        left = (self._end - self._clock.elapsed()).total_seconds()
        if left <= 0:
            raise TimeoutError(TOO_LONG)
        return left


class _TimedSocket:
    """The part of a socket that ``http.client`` uses."""

    def __init__(self, connection: socket.socket, time_left: TimeLeft) -> None:
        self._connection = connection
        self._time_left = time_left

    def sendall(self, data: bytes) -> None:
        """Send everything."""
        unsent = memoryview(data)
        while unsent:
            self._connection.settimeout(self._time_left())
            unsent = unsent[self._connection.send(unsent) :]

    def makefile(self, mode: str) -> BufferedReader:
        """Return what the server sends as a file; ``mode`` is always ``rb``."""
        return BufferedReader(_TimedReader(self._connection, self._time_left))

    def close(self) -> None:
        """Close the connection, unless a file still reads from it."""
        self._connection.close()


class _TimedReader(RawIOBase):
    """The reading side of a connection."""

    def __init__(self, connection: socket.socket, time_left: TimeLeft) -> None:
        # A socket stays open until the files that were made of it are closed.
        self._file = connection.makefile("rb", buffering=0)
        self._connection = connection
        self._time_left = time_left

    def readable(self) -> bool:
        """Whether the file can be read: always."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        """Read what has come, or wait for it."""
        self._connection.settimeout(self._time_left())
        return self._file.readinto(buffer)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
