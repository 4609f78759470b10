"""Sockets for the metadata face: who calls is known from the listener, never from the request.

``http.Connection`` understands the bytes, the app answers; this module owns what lies between:
listeners, time limits, back-pressure, answers that take a while, and clients that go away.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from fairwarning.metadata import unix
from fairwarning.metadata.hangup import HANG_UP, hang_up
from fairwarning.metadata.http import (
    Action,
    Connection,
    Continue,
    Refusal,
    Request,
    Response,
    encode,
    failure,
)

C = TypeVar("C", bound=Hashable)
A = TypeVar("A")

#: Says what to answer to a caller; None is a caller whom the listener does not know.
Answer: TypeAlias = Callable[[C | None, Request], Response | Awaitable[Response]]

_Reply: TypeAlias = Callable[[Request], Response | Awaitable[Response]]

log = logging.getLogger("fairwarning.metadata")

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: How many connections wait to be taken; asyncio takes as many at once, before it looks at the first.
_BACKLOG = 100
_BROKEN = failure(500, "Internal server error")
_CROWDED = failure(503, "too many connections")
_SLOW = Refusal(408, "request did not arrive in time")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long clients may take, in seconds of real time, and how many there may be."""

    #: A connection without a request.
    idle: float = 60.0
    #: A request that has begun to arrive; also what a client that stopped sending or reading gets.
    head: float = 10.0
    #: Answers still under way when the server closes.
    grace: float = 1.0
    #: Connections and listeners of all callers together.
    connections: int = 10_000
    #: Connections of one caller; those whom nobody knows are one caller.
    each: int = 64


@dataclass(slots=True, eq=False)
class _Crowd:
    """Everybody who is connected, and how often."""

    callers: "dict[_Conversation, Hashable]" = field(default_factory=dict)
    connections: Counter[Hashable] = field(default_factory=Counter)

    def add(self, conversation: "_Conversation", caller: Hashable) -> None:
        self.callers[conversation] = caller
        self.connections[caller] += 1

    def remove(self, conversation: "_Conversation") -> None:
        if conversation in self.callers:
            caller = self.callers.pop(conversation)
            self.connections[caller] -= 1
            if not self.connections[caller]:
                del self.connections[caller]


@dataclass(slots=True, eq=False)
class _Guests:
    """The open conversations of one listener, and what they share."""

    greet: Callable[[asyncio.Transport], tuple[Hashable, _Reply]]
    now: Callable[[], datetime]
    limits: Limits
    everyone: _Crowd
    listeners: Callable[[], int]
    open: "set[_Conversation]" = field(default_factory=set)
    closed: bool = False
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    def meet(self) -> "_Conversation":
        return _Conversation(self)

    def admit(self, conversation: "_Conversation", caller: Hashable) -> bool:
        """Whether there is room for one more connection of ``caller``."""
        crowd, limits = self.everyone, self.limits
        crowd.add(conversation, caller)
        room = limits.connections - self.listeners()
        return len(crowd.callers) <= room and crowd.connections[caller] <= limits.each

    def remove(self, conversation: "_Conversation") -> None:
        self.everyone.remove(conversation)
        self.open.discard(conversation)
        self._left.set()

    async def gone(self) -> None:
        while self.open:
            self._left.clear()
            await self._left.wait()


