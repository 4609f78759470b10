"""Transports on top of asyncio's own, for any platform."""

import asyncio
import socket
from contextlib import suppress

from fairwarning.http1.request_clock import RequestClock
from fairwarning.http1.sockets import RESET_ON_CLOSE
from fairwarning.http1.transport import NO_PEER, ConnectionHandler, OnConnect

#: Connections that the kernel queues; asyncio accepts as many before it serves the first.
_BACKLOG = 100


class AsyncioTransports:
    """All connections of a server."""

    def __init__(self, clock: RequestClock) -> None:
        self._clock = clock

    async def open(self, bound: socket.socket, on_connect: OnConnect) -> asyncio.Server:
        """Accept connections on a bound socket."""
        loop = asyncio.get_running_loop()
        create = loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
        return await create(lambda: _AsyncioTransport(self._clock, on_connect), sock=bound, backlog=_BACKLOG)

    def close(self) -> None:
        """Do nothing: the loop owns everything."""


class _AsyncioTransport(asyncio.Protocol):
    __slots__ = ("_clock", "_handler", "_on_connect", "_transport", "writable")

    _handler: ConnectionHandler
    _transport: asyncio.Transport

    def __init__(self, clock: RequestClock, on_connect: OnConnect) -> None:
        self._clock = clock
        self._on_connect = on_connect
        self.writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        moment = self._clock.iteration_moment()
        handler = self._on_connect(peer[:2] if peer else NO_PEER, moment)
        if handler is None:
            transport.set_protocol(asyncio.Protocol())
            transport.abort()
            return
        self._handler = handler
        handler.begin(self, moment)

    def data_received(self, data: bytes) -> None:
        self._handler.received(data, self._clock.iteration_moment())

    def eof_received(self) -> bool:
        self._handler.ended(self._clock.iteration_moment())
        return not self._transport.is_closing()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._handler.drained(self._clock.iteration_moment())

    def connection_lost(self, error: Exception | None) -> None:
        self._handler.lost()
        del self._handler  # break the reference cycle; keeps both objects out of the garbage collector

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def set_reading(self, wanted: bool) -> None:
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def write_eof(self) -> None:
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
