"""One HTTP connection: parses requests, has them answered in order, and enforces its time limits.

Nothing here touches a socket: bytes come from a transport and go to a transport.

``received`` tries the fast path first. If nothing is buffered and no request is under way, the bytes are
looked up in the request cache; a cacheable GET is then answered from a rendered response. Everything else
takes the slow path, and each step of it is charged to the caller's account (``throttle.py``). A caller
without steps rests: its connections stop reading, and what was read already stays in the parser. Requests
that arrived together are handled one per turn, in the queue that all connections share
(``ServerState.wakeups``).
"""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from math import inf
from typing import Generic

from fairwarning.formats.log_messages import LogMessage
from fairwarning.http1.encoding import encode
from fairwarning.http1.messages import (
    RESET,
    Action,
    Continue,
    HeldResponse,
    Pause,
    Refusal,
    Request,
    Response,
    failure,
)
from fairwarning.http1.metrics import STATUS
from fairwarning.http1.request_clock import Moment
from fairwarning.http1.request_parser import RequestParser
from fairwarning.http1.server_state import C, ListenerConnections
from fairwarning.http1.throttle import Account
from fairwarning.http1.transport import Transport

log = logging.getLogger("fairwarning.metadata")

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_INTERNAL_ERROR = failure(500, "Internal server error")
_TOO_MANY_CONNECTIONS = failure(503, "too many connections")
_REQUEST_TIMEOUT = Refusal(408, "request did not arrive in time")


