"""HTTP from the agent: the client of the metadata endpoint, and one deadline for a whole exchange.

The client retries while the service is being updated (C-02) and stays below the request limit (R-10). Several
endpoints are nodes of one service: a request goes to the node that answered last, and from a node that does
not answer, or answers 5xx, to the next (C-19). Proxies are never used (D-05): ``http.client`` ignores them.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BufferedReader, RawIOBase
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from fairwarning import __version__
from fairwarning.agent.clock import AgentClock, AgentSystemClock
from fairwarning.core.document.parse import DocumentError, ObservedDocument, parse_document, parse_instant
from fairwarning.core.document.render import EVENTS_PATH, TRANSIENT, render_start_request
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
#: C-19: how long a client with several endpoints waits for the connection, and for the answer, of all but the
#: last. The 120 s of a first answer (C-02) would use up the notice of an eviction.
CONNECT_LIMIT, ANSWER_LIMIT = timedelta(seconds=3), timedelta(seconds=10)
#: The least that a request gets: a timeout of zero would mean none at all.
LEAST_TIMEOUT = timedelta(milliseconds=100)
#: C-14: how long documents with a smaller incarnation are ignored; another node of the service may be behind.
SMALLER_IGNORED = timedelta(seconds=5)
#: A smaller difference between two clocks is ignored: dates on the wire have whole seconds.
SAME_TIME = timedelta(seconds=3)
#: A date outside of these years is ignored: adding the longest duration to it must stay within ``datetime``.
#: The clock of an emulator may be years ahead, but never beyond the last of them.
FIRST_YEAR, LAST_YEAR = 1970, 8000
LARGEST_ANSWER = 4 * 1024 * 1024
HTTPS_PORT = 443
TOO_LONG = "the answer took too long"
OFFERS_WAIT = "IMDS/fairwarning"

TimeLeft = Callable[[], float]


class UnavailableError(FairWarningError):
    """The endpoint gives no usable answer, and may ask for a pause; this says nothing about events."""

    def __init__(self, problem: str, pause: timedelta = timedelta(0)) -> None:
        super().__init__(problem)
        self.pause = pause


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


class TimedConnection(HTTPConnection):
    """A connection for one exchange, which ends ``limit`` after it was made; a context that closes it.

    A socket's own timeout restarts with every byte, so a server that sends one byte every few seconds could
    hold a client for hours. Here every step gets only the time that is left: connecting, the TLS handshake,
    each write and each read. No thread watches the time, so an agent that cannot start threads still polls.
    Resolving a name is not limited: the resolver has time limits of its own. Each address of a name gets the
    time to connect, because the next may answer where one does not.

    Raises:
        TimeoutError: the exchange took too long.
    """

    def __init__(
        self,
        host: str,
        port: int | None,
        limit: timedelta,
        *,
        connect_limit: timedelta | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if tls is not None:
            self.default_port = HTTPS_PORT
        # Without a port, the end of an IPv6 address would be taken for one.
        super().__init__(host, port or self.default_port)
        self._clock = AgentSystemClock()
        self._end = self._clock.elapsed() + limit
        self._connect_limit = limit if connect_limit is None else connect_limit
        self._tls = tls

    def connect(self) -> None:
        """Connect, and do the handshake of TLS."""
        limit = min(self._time_left(), self._connect_limit.total_seconds())
        connection = socket.create_connection((self.host, self.port), limit)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection.settimeout(self._time_left())
                connection = self._tls.wrap_socket(connection, server_hostname=self.host)
        except BaseException:
            connection.close()
            raise
        self.sock = _TimedSocket(connection, self._time_left)

    def __enter__(self) -> "TimedConnection":
        return self

    def __exit__(self, _: object, problem: BaseException | None, *__: object) -> None:
        self.close()
        if isinstance(problem, TimeoutError):
            raise TimeoutError(TOO_LONG) from None

    def _time_left(self) -> float:
        left = (self._end - self._clock.elapsed()).total_seconds()
        if left <= 0:
            raise TimeoutError(TOO_LONG)
        return left


class _TimedSocket:
    """The part of a socket that ``http.client`` uses."""

    def __init__(self, connection: socket.socket, time_left: TimeLeft) -> None:
        self._connection = connection
        self._time_left = time_left

    def sendall(self, data: bytes) -> None:
        """Send everything."""
        unsent = memoryview(data)
        while unsent:
            self._connection.settimeout(self._time_left())
            unsent = unsent[self._connection.send(unsent) :]

    def makefile(self, mode: str) -> BufferedReader:
        """Return what the server sends as a file; ``mode`` is always ``rb``."""
        return BufferedReader(_TimedReader(self._connection, self._time_left))

    def close(self) -> None:
        """Close the connection, unless a file still reads from it."""
        self._connection.close()


class _TimedReader(RawIOBase):
    """The reading side of a connection."""

    def __init__(self, connection: socket.socket, time_left: TimeLeft) -> None:
        # A socket stays open until the files that were made of it are closed.
        self._file = connection.makefile("rb", buffering=0)
        self._connection = connection
        self._time_left = time_left

    def readable(self) -> bool:
        """Whether the file can be read: always."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        """Read what has come, or wait for it."""
        self._connection.settimeout(self._time_left())
        return self._file.readinto(buffer)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request to an endpoint; the path begins after the endpoint's own."""

    method: str = "GET"
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


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
        others: Sequence[str] = (),
        moved: Callable[[str, str], None] = lambda endpoint, problem: None,
    ) -> None:
        self._bases = tuple(map(urlsplit, (endpoint, *others)))
        #: The endpoint that answered last.
        self._current = 0
        self._moved = moved
        self._path = f"{EVENTS_PATH}?api-version={version}"
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

    @property
    def endpoint(self) -> str:
        """The endpoint that answered last; before the first answer, the first of the list."""
        return self._bases[self._current].geturl()

    def name(self) -> str:
        """Return the name that the endpoint has for this machine (C-05).

        Raises:
            UnavailableError: the endpoint did not return a name.
        """
        try:
            reply = self._ask(_Request(path=NAME_PATH), self._timeout())
            _check(reply)
        except RefusedError as problem:
            raise UnavailableError(f"the endpoint returned no machine name: {problem}") from None
        name = reply.body.decode(errors="replace").strip()
        if not name or len(name) > 256 or name.startswith(("{", "<")):
            raise UnavailableError("the endpoint returned no machine name")
        return name

    def get(self, path: str) -> MetadataReply:
        """Return the answer of the current endpoint at a path, whatever its status.

        Raises:
            UnavailableError: there was no answer.
        """
        self._wait_for_slot()
        reply = self._exchange(self._bases[self._current], _Request(path=path), self._timeout())
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
            self.pause = (
                AFTER_REFUSAL
                if isinstance(problem, RefusedError)
                else max(back_off(self._failures), problem.pause)
            )
            self._failures += 1
            raise

    def approve(self, event_id: EventId) -> None:
        """Approve an event; retries while the endpoint is unavailable.

        Raises:
            UnavailableError: every attempt failed, over half a minute.
            RefusedError: the endpoint does not know the event, or no longer does (R-16).
        """
        request = _Request(method="POST", path=self._path, body=render_start_request(event_id))
        for length in (*BACK_OFF, None):
            try:
                _check(self._ask(request, TIMEOUT))
                return
            except UnavailableError as problem:
                if length is None:
                    raise
                self._clock.wait(max(length, problem.pause))

    def _timeout(self) -> timedelta:
        return min(TIMEOUT, self._first_timeout) if self._answered else self._first_timeout

    def _poll_once(self) -> ObservedDocument | None:
        waiting = self._offers_wait and bool(self._etag)
        whole = _Request(path=self._path)
        request = replace(
            whole,
            path=f"{self._path}&wait={LONG_POLL.seconds}" if waiting else self._path,
            headers={"If-None-Match": self._etag} if self._etag else {},
        )
        begun = self._clock.elapsed()
        reply = self._ask(
            request, self._timeout(), held=LONG_POLL if waiting else timedelta(0), elsewhere=whole
        )
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

    def _ask(
        self,
        request: _Request,
        within: timedelta,
        *,
        held: timedelta = timedelta(0),
        elsewhere: _Request | None = None,
    ) -> MetadataReply:
        """Return the answer of the endpoint that answered last, or of the next that answers (C-19).

        The first may hold its answer back for ``held``; the others get the request ``elsewhere``, if there is
        one. Each gets an equal share of the time that is left.

        Raises:
            UnavailableError: no endpoint answered, or all answered 5xx.
        """
        first, count = self._current, len(self._bases)
        problems: list[UnavailableError] = []
        self._wait_for_slot()
        end = self._clock.elapsed() + within + held
        for index in [*range(first, count), *range(first)]:
            if problems:
                self._wait_for_slot()
            left = count - len(problems)
            share = (end - held - self._clock.elapsed()) / left
            limit = max(min(share, ANSWER_LIMIT) if left > 1 else share, LEAST_TIMEOUT)
            base = self._bases[index]
            try:
                reply = self._exchange(base, request, limit + held)
                if reply.status >= 500 and count > 1:
                    text = f"{base.netloc} answers {_describe(reply)}"
                    raise UnavailableError(text, requested_pause(reply))
            except UnavailableError as problem:
                problems.append(problem)
                request, held = elsewhere or request, timedelta(0)
            else:
                if problems:
                    self._move(index, problems)
                return reply
        raise problems[0] if count == 1 else _summary(problems)

    def _move(self, index: int, problems: Sequence[UnavailableError]) -> None:
        if index == self._current:
            # Another thread has moved there.
            return
        # The other node may be behind, as after an outage: its time counts from now on (C-14).
        self._current, self._etag, self._smaller_since = index, "", None
        self._moved(self.endpoint, str(_summary(problems)))

    def _exchange(self, base: SplitResult, request: _Request, limit: timedelta) -> MetadataReply:
        """Send a request to an endpoint, and return its answer.

        Raises:
            UnavailableError: there was no answer.
        """
        path = f"{base.path.rstrip('/')}{request.path}"
        fields = {"Metadata": "true", "User-Agent": USER_AGENT, "Connection": "close", **request.headers}
        if request.body is not None:
            fields["Content-Type"] = "application/json"
        connect_limit = CONNECT_LIMIT if len(self._bases) > 1 else limit
        try:
            with TimedConnection(
                base.hostname or "", base.port, limit, connect_limit=connect_limit
            ) as connection:
                connection.request(request.method, path, request.body, fields)
                return self._receive(connection.getresponse())
        except (OSError, HTTPException) as problem:
            raise UnavailableError(
                f"{base.netloc} does not answer: {str(problem) or type(problem).__name__}"
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
    if reply.status in TRANSIENT or reply.status >= 500:
        raise UnavailableError(f"the endpoint answers {_describe(reply)}")
    raise RefusedError(reply.status, _text(reply))


def _describe(reply: MetadataReply) -> str:
    return f"{reply.status}: {_text(reply) or 'no reason given'}"


def _text(reply: MetadataReply) -> str:
    return reply.body[:500].decode(errors="replace").strip()


def requested_pause(reply: MetadataReply) -> timedelta:
    """Return how long an answer asks to wait before the next request; zero if it does not ask."""
    value = reply.headers.get("retry-after", "")
    return timedelta(seconds=int(value) if value.isascii() and value.isdecimal() and len(value) < 9 else 0)


def _summary(problems: Sequence[UnavailableError]) -> UnavailableError:
    """Return one problem for those of all endpoints; the shortest pause that one asks for counts."""
    pauses = [problem.pause for problem in problems if problem.pause]
    # A longer pause could use up the notice of an eviction.
    pause = min([*pauses, BACK_OFF[-1]]) if pauses else timedelta(0)
    return UnavailableError("; ".join(map(str, problems)), pause)
