"""The client of the metadata endpoint.

The client retries while the service is being updated (C-02) and stays below the request limit (R-10). Proxies
are never used (D-05): ``http.client`` ignores them.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.client import HTTPException, HTTPResponse
from urllib.parse import urlsplit

from fairwarning import __version__
from fairwarning.agent.clock import AgentClock
from fairwarning.agent.connection import TimedConnection
from fairwarning.core.document.parse import DocumentError, ObservedDocument, parse_document, parse_instant
from fairwarning.core.document.render import EVENTS_PATH, TRANSIENT, render_start_request
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId

USER_AGENT = f"fairwarning-agent/{__version__}"
NAME_PATH = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"

#: C-02: the first answer may take two minutes, because it enables the feature; later answers come quickly.
FIRST_TIMEOUT, TIMEOUT = timedelta(seconds=120), timedelta(seconds=5)
BACK_OFF = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 4, 8, 16))
#: The pause after an answer that says that the request itself is wrong.
AFTER_REFUSAL = timedelta(seconds=60)
#: R-10: more than five requests per second are throttled, counted over all programs of this machine.
BETWEEN_REQUESTS = timedelta(milliseconds=250)
#: How long a server that offers long polling may hold an answer back until the document changes.
LONG_POLL = timedelta(seconds=20)
#: C-14: how long documents with a smaller incarnation are ignored; another node of the service may be behind.
SMALLER_IGNORED = timedelta(seconds=5)
#: A smaller difference between two clocks is ignored: dates on the wire have whole seconds.
SAME_TIME = timedelta(seconds=3)
#: A date outside of these years is ignored: adding the longest duration to it must stay within ``datetime``.
#: The clock of an emulator may be years ahead, but never beyond the last of them.
FIRST_YEAR, LAST_YEAR = 1970, 8000
LARGEST_ANSWER = 4 * 1024 * 1024
OFFERS_WAIT = "IMDS/fairwarning"


class UnavailableError(FairWarningError):
    """The endpoint gives no usable answer at the moment; this says nothing about events."""


class RefusedError(FairWarningError):
    """The endpoint refuses the request; a retry would be refused too."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the endpoint answers {status}: {text or 'no reason given'}")
        self.status = status


