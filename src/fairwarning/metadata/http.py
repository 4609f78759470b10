"""HTTP/1.1 as guests may speak it, without a socket.

The metadata face answers whoever runs on a machine, so its parser is small enough to check and
refuses whatever two parsers could understand differently. Bytes go into a ``Connection``, actions
come out; ``server.py`` connects it to sockets. ``Fault`` lists what is refused. What is accepted:

===========  =====================================================================================
method       any token; the router answers 405
target       ``/path?query``, or ``http://any-host/path?query`` so that ``http_proxy=`` works
version      HTTP/1.0 and HTTP/1.1
persistence  1.1 unless ``Connection: close``; 1.0 only with ``Connection: keep-alive``
body         by one ``Content-Length``, or ``Transfer-Encoding: chunked`` on 1.1; trailers are
             checked and dropped
Expect       ``100-continue`` on 1.1; without effect on 1.0
Upgrade      ignored
===========  =====================================================================================
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime
from enum import Enum
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias

#: The request line, the header lines and the empty line after them; also the trailers of a body.
HEAD_LIMIT = 8 * 1024
BODY_LIMIT = 64 * 1024
#: One whole request may wait behind the one being answered.
BACKLOG_LIMIT = HEAD_LIMIT + BODY_LIMIT
JSON = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, whole."""

    method: str
    path: str
    query: str
    headers: Mapping[str, tuple[str, ...]]
    body: bytes
    keep_alive: bool
    version: str = "1.1"

    def header(self, name: str) -> str | None:
        """Return the first value of a header, whatever the case of its name."""
        values = self.headers.get(name.lower())
        return values[0] if values else None


@dataclass(frozen=True, slots=True)
class Response:
    """What to answer; the framing is added by ``encode``."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Continue:
    """The client waits for leave to send its body."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The connection ends with this answer."""

    status: int
    message: str


Action: TypeAlias = Request | Continue | Refusal


class Fault(Enum):
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
    HEAD_SIZE = Refusal(431, f"request head is larger than {HEAD_LIMIT} bytes")
    VERSION = Refusal(505, "HTTP version is neither 1.0 nor 1.1")


_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_STRAY = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|(?<!\r)\n")
_REQUEST_LINE = re.compile(rf"({_TOKEN.pattern}) ([^ \t]+) HTTP/([0-9]\.[0-9])")
_AUTHORITY = r"(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
# Printable ASCII without "#": a fragment has no meaning to a server.
_TARGET = re.compile(rf"""(?:(?i:http)://{_AUTHORITY})?(/[!"$->@-~]*)(?:\?([!"$-~]*))?""")
_LENGTH = re.compile(r"[0-9]{1,16}")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_CHUNK_LINE = 8 + len(b"\r\n")
_FIELD_VALUE = re.compile(r"[\t -~\x80-\xff]*")
#: What a trailer could say to change how a head was understood.
_HEAD_ONLY = frozenset({"content-length", "transfer-encoding", "host", "connection", "expect"})


class _Refused(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value.message)
        self.refusal = fault.value


@dataclass(frozen=True, slots=True)
class _Head:
    request: Request
    length: int | None  # None: chunked
    expects: bool


def _lines(block: bytes) -> list[str]:
    if _STRAY.search(block):
        raise _Refused(Fault.STRAY)
    return block[:-2].decode("latin-1").split("\r\n")


