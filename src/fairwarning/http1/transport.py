"""What a conversation asks of the connection it is held over, and what it tells the conversation.

There are two kinds: ``epoll.py`` for Linux and ``portable.py`` for everywhere.
"""

import socket
from collections.abc import Callable
from typing import Protocol, TypeAlias

from fairwarning.http1.request_clock import Moment


class Transport(Protocol):
    """One connection, on its way out."""

    @property
    def writable(self) -> bool:
        """Whether the client keeps up with what it is sent."""
        ...

    def write(self, data: bytes) -> None:
        """Send all of it, now or as soon as the client reads."""
        ...

    def listen(self, wanted: bool) -> None:
        """Go on reading, or stop for a while."""
        ...

    def end(self) -> None:
        """Tell the client that nothing follows, and go on reading."""
        ...

    def close(self) -> None:
        """Close once all is sent."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def reset(self) -> None:
        """Close at once and in a way that the client takes for a failure."""
        ...


class ConnectionHandler(Protocol):
    """Who is told what happens to a connection."""

    def begin(self, line: Transport, moment: Moment) -> None:
        """Note that the connection is there."""
        ...

    def received(self, data: bytes, moment: Moment) -> None:
        """Take what the client has sent."""
        ...

    def ended(self, moment: Moment) -> None:
        """Note that the client sends nothing more."""
        ...

    def drained(self, moment: Moment) -> None:
        """Note that the client has read all it was sent."""
        ...

    def lost(self) -> None:
        """Note that the connection is closed."""
        ...


#: Where a connection comes from; nowhere if it comes through a unix socket.
Peer: TypeAlias = tuple[str, int]
NOWHERE: Peer = "", 0
#: Says who is told of a new connection; None has it closed at once, at the least cost.
OnConnect: TypeAlias = Callable[[Peer, Moment], ConnectionHandler | None]


class AcceptingSocket(Protocol):
    """Takes connections at one address."""

    def close(self) -> None:
        """Take no more."""
        ...


class TransportFactory(Protocol):
    """Makes lines of connections."""

    async def open(self, bound: socket.socket, meet: OnConnect) -> AcceptingSocket:
        """Take connections at an address that was bound."""
        ...

    def close(self) -> None:
        """Give back what was needed to read and write."""
        ...
