"""How long others wait while some guests abuse the server: polls, the other APIs, and the timer."""

import http.client
import json
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection
from string import ascii_lowercase
from urllib.parse import urlsplit

from bench.abuse import ABUSES, Abuse, abusing
from bench.load import PATIENCE, Address, UnansweredError
from bench.measure import cores, percentile, pinned, scheduler_seconds
from bench.report import Claim, Figure, Section, claim
from bench.servers import module, process, sources
from bench.steady import steady

#: Well-behaved guests, polls per second of each, and further machines. The rate is low enough that polls
#: delayed by a stall of two seconds stay within the rate limit.
GUESTS, RATE, OTHERS = 100, 2, 20
#: How long each kind of abuse lasts, including its beginning.
SECONDS = 6.0
#: An address that no machine has.
UNKNOWN = "127.200.0.1"
#: The pause between requests to the other APIs, in seconds.
PAUSE = 0.02
QUIET = "no abuse"

_READING = "Ratio = p99 of the waits of others during abuse ÷ p99 without abuse; less is better."
_NOTES = (
    f"{GUESTS} guests poll {RATE} times a second each, half of them with a new connection each time, at the "
    "listener that the abusers use too. Waits are counted from the instant a poll was due.",
    "The server has all APIs and a core of its own. All clients share the other core, the abusers at nice "
    "19. They begin together with the guests.",
    f"Where a guest was not answered at all, the p99 counts as {PATIENCE:g} s.",
    "Each round has every kind of abuse, and a time without abuse. The other APIs and the timer are judged "
    "by all kinds together.",
    "The timer is a callback in the server's loop that is due every hundredth of a second.",
)


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits during one kind of abuse, in milliseconds."""

    polls: list[float]
    operator: list[float]
    management: list[float]
    timer: list[float]
    #: The server's use of its core, in percent.
    cpu: float


#: The waits of one round, by kind of abuse.
Round = Mapping[str, Waits]


@dataclass(frozen=True, slots=True)
class FullServer:
    """A server with all APIs."""

    child: subprocess.Popen[bytes]
    guests: Address
    operator: str
    management: str
    ca: str

    def lateness(self) -> list[float]:
        """Return how late the server's timer was since the last call."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()
        late: list[float] = json.loads(self.child.stdout.readline())
        return late


def suite(rounds: int, seconds: float = SECONDS) -> Section:
    """Measure each kind of abuse for some seconds in each round."""
    with pinned(cores()[1]):
        return section([_round(seconds) for _ in range(rounds)])


def _round(seconds: float) -> Round:
    with _full_server() as server, _api_client(server) as client:
        steady(server.guests, sources(range(GUESTS)), GUESTS, 1.0)
        quiet = {QUIET: _window(server, client, None, seconds)}
        return quiet | {name: _window(server, client, abuse, seconds) for name, abuse in ABUSES.items()}


