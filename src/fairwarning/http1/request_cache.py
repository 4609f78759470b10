"""Heads that were read before: guests send the same bytes every second, so reading them once is enough.

Only what one read brought, whole and alone, is remembered, and only if it has no body and keeps the
connection: then the same bytes always ask for the same. Nothing that depends on time or the caller is kept.
A client that puts something new into every request is known by its gist: the head without the lines that
nobody looks at. A line that breaks a rule stays in it, so whatever has the gist of a good head is one.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from fairwarning.http1.grammar import FIELD, read_head
from fairwarning.http1.messages import HEAD_LIMIT, CacheableGet, Request, RequestRefusedError

#: So many heads, of so many bytes each, make a generation, or those of so many seconds.
MOST = 8_192
LONGEST = 1_024
GENERATION = 60.0

#: The headers that decide where a request ends, whether it is the last one, and whether it is a plain poll.
LOOKED_AT = (
    "connection", "content-length", "expect", "host", "if-none-match", "metadata", "transfer-encoding",
    "x-forwarded-for",
)  # fmt: skip

_END = b"\r\n\r\n"
# First letters apart, so that most other lines are told from these at once; a line too many does no harm.
_LOOKED_AT = (
    rf"[{''.join(name[0] + name[0].upper() for name in LOOKED_AT)}]"
    rf"(?i:{'|'.join(name[1:] for name in LOOKED_AT)}):"
)
_PASSED_OVER = re.compile(rf"\n(?!{_LOOKED_AT}){FIELD}\r(?=\n)".encode())


class CachedRequest(NamedTuple):
    """What some bytes ask for: a plain poll, a request, or both; a request may have to be read still."""

    request: Request | None
    poll: CacheableGet | None


class RequestCache:
    """A memory of two generations: what nobody has sent for a whole generation is forgotten.

    A head is remembered when it comes again; of one that came once, only a hash is kept, because a client
    that never sends the same twice would make us remember all of it for nothing.
    """

    def __init__(self, prepare: Callable[[Request], CacheableGet | None] | None, most: int = MOST) -> None:
        self._prepare = prepare
        self._most = most
        #: What came again lately; looked at before anything is read.
        self.young: dict[bytes, CachedRequest] = {}
        self._old: dict[bytes, CachedRequest] = {}
        self._once: set[int] = set()
        self._gists: dict[bytes, CachedRequest] = {}
        self._turned = 0.0

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def read(self, data: bytes) -> CachedRequest | None:
        """Return what the bytes ask for, if they are one whole request without a body."""
        known = self.young.get(data)
        if known is not None:
            return known
        known = self._old.get(data)
        if known is None:
            if len(data) > HEAD_LIMIT or data.find(_END) != len(data) - len(_END):
                return None
            known = self._gists.get(_gist(data)) or self._learn(data)
            if known is None or not self._comes_again(data, known):
                return known
        if len(self.young) >= self._most:
            self._old, self.young = self.young, {}
        self.young[data] = known
        return known

    def age(self, time: float) -> None:
        """Begin a generation when it is time: guests that wait send a new head after every change."""
        if time - self._turned >= GENERATION:
            self._turned = time
            self._old, self.young = self.young, {}
            self._once.clear()
            self._gists.clear()

    def _learn(self, data: bytes) -> CachedRequest | None:
        try:
            head = read_head(data)
        except RequestRefusedError:
            return None
        if head.length != 0:
            return None
        poll = None if self._prepare is None else self._prepare(head.request)
        if poll is not None and len(data) <= LONGEST:
            if len(self._gists) >= self._most:
                self._gists.clear()
            self._gists[_gist(data)] = CachedRequest(None, poll)
        return CachedRequest(head.request, poll)

    def _comes_again(self, data: bytes, known: CachedRequest) -> bool:
        if len(data) > LONGEST or (known.request is not None and not known.request.keep_alive):
            return False
        mark = hash(data)
        if mark in self._once:
            return True
        if len(self._once) >= self._most:
            self._once.clear()
        self._once.add(mark)
        return False


def _gist(data: bytes) -> bytes:
    return _PASSED_OVER.sub(b"", data)