@dataclass(frozen=True, slots=True)
class MetadataReply:
    """An answer of the endpoint."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class MetadataClient:
    """The client of one machine's metadata endpoint; safe to use from several threads."""

    def __init__(
        self,
        endpoint: str,
        clock: AgentClock,
        *,
        version: str = NEWEST,
        poll: timedelta = BACK_OFF[0],
        first_timeout: timedelta = FIRST_TIMEOUT,
    ) -> None:
        self._base = urlsplit(endpoint)
        self._path = f"{self._base.path.rstrip('/')}{EVENTS_PATH}?api-version={version}"
        self._clock = clock
        self._poll = poll
        self._first_timeout = first_timeout
        self._slot_lock = threading.Lock()
        self._next_at = clock.elapsed()
        self._etag = ""
        self._offers_wait = False
        self._answered = False
        self._failures = 0
        #: The incarnation of the last document, and since when only smaller ones were read.
        self._incarnation: int | str = ""
        self._smaller_since: timedelta | None = None
        self.pause = timedelta(0)
        self.offset = timedelta(0)

    def now(self) -> datetime:
        """Return the time by the endpoint's clock, which NotBefore refers to."""
        return self._clock.now() + self.offset

    def name(self) -> str:
        """Return the name that the endpoint has for this machine (C-05).

        Raises:
            UnavailableError: the endpoint did not return a name.
        """
        try:
            reply = self._request("GET", f"{self._base.path.rstrip('/')}{NAME_PATH}", timeout=self._timeout())
            _check(reply)
        except RefusedError as problem:
            raise UnavailableError(f"the endpoint returned no machine name: {problem}") from None
        name = reply.body.decode(errors="replace").strip()
        if not name or len(name) > 256 or name.startswith(("{", "<")):
            raise UnavailableError("the endpoint returned no machine name")
        return name

    def get(self, path: str) -> MetadataReply:
        """Return the answer at a path, whatever its status.

        Raises:
            UnavailableError: there was no answer.
        """
        reply = self._request("GET", f"{self._base.path.rstrip('/')}{path}", timeout=self._timeout())
        self._answered = self._answered or reply.status == 200
        return reply

    def poll(self) -> ObservedDocument | None:
        """Return the document if it differs from the last one; ``pause`` then says when to poll again.

        A document with a smaller incarnation is returned only after 5 s of smaller ones alone (C-14).

        Raises:
            UnavailableError: there was no usable answer; the last document stays valid (C-02).
            RefusedError: the request itself is wrong.
        """
        try:
            return self._poll_once()
        except (UnavailableError, RefusedError) as problem:
            # After an outage another server may answer, so the next poll asks for the whole document. A node
            # that stood still is behind when it answers again: the time of the outage does not count (C-14).
            self._etag = ""
            self._smaller_since = None
            self.pause = AFTER_REFUSAL if isinstance(problem, RefusedError) else back_off(self._failures)
            self._failures += 1
            raise

    def approve(self, event_id: EventId) -> None:
        """Approve an event; retries while the endpoint is unavailable.

        Raises:
            UnavailableError: every attempt failed, over half a minute.
            RefusedError: the endpoint does not know the event, or no longer does (R-16).
        """
        body = render_start_request(event_id)
        for length in (*BACK_OFF, None):
            try:
                _check(self._request("POST", self._path, body, timeout=TIMEOUT))
                return
            except UnavailableError:
                if length is None:
                    raise
                self._clock.wait(length)

    def _timeout(self) -> timedelta:
        return min(TIMEOUT, self._first_timeout) if self._answered else self._first_timeout

    def _poll_once(self) -> ObservedDocument | None:
        waiting = self._offers_wait and bool(self._etag)
        path = f"{self._path}&wait={LONG_POLL.seconds}" if waiting else self._path
        headers = {"If-None-Match": self._etag} if self._etag else {}
        timeout = self._timeout() + (LONG_POLL if waiting else timedelta(0))
        begun = self._clock.elapsed()
        reply = self._request("GET", path, timeout=timeout, headers=headers)
        if reply.status != 304:
            _check(reply)
        try:
            document = None if reply.status == 304 else parse_document(reply.body)
        except DocumentError as problem:
            raise UnavailableError(str(problem)) from None
        self._answered = self._answered or document is not None
        self._failures = 0
        if document is not None and self._is_outdated(document):
            self.pause = min(self._poll, BACK_OFF[0])
            return None
        held = waiting and (document is not None or self._clock.elapsed() - begun >= LONG_POLL / 2)
        self.pause = timedelta(0) if held else self._poll
        if reply.status != 304:
            self._etag = reply.headers.get("etag", "") if document is not None else ""
        self._offers_wait = reply.headers.get("server", "") == OFFERS_WAIT
        if self._offers_wait and self._etag and not waiting:
            self.pause = timedelta(0)
        return document

    def _is_outdated(self, document: ObservedDocument) -> bool:
        """Whether a document is smaller than the last one, and has been for a short time only."""
        last, now = self._incarnation, self._clock.elapsed()
        if isinstance(last, int) and isinstance(document.incarnation, int) and document.incarnation < last:
            self._smaller_since = now if self._smaller_since is None else self._smaller_since
            if now - self._smaller_since < SMALLER_IGNORED:
                return True
        self._incarnation, self._smaller_since = document.incarnation, None
        return False

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        timeout: timedelta,
        headers: Mapping[str, str] | None = None,
    ) -> MetadataReply:
        self._wait_for_slot()
        fields = {"Metadata": "true", "User-Agent": USER_AGENT, "Connection": "close", **(headers or {})}
        if body is not None:
            fields["Content-Type"] = "application/json"
        try:
            with TimedConnection(self._base.hostname or "", self._base.port, timeout) as connection:
                connection.request(method, path, body, fields)
                return self._receive(connection.getresponse())
        except (OSError, HTTPException) as problem:
            raise UnavailableError(
                f"{self._base.netloc} does not answer: {str(problem) or type(problem).__name__}"
            ) from None

    def _receive(self, response: HTTPResponse) -> MetadataReply:
        headers = {name.lower(): value for name, value in response.getheaders()}
        date = parse_instant(headers.get("date", ""))
        if date is not None and FIRST_YEAR <= date.year <= LAST_YEAR:
            offset = date - self._clock.now()
            self.offset = offset if abs(offset) > SAME_TIME else timedelta(0)
        return MetadataReply(response.status, headers, response.read(LARGEST_ANSWER))

    def _wait_for_slot(self) -> None:
        with self._slot_lock:
            now = self._clock.elapsed()
            slot = max(self._next_at, now)
            self._next_at = slot + BETWEEN_REQUESTS
        self._clock.wait(slot - now)


def back_off(failures: int) -> timedelta:
    """Return the pause after a failure that ``failures`` others preceded (C-02)."""
    return BACK_OFF[min(failures, len(BACK_OFF) - 1)]


def _check(reply: MetadataReply) -> None:
    if 200 <= reply.status < 300:
        return
    text = reply.body[:500].decode(errors="replace").strip()
    if reply.status in TRANSIENT or reply.status >= 500:
        raise UnavailableError(f"the endpoint answers {reply.status}: {text or 'no reason given'}")
    raise RefusedError(reply.status, text)
