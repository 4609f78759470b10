"""How long others wait while guests ask for as much as they can: polls, the other faces, and the timer."""

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
from bench.load import PATIENCE, Address, Unanswered
from bench.measure import cores, percentile, pinned, scheduler_seconds
from bench.report import Claim, Figure, Section, claim
from bench.servers import module, process, sources
from bench.steady import steady

#: Who polls as it should, how often each, and how many others there are. Polls that a stall of two seconds
#: held up still are no more at once than a machine may make.
GUESTS, RATE, OTHERS = 100, 2, 20
#: How long each kind of abuse lasts; its onset is part of it.
SECONDS = 6.0
#: An address that no machine has.
STRANGER = "127.200.0.1"
#: The other faces are asked so often, in seconds.
PAUSE = 0.02
QUIET = "nobody abuses"

_READING = "Ratio = p99 of what others wait while guests abuse ÷ p99 when nobody does; less is better."
_NOTES = (
    f"{GUESTS} guests poll {RATE} times a second each, half of them with a new connection each time, at the "
    "listener that the abusers use too. Waits are counted from the instant a poll was due.",
    "The server has every face and a core to itself. All clients share the other; abusers are nice 19 there. "
    "They begin when the guests do.",
    f"Where a guest was not answered at all, the p99 counts as {PATIENCE:g} s.",
    "Every kind is tried in every round, and so is a time without abuse. The other faces and the timer are "
    "judged by all kinds together.",
    "The timer is a callback in the server's loop that is due every hundredth of a second.",
)


@dataclass(frozen=True, slots=True)
class Waits:
    """What was measured together, in milliseconds."""

    polls: list[float]
    operator: list[float]
    management: list[float]
    timer: list[float]
    #: How much of its core the server used, in percent.
    cpu: float


#: What one round found, by who abused how.
Round = Mapping[str, Waits]


