"""Requests, responses, and every reason to refuse a request.

``head_parser.py`` parses heads, ``framing.py`` finds where requests end, ``request_parser.py`` combines both,
``encoding.py`` encodes responses.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

#: The limit for a head (request line, header lines, empty line), and for the trailers of a body.
HEAD_LIMIT = 8 * 1024
BODY_LIMIT = 64 * 1024
#: The limit for header lines, and for the lines of a head: a short line costs more to parse than its bytes.
FIELD_LIMIT = 100
LINE_LIMIT = 1 + FIELD_LIMIT + 1
#: One whole request may wait behind the request that is being answered.
BACKLOG_LIMIT = HEAD_LIMIT + BODY_LIMIT
JSON = "application/json; charset=utf-8"


class Request(NamedTuple):  # cheaper to make than a dataclass, and made for each uncached head
    """One complete request."""

    method: str
    path: str
    query: str
    headers: Mapping[str, tuple[str, ...]]
    body: bytes
    keep_alive: bool
    version: str = "1.1"


@dataclass(frozen=True, slots=True)
class Response:
    """A response without its framing, which ``encoding.py`` adds."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None
    #: How many bytes are announced and never sent, as if the server crashed; the connection is closed.
    missing: int = 0


class CacheableGet(NamedTuple):
    """A GET whose response depends only on the caller, the variant and the entity tags the client has."""

    variant: str
    tags: frozenset[str] = frozenset()


class Recipient(Protocol):
    """The connection that waits for a held response."""

    def deliver(self, response: Response) -> None:
        """Send the response."""
        ...


class HeldResponse(ABC):
    """A response that is held back until there is news; it can be started or awaited."""

    __slots__ = ()

    @abstractmethod
    def current_response(self) -> Response:
        """Return the response as it is now, whether there is news or not."""

    @abstractmethod
    def start(self, recipient: Recipient) -> None:
        """Deliver the response once there is news, or the time is up."""

    @abstractmethod
    def cancel(self) -> None:
        """Forget the recipient."""

    def __await__(self) -> Generator[object, None, Response]:
        recipient = _Awaited()
        self.start(recipient)
        try:
            return (yield from recipient.response)
        finally:
            self.cancel()


class _Awaited:
    def __init__(self) -> None:
        self.response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def deliver(self, response: Response) -> None:
        if not self.response.done():
            self.response.set_result(response)


#: What an application returns: a response, or something to wait for.
Reply: TypeAlias = Response | Awaitable[Response]


#: Not a response: the connection is reset, as if the server had crashed.
RESET = Response(0)


def failure(status: int, message: str) -> Response:
    """Return an error response with a message."""
    body = json.dumps({"error": message}, separators=(",", ":"))
    return Response(status, body.encode(), content_type=JSON)


@dataclass(frozen=True, slots=True)
class Continue:
    """The client waits for ``100 Continue`` before it sends the body."""


class Refusal(NamedTuple):
    """The connection ends with this response."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Pause:
    """The parser has done enough for one turn; other connections come first."""


Action: TypeAlias = Request | Continue | Refusal | Pause


class RequestFault(Enum):
    """Every reason to refuse a request."""

    STRAY = Refusal(400, "head holds a control character or a line that does not end in CRLF")
    REQUEST_LINE = Refusal(400, "request line is not METHOD TARGET HTTP/VERSION")
    TARGET = Refusal(400, "request target is neither /path nor http://host/path")
    FIELD = Refusal(400, "header line is not NAME: VALUE")
    FOLDED = Refusal(400, "header line is folded")
    HOST_MISSING = Refusal(400, "Host header is missing")
    HOST_REPEATED = Refusal(400, "Host header is repeated")
    LENGTH = Refusal(400, "Content-Length is not one plain number")
    LENGTH_AND_CODING = Refusal(400, "Content-Length and Transfer-Encoding are both given")
    CODING = Refusal(400, "Transfer-Encoding is not chunked")
    CODING_TOO_EARLY = Refusal(400, "Transfer-Encoding is not part of HTTP/1.0")
    CHUNK_SIZE = Refusal(400, "chunk size is not a plain hexadecimal number")
    CHUNK_END = Refusal(400, "chunk does not end where its size says")
    TRAILER = Refusal(400, "trailer names a header that only a head may hold")
    BODY_SIZE = Refusal(413, f"Request body is larger than MaxBodyLength: {BODY_LIMIT}")
    EXPECT = Refusal(417, "Expect is not 100-continue")
    FIELD_COUNT = Refusal(431, f"request has more than {FIELD_LIMIT} header lines")
    HEAD_SIZE = Refusal(431, f"request head is larger than {HEAD_LIMIT} bytes")
    VERSION = Refusal(505, "HTTP version is neither 1.0 nor 1.1")


class RequestRefusedError(Exception):
    """A request breaks a rule; ``refusal`` is the response."""

    def __init__(self, fault: RequestFault) -> None:
        super().__init__(fault.value.message)
        self.refusal = fault.value
