"""The metadata server: listeners, the connections taken there, and what they are given time for.

Who calls is known from the listener, never from the request. ``conversation.py`` holds the conversations,
``epoll.py`` and ``portable.py`` carry their bytes, ``docs/poll.md`` walks a poll through all of them.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from fairwarning.http1 import sockets
from fairwarning.http1.connection import Connection
from fairwarning.http1.limits import Limits
from fairwarning.http1.metrics import ServerMetrics
from fairwarning.http1.request_clock import Moment, RequestClock
from fairwarning.http1.server_state import Answer, C, FastPathRoutes, ListenerConnections, ServerState
from fairwarning.http1.transport import AcceptingSocket, Peer, TransportFactory

A = TypeVar("A")
Place = TypeVar("Place", covariant=True)

#: How many connections are looked at before everybody else gets a turn.
_SLICE = 1024


class Listener(Generic[Place]):
    """One address at which guests are answered."""

    def __init__(
        self,
        address: Place,
        door: AcceptingSocket,
        guests: ListenerConnections[C],
        forget: Callable[[], None],
    ) -> None:
        self.address = address
        self._door = door
        self._guests = guests
        self._forget = forget
        self._closed = False

    async def finish(self) -> None:
        """Take no more connections, and wait until those there are have their answers."""
        self._door.close()
        moment = self._guests.reception.almanac.moment()
        for conversation in tuple(self._guests.open):
            conversation.finish(moment)
        await self._guests.gone()

    async def close(self) -> None:
        """Stop listening and drop the connections."""
        if self._closed:
            return
        self._closed = True
        self._door.close()
        self._forget()
        for conversation in tuple(self._guests.open):
            conversation.drop()
        await self._guests.gone()


class HttpServer(Generic[C]):
    """Answers guests on any number of listeners."""

    def __init__(
        self,
        answer: Answer[C],
        now: Callable[[], datetime],
        limits: Limits | None = None,
        *,
        shortcuts: FastPathRoutes[C] | None = None,
        portable: bool = sys.platform != "linux",
    ) -> None:
        self._almanac = RequestClock(asyncio.get_running_loop().time, now)
        self._reception = ServerState(answer, self._almanac, limits or Limits(), shortcuts)
        self._portable = portable
        self._lines: TransportFactory | None = None
        self._listeners: dict[ListenerConnections[C], Listener[object]] = {}
        self._sweeper: asyncio.Handle | None = None

    async def listen_tcp(
        self, host: str, port: int, identify: Callable[[Peer], C | None]
    ) -> Listener[tuple[str, int]]:
        """Answer at an address, where callers are known by theirs; port 0 takes any free one."""
        bound = sockets.bind_tcp(host, port)
        address: tuple[str, int] = bound.getsockname()[:2]
        return await self._listen(address, bound, identify, lambda: None)

    async def listen_unix(self, path: Path, who: C, mode: int = 0o600) -> Listener[Path]:
        """Answer at a unix socket that belongs to one caller."""
        bound, place = sockets.bind_unix(path, mode)
        return await self._listen(path, bound, lambda peer: who, place.clear)

    def figures(self) -> ServerMetrics:
        """Return what was done so far, in numbers."""
        return self._reception.tally.figures()

    async def close(self) -> None:
        """Stop listening, give the answers under way a moment, and close every connection."""
        listeners = tuple(self._listeners.values())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._reception.limits.grace):
                await asyncio.gather(*(listener.finish() for listener in listeners))
        for listener in listeners:
            await listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    async def _listen(
        self,
        address: A,
        bound: socket.socket,
        identify: Callable[[Peer], C | None],
        clear: Callable[[], None],
    ) -> Listener[A]:
        guests = ListenerConnections(self._reception)

        def meet(peer: Peer, moment: Moment) -> Connection[C] | None:
            caller = identify(peer)
            account = self._reception.account(caller, peer[0])
            if self._reception.shuts_out(caller, account, moment.time):
                return None
            return Connection(guests, caller, account)

        def forget() -> None:
            del self._listeners[guests]
            self._reception.listeners -= 1
            clear()

        door = await self._opened().open(bound, meet)
        listener = Listener(address, door, guests, forget)
        self._listeners[guests] = listener
        self._reception.listeners += 1
        return listener

    def _opened(self) -> TransportFactory:
        if self._sweeper is None:
            self._sweep()
        if self._lines is None:
            self._lines = _lines(self._almanac, portable=self._portable)
        return self._lines

    def _sweep(self) -> None:
        self._reception.heads.age(self._almanac.moment().time)
        # One timer for all: a timer per connection costs more than the connection.
        self._expire([one for guests in self._listeners for one in guests.open])

    def _expire(self, left: Sequence[Connection[C]]) -> None:
        moment = self._almanac.moment()
        for conversation in left[:_SLICE]:
            conversation.expire(moment)
        loop, limits = asyncio.get_running_loop(), self._reception.limits
        if len(left) > _SLICE:
            self._sweeper = loop.call_soon(self._expire, left[_SLICE:])
        else:
            self._sweeper = loop.call_later(min(limits.idle, limits.head) / 4, self._sweep)


def _lines(almanac: RequestClock, *, portable: bool) -> TransportFactory:
    if portable:
        from fairwarning.http1.asyncio_transport import AsyncioTransports

        return AsyncioTransports(almanac)
    from fairwarning.http1.epoll_transport import EpollTransports

    return EpollTransports(almanac)
