"""A client of the operator API, and the types of its answers.

The HTTP library is imported with the first request, so that ``--help`` and ``up`` are quick. Proxies of the
environment are never used: a proxy cannot answer for 127.0.0.1.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import click

from fairwarning import __version__, config
from fairwarning.cli.output import FailureError, UnreachableError, print_note
from fairwarning.config import PROGRAM
from fairwarning.core.document.render import Json
from fairwarning.core.errors import FairWarningError

if TYPE_CHECKING:
    import ssl

    import httpx2

T = TypeVar("T")

#: How many lines of the history are requested at a time.
PAGE = 1000

#: How many seconds a request may take; a long advance of a manual clock takes a while.
CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 120.0

PROBLEM_TYPE = "urn:fairwarning:problem:"
UNKNOWN_EVENT, UNKNOWN_MACHINE, UNKNOWN_SCOPE = "unknown-event", "unknown-machine", "unknown-scope"
WRONG_CLOCK = "wrong-clock"

_PENDING = f"{PROGRAM} events lists the pending events"
_DOCTOR = f"{PROGRAM} doctor --data DIR checks the server's data directory"

#: What may help, by the type of the problem.
_HINTS: Mapping[str, str] = {
    UNKNOWN_EVENT: f"{_PENDING}, {PROGRAM} history all events",
    UNKNOWN_MACHINE: f"{PROGRAM} vms lists the machines",
    UNKNOWN_SCOPE: f"{PROGRAM} vms lists the machines with their scopes",
    "unknown-walk": _PENDING,
    "walk-under-way": f"{PROGRAM} rollout --scope SCOPE --stop ends it",
    "too-many-user-events": _PENDING,
    "already-under-way": f"{PROGRAM} approve EVENT lets it start, {PROGRAM} cancel EVENT cancels it",
    "no-terminate-notice": (
        "az vmss update --enable-terminate-notification true, then az vmss update-instances; for a machine "
        "outside of scale sets, az vm update --set scheduledEventsProfile="
        """'{"terminateNotificationProfile": {"enable": true, "notBeforeTimeout": "PT5M"}}'; or """
        f"{PROGRAM} up --terminate-notice 5m; or terminate_notice in the file of {PROGRAM} serve"
    ),
    "reports-refused": f"start the server with: {PROGRAM} up --driver external",
    "storage-error": f"the server's log has the reason; {_DOCTOR}",
    "store-failed": _DOCTOR,
    "unknown-outcome-error": _DOCTOR,
    "database-damaged": _DOCTOR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """A machine, as the operator sees it."""

    name: str
    scope: str
    state: str
    power: str
    update_domain: int
    fault_domain: int
    host: str
    spot: bool
    enabled: bool
    polled_at: datetime | None
    metadata: str | None
    alternatives: tuple[str, ...] = ()
    computer_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo:
    """A pending event; an event that is over has only its id and its status."""

    id: str
    status: str
    scope: str = ""
    cause: str = ""
    type: str = ""
    resources: tuple[str, ...] = ()
    not_before: datetime | None = None
    approved_by: str | None = None
    waits_for: str | None = None
    shown: bool = True
    read: Mapping[str, datetime] = field(default_factory=dict)
    overdue: bool = False
    walk: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """A line of the history."""

    seq: int
    at: datetime
    kind: str
    scope: str
    event: str | None
    type: str
    resources: tuple[str, ...]
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockInfo:
    """The time of the fleet."""

    mode: str
    now: datetime
    speed: float
    next_deadline: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """A server of the fleet."""

    name: str
    address: str
    this: bool
    position: int
    lag: int
    clock_offset: float
    release: str
    seen_at: datetime
    #: Servers of earlier releases do not say these.
    inventory: str = ""
    reads: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """An answer with servers of the fleet."""

    nodes: tuple[NodeInfo, ...]
    #: Servers of earlier releases do not say it.
    writes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineList:
    """An answer with machines."""

    machines: tuple[MachineInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """An answer with events, and whether a guest was warned."""

    events: tuple[EventInfo, ...]
    warned: bool = True
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryBeginning:
    """The line from which the history is complete."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGap:
    """Lines that were pruned before they were read, or a history that ends before the last line read."""

    after: int
    upto: int

    def __str__(self) -> str:
        if self.upto < self.after:
            return f"a backup was restored: the history continues after line {self.upto}, not {self.after}"
        return f"lines {self.after + 1} to {self.upto} of the history were pruned unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPart:
    """A page of the history."""

    history: tuple[HistoryLine, ...]
    next: int | None = None
    begins: HistoryBeginning | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemInfo:
    """Why a request was refused (RFC 9457)."""

    type: str = ""
    title: str = ""
    detail: str = ""
    field: str = ""