class _Conversation(asyncio.Protocol):
    """One connection: reads requests, asks for the answers, writes them in order."""

    _transport: asyncio.Transport
    _reply: _Reply

    def __init__(self, guests: _Guests) -> None:
        self._guests = guests
        self._loop = asyncio.get_running_loop()
        self._http = Connection()
        self._request: Request | None = None
        self._task: asyncio.Future[Response] | None = None
        self._deadline = self._loop.time() + guests.limits.idle
        self._begun = False  # the deadline is that of a request
        self._held = False  # the next request waits until the client reads
        self._writable = True
        self._ended = False  # the client will send nothing more
        self._finishing = False  # the next answer is the last, or was

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._guests.open.add(self)
        if self._guests.closed:
            transport.abort()
            return
        caller, self._reply = self._guests.greet(transport)
        if not self._guests.admit(self, caller):
            self._write(_CROWDED, keep_alive=False)
            self._close()

    def data_received(self, data: bytes) -> None:
        self._perform(self._http.feed(data))

    def eof_received(self) -> bool:
        self._ended = True
        if self._request is None:
            return False
        # A client that only stopped sending looks like one that is gone: it gets its answer if
        # that comes soon, and nobody waits for long on behalf of a client that is gone.
        self._deadline = self._loop.time() + self._guests.limits.head
        return True

    def pause_writing(self) -> None:
        self._writable = False
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable = True
        if self._held and not self._finishing:
            self._held = False
            self._perform(self._http.answered())
        else:
            self._settle()

    def connection_lost(self, error: Exception | None) -> None:
        self._guests.remove(self)
        if self._task is not None:
            self._task.cancel()

    def expire(self, time: float) -> None:
        if time < self._deadline:
            return
        if self._finishing or self._request is not None or not self._writable:
            self._transport.abort()
        elif self._begun:
            self._refuse(_SLOW)
        else:
            self._close()

    def finish(self) -> None:
        """End the conversation after the answer that is under way."""
        self._finishing = True
        if self._request is None:
            self._close()

    def drop(self) -> None:
        self._transport.abort()

    def _perform(self, actions: list[Action]) -> None:
        while actions:
            (action,) = actions
            actions = []
            match action:
                case Request():
                    actions = self._ask(action)
                case Continue():
                    self._transport.write(_CONTINUE)
                case Refusal():
                    self._refuse(action)
        self._settle()

    def _ask(self, request: Request) -> list[Action]:
        self._request = request
        self._begun = False
        try:
            reply = self._reply(request)
        except Exception as error:
            reply = self._broken(request, error)
        if isinstance(reply, Response):
            return self._send(request, reply)
        self._deadline = self._loop.time() + self._guests.limits.head if self._ended else inf
        self._task = asyncio.ensure_future(reply)
        self._task.add_done_callback(partial(self._arrived, request))
        return []

    def _arrived(self, request: Request, task: asyncio.Future[Response]) -> None:
        self._task = None
        gone = self._transport.is_closing()
        if task.cancelled():
            reply = _BROKEN if gone else self._broken(request, asyncio.CancelledError())
        else:
            error = task.exception()
            reply = task.result() if error is None else self._broken(request, error)
        if not gone:
            self._perform(self._send(request, reply))

    def _broken(self, request: Request, error: BaseException) -> Response:
        log.error("answer_failed method=%s path=%s", request.method, request.path, exc_info=error)
        return _BROKEN

    def _send(self, request: Request, response: Response) -> list[Action]:
        self._request = None
        if response is HANG_UP:
            hang_up(self._transport)
            return []
        keep_alive = request.keep_alive and not self._finishing
        head = request.method == "HEAD"
        try:
            self._write(response, keep_alive=keep_alive, version=request.version, head=head)
        except ValueError as error:
            response = self._broken(request, error)
            self._write(response, keep_alive=keep_alive, version=request.version, head=head)
        if not keep_alive:
            self._close()
            return []
        if self._writable:
            return self._http.answered()
        self._held = True
        return []

    def _write(
        self, response: Response, *, keep_alive: bool, version: str = "1.1", head: bool = False
    ) -> None:
        now = self._guests.now()
        self._transport.write(encode(response, keep_alive=keep_alive, now=now, version=version, head=head))

    def _refuse(self, refusal: Refusal) -> None:
        self._write(failure(refusal.status, refusal.message), keep_alive=False)
        if self._ended:
            self._close()
            return
        # Closing over unread bytes would reset the connection and could take the answer with it;
        # so the client is told that nothing follows, and what it still sends is read and dropped.
        self._transport.write_eof()
        self._finishing = True
        self._deadline = self._loop.time() + self._guests.limits.head

    def _close(self) -> None:
        self._finishing = True
        self._deadline = self._loop.time() + self._guests.limits.head
        self._transport.close()

    def _settle(self) -> None:
        if self._finishing and self._request is None:
            return
        if self._ended and self._request is None and not self._held:
            self._close()
            return
        if not self._ended and self._writable and not self._http.full:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
        if self._request is not None or (self._begun and self._http.begun):
            return
        self._begun = self._http.begun
        limits = self._guests.limits
        self._deadline = self._loop.time() + (limits.head if self._begun else limits.idle)


