"""Speaks to the metadata endpoint: patient with a service that is being updated, and never too often.

Proxies are never used (D-05): ``http.client`` knows none.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse
from urllib.parse import urlsplit

from fairwarning.agent.clock import AgentClock
from fairwarning.agent.deadline import deadline
from fairwarning.core.document.parse import DocumentError, ObservedDocument, parse_document, parse_instant
from fairwarning.core.document.render import EVENTS_PATH, TRANSIENT, render_start_request
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId

NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"

#: C-02: switching the feature on may take two minutes; later answers come quickly.
FIRST_TIMEOUT, TIMEOUT = timedelta(seconds=120), timedelta(seconds=5)
BACK_OFF = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 4, 8, 16))
#: How long to leave a server alone that says that the request itself is wrong.
AFTER_REFUSAL = timedelta(seconds=60)
#: R-10: more than five requests in a second are throttled, over all that ask from this machine.
BETWEEN_REQUESTS = timedelta(milliseconds=250)
#: How long a server that offers it holds an answer back until something changes.
LONG_POLL = timedelta(seconds=20)
#: Clocks that differ by less are taken for the same: dates on the wire have whole seconds.
SAME_TIME = timedelta(seconds=3)
LARGEST_ANSWER = 4 * 1024 * 1024
OFFERS_WAIT = "IMDS/fairwarning"


class UnavailableError(FairWarningError):
    """The endpoint does not answer as it should at this moment; that says nothing about events."""


class RefusedError(FairWarningError):
    """The endpoint understood the request and will not have it; asking again would not help."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the endpoint answers {status}: {text or 'no reason given'}")
        self.status = status


@dataclass(frozen=True, slots=True)
class MetadataReply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class MetadataClient:
    """One machine's line to the endpoint; safe to use from several threads."""

    def __init__(
        self,
        endpoint: str,
        clock: AgentClock,
        *,
        version: str = NEWEST,
        poll: timedelta = BACK_OFF[0],
        patience: timedelta = FIRST_TIMEOUT,
    ) -> None:
        self._where = urlsplit(endpoint)
        self._path = f"{self._where.path.rstrip('/')}{EVENTS_PATH}?api-version={version}"
        self._clock = clock
        self._poll = poll
        self._patience = patience
        self._pace = threading.Lock()
        self._next_at = clock.elapsed()
        self._etag = ""
        self._waits = False
        self._answered = False
        self._failures = 0
        self.pause = timedelta(0)
        self.offset = timedelta(0)

    def now(self) -> datetime:
        """Return the time on the endpoint's calendar: the one in which NotBefore is written."""
        return self._clock.now() + self.offset

    def name(self) -> str:
        """Return what the endpoint calls this machine (C-05).

        Raises:
            Unavailable: it could not be learned now.
        """
        try:
            reply = self._ask("GET", f"{self._where.path.rstrip('/')}{NAME}", timeout=self._timeout())
            _check(reply)
        except RefusedError as problem:
            raise UnavailableError(f"the name of this machine is not told: {problem}") from None
        name = reply.body.decode(errors="replace").strip()
        if not name or len(name) > 256 or name.startswith(("{", "<")):
            raise UnavailableError("the name of this machine is not told: the answer is no name")
        return name

    def get(self, path: str) -> MetadataReply:
        """Return whatever is answered at a path, good or bad.

        Raises:
            Unavailable: nothing was answered.
        """
        reply = self._ask("GET", f"{self._where.path.rstrip('/')}{path}", timeout=self._timeout())
        self._answered = self._answered or reply.status == 200
        return reply

    def poll(self) -> ObservedDocument | None:
        """Return the document if it is another one than last time; ``pause`` then says when to ask again.

        Raises:
            Unavailable: there was no good answer; the last document still stands (C-02).
            Refused: the request itself is wrong.
        """
        try:
            return self._poll_once()
        except (UnavailableError, RefusedError) as problem:
            # What is answered after an outage may be another server's: it must not say "as you know".
            self._etag = ""
            self.pause = AFTER_REFUSAL if isinstance(problem, RefusedError) else back_off(self._failures)
            self._failures += 1
            raise

    def approve(self, event_id: EventId) -> None:
        """Tell the endpoint that an event may start; tries again while the endpoint is away.

        Raises:
            Unavailable: it could not be said in half a minute.
            Refused: the endpoint does not know the event, or not any more (R-16).
        """
        body = render_start_request(event_id)
        for length in (*BACK_OFF, None):
            try:
                _check(self._ask("POST", self._path, body, timeout=TIMEOUT))
                return
            except UnavailableError:
                if length is None:
                    raise
                self._clock.wait(length)

    def _timeout(self) -> timedelta:
        return min(TIMEOUT, self._patience) if self._answered else self._patience

    def _poll_once(self) -> ObservedDocument | None:
        waiting = self._waits and bool(self._etag)
        path = f"{self._path}&wait={LONG_POLL.seconds}" if waiting else self._path
        headers = {"If-None-Match": self._etag} if self._etag else {}
        timeout = self._timeout() + (LONG_POLL if waiting else timedelta(0))
        begun = self._clock.elapsed()
        reply = self._ask("GET", path, timeout=timeout, headers=headers)
        if reply.status != 304:
            _check(reply)
        try:
            document = None if reply.status == 304 else parse_document(reply.body)
        except DocumentError as problem:
            raise UnavailableError(str(problem)) from None
        self._answered = self._answered or document is not None
        self._failures = 0
        held = waiting and (document is not None or self._clock.elapsed() - begun >= LONG_POLL / 2)
        self.pause = timedelta(0) if held else self._poll
        if reply.status != 304:
            self._etag = reply.headers.get("etag", "") if document is not None else ""
        self._waits = reply.headers.get("server", "") == OFFERS_WAIT
        if self._waits and self._etag and not waiting:
            self.pause = timedelta(0)
        return document

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        timeout: timedelta,
        headers: Mapping[str, str] | None = None,
    ) -> MetadataReply:
        self._take_turn()
        line = HTTPConnection(
            self._where.hostname or "", self._where.port or 80, timeout=timeout.total_seconds()
        )
        sent = {"Metadata": "true", "Connection": "close", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            with deadline(line, timeout):
                line.request(method, path, body, sent)
                return self._receive(line.getresponse())
        except (OSError, HTTPException) as problem:
            raise UnavailableError(
                f"{self._where.netloc} does not answer: {problem or type(problem).__name__}"
            ) from None

    def _receive(self, response: HTTPResponse) -> MetadataReply:
        headers = {name.lower(): value for name, value in response.getheaders()}
        date = parse_instant(headers.get("date", ""))
        if date is not None:
            offset = date - self._clock.now()
            self.offset = offset if abs(offset) > SAME_TIME else timedelta(0)
        return MetadataReply(response.status, headers, response.read(LARGEST_ANSWER))

    def _take_turn(self) -> None:
        with self._pace:
            now = self._clock.elapsed()
            turn = max(self._next_at, now)
            self._next_at = turn + BETWEEN_REQUESTS
        self._clock.wait(turn - now)


def back_off(failures: int) -> timedelta:
    """Return how long to wait after a number of failures before this one (C-02)."""
    return BACK_OFF[min(failures, len(BACK_OFF) - 1)]


def _check(reply: MetadataReply) -> None:
    if 200 <= reply.status < 300:
        return
    text = reply.body[:500].decode(errors="replace").strip()
    if reply.status in TRANSIENT or reply.status >= 500:
        raise UnavailableError(f"the endpoint answers {reply.status}: {text or 'no reason given'}")
    raise RefusedError(reply.status, text)