@dataclass(frozen=True, slots=True)
class Whole:
    """A server with every face."""

    child: subprocess.Popen[bytes]
    guests: Address
    operator: str
    management: str
    ca: str

    def lateness(self) -> list[float]:
        """Return how late the server's timer was since this was asked last."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()
        found: list[float] = json.loads(self.child.stdout.readline())
        return found


def suite(rounds: int, seconds: float = SECONDS) -> Section:
    """Measure every kind of abuse in every round, each for some seconds."""
    with pinned(cores()[1]):
        return section([_round(seconds) for _ in range(rounds)])


def _round(seconds: float) -> Round:
    with _whole() as server, _asking(server) as asking:
        steady(server.guests, sources(range(GUESTS)), GUESTS, 1.0)
        quiet = {QUIET: _window(server, asking, None, seconds)}
        return quiet | {name: _window(server, asking, abuse, seconds) for name, abuse in ABUSES.items()}


@contextmanager
def _whole() -> Iterator[Whole]:
    with process(module("bench.whole", GUESTS + OTHERS), talking=True) as child:
        assert child.stdout is not None
        said = child.stdout.readline()
        if not said:
            raise Unanswered(f"{child.args!r} did not start")
        shared, operator, management, ca = json.loads(said)
        found = urlsplit(shared)
        yield Whole(child, (found.hostname, found.port), operator, management, ca)


def _window(server: Whole, asking: "Asking", abuse: Abuse | None, seconds: float) -> Waits:
    time.sleep(0.2)
    server.lateness()
    asking.begin()
    began, used = time.monotonic(), scheduler_seconds(server.child.pid)
    if abuse is None:
        polls = _polls(server, seconds, lambda: None)
    else:
        abusers = sources(range(GUESTS, GUESTS + abuse.abusers))
        with abusing(server.guests, abuse, [STRANGER] if abuse.stranger else abusers) as begin:
            polls = _polls(server, seconds, begin)
    cpu = (scheduler_seconds(server.child.pid) - used) / (time.monotonic() - began) * 100
    operator, management = asking.end()
    return Waits(polls, operator, management, server.lateness(), cpu)


def _polls(server: Whole, seconds: float, begin: Callable[[], None]) -> list[float]:
    callers = sources(range(GUESTS))
    try:
        asked = steady(server.guests, callers, GUESTS * RATE, seconds, ready=begin, fresh=True)
    except (Unanswered, ConnectionError):
        return [PATIENCE * 1e3]
    return [one.waited * 1e3 for one in asked]


class Asking:
    """Asks the other faces, in a process of its own."""

    def __init__(self, pipe: "Connection[bool, tuple[list[float], list[float]]]") -> None:
        self._pipe = pipe

    def begin(self) -> None:
        """Start asking."""
        self._pipe.send(True)

    def end(self) -> tuple[list[float], list[float]]:
        """Stop, and return how long the operator and the management API took each time."""
        self._pipe.send(False)
        return self._pipe.recv()


@contextmanager
def _asking(server: Whole) -> Iterator[Asking]:
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    asker = processes.Process(
        target=_ask, args=(theirs, server.operator, server.management, server.ca), daemon=True
    )
    asker.start()
    try:
        yield Asking(ours)
    finally:
        asker.kill()
        asker.join()


def _ask(
    pipe: "Connection[tuple[list[float], list[float]], bool]", operator: str, management: str, ca: str
) -> None:
    trusted = ssl.create_default_context(cafile=ca)
    faces = (
        (http.client.HTTPConnection(urlsplit(operator).netloc), "/healthz"),
        (
            http.client.HTTPSConnection(urlsplit(management).netloc, context=trusted),
            "/metadata/endpoints?api-version=2020-09-01",
        ),
    )
    while pipe.recv():
        found: tuple[list[float], list[float]] = ([], [])
        while not pipe.poll(PAUSE):
            for (line, path), waits in zip(faces, found, strict=True):
                asked = time.monotonic()
                try:
                    line.request("GET", path)
                    line.getresponse().read()
                except (OSError, http.client.HTTPException):
                    line.close()  # who was hung up on calls again, and has waited all the same
                waits.append((time.monotonic() - asked) * 1e3)
        pipe.recv()
        pipe.send(found)


def section(rounds: Sequence[Round]) -> Section:
    """Return what some rounds show."""
    polls = {name: _p99(f"polls, {name}", [one[name].polls for one in rounds]) for name in (QUIET, *ABUSES)}
    timers = [list(chain.from_iterable(one[name].timer for name in ABUSES)) for one in rounds]
    faces = _faces(rounds)
    figures = [
        *polls.values(),
        *chain.from_iterable(faces.values()),
        _p99("timer, nobody abuses", [one[QUIET].timer for one in rounds]),
        _p99("timer, all kinds of abuse", timers, "G23c"),
        *(_cpu(name, rounds) for name in (QUIET, *ABUSES)),
    ]
    return Section(
        title="fairness: what others wait while guests abuse",
        reading=_READING,
        claims=(*_claims(polls), *_face_claims(faces)),
        figures=tuple(figures),
        notes=_NOTES,
    )


def _faces(rounds: Sequence[Round]) -> Mapping[str, tuple[Figure, Figure]]:
    """Return what each of the other faces made callers wait, without abuse and with it."""
    quiet = [one[QUIET] for one in rounds]
    found = {}
    for face in ("operator", "management"):
        waits = [[wait for name in ABUSES for wait in _waits(one[name], face)] for one in rounds]
        found[face] = (
            _p99(f"{face} API, {QUIET}", [_waits(one, face) for one in quiet]),
            _p99(f"{face} API, all kinds of abuse", waits),
        )
    return found


def _waits(one: Waits, face: str) -> list[float]:
    return one.operator if face == "operator" else one.management


def _claims(polls: Mapping[str, Figure]) -> Iterator[Claim]:
    quiet = polls[QUIET]
    for letter, name in zip(ascii_lowercase, ABUSES, strict=False):
        yield claim(f"p99 of polls, {name}", QUIET, polls[name], quiet, quiet, goal=f"G22{letter}")


def _face_claims(faces: Mapping[str, tuple[Figure, Figure]]) -> Iterator[Claim]:
    for (face, (quiet, abused)), goal in zip(faces.items(), ("G23a", "G23b"), strict=True):
        yield claim(f"p99 of the {face} API", QUIET, abused, quiet, quiet, goal=goal)


def _p99(name: str, rounds: Sequence[Sequence[float]], goal: str = "") -> Figure:
    values = tuple(percentile(list(one), 0.99) for one in rounds)
    return Figure(name=name, unit="ms, p99", values=values, goal=goal)


def _cpu(name: str, rounds: Sequence[Round]) -> Figure:
    return Figure(
        name=f"server CPU, {name}", unit="% of a core", values=tuple(one[name].cpu for one in rounds)
    )