class Listener(Generic[A]):
    """One address at which guests are answered."""

    def __init__(
        self, address: A, server: asyncio.Server, guests: _Guests, forget: Callable[[], None]
    ) -> None:
        self.address = address
        self._server = server
        self._guests = guests
        self._forget = forget

    async def finish(self) -> None:
        """Take no more connections, and wait until those there are have their answers."""
        self._server.close()
        for conversation in tuple(self._guests.open):
            conversation.finish()
        await self._guests.gone()

    async def close(self) -> None:
        """Stop listening and drop the connections."""
        if self._guests.closed:
            return
        self._guests.closed = True
        self._server.close()
        self._forget()
        for conversation in tuple(self._guests.open):
            conversation.drop()
        await self._guests.gone()
        await self._server.wait_closed()


class MetadataServer(Generic[C]):
    """Answers guests on any number of listeners."""

    def __init__(self, answer: Answer[C], now: Callable[[], datetime], limits: Limits | None = None) -> None:
        self._answer = answer
        self._now = now
        self._limits = limits or Limits()
        self._everyone = _Crowd()
        self._listeners: dict[_Guests, Listener[tuple[str, int]] | Listener[Path]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen_tcp(
        self, host: str, port: int, identify: Callable[[tuple[str, int]], C | None]
    ) -> Listener[tuple[str, int]]:
        """Answer at an address, where callers are known by theirs; port 0 takes any free one."""

        def greet(transport: asyncio.Transport) -> tuple[Hashable, _Reply]:
            peer: tuple[str, int] = transport.get_extra_info("peername")[:2]
            who = identify(peer)
            return who, partial(self._answer, who)

        guests = self._welcome(greet)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(guests.meet, host, port, backlog=_BACKLOG)
        bound: tuple[str, int] = server.sockets[0].getsockname()[:2]
        listener = Listener(bound, server, guests, partial(self._forget, guests))
        self._listeners[guests] = listener
        return listener

    async def listen_unix(self, path: Path, who: C, mode: int = 0o600) -> Listener[Path]:
        """Answer at a unix socket that belongs to one caller."""
        guests = self._welcome(lambda transport: (who, partial(self._answer, who)))
        bound, place = unix.bind(path, mode)
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(guests.meet, sock=bound, backlog=_BACKLOG)
        listener = Listener(path, server, guests, partial(self._forget, guests, place))
        self._listeners[guests] = listener
        return listener

    async def close(self) -> None:
        """Stop listening, give the answers under way a moment, and close every connection."""
        listeners = tuple(self._listeners.values())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.grace):
                await asyncio.gather(*(listener.finish() for listener in listeners))
        for listener in listeners:
            await listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _welcome(self, greet: Callable[[asyncio.Transport], tuple[Hashable, _Reply]]) -> _Guests:
        if self._sweeper is None:
            self._sweep()
        return _Guests(greet, self._now, self._limits, self._everyone, lambda: len(self._listeners))

    def _forget(self, guests: _Guests, place: unix.Place | None = None) -> None:
        del self._listeners[guests]
        if place is not None:
            place.clear()

    def _sweep(self) -> None:
        # One timer for all: a timer per connection costs more than the connection.
        loop = asyncio.get_running_loop()
        time = loop.time()
        for conversation in tuple(self._everyone.callers):
            conversation.expire(time)
        pause = min(self._limits.idle, self._limits.head) / 4
        self._sweeper = loop.call_later(pause, self._sweep)
