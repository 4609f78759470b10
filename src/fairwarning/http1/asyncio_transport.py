"""Lines wherever Python runs: transports of asyncio."""

import asyncio
import socket
from contextlib import suppress

from fairwarning.http1.request_clock import RequestClock
from fairwarning.http1.sockets import RESET_ON_CLOSE
from fairwarning.http1.transport import NOWHERE, ConnectionHandler, OnConnect

#: How many connections wait to be taken; asyncio takes as many at once, before it looks at the first.
_BACKLOG = 100


class AsyncioTransports:
    """All connections of a server."""

    def __init__(self, almanac: RequestClock) -> None:
        self._almanac = almanac

    async def open(self, bound: socket.socket, meet: OnConnect) -> asyncio.Server:
        """Take connections at an address that was bound."""
        loop = asyncio.get_running_loop()
        create = loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
        return await create(lambda: _AsyncioTransport(self._almanac, meet), sock=bound, backlog=_BACKLOG)

    def close(self) -> None:
        """Do nothing: all there is belongs to the loop."""


class _AsyncioTransport(asyncio.Protocol):
    __slots__ = ("_almanac", "_meet", "_party", "_transport", "writable")

    _party: ConnectionHandler
    _transport: asyncio.Transport

    def __init__(self, almanac: RequestClock, meet: OnConnect) -> None:
        self._almanac = almanac
        self._meet = meet
        self.writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        moment = self._almanac.this_turn()
        party = self._meet(peer[:2] if peer else NOWHERE, moment)
        if party is None:
            transport.set_protocol(asyncio.Protocol())
            transport.abort()
            return
        self._party = party
        party.begin(self, moment)

    def data_received(self, data: bytes) -> None:
        self._party.received(data, self._almanac.this_turn())

    def eof_received(self) -> bool:
        self._party.ended(self._almanac.this_turn())
        return not self._transport.is_closing()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._party.drained(self._almanac.this_turn())

    def connection_lost(self, error: Exception | None) -> None:
        self._party.lost()
        del self._party  # so that nobody has to look for circles

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def listen(self, wanted: bool) -> None:
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def end(self) -> None:
        self._transport.write_eof()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def reset(self) -> None:
        with suppress(OSError):  # a unix socket cannot linger
            raw: socket.socket = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._transport.abort()