class Connection(Generic[C]):
    """Reads requests, has them answered, and writes the responses in order."""

    __slots__ = (
        "_account", "_caller", "_closing", "_connections", "_eof", "_fast_path", "_parser", "_pending",
        "_queued", "_request", "_request_begun", "_server", "_since", "_transport", "_write_blocked",
    )  # fmt: skip

    _transport: Transport

    def __init__(self, connections: ListenerConnections[C], caller: C | None, account: Account) -> None:
        self._connections = connections
        self._server = connections.server
        self._caller = caller
        self._account = account
        self._fast_path = connections.server.fast_path(caller)
        self._parser: RequestParser | None = None  # None: nothing is buffered
        self._request: Request | None = None  # the request that is being answered
        self._pending: HeldResponse | asyncio.Future[Response] | None = None
        self._since = 0.0  # when the current time limit began
        self._request_begun = False  # that limit is for a request which has begun to arrive
        self._write_blocked = False  # the next request waits until the client reads
        self._queued = False  # the next request waits for its turn, or for the end of a rest
        self._eof = False  # the client sends nothing more
        self._closing = False  # the next response is the last, or was

    def begin(self, transport: Transport, moment: Moment) -> None:
        """Start: the connection is open."""
        self._transport = transport
        self._since = moment.time
        self._connections.open.add(self)
        charged = self._account.charge(moment.time)
        if not self._server.add_connection(self._caller, self._account):
            self._write(_TOO_MANY_CONNECTIONS, moment, keep_alive=False)
            self._close(moment)
        elif not charged:
            self._rest(moment)

    def received(self, data: bytes, moment: Moment) -> None:
        """Process bytes from the client."""
        request = None
        if self._parser is None and self._request is None:
            # The fast path of docs/poll.md: as few steps as possible.
            cache = self._server.cache
            cached = cache.recent.get(data) or cache.lookup(data)
            if cached is not None:
                fast_path, get = self._fast_path, cached.get
                raw = fast_path.answer(get, moment) if get is not None and fast_path is not None else None
                if raw is not None:
                    self._transmit(raw)
                    self._since = moment.time
                    if not self._transport.writable:
                        self._continue()
                        self._update(moment)
                    return
                request = cached.request
        self._process(data, request, moment)

    def ended(self, moment: Moment) -> None:
        """Process the end of the client's bytes."""
        self._eof = True
        if self._request is None and not self._deferred:
            self._close(moment)
            return
        # A client that only stopped sending looks like a client that is gone. It gets its response if that
        # is ready soon; a response is not held for long for a client that may be gone.
        self._since = moment.time
        self._update(moment)

    def drained(self, moment: Moment) -> None:
        """Continue: the client has read everything that was written."""
        if self._write_blocked and not self._closing:
            self._write_blocked = False
            self._continue()
        self._update(moment)

    def wake(self) -> None:
        """Handle the next buffered request: its turn has come, or the rest is over."""
        self._queued = False
        if self._finished:
            return
        moment = self._server.clock.iteration_moment()
        if self._request is not None:
            self._update(moment)
        elif self._parser is None or not self._transport.writable:
            self._continue()
            self._update(moment)
        elif self._account.charge(moment.time):
            self._perform(self._parser.answered(), moment)
        else:
            self._rest(moment)

    def lost(self) -> None:
        """Release everything: the connection is closed."""
        self._connections.remove(self)
        self._server.remove_connection(self._caller, self._account)
        if self._pending is not None:
            self._release_held()
            self._pending.cancel()
        self._request = self._pending = None
        self._closing = True

    def expire(self, moment: Moment) -> None:
        """Close the connection if its time limit has passed."""
        if moment.time < self._since + self._time_limit():
            return
        if self._closing or self._request is not None or not self._transport.writable:
            self._transport.abort()
        elif self._request_begun:
            self._refuse(_REQUEST_TIMEOUT, moment)
        else:
            self._close(moment)

    def prepare_close(self) -> None:
        """Answer at once what is held back; the server closes, so the next response is the last."""
        self._fast_path = None
        held = self._pending
        if isinstance(held, HeldResponse):
            held.cancel()
            self.deliver(held.current_response())

    def finish(self, moment: Moment) -> None:
        """Close the connection after the response that is under way."""
        self._closing = True
        if self._request is None:
            self._close(moment)

    @property
    def caller(self) -> C | None:
        """Whoever the listener took the connection for."""
        return self._caller

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    @property
    def _finished(self) -> bool:
        """Whether the last response was written."""
        return self._closing and self._request is None

    @property
    def _deferred(self) -> bool:
        """Whether the next request waits for something other than the client."""
        return self._write_blocked or self._queued

    def _time_limit(self) -> float:
        limits = self._server.limits
        if self._request is not None:
            return limits.head if self._eof else inf
        return limits.head if self._request_begun or self._closing else limits.idle

    def _get_parser(self) -> RequestParser:
        if self._parser is None:
            self._parser = RequestParser(answering=self._request is not None)
        return self._parser

    def _process(self, data: bytes, request: Request | None, moment: Moment) -> None:
        """Take the slow path, with the parsed request if the cache had it, and charge the caller."""
        charged = self._account.charge(moment.time)
        if self._finished:
            # The last response was sent. What the client still sends is dropped, but it costs steps too.
            if not charged:
                self._transport.abort()
        elif not charged:
            self._get_parser().hold(data)
            self._rest(moment)
        elif request is not None:
            self._perform([request], moment)
        else:
            self._perform(self._get_parser().feed(data), moment)

    def _rest(self, moment: Moment) -> None:
        """Read nothing until the caller's rest is over."""
        if not self._queued:
            self._queued = True
            self._server.wake_after_rest(self._account, self)
        self._update(moment)

    def _perform(self, actions: list[Action], moment: Moment) -> None:
        for action in actions:
            match action:
                case Request():
                    self._handle(action, moment)
                case Continue():
                    self._transport.write(_CONTINUE)
                case Pause():
                    self._enqueue()
                case Refusal():
                    self._refuse(action, moment)
        self._update(moment)

    def _handle(self, request: Request, moment: Moment) -> None:
        self._request = request
        self._request_begun = False
        try:
            reply = self._server.answer(self._caller, request)
        except Exception as error:
            reply = self._internal_error(request, error)
        if isinstance(reply, HeldResponse) and not self._may_hold():
            reply = reply.current_response()
        if isinstance(reply, Response):
            self._send(request, reply, moment)
        else:
            self._since = moment.time
            self._wait_for(request, reply)

    def _may_hold(self) -> bool:
        server = self._server
        return not server.closing and server.counters.held_responses < server.limits.held_responses

    def _wait_for(self, request: Request, reply: Awaitable[Response]) -> None:
        if isinstance(reply, HeldResponse):
            self._pending = reply
            self._server.counters.held_responses += 1
            reply.start(self)
        else:
            self._pending = task = asyncio.ensure_future(reply)
            task.add_done_callback(partial(self._reply_done, request))

    def _release_held(self) -> None:
        if isinstance(self._pending, HeldResponse):
            self._server.counters.held_responses -= 1

    def deliver(self, response: Response) -> None:
        """Send a response that was held back."""
        self._release_held()
        self._pending = None
        if self._request is not None:
            self._send_later(self._request, response)

    def _reply_done(self, request: Request, task: asyncio.Future[Response]) -> None:
        if self._request is None:  # the connection was closed meanwhile
            if not task.cancelled():
                task.exception()
            return
        self._pending = None
        if task.cancelled():
            reply = self._internal_error(request, asyncio.CancelledError())
        else:
            error = task.exception()
            reply = task.result() if error is None else self._internal_error(request, error)
        self._send_later(request, reply)

    def _send_later(self, request: Request, response: Response) -> None:
        moment = self._server.clock.iteration_moment()
        self._send(request, response, moment)
        self._update(moment)

    def _internal_error(self, request: Request, error: BaseException) -> Response:
        log.error(LogMessage("answer_failed", method=request.method, path=request.path), exc_info=error)
        return _INTERNAL_ERROR

    def _send(self, request: Request, response: Response, moment: Moment) -> None:
        self._request = None
        self._since = moment.time
        if response is RESET:
            self._closing = True
            self._transport.reset()
            return
        ends = self._closing or self._server.closing or response.missing
        keep_alive = request.keep_alive and not ends
        head = request.method == "HEAD"
        try:
            self._write(response, moment, keep_alive=keep_alive, version=request.version, head=head)
        except ValueError as error:
            response = self._internal_error(request, error)
            self._write(response, moment, keep_alive=keep_alive, version=request.version, head=head)
        if keep_alive:
            self._continue()
        else:
            self._close(moment)

    def _continue(self) -> None:
        """Continue with the next request, once the client has read."""
        if not self._transport.writable:
            self._write_blocked = True
        elif self._parser is not None:
            if self._parser.has_data:
                self._enqueue()
            else:
                self._parser.answered()

    def _enqueue(self) -> None:
        if not self._queued:
            self._queued = True
            self._server.wakeups.add((self,))

    def _write(
        self,
        response: Response,
        moment: Moment,
        *,
        keep_alive: bool,
        version: str = "1.1",
        head: bool = False,
    ) -> None:
        encoded = encode(response, keep_alive, version, head)
        self._transmit(encoded.dated(moment.date))

    def _transmit(self, raw: bytes) -> None:
        self._server.counters.responses[raw[STATUS]] += 1
        self._transport.write(raw)

    def _refuse(self, refusal: Refusal, moment: Moment) -> None:
        self._write(failure(refusal.status, refusal.message), moment, keep_alive=False)
        if self._eof:
            self._close(moment)
            return
        # Closing a socket with unread bytes resets the connection, and the client could lose the response.
        # So only the sending side is closed, and what the client still sends is read and dropped.
        self._transport.write_eof()
        self._closing = True
        self._since = moment.time

    def _close(self, moment: Moment) -> None:
        self._closing = True
        self._since = moment.time
        self._transport.close()

    def _update(self, moment: Moment) -> None:
        """Pause or resume reading, restart the time limit, and drop an empty parser."""
        parser = self._parser
        if self._finished:
            return
        if self._eof and self._request is None and not self._deferred:
            self._close(moment)
            return
        full = self._queued or (parser is not None and parser.full)
        self._transport.set_reading(not self._eof and self._transport.writable and not full)
        if self._request is not None or self._queued:
            return
        begun = parser is not None and parser.begun
        if not (begun and self._request_begun):
            self._since = moment.time
        self._request_begun = begun
        if parser is not None and not begun and not self._write_blocked:
            self._parser = None