class OperatorRefusalError(FailureError):
    """The server refused a request; ``kind`` is the last part of the problem's type."""

    def __init__(self, message: str, *hints: str, status: int, kind: str) -> None:
        super().__init__(message, *hints)
        self.status = status
        self.kind = kind


def decode(body: bytes | str, shape: type[T]) -> T:
    """Return an answer as a type."""
    import msgspec

    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FailureError(
            f"unexpected answer from the server: {error}", "is the server another version of fairwarning?"
        ) from error


class OperatorClient:
    """The operator API of one server."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        timeout: float | None = None,
        trust: "ssl.SSLContext | None" = None,
    ) -> None:
        """Take the address, the token, a time limit in seconds, and the authorities to trust."""
        self.url = url
        self._trust = trust
        self._timeout = timeout
        self._headers = {"User-Agent": f"fairwarning/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._stack = ExitStack()

    @cached_property
    def _http(self) -> "httpx2.Client":
        import httpx2

        timeout = httpx2.Timeout(self._timeout or CONNECT_TIMEOUT, read=self._timeout or READ_TIMEOUT)
        return self._stack.enter_context(
            httpx2.Client(
                base_url=self.url,
                headers=self._headers,
                trust_env=False,
                timeout=timeout,
                verify=self._authorities(),
            )
        )

    def _authorities(self) -> "ssl.SSLContext | bool":
        """Return the authorities to trust; True stands for those of this machine, which are slow to load."""
        import ssl

        if self._trust is None and not self.url.lower().startswith("https:"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts none; plain HTTP does not use it
        return self._trust or True

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def get(self, path: str, **query: str | int) -> bytes:
        """Return the server's answer to a GET request."""
        return self.call("GET", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Json] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> bytes:
        """Send a request and return the answer."""
        return self._send(method, f"/fleet/v1{path}", body, query)

    def check_health(self) -> bytes:
        """Return what the server says about itself, if it is alive."""
        return self._send("GET", "/healthz")

    def check_readiness(self) -> None:
        """Fail with the server's reason unless it may be sent traffic."""
        self._send("GET", "/readyz")

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Json] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> bytes:
        import httpx2

        try:
            response = self._http.request(method, path, json=body, params=query)
        except httpx2.LocalProtocolError:
            # The error quotes the header at fault, which may be the token.
            raise FailureError("the request has an invalid header") from None
        except httpx2.TransportError as error:
            raise _unreachable(self.url, str(error)) from error
        if response.is_error:
            raise _refusal(response)
        if response.content and not _is_json(response):
            raise _not_fairwarning(response)
        return response.content

    def history(self, event: str | None = None) -> Iterator[bytes]:
        """Yield the history page by page, oldest first."""
        query: dict[str, str | int] = {"limit": PAGE} if event is None else {"limit": PAGE, "event": event}
        while True:
            page = self.get("/history", **query)
            yield page
            following = decode(page, HistoryPart).next
            if following is None:
                return
            query["after"] = following

    def position(self) -> int:
        """Return the number of the newest line of the history."""
        seqs = (line.seq for page in self.history() for line in decode(page, HistoryPart).history)
        return max(seqs, default=0)

    def now(self) -> datetime:
        """Return the time of the fleet."""
        return decode(self.get("/clock"), ClockInfo).now

    def feed(self, after: int, connected: Callable[[], None]) -> Iterator[str]:
        """Yield every line of the history after ``after`` as it is written, until the connection ends."""
        import httpx2

        # The server sends a heartbeat every 15 seconds.
        timeout = httpx2.Timeout(30, read=60)
        try:
            with self._http.stream(
                "GET", "/fleet/v1/feed", headers={"Last-Event-ID": str(after)}, timeout=timeout
            ) as response:
                if response.is_error:
                    response.read()
                    raise _refusal(response)
                connected()
                for message in httpx2.EventSource(response):
                    if message.event == "gap":
                        gap = decode(message.data, HistoryGap)
                        print_note(str(gap))
                    elif message.data:
                        yield message.data
        except httpx2.TransportError as error:
            raise _unreachable(self.url, str(error)) from error


