"""Reads HTTP/1.1 messages from a stream, as far as a recording proxy needs them."""

import asyncio
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

#: The longest head of a message.
LARGEST_HEAD = 256 * 1024

_END = b"\r\n\r\n"
_LINGER_ZERO = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The first line of a message and its headers, parsed and as received."""

    raw: bytes
    words: tuple[str, str, str]
    headers: Mapping[str, str]

    @property
    def status(self) -> int:
        """The status of a response; 0 if it has none."""
        return int(self.words[1]) if self.words[1].isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a message: the bytes as received, and the decoded content."""

    raw: bytes
    content: bytes


NO_BODY = Body(b"", b"")


class MalformedError(ConnectionError):
    """A body is truncated or invalid, so the rest of the connection cannot be parsed."""


async def read_head(stream: asyncio.StreamReader) -> MessageHead | None:
    """Return the next head; None if the stream ends or holds no head."""
    try:
        raw = await stream.readuntil(_END)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    a, b, c = (*first.split(" ", 2), "", "")[:3]
    pairs = (line.partition(":") for line in lines)
    return MessageHead(raw, (a, b, c), {name.strip().lower(): value.strip() for name, _, value in pairs})


async def read_body(
    stream: asyncio.StreamReader, head: MessageHead, *, otherwise: Literal["none", "rest"]
) -> Body:
    """Return the body that a head announces; without a length it is empty or the rest of the stream.

    A body of the second kind, a response, may end early.

    Raises:
        MalformedError: the end of the body cannot be found.
    """
    try:
        return await _body(stream, head, otherwise)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as problem:
        raise MalformedError(f"the body of {' '.join(head.words)} cannot be read: {problem}") from problem


async def _body(stream: asyncio.StreamReader, head: MessageHead, otherwise: Literal["none", "rest"]) -> Body:
    if "chunked" in head.headers.get("transfer-encoding", "").lower():
        return await _chunks(stream)
    length = head.headers.get("content-length", "")
    if not length.isdecimal():
        raw = await stream.read() if otherwise == "rest" else b""
    elif otherwise == "none":
        raw = await stream.readexactly(int(length))
    else:
        raw = await _read_up_to(stream, int(length))
    return Body(raw, raw)


async def _read_up_to(stream: asyncio.StreamReader, length: int) -> bytes:
    """Return so many bytes, or what there is if the stream ends before: a handler must see that, too."""
    try:
        return await stream.readexactly(length)
    except asyncio.IncompleteReadError as cut:
        return cut.partial


async def _chunks(stream: asyncio.StreamReader) -> Body:
    raw, content = bytearray(), bytearray()
    while True:
        line = await stream.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        chunk = await stream.readexactly(size + 2) if size else await _trailer(stream)
        raw += line + chunk
        content += chunk[:size]
        if size == 0:
            return Body(bytes(raw), bytes(content))


async def _trailer(stream: asyncio.StreamReader) -> bytes:
    lines = [await stream.readuntil(b"\r\n")]
    while lines[-1] != b"\r\n":
        lines.append(await stream.readuntil(b"\r\n"))
    return b"".join(lines)


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection; unsent bytes are dropped."""
    with suppress(OSError):
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    writer.transport.abort()
