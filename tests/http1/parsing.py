"""Requests as bytes, and a parser for them without a socket."""

from collections.abc import Iterable

from fairwarning.http1.messages import Action, Pause, Request
from fairwarning.http1.request_parser import RequestParser

GET = b"GET /metadata/instance?api-version=2021-02-01 HTTP/1.1\r\nHost: h\r\nMetadata: true\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED_HEAD = b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def parse_all(pieces: Iterable[bytes]) -> list[Action]:
    """Parse the pieces, as if each request was answered at once, and return every action."""
    parser = RequestParser()
    seen: list[Action] = []
    for piece in pieces:
        actions = parser.feed(piece)
        while actions:
            (action,) = actions
            if not isinstance(action, Pause):
                seen.append(action)
            actions = parser.answered() if isinstance(action, Request | Pause) else []
    return seen


def only_request(raw: bytes) -> Request:
    (action,) = parse_all([raw])
    assert isinstance(action, Request)
    return action


def head(*lines: str, request: str = "GET / HTTP/1.1", host: str | None = "h") -> bytes:
    hosts = [] if host is None else [f"Host: {host}"]
    return "\r\n".join([request, *hosts, *lines, "", ""]).encode("latin-1")
