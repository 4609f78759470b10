"""Where one request ends and the next begins, whatever pieces they arrive in."""

import re

from fairwarning.http1.grammar import STRAY, check_trailers
from fairwarning.http1.messages import BODY_LIMIT, HEAD_LIMIT, RequestFault, RequestRefusedError

_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_CHUNK_LINE = 8 + len(b"\r\n")
#: Chunks that are taken before others have their turn.
CHUNKS_AT_ONCE = 32


class Inbox:
    """The bytes that arrived and are not yet understood."""

    __slots__ = ("_checked", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._checked = 0

    def take(self, size: int) -> bytes | None:
        """Take so many bytes, once they are there."""
        if len(self.data) < size:
            return None
        taken = bytes(self.data[:size])
        del self.data[:size]
        return taken

    def take_block(self) -> bytes | None:
        """Take the lines before the next empty line, and that line."""
        end = self.data.find(b"\r\n\r\n", max(0, self._checked - 3), HEAD_LIMIT)
        if end >= 0:
            block = bytes(self.data[: end + 4])
            del self.data[: end + 4]
            self._checked = 0
            return block
        stop = min(len(self.data), HEAD_LIMIT)
        # Looked for in every piece, so that a client with other line ends is told at once.
        if STRAY.search(self.data, max(0, self._checked - 1), stop):
            raise RequestRefusedError(RequestFault.STRAY)
        if stop == HEAD_LIMIT:
            raise RequestRefusedError(RequestFault.HEAD_SIZE)
        self._checked = stop
        return None


class Chunks:
    """A chunked body, taken out of the inbox piece by piece, and not too many at once."""

    __slots__ = ("_body", "_size", "paused")

    def __init__(self) -> None:
        #: Whether there may be more to take without further bytes.
        self.paused = False
        self._body = bytearray()
        self._size: int | None = None

    def take(self, inbox: Inbox) -> bytes | None:
        """Take what is there, and return the body once it is whole."""
        self.paused = False
        for _ in range(CHUNKS_AT_ONCE):
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
        # Chunk extensions are refused: nobody needs them, and parsers disagree about them.
        if not _CHUNK_SIZE.fullmatch(digits):
            raise RequestRefusedError(RequestFault.CHUNK_SIZE)
        size = int(digits, 16)
        if len(self._body) + size > BODY_LIMIT:
            raise RequestRefusedError(RequestFault.BODY_SIZE)
        del inbox.data[: end + 2]
        return size


def _take_trailers(inbox: Inbox) -> bool:
    """Drop the trailers, and say whether they have ended."""
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