@contextmanager
def _full_server() -> Iterator[FullServer]:
    with process(module("bench.full_server", GUESTS + OTHERS), piped=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            raise UnansweredError(f"{child.args!r} did not start")
        shared, operator, management, ca = json.loads(line)
        url = urlsplit(shared)
        yield FullServer(child, (url.hostname, url.port), operator, management, ca)


def _window(server: FullServer, client: "ApiClient", abuse: Abuse | None, seconds: float) -> Waits:
    time.sleep(0.2)
    server.lateness()
    client.begin()
    began, used = time.monotonic(), scheduler_seconds(server.child.pid)
    if abuse is None:
        polls = _polls(server, seconds, lambda: None)
    else:
        abusers = sources(range(GUESTS, GUESTS + abuse.abusers))
        with abusing(server.guests, abuse, [UNKNOWN] if abuse.unknown else abusers) as begin:
            polls = _polls(server, seconds, begin)
    cpu = (scheduler_seconds(server.child.pid) - used) / (time.monotonic() - began) * 100
    operator, management = client.end()
    return Waits(polls, operator, management, server.lateness(), cpu)


def _polls(server: FullServer, seconds: float, begin: Callable[[], None]) -> list[float]:
    callers = sources(range(GUESTS))
    try:
        polls = steady(server.guests, callers, GUESTS * RATE, seconds, ready=begin, fresh=True)
    except (UnansweredError, ConnectionError):
        return [PATIENCE * 1e3]
    return [poll.waited * 1e3 for poll in polls]


class ApiClient:
    """Calls the other APIs, in a process of its own."""

    def __init__(self, pipe: "Connection[bool, tuple[list[float], list[float]]]") -> None:
        self._pipe = pipe

    def begin(self) -> None:
        """Start calling."""
        self._pipe.send(True)

    def end(self) -> tuple[list[float], list[float]]:
        """Stop, and return the waits for the operator and the management API."""
        self._pipe.send(False)
        return self._pipe.recv()


@contextmanager
def _api_client(server: FullServer) -> Iterator[ApiClient]:
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(
        target=_call_apis, args=(theirs, server.operator, server.management, server.ca), daemon=True
    )
    process.start()
    try:
        yield ApiClient(ours)
    finally:
        process.kill()
        process.join()


def _call_apis(
    pipe: "Connection[tuple[list[float], list[float]], bool]", operator: str, management: str, ca: str
) -> None:
    trusted = ssl.create_default_context(cafile=ca)
    apis = (
        (http.client.HTTPConnection(urlsplit(operator).netloc), "/healthz"),
        (
            http.client.HTTPSConnection(urlsplit(management).netloc, context=trusted),
            "/metadata/endpoints?api-version=2020-09-01",
        ),
    )
    while pipe.recv():
        times: tuple[list[float], list[float]] = ([], [])
        while not pipe.poll(PAUSE):
            for (connection, path), waits in zip(apis, times, strict=True):
                begun = time.monotonic()
                try:
                    connection.request("GET", path)
                    connection.getresponse().read()
                except (OSError, http.client.HTTPException):
                    connection.close()  # the next request reconnects; the wait counts
                waits.append((time.monotonic() - begun) * 1e3)
        pipe.recv()
        pipe.send(times)


def section(rounds: Sequence[Round]) -> Section:
    """Return the section of the report."""
    polls = {
        name: _p99(f"polls, {name}", [waits[name].polls for waits in rounds]) for name in (QUIET, *ABUSES)
    }
    timers = [list(chain.from_iterable(waits[name].timer for name in ABUSES)) for waits in rounds]
    apis = _api_figures(rounds)
    figures = [
        *polls.values(),
        *chain.from_iterable(apis.values()),
        _p99(f"timer, {QUIET}", [waits[QUIET].timer for waits in rounds]),
        _p99("timer, all kinds of abuse", timers, "G23c"),
        *(_cpu(name, rounds) for name in (QUIET, *ABUSES)),
    ]
    return Section(
        title="fairness: how long others wait during abuse",
        reading=_READING,
        claims=(*_claims(polls), *_api_claims(apis)),
        figures=tuple(figures),
        notes=_NOTES,
    )


def _api_figures(rounds: Sequence[Round]) -> Mapping[str, tuple[Figure, Figure]]:
    """Return the waits for each of the other APIs, without abuse and with it."""
    quiet = [by_abuse[QUIET] for by_abuse in rounds]
    figures = {}
    for api in ("operator", "management"):
        waits = [[wait for name in ABUSES for wait in _waits(by_abuse[name], api)] for by_abuse in rounds]
        figures[api] = (
            _p99(f"{api} API, {QUIET}", [_waits(without, api) for without in quiet]),
            _p99(f"{api} API, all kinds of abuse", waits),
        )
    return figures


def _waits(waits: Waits, api: str) -> list[float]:
    return waits.operator if api == "operator" else waits.management


def _claims(polls: Mapping[str, Figure]) -> Iterator[Claim]:
    quiet = polls[QUIET]
    for letter, name in zip(ascii_lowercase, ABUSES, strict=False):
        yield claim(f"p99 of polls, {name}", QUIET, polls[name], quiet, quiet, goal=f"G22{letter}")


def _api_claims(apis: Mapping[str, tuple[Figure, Figure]]) -> Iterator[Claim]:
    for (api, (quiet, abused)), goal in zip(apis.items(), ("G23a", "G23b"), strict=True):
        yield claim(f"p99 of the {api} API", QUIET, abused, quiet, quiet, goal=goal)


def _p99(name: str, rounds: Sequence[Sequence[float]], goal: str = "") -> Figure:
    values = tuple(percentile(waits, 0.99) for waits in rounds)
    return Figure(name=name, unit="ms, p99", values=values, goal=goal)


def _cpu(name: str, rounds: Sequence[Round]) -> Figure:
    return Figure(
        name=f"server CPU, {name}", unit="% of a core", values=tuple(waits[name].cpu for waits in rounds)
    )