def open_client(timeout: float | None = None) -> OperatorClient:
    """Return a client of the server that the environment names; the caller closes it."""
    import httpx2

    url, token = config.server_url(), server_token()
    if token is not None and not config.is_token(token):
        raise click.UsageError("FAIRWARNING_TOKEN is not a token: it must be printable ASCII characters")
    if "@" in url:  # not printed: it may contain a password
        raise click.UsageError("FAIRWARNING_URL must have no user name; set FAIRWARNING_TOKEN to a token")
    try:
        _check_url(url)
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL) as error:
        expected = f"(expected e.g. {config.DEFAULT_URL})"
        raise click.UsageError(f"FAIRWARNING_URL is not a URL: {url!r} {expected}") from error
    return OperatorClient(url, token, timeout, _trust(config.server_ca()))


def server_token() -> str | None:
    """Return the token that the environment has, or the token of the file that it names."""
    try:
        return config.server_token()
    except FairWarningError as problem:
        raise click.UsageError(f"FAIRWARNING_TOKEN_FILE: {problem}") from problem


def _trust(path: str | None) -> "ssl.SSLContext | None":
    if path is None:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=path)
    except OSError as problem:
        raise FailureError(
            f"FAIRWARNING_CA: {path} cannot be read: {problem.strerror or problem}"
        ) from problem


def connect() -> OperatorClient:
    """Return a client that is closed when the command ends."""
    client = open_client()
    click.get_current_context().call_on_close(client.close)
    return client


def _unreachable(url: str, reason: str) -> FailureError:
    if "CERTIFICATE_VERIFY_FAILED" not in reason:
        return UnreachableError(url, reason)
    hint = "set FAIRWARNING_CA to a file with the authority that signed it, such as ca.pem of the server"
    return FailureError(f"the certificate of {url} is not trusted: {reason}", hint)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    # The property raises ValueError for an invalid port, and the encoding does for an invalid host name.
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0 or " " in url:
        raise ValueError(url)
    parts.hostname.encode("idna")


def _is_json(response: "httpx2.Response") -> bool:
    return "json" in response.headers.get("content-type", "")


def _not_fairwarning(response: "httpx2.Response") -> FailureError:
    return FailureError(
        f"{response.request.url} answers {response.status_code}, which is not an answer of fairwarning",
        f"set FAIRWARNING_URL to the address that {PROGRAM} up printed",
    )


def _refusal(response: "httpx2.Response") -> click.ClickException:
    if not _is_json(response):
        return _not_fairwarning(response)
    problem = decode(response.content, ProblemInfo)
    message = problem.detail or problem.title or f"the server answers {response.status_code}"
    match response.status_code:
        case 401:
            set_token = "set FAIRWARNING_TOKEN to the token in the server's --token-file"
            return FailureError(f"the token is wrong or missing: {message}", set_token)
        case 403:
            return FailureError(message, f"set FAIRWARNING_URL to the address that {PROGRAM} up printed")
        case 422 if (parameter := _parameter(problem.field)) is not None:
            return click.BadParameter(message.removeprefix(f"{problem.field}: "), param=parameter)
    kind = problem.type.removeprefix(PROBLEM_TYPE)
    hints = [_HINTS[kind]] if kind in _HINTS else []
    return OperatorRefusalError(message, *hints, status=response.status_code, kind=kind)


def _parameter(field: str) -> click.Parameter | None:
    """Return the parameter of the running command that a member of the request came from."""
    context = click.get_current_context(silent=True)
    parameters = [] if context is None else context.command.params
    name = field.partition("[")[0]
    return next((parameter for parameter in parameters if parameter.name == name), None)
