"""What it takes to keep guests waiting and to wake them all, and how soon one of them sees an event."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.faces import Face, face
from bench.guests import Guests, at_rest
from bench.load import Lines
from bench.measure import cores, memory, percentile, pinned
from bench.report import Figure, Section
from bench.servers import sources
from bench.steady import beside
from fairwarning.metadata.descriptors import available, guest_limits

MOST = 10_000

#: Polls by others during a wake, and while one guest waits for an event.
MEANWHILE, BUSY = 200, 5_000

#: Who polls meanwhile: as many as can be left without an answer before one poll has to wait for another.
OTHERS = 100

_READING = "All figures are absolute; those with a goal say what they have to be."
_NOTES = (
    "Watchers are long polls of one scope, each from a machine and an address of its own; a fresh server "
    "every round.",
    "Memory is what the process has to itself, with every watcher waiting and without. A watcher is woken "
    "when the client has its whole answer; the client is one Python process on the other core.",
    f"Polls meanwhile come {MEANWHILE} times a second from another process on the client's core, and are "
    "timed from the instant they were due.",
    "Seen: from asking the server for the event (or for its withdrawal) until a waiting guest has the new "
    f"document, idle and with {BUSY:,} polls a second by others; clients share one core.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How many guests wait, how often all are woken, and how many events one of them sees each round."""

    rounds: int
    watchers: int
    seen: int


@dataclass(frozen=True, slots=True)
class Woken:
    """What one server gave: bytes and µs per watcher, µs of CPU per wake, and the slowest poll in ms."""

    memory: float
    last: float
    cpu: float
    slowest_poll: float


def efforts(quick: bool) -> Effort:
    """Return how much is done, with as many guests as a server on this machine lets wait."""
    descriptors = available()
    watchers = min(MOST, descriptors // 2, guest_limits(descriptors).watchers)
    return Effort(2, watchers, 40) if quick else Effort(5, watchers, 200)


def suite(effort: Effort) -> Section:
    """Measure servers full of watchers, then how soon one guest sees an event."""
    with pinned(cores()[1]):
        woken = [_round(effort.watchers) for _ in range(effort.rounds)]
        with face(10, 100) as server:
            idle = [_seen(server, effort.seen) for _ in range(effort.rounds)]
            busy = [_seen_while_busy(server, effort.seen) for _ in range(effort.rounds)]
    return section(effort.watchers, woken, idle, busy)


def section(
    watchers: int, woken: Sequence[Woken], idle: Sequence[list[float]], busy: Sequence[list[float]]
) -> Section:
    """Return what some rounds show."""
    crowd = f"{watchers:,} watchers"
    figures = [
        _figure(f"memory of {crowd}", "KB each", (one.memory / 1024 for one in woken), "G9"),
        _figure(f"waking {crowd}, until the last", "µs each", (one.last for one in woken), "G7"),
        _figure(f"waking {crowd}, CPU", "µs each", (one.cpu for one in woken)),
        _figure("slowest poll meanwhile", "ms", (one.slowest_poll for one in woken), "G8"),
    ]
    for name, rounds, goal in (("idle", idle, "G19a"), (f"{BUSY:,} polls/s", busy, "G19b")):
        for share, its_goal in ((0.50, ""), (0.99, goal)):
            what = f"event seen, {name}, p{share:.0%}".rstrip("%")
            figures.append(_figure(what, "ms", (percentile(one, share) * 1e3 for one in rounds), its_goal))
    return Section(
        title="watch: guests that wait", reading=_READING, claims=(), figures=tuple(figures), notes=_NOTES
    )


def _figure(name: str, unit: str, values: Iterator[float], goal: str = "") -> Figure:
    return Figure(name=name, unit=unit, values=tuple(values), goal=goal)


def _round(watchers: int) -> Woken:
    here, others = sources(range(watchers)), sources(range(watchers, watchers + OTHERS))
    with face(1, watchers + OTHERS) as server, Lines(server.address) as lines:
        _rehearse(server)
        before = memory(server.pid)
        guests = Guests(lines, here)
        guests.wait()
        at_rest(server.pid)
        used = memory(server.pid) - before
        with beside(server.address, others, MEANWHILE, seconds=0.5 + watchers * 100e-6) as polls:
            begun, cpu = time.monotonic(), server.meter(server.pid)
            server.tell("announce")
            last = guests.woken()[-1]
            cpu = server.meter(server.pid) - cpu
            waits = [one.waited for one in polls() if begun <= one.due <= last]
    return Woken(
        memory=used / watchers,
        last=(last - begun) / watchers * 1e6,
        cpu=cpu / watchers * 1e6,
        slowest_poll=max(waits) * 1e3,
    )


def _rehearse(server: Face) -> None:
    """Let some guests wait and be woken, so that what a server needs once is not counted as theirs."""
    with Lines(server.address) as lines:
        guests = Guests(lines, sources(range(100)))
        guests.wait()
        at_rest(server.pid)
        server.ask("announce")
        guests.woken()
    at_rest(server.pid)


def _seen(server: Face, times: int) -> list[float]:
    """Return how long a waiting guest waited for each of some changes."""
    found = []
    with Lines(server.address) as lines:
        guests = Guests(lines, sources([0]))
        for number in range(times):
            guests.wait()
            time.sleep(0.005)  # the request has to be there before the event
            begun = time.monotonic()
            server.tell("withdraw" if number % 2 else "announce")
            (woken,) = guests.woken()
            found.append(woken - begun)
            server.listen()
    return found


def _seen_while_busy(server: Face, times: int) -> list[float]:
    callers = sources(range(100, 350))
    with beside(server.address, callers, BUSY, seconds=3600.0):
        return _seen(server, times)
