"""The request parser of one connection, without I/O: bytes in, actions out.

It yields one request at a time. ``answered`` says that the response was written and the next request may
come; until then, further bytes are only stored.
"""

from fairwarning.http1.framing import Chunks, Inbox
from fairwarning.http1.head_parser import RequestHead, read_head
from fairwarning.http1.messages import (
    BACKLOG_LIMIT,
    Action,
    Continue,
    Pause,
    Refusal,
    Request,
    RequestRefusedError,
)


class RequestParser:
    """Turns the bytes of one connection into actions, one request at a time."""

    __slots__ = ("_answering", "_chunks", "_ended", "_head", "_inbox")

    def __init__(self, *, answering: bool = False) -> None:
        self._inbox = Inbox()
        self._head: RequestHead | None = None
        self._chunks: Chunks | None = None
        self._answering = answering
        self._ended = False

    @property
    def begun(self) -> bool:
        """Whether part of a request has arrived and the rest is awaited."""
        return not self._answering and (self._head is not None or bool(self._inbox.data))

    @property
    def has_data(self) -> bool:
        """Whether bytes are stored that are not parsed yet."""
        return bool(self._inbox.data)

    @property
    def full(self) -> bool:
        """Whether so much is stored behind the request being answered that reading should pause."""
        return len(self._inbox.data) > BACKLOG_LIMIT

    def feed(self, data: bytes) -> list[Action]:
        """Add bytes from the client, and return the actions they lead to."""
        if self._ended:
            return []
        self._inbox.data += data
        return [] if self._answering else self._advance()

    def hold(self, data: bytes) -> None:
        """Store bytes from the client without parsing them before the next ``answered``."""
        if not self._ended:
            self._inbox.data += data
            self._answering = True

    def answered(self) -> list[Action]:
        """Continue after a response, a pause or ``hold``, and return the next actions."""
        self._answering = False
        return [] if self._ended else self._advance()

    def _advance(self) -> list[Action]:
        try:
            action = self._next()
        except RequestRefusedError as refused:
            action = refused.refusal
        if action is None:
            return []
        if isinstance(action, Refusal) or (isinstance(action, Request) and not action.keep_alive):
            self._ended = True
            self._head = None
            self._inbox.data.clear()
        return [action]

    def _next(self) -> Action | None:
        head = self._head
        if head is None:
            block = self._inbox.take_block() if self._inbox.data else None
            if block is None:
                return None
            head = self._head = read_head(block)
            self._chunks = Chunks() if head.length is None else None
            if head.expects_continue and head.length != 0 and not self._inbox.data:
                return Continue()
        chunks = self._chunks
        body = self._inbox.take(head.length or 0) if chunks is None else chunks.take(self._inbox)
        if body is None:
            if chunks is None or not chunks.paused:
                return None
            self._answering = True
            return Pause()
        self._head = self._chunks = None
        self._answering = True
        return head.request._replace(body=body) if body else head.request
