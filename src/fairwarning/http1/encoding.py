"""Encodes responses: everything but the ``Date`` line is encoded once and cached."""

import re
from functools import lru_cache
from typing import NamedTuple

from fairwarning.formats.reason_phrases import REASON_PHRASES
from fairwarning.http1.head_parser import TOKEN, VALUE
from fairwarning.http1.messages import Response

#: Statuses whose responses have neither a body nor a length.
_BODILESS = frozenset({204, 304})
_NAME, _VALUE = re.compile(TOKEN), re.compile(VALUE)
_SERVER = ("Server", "IMDS/fairwarning")


class EncodedResponse(NamedTuple):
    """A response as it is sent, in two parts with the ``Date`` line between them."""

    before: bytes
    after: bytes

    def dated(self, date: bytes) -> bytes:
        """Return the response with a ``Date`` line."""
        return self.before + date + self.after


# The same few responses are sent again and again, most of all to long polls that are woken together.
@lru_cache(maxsize=256)
def encode(
    response: Response, keep_alive: bool = True, version: str = "1.1", head: bool = False
) -> EncodedResponse:
    """Return a response as it is sent; ``head`` leaves the body out and keeps its length.

    Raises:
        ValueError: a header contains characters that HTTP does not allow.
    """
    status = response.status
    text = ""
    server = [] if any(name == "Server" for name, _ in response.headers) else [_SERVER]
    content_type = [] if response.content_type is None else [("Content-Type", response.content_type)]
    for name, value in (*server, *content_type, *response.headers):
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"response header {name!r} has unsendable value {value!r}")
        text += f"{name}: {value}\r\n"
    if status not in _BODILESS:
        text += f"Content-Length: {len(response.body) + response.missing}\r\n"
    if not keep_alive:
        text += "Connection: close\r\n"
    elif version == "1.0":
        text += "Connection: keep-alive\r\n"
    after = f"{text}\r\n".encode("latin-1")
    body = b"" if head or status in _BODILESS else response.body
    return EncodedResponse(
        f"HTTP/1.1 {status} {REASON_PHRASES.get(status, '')}\r\n".encode("latin-1"), after + body
    )
