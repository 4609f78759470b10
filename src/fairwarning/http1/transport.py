"""The interface between a connection and the transport that carries its bytes.

A transport owns the socket; a connection owns the protocol. The transport calls the ``ConnectionHandler``
when bytes arrive, and the handler calls the ``Transport`` to write, to pause reading and to close. Neither
side knows more of the other, so the same connections run over ``epoll_transport.py`` (Linux) and
``asyncio_transport.py`` (any platform).
"""

import socket
from collections.abc import Callable
from typing import Protocol, TypeAlias

from fairwarning.http1.request_clock import Moment


class Transport(Protocol):
    """Reads and writes the bytes of one connection."""

    @property
    def writable(self) -> bool:
        """Whether everything written so far was passed to the kernel."""
        ...

    def write(self, data: bytes) -> None:
        """Send the data now, or as soon as the client reads."""
        ...

    def set_reading(self, wanted: bool) -> None:
        """Resume or pause reading."""
        ...

    def write_eof(self) -> None:
        """Close the sending side once everything is sent; reading continues."""
        ...

    def close(self) -> None:
        """Close once everything is sent."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def reset(self) -> None:
        """Close at once with a TCP reset, which the client sees as a failure."""
        ...


class ConnectionHandler(Protocol):
    """Receives what happens to one connection."""

    def begin(self, transport: Transport, moment: Moment) -> None:
        """Start: the connection is open."""
        ...

    def received(self, data: bytes, moment: Moment) -> None:
        """Process bytes from the client."""
        ...

    def ended(self, moment: Moment) -> None:
        """Process the end of the client's bytes."""
        ...

    def drained(self, moment: Moment) -> None:
        """Continue: the client has read everything that was written."""
        ...

    def lost(self) -> None:
        """Release everything: the connection is closed."""
        ...


#: The address and port of the client; ``NO_PEER`` for a unix socket.
Peer: TypeAlias = tuple[str, int]
NO_PEER: Peer = "", 0
#: Returns the handler of a new connection; None has the connection closed at once, at the least cost.
OnConnect: TypeAlias = Callable[[Peer, Moment], ConnectionHandler | None]


class AcceptingSocket(Protocol):
    """Accepts connections at one address."""

    def close(self) -> None:
        """Stop accepting."""
        ...


class TransportFactory(Protocol):
    """Accepts connections and makes a transport for each."""

    async def open(self, bound: socket.socket, on_connect: OnConnect) -> AcceptingSocket:
        """Accept connections on a bound socket."""
        ...

    def close(self) -> None:
        """Release what all transports share."""
        ...
