"""Talks to a running server, and reads its answers into types.

The HTTP library is loaded with the first request, so that ``--help`` and ``up`` are quick. Proxies of the
environment are never used: what a proxy would answer for 127.0.0.1 is not our server.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import click

from fairwarning import config
from fairwarning.cli.output import FailureError, UnreachableError, note
from fairwarning.core.document.render import Json

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

#: How many lines of the history are asked for at a time.
PAGE = 1000

#: What may help, by the beginning of what the server says.
_HINTS: Mapping[str, str] = {
    "no machine named": "fairwarning vms lists the machines",
    "no scheduled event": "fairwarning events lists what is pending, fairwarning history what has been",
    "no scope named": "fairwarning vms lists the machines with their scopes",
    "a real clock": "start the server with: fairwarning up --clock manual",
    "this server has no management face": "start the server without --no-arm",
    "scope": "fairwarning events lists what is pending",
    "changes cannot be kept": "the server's log says more; fairwarning doctor --data DIR looks at the disk",
    "database": "fairwarning doctor --data DIR, with the server's data directory, says what is wrong with it",
}
_STATUS_HINTS: Mapping[int, str] = {
    401: "set FAIRWARNING_TOKEN to the server's token",
    403: "set FAIRWARNING_URL to the address the server printed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """One machine, as the operator sees it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo:
    """One pending event; of one that is over, only its id and that it is gone."""

    id: str
    status: str
    scope: str = ""
    cause: str = ""
    type: str = ""
    resources: tuple[str, ...] = ()
    not_before: datetime | None = None
    approved_by: str | None = None
    seen: bool = True
    walk: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One line of the history."""

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
    """What time it is for the fleet."""

    mode: str
    now: datetime
    speed: float
    next_deadline: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineList:
    """An answer with machines."""

    machines: tuple[MachineInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """An answer with events, and whether anybody was there to be warned."""

    events: tuple[EventInfo, ...]
    warned: bool = True
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryBeginning:
    """The line from which on the history is complete."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGap:
    """Lines that were pruned before they could be told."""

    after: int
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPart:
    """A page of the history."""

    history: tuple[HistoryLine, ...]
    next: int | None = None
    begins: HistoryBeginning | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemInfo:
    """Why a request was refused."""

    status: int = 0
    title: str = ""
    detail: str = ""


def decode(body: bytes | str, shape: type[T]) -> T:
    """Return an answer as the type it should be."""
    import msgspec

    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FailureError(
            f"the server's answer makes no sense: {error}", "is the server another version of fairwarning?"
        ) from error


class OperatorClient:
    """The operator API of one server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._stack = ExitStack()

    @cached_property
    def _http(self) -> "httpx2.Client":
        import httpx2

        # A long journey of a manual clock takes a while to answer.
        patience = httpx2.Timeout(10, read=120)
        return self._stack.enter_context(
            httpx2.Client(base_url=self.url, headers=self._headers, trust_env=False, timeout=patience)
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._stack.close()

    def get(self, path: str, **query: str | int) -> bytes:
        """Return what the server says at ``path``."""
        return self.call("GET", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Json] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> bytes:
        """Send one request and return the answer, or fail in words."""
        return self._send(method, f"/fleet/v1{path}", body, query)

    def check_health(self) -> None:
        """Return if the server answers and keeps what it is told, or fail in its words."""
        self._send("GET", "/healthz")

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
        except httpx2.TransportError as error:
            raise UnreachableError(self.url, str(error)) from error
        if response.is_error:
            raise _refusal(response)
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
        """Return what time it is for the fleet."""
        return decode(self.get("/clock"), ClockInfo).now

    def feed(self, after: int, connected: Callable[[], None]) -> Iterator[str]:
        """Yield every line of the history behind ``after`` as it is written, until the connection ends."""
        import httpx2

        # The server sends a sign of life every 15 seconds.
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
                        note(f"lines {gap.after + 1} to {gap.upto} of the history were pruned unread")
                    elif message.data:
                        yield message.data
        except httpx2.TransportError as error:
            raise UnreachableError(self.url, str(error)) from error


def connect() -> OperatorClient:
    """Return a client of the server that the environment names."""
    import httpx2

    url, token = config.server_url(), config.server_token()
    if token is not None and not config.is_token(token):
        raise click.UsageError("FAIRWARNING_TOKEN is no token: it must be printable ASCII characters")
    try:
        _check_url(url)
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL) as error:
        example = "it is like http://127.0.0.1:8080"
        raise click.UsageError(f"FAIRWARNING_URL is no address: {url!r}; {example}") from error
    client = OperatorClient(url, token)
    click.get_current_context().call_on_close(client.close)
    return client


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    # Reading the port refuses what is none.
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0 or " " in url:
        raise ValueError(url)


def _refusal(response: "httpx2.Response") -> FailureError:
    if "json" not in response.headers.get("content-type", ""):
        return FailureError(
            f"{response.request.url} answers {response.status_code}, not as fairwarning does",
            "set FAIRWARNING_URL to the address that fairwarning up printed",
        )
    problem = decode(response.content, ProblemInfo)
    said = problem.detail or problem.title or f"the server answers {response.status_code}"
    hints = [hint for start, hint in _HINTS.items() if said.startswith(start)]
    if response.status_code in _STATUS_HINTS:
        hints.append(_STATUS_HINTS[response.status_code])
    return FailureError(said, *hints)