def _fields(lines: Iterable[str]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise _Refused(Fault.FOLDED if line[:1] in (" ", "\t") else Fault.FIELD)
        fields.setdefault(name.lower(), []).append(value.strip(" \t"))
    return fields


def _length(fields: Mapping[str, list[str]], version: str) -> int | None:
    lengths = fields.get("content-length", [])
    codings = fields.get("transfer-encoding", [])
    if codings:
        if lengths:
            raise _Refused(Fault.LENGTH_AND_CODING)
        if version == "1.0":
            raise _Refused(Fault.CODING_TOO_EARLY)
        if [coding.lower() for coding in codings] != ["chunked"]:
            raise _Refused(Fault.CODING)
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise _Refused(Fault.LENGTH)
    length = int(lengths[0])
    if length > BODY_LIMIT:
        raise _Refused(Fault.BODY_SIZE)
    return length


def _keeps_alive(fields: Mapping[str, list[str]], version: str) -> bool:
    listed = ",".join(fields.get("connection", [])).lower()
    options = {option.strip(" \t") for option in listed.split(",")}
    return "close" not in options and (version == "1.1" or "keep-alive" in options)


# Guests poll with the same head each second, so most heads have been read before.
@lru_cache(maxsize=512)
def _read_head(block: bytes) -> _Head:
    first, *rest = _lines(block)
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise _Refused(Fault.REQUEST_LINE)
    method, raw_target, version = line.groups()
    if version not in ("1.0", "1.1"):
        raise _Refused(Fault.VERSION)
    target = _TARGET.fullmatch(raw_target)
    if target is None:
        raise _Refused(Fault.TARGET)
    fields = _fields(rest)
    hosts = len(fields.get("host", []))
    if hosts > 1:
        raise _Refused(Fault.HOST_REPEATED)
    if not hosts and version == "1.1":
        raise _Refused(Fault.HOST_MISSING)
    expectations = [value.lower() for value in fields.get("expect", [])]
    if expectations not in ([], ["100-continue"]):
        raise _Refused(Fault.EXPECT)
    request = Request(
        method=method,
        path=target[1],
        query=target[2] or "",
        headers=MappingProxyType({name: tuple(values) for name, values in fields.items()}),
        body=b"",
        keep_alive=_keeps_alive(fields, version),
        version=version,
    )
    return _Head(request, _length(fields, version), bool(expectations) and version == "1.1")


class _Inbox:
    """The bytes that arrived and are not yet understood."""

    __slots__ = ("_checked", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._checked = 0

    def take(self, size: int) -> bytes | None:
        if len(self.data) < size:
            return None
        taken = bytes(self.data[:size])
        del self.data[:size]
        return taken

    def take_block(self) -> bytes | None:
        """Take the lines before the next empty line."""
        end = self.data.find(b"\r\n\r\n", max(0, self._checked - 3), HEAD_LIMIT)
        if end >= 0:
            block = bytes(self.data[: end + 2])
            del self.data[: end + 4]
            self._checked = 0
            return block
        stop = min(len(self.data), HEAD_LIMIT)
        # Looked for in every piece, so that a client with other line ends is told at once.
        if _STRAY.search(self.data, max(0, self._checked - 1), stop):
            raise _Refused(Fault.STRAY)
        if stop == HEAD_LIMIT:
            raise _Refused(Fault.HEAD_SIZE)
        self._checked = stop
        return None


class _Chunks:
    """A chunked body, taken out of the inbox piece by piece."""

    def __init__(self) -> None:
        self._body = bytearray()
        self._size: int | None = None

    def take(self, inbox: _Inbox) -> bytes | None:
        """Take what is there, and return the body once it is whole."""
        while True:
            if self._size is None:
                self._size = self._take_size(inbox)
            if self._size is None:
                return None
            if self._size == 0:
                return bytes(self._body) if _take_trailers(inbox) else None
            chunk = inbox.take(self._size + 2)
            if chunk is None:
                return None
            if not chunk.endswith(b"\r\n"):
                raise _Refused(Fault.CHUNK_END)
            self._body += chunk[:-2]
            self._size = None

    def _take_size(self, inbox: _Inbox) -> int | None:
        end = inbox.data.find(b"\r\n", 0, _CHUNK_LINE)
        if end < 0 and len(inbox.data) < _CHUNK_LINE:
            return None
        digits = bytes(inbox.data[: max(0, end)])
        # Chunk extensions are refused: nobody needs them, and parsers disagree about them.
        if not _CHUNK_SIZE.fullmatch(digits):
            raise _Refused(Fault.CHUNK_SIZE)
        size = int(digits, 16)
        if len(self._body) + size > BODY_LIMIT:
            raise _Refused(Fault.BODY_SIZE)
        del inbox.data[: end + 2]
        return size


def _take_trailers(inbox: _Inbox) -> bool:
    """Drop the trailers, and say whether they have ended."""
    if len(inbox.data) < 2:
        return False
    if inbox.data.startswith(b"\r\n"):
        del inbox.data[:2]
        return True
    block = inbox.take_block()
    if block is None:
        return False
    if not _HEAD_ONLY.isdisjoint(_fields(_lines(block))):
        raise _Refused(Fault.TRAILER)
    return True


class Connection:
    """One client's side of a conversation: bytes in, actions out, one request at a time."""

    __slots__ = ("_answering", "_chunks", "_ended", "_head", "_inbox")

    def __init__(self) -> None:
        self._inbox = _Inbox()
        self._head: _Head | None = None
        self._chunks: _Chunks | None = None
        self._answering = False
        self._ended = False

    @property
    def begun(self) -> bool:
        """Whether part of a request has arrived and the rest is awaited."""
        return not self._answering and (self._head is not None or bool(self._inbox.data))

    @property
    def full(self) -> bool:
        """Whether so much waits behind the request being answered that reading should pause."""
        return len(self._inbox.data) > BACKLOG_LIMIT

    def feed(self, data: bytes) -> list[Action]:
        """Take bytes from the client and return what they ask for."""
        if self._ended:
            return []
        self._inbox.data += data
        return [] if self._answering else self._advance()

    def answered(self) -> list[Action]:
        """Note that the request was answered, and return what has arrived since."""
        self._answering = False
        return [] if self._ended else self._advance()

    def _advance(self) -> list[Action]:
        try:
            action = self._next()
        except _Refused as refused:
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
            head = self._head = _read_head(block)
            self._chunks = _Chunks() if head.length is None else None
            if head.expects and head.length != 0 and not self._inbox.data:
                return Continue()
        chunks = self._chunks
        body = self._inbox.take(head.length or 0) if chunks is None else chunks.take(self._inbox)
        if body is None:
            return None
        self._head = self._chunks = None
        self._answering = True
        return replace(head.request, body=body) if body else head.request


#: Statuses whose answer has neither a body nor a length.
_BODILESS = frozenset({204, 304})
_PHRASES: Mapping[int, str] = {status.value: status.phrase for status in HTTPStatus}


@lru_cache(maxsize=2)
def _date(now: datetime) -> str:
    return format_datetime(now, usegmt=True)


def failure(status: int, message: str) -> Response:
    """Return the answer that tells a client what went wrong."""
    body = json.dumps({"error": message}, separators=(",", ":"))
    return Response(status, body.encode(), content_type=JSON)


def encode(
    response: Response, *, keep_alive: bool, now: datetime, version: str = "1.1", head: bool = False
) -> bytes:
    """Return the bytes of an answer; ``head`` leaves the body out and keeps its length."""
    status = response.status
    text = f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n"
    text += f"Date: {_date(now.replace(microsecond=0))}\r\nServer: IMDS/fairwarning\r\n"
    typed = [] if response.content_type is None else [("Content-Type", response.content_type)]
    for name, value in (*typed, *response.headers):
        if not (_TOKEN.fullmatch(name) and _FIELD_VALUE.fullmatch(value)):
            raise ValueError(f"response header {name!r} has unsendable value {value!r}")
        text += f"{name}: {value}\r\n"
    if status not in _BODILESS:
        text += f"Content-Length: {len(response.body)}\r\n"
    if not keep_alive:
        text += "Connection: close\r\n"
    elif version == "1.0":
        text += "Connection: keep-alive\r\n"
    start = f"{text}\r\n".encode("latin-1")
    return start if head or status in _BODILESS else start + response.body
