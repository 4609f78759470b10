"""Finds where one request ends and the next begins, whatever pieces they arrive in."""

import re

from fairwarning.http1.head_parser import STRAY, check_trailers
from fairwarning.http1.messages import BODY_LIMIT, HEAD_LIMIT, RequestFault, RequestRefusedError

_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_CHUNK_LINE = 8 + len(b"\r\n")
#: Chunks that are decoded before other connections have their turn.
CHUNKS_PER_TURN = 32


class Inbox:
    """The bytes that arrived and are not parsed yet."""

    __slots__ = ("_checked", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._checked = 0

    def take(self, size: int) -> bytes | None:
        """Take ``size`` bytes, once they have arrived."""
        if len(self.data) < size:
            return None
        data = bytes(self.data[:size])
        del self.data[:size]
        return data

    def take_block(self) -> bytes | None:
        """Take the lines up to the next empty line, and that line."""
        end = self.data.find(b"\r\n\r\n", max(0, self._checked - 3), HEAD_LIMIT)
        if end >= 0:
            block = bytes(self.data[: end + 4])
            del self.data[: end + 4]
            self._checked = 0
            return block
        stop = min(len(self.data), HEAD_LIMIT)
        # Checked in every piece, so that a client with wrong line endings gets its error at once.
        if STRAY.search(self.data, max(0, self._checked - 1), stop):
            raise RequestRefusedError(RequestFault.STRAY)
        if stop == HEAD_LIMIT:
            raise RequestRefusedError(RequestFault.HEAD_SIZE)
        self._checked = stop
        return None


class Chunks:
    """A chunked body; its chunks are decoded a few at a time."""

    __slots__ = ("_body", "_size", "paused")

    def __init__(self) -> None:
        #: Whether decoding stopped at the limit per turn, not because bytes are missing.
        self.paused = False
        self._body = bytearray()
        self._size: int | None = None

    def take(self, inbox: Inbox) -> bytes | None:
        """Decode the chunks that have arrived, and return the body once it is complete."""
        self.paused = False
        for _ in range(CHUNKS_PER_TURN):
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
                raise RequestRefusedError(RequestFault.CHUNK_END)
            self._body += chunk[:-2]
            self._size = None
        self.paused = True
        return None

    def _take_size(self, inbox: Inbox) -> int | None:
        end = inbox.data.find(b"\r\n", 0, _CHUNK_LINE)
        if end < 0 and len(inbox.data) < _CHUNK_LINE:
            return None
        digits = bytes(inbox.data[: max(0, end)])
        # Chunk extensions are refused: clients do not need them, and parsers disagree about them.
        if not _CHUNK_SIZE.fullmatch(digits):
            raise RequestRefusedError(RequestFault.CHUNK_SIZE)
        size = int(digits, 16)
        if len(self._body) + size > BODY_LIMIT:
            raise RequestRefusedError(RequestFault.BODY_SIZE)
        del inbox.data[: end + 2]
        return size


def _take_trailers(inbox: Inbox) -> bool:
    """Drop the trailers; return whether they are complete."""
    if len(inbox.data) < 2:
        return False
    if inbox.data.startswith(b"\r\n"):
        del inbox.data[:2]
        return True
    block = inbox.take_block()
    if block is None:
        return False
    check_trailers(block)
    return True
