"""One connection as a conversation: requests are understood, answered in order, and given their time.

Nothing here knows a socket: bytes come from a line and go to a line, the app answers.
"""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from math import inf
from typing import Generic

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
from fairwarning.http1.parser import RequestParser
from fairwarning.http1.request_clock import Moment
from fairwarning.http1.server_state import C, ListenerConnections
from fairwarning.http1.throttle import Account
from fairwarning.http1.transport import Transport

log = logging.getLogger("fairwarning.metadata")

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BROKEN = failure(500, "Internal server error")
_CROWDED = failure(503, "too many connections")
_SLOW = Refusal(408, "request did not arrive in time")


class Connection(Generic[C]):
    """Reads requests, asks for the answers, writes them in order."""

    __slots__ = (
        "_account", "_begun", "_caller", "_ended", "_finishing", "_guests", "_held", "_http", "_line",
        "_pending", "_poller", "_queued", "_reception", "_request", "_since",
    )  # fmt: skip

    _line: Transport

    def __init__(self, guests: ListenerConnections[C], caller: C | None, account: Account) -> None:
        self._guests = guests
        self._reception = guests.reception
        self._caller = caller
        self._account = account
        self._poller = guests.reception.poller(caller)
        self._http: RequestParser | None = None  # None: nothing waits to be understood
        self._request: Request | None = None
        self._pending: HeldResponse | asyncio.Future[Response] | None = None
        self._since = 0.0
        self._begun = False  # the time since then is that of a request
        self._held = False  # the next request waits until the client reads
        self._queued = False  # it waits for its turn, or for the end of a rest
        self._ended = False  # the client will send nothing more
        self._finishing = False  # the next answer is the last, or was

    def begin(self, line: Transport, moment: Moment) -> None:
        """Note that the connection is there."""
        self._line = line
        self._since = moment.time
        self._guests.open.add(self)
        paid = self._account.charge(moment.time)
        if not self._reception.admit(self._caller):
            self._write(_CROWDED, moment, keep_alive=False)
            self._close(moment)
        elif not paid:
            self._rest(moment)

    def received(self, data: bytes, moment: Moment) -> None:
        """Take what the client has sent."""
        request = None
        if self._http is None and self._request is None:
            # The short way of docs/poll.md: as few steps as possible.
            heads = self._reception.heads
            known = heads.young.get(data) or heads.read(data)
            if known is not None:
                poller, poll = self._poller, known.poll
                raw = poller.answer(poll, moment) if poll is not None and poller is not None else None
                if raw is not None:
                    self._transmit(raw)
                    self._since = moment.time
                    if not self._line.writable:
                        self._go_on()
                        self._settle(moment)
                    return
                request = known.request
        self._take(data, request, moment)

    def ended(self, moment: Moment) -> None:
        """Note that the client sends nothing more."""
        self._ended = True
        if self._request is None and not self._waiting:
            self._close(moment)
            return
        # A client that only stopped sending looks like one that is gone: it gets its answer if
        # that comes soon, and nobody waits for long on behalf of a client that is gone.
        self._since = moment.time
        self._settle(moment)

    def drained(self, moment: Moment) -> None:
        """Note that the client has read all it was sent."""
        if self._held and not self._finishing:
            self._held = False
            self._go_on()
        self._settle(moment)

    def wake(self) -> None:
        """Take up what waited for its turn."""
        self._queued = False
        if self._over:
            return
        moment = self._reception.almanac.this_turn()
        if self._request is not None:
            self._settle(moment)
        elif self._http is None or not self._line.writable:
            self._go_on()
            self._settle(moment)
        elif self._account.charge(moment.time):
            self._perform(self._http.answered(), moment)
        else:
            self._rest(moment)

    def lost(self) -> None:
        """Note that the connection is closed."""
        self._guests.remove(self)
        self._reception.dismiss(self._caller)
        if self._pending is not None:
            self._stop_watching()
            self._pending.cancel()
        self._request = self._pending = None
        self._finishing = True

    def expire(self, moment: Moment) -> None:
        """End what has taken too long."""
        if moment.time < self._since + self._patience():
            return
        if self._finishing or self._request is not None or not self._line.writable:
            self._line.abort()
        elif self._begun:
            self._refuse(_SLOW, moment)
        else:
            self._close(moment)

    def finish(self, moment: Moment) -> None:
        """End the conversation after the answer that is under way."""
        self._finishing = True
        if self._request is None:
            self._close(moment)

    def drop(self) -> None:
        """End the conversation at once."""
        self._line.abort()

    @property
    def _over(self) -> bool:
        return self._finishing and self._request is None

    @property
    def _waiting(self) -> bool:
        return self._held or self._queued

    def _patience(self) -> float:
        limits = self._reception.limits
        if self._request is not None:
            return limits.head if self._ended else inf
        return limits.head if self._begun or self._finishing else limits.idle

    def _inbox(self) -> RequestParser:
        if self._http is None:
            self._http = RequestParser(answering=self._request is not None)
        return self._http

    def _take(self, data: bytes, request: Request | None, moment: Moment) -> None:
        """Go the long way, with what the data asks for if that is known; the caller is charged for it."""
        paid = self._account.charge(moment.time)
        if self._over:
            # Whoever was told that nothing follows is not heard any more, and may not say much.
            if not paid:
                self._line.abort()
        elif not paid:
            self._inbox().hold(data)
            self._rest(moment)
        elif request is not None:
            self._perform([request], moment)
        else:
            self._perform(self._inbox().feed(data), moment)

    def _rest(self, moment: Moment) -> None:
        """Read nothing until the caller's rest is over."""
        if not self._queued:
            self._queued = True
            self._reception.rest(self._account, self)
        self._settle(moment)

    def _perform(self, actions: list[Action], moment: Moment) -> None:
        for action in actions:
            match action:
                case Request():
                    self._ask(action, moment)
                case Continue():
                    self._line.write(_CONTINUE)
                case Pause():
                    self._queue()
                case Refusal():
                    self._refuse(action, moment)
        self._settle(moment)

    def _ask(self, request: Request, moment: Moment) -> None:
        self._request = request
        self._begun = False
        try:
            reply = self._reception.answer(self._caller, request)
        except Exception as error:
            reply = self._broken(request, error)
        if isinstance(reply, HeldResponse) and self._crowded():
            reply = reply.look()
        if isinstance(reply, Response):
            self._send(request, reply, moment)
        else:
            self._since = moment.time
            self._wait_for(request, reply)

    def _crowded(self) -> bool:
        return self._reception.tally.watchers >= self._reception.limits.watchers

    def _wait_for(self, request: Request, reply: Awaitable[Response]) -> None:
        if isinstance(reply, HeldResponse):
            self._pending = reply
            self._reception.tally.watchers += 1
            reply.start(self)
        else:
            self._pending = task = asyncio.ensure_future(reply)
            task.add_done_callback(partial(self._done, request))

    def _stop_watching(self) -> None:
        if isinstance(self._pending, HeldResponse):
            self._reception.tally.watchers -= 1

    def arrived(self, response: Response) -> None:
        """Take an answer that was held back."""
        self._stop_watching()
        self._pending = None
        if self._request is not None:
            self._send_late(self._request, response)

    def _done(self, request: Request, task: asyncio.Future[Response]) -> None:
        if self._request is None:  # nobody waits for it any more
            if not task.cancelled():
                task.exception()
            return
        self._pending = None
        if task.cancelled():
            reply = self._broken(request, asyncio.CancelledError())
        else:
            error = task.exception()
            reply = task.result() if error is None else self._broken(request, error)
        self._send_late(request, reply)

    def _send_late(self, request: Request, response: Response) -> None:
        moment = self._reception.almanac.this_turn()
        self._send(request, response, moment)
        self._settle(moment)

    def _broken(self, request: Request, error: BaseException) -> Response:
        log.error("answer_failed method=%s path=%s", request.method, request.path, exc_info=error)
        return _BROKEN

    def _send(self, request: Request, response: Response, moment: Moment) -> None:
        self._request = None
        self._since = moment.time
        if response is RESET:
            self._finishing = True
            self._line.reset()
            return
        keep_alive = request.keep_alive and not self._finishing
        head = request.method == "HEAD"
        try:
            self._write(response, moment, keep_alive=keep_alive, version=request.version, head=head)
        except ValueError as error:
            response = self._broken(request, error)
            self._write(response, moment, keep_alive=keep_alive, version=request.version, head=head)
        if keep_alive:
            self._go_on()
        else:
            self._close(moment)

    def _go_on(self) -> None:
        """Take up the next request in its turn, once the client has read."""
        if not self._line.writable:
            self._held = True
        elif self._http is not None:
            if self._http.waiting:
                self._queue()
            else:
                self._http.answered()

    def _queue(self) -> None:
        if not self._queued:
            self._queued = True
            self._reception.turns.add((self,))

    def _write(
        self,
        response: Response,
        moment: Moment,
        *,
        keep_alive: bool,
        version: str = "1.1",
        head: bool = False,
    ) -> None:
        sheet = encode(response, keep_alive, version, head)
        self._transmit(sheet.dated(moment.date))

    def _transmit(self, raw: bytes) -> None:
        self._reception.tally.answered[raw[STATUS]] += 1
        self._line.write(raw)

    def _refuse(self, refusal: Refusal, moment: Moment) -> None:
        self._write(failure(refusal.status, refusal.message), moment, keep_alive=False)
        if self._ended:
            self._close(moment)
            return
        # Closing over unread bytes would reset the connection and could take the answer with it;
        # so the client is told that nothing follows, and what it still sends is read and dropped.
        self._line.end()
        self._finishing = True
        self._since = moment.time

    def _close(self, moment: Moment) -> None:
        self._finishing = True
        self._since = moment.time
        self._line.close()

    def _settle(self, moment: Moment) -> None:
        http = self._http
        if self._over:
            return
        if self._ended and self._request is None and not self._waiting:
            self._close(moment)
            return
        full = self._queued or (http is not None and http.full)
        self._line.listen(not self._ended and self._line.writable and not full)
        if self._request is not None or self._queued:
            return
        begun = http is not None and http.begun
        if not (begun and self._begun):
            self._since = moment.time
        self._begun = begun
        if http is not None and not begun and not self._held:
            self._http = None
