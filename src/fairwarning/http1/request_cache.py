"""A cache from the bytes of a request to its parsed form, because clients repeat the same bytes every second.

The key is what one ``read`` returned, if it is exactly one whole request without a body on a connection
that stays open; the same bytes then always ask for the same thing. The value holds nothing that depends on
time or on the caller, so all connections share the cache. There are two generations: a new one begins after
``MAX_ENTRIES`` entries or ``GENERATION_SECONDS``, and an entry that is unused for a whole generation is
dropped. A request enters the cache when it is seen for the second time; the first time, only a hash is kept,
so a client that never repeats a request does not fill the cache.

Requests that differ only in ignored headers (a fresh request id, say) share one entry under their
normalized head: the head without well-formed lines of ignored headers. Headers are ignored unless they are
framing, or the application says that it reads them. A malformed line is kept, so it never matches. Empty
lines are kept, too, so bytes that continue after the end of a head never match.
"""

import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from fairwarning.http1.head_parser import FIELD, read_head
from fairwarning.http1.messages import HEAD_LIMIT, LINE_LIMIT, CacheableGet, Request, RequestRefusedError

#: The size of a generation in entries, of an entry in bytes, and of a generation in seconds.
MAX_ENTRIES = 8_192
MAX_ENTRY_BYTES = 1_024
GENERATION_SECONDS = 60.0

#: The headers that decide where a request ends, and whether the connection stays.
FRAMING_HEADERS = ("connection", "content-length", "expect", "host", "transfer-encoding")

_END = b"\r\n\r\n"


def _ignored_line(application_headers: Collection[str]) -> re.Pattern[bytes]:
    """Return the pattern of a well-formed line whose header nothing reads."""
    names = (*FRAMING_HEADERS, *application_headers)
    # The first letter is matched separately, so that most other lines fail at their first character. A line
    # that matches without being significant stays in the normalized head, which is harmless.
    significant = (
        rf"[{''.join(name[0] + name[0].upper() for name in names)}]"
        rf"(?i:{'|'.join(name[1:] for name in names)}):"
    )
    return re.compile(rf"\n(?!{significant}){FIELD}\r(?=\n)".encode())


class CachedRequest(NamedTuple):
    """What some bytes ask for; without ``request``, the bytes still have to be parsed for the application."""

    request: Request | None
    get: CacheableGet | None


class RequestCache:
    """Parsed requests by their bytes, in two generations; ``headers`` are those that ``prepare`` reads."""

    def __init__(
        self,
        prepare: Callable[[Request], CacheableGet | None] | None,
        headers: Collection[str] = (),
        *,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self._prepare = prepare
        self._ignored_line = _ignored_line(headers)
        self._max_entries = max_entries
        #: The current generation; connections look here before they call ``lookup``.
        self.recent: dict[bytes, CachedRequest] = {}
        self._previous: dict[bytes, CachedRequest] = {}
        self._seen_once: set[int] = set()
        self._normalized: dict[bytes, CachedRequest] = {}
        self._generation_began = 0.0

    def __len__(self) -> int:
        return len(self.recent) + len(self._previous)

    def lookup(self, data: bytes) -> CachedRequest | None:
        """Return what the bytes ask for, if they are one whole request without a body."""
        cached = self.recent.get(data)
        if cached is not None:
            return cached
        cached = self._previous.get(data)
        if cached is None:
            if len(data) > HEAD_LIMIT or not data.endswith(_END) or data.count(b"\n") > LINE_LIMIT:
                return None
            normalized = self._ignored_line.sub(b"", data)
            cached = self._normalized.get(normalized) or self._parse(data, normalized)
            if cached is None or not self._seen_before(data, cached):
                return cached
        if len(self.recent) >= self._max_entries:
            self._previous, self.recent = self.recent, {}
        self.recent[data] = cached
        return cached

    def expire(self, time: float) -> None:
        """Begin a generation when it is time: long polls send a new head after every change."""
        if time - self._generation_began >= GENERATION_SECONDS:
            self._generation_began = time
            self._previous, self.recent = self.recent, {}
            self._seen_once.clear()
            self._normalized.clear()

    def _parse(self, data: bytes, normalized: bytes) -> CachedRequest | None:
        if data.find(_END) != len(data) - len(_END):
            return None
        try:
            head = read_head(data)
        except RequestRefusedError:
            return None
        if head.length != 0:
            return None
        get = None if self._prepare is None else self._prepare(head.request)
        if get is not None and len(data) <= MAX_ENTRY_BYTES:
            if len(self._normalized) >= self._max_entries:
                self._normalized.clear()
            self._normalized[normalized] = CachedRequest(None, get)
        return CachedRequest(head.request, get)

    def _seen_before(self, data: bytes, cached: CachedRequest) -> bool:
        if len(data) > MAX_ENTRY_BYTES or (cached.request is not None and not cached.request.keep_alive):
            return False
        digest = hash(data)
        if digest in self._seen_once:
            return True
        if len(self._seen_once) >= self._max_entries:
            self._seen_once.clear()
        self._seen_once.add(digest)
        return False
