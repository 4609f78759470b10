"""What it takes to keep guests waiting and to wake them all, and how soon one of them sees an event."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.faces import Face, face
from bench.guests import Guests, answered, at_rest
from bench.load import POLL, Lines
from bench.measure import cores, memory, percentile, pinned
from bench.report import Figure, Section, claim
from bench.servers import LOOPBACK, module, process, sources
from bench.steady import beside
from fairwarning.http1.limits import raise_descriptor_limit, share_descriptors

MOST = 10_000

#: Polls by others during a wake, and while one guest waits for an event.
MEANWHILE, BUSY = 200, 5_000

#: Who polls meanwhile: as many as can be left without an answer before one poll has to wait for another.
OTHERS = 100

#: What wakes those who wait, in turns, so that a scope never has more than one event more.
_WORDS = "announce", "withdraw"

_READING = (
    "Ratio = until the last watcher has its answer ÷ until a loop that does nothing else has written as much "
    "to as many; less is better. Figures are absolute."
)
_NOTES = (
    "Watchers are long polls of one scope, each from a machine and an address of its own; a fresh server "
    "every round, whose watchers are woken several times. The quickest wake of a round counts; of polls, the "
    "slowest during each.",
    "Memory is what the process has to itself, with every watcher waiting and without. A watcher is woken "
    "when the client has its whole answer; the client is one Python process on the other core.",
    "The bare write is a Python loop that writes as many bytes to as many connections and does nothing else, "
    "timed by the same client: only what is above it is ours to save.",
    f"Polls meanwhile come {MEANWHILE} times a second from another process, and are timed from the instant "
    "they were due. It shares the client's core, so part of a wait is for that.",
    "Seen: from asking the server for the event (or for its withdrawal) until a waiting guest has the new "
    f"document, idle and with {BUSY:,} polls a second by others; clients share one core.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How often a server's guests are all woken, how many they are, and how many events one of them sees."""

    rounds: int
    wakes: int
    watchers: int
    seen: int


@dataclass(frozen=True, slots=True)
class Woken:
    """What one wake took: µs and µs of CPU per watcher, and the slowest poll meanwhile in ms."""

    last: float
    cpu: float
    slowest_poll: float


@dataclass(frozen=True, slots=True)
class Crowd:
    """What one server gave: KB per watcher, and its wakes; and µs per watcher of bare writes."""

    memory: float
    wakes: Sequence[Woken]
    bare: Sequence[float]

    @property
    def quickest(self) -> Woken:
        """The wake that was disturbed least: whoever else uses the machine only adds to what it takes."""
        return min(self.wakes, key=lambda one: one.last)


def efforts(quick: bool) -> Effort:
    """Return how much is done, with as many guests as a server on this machine lets wait."""
    descriptors = raise_descriptor_limit()
    watchers = min(MOST, descriptors // 2, share_descriptors(descriptors).guests.held_responses)
    return Effort(3, 3, watchers, 40) if quick else Effort(5, 6, watchers, 200)


def suite(effort: Effort) -> Section:
    """Measure servers full of watchers, then how soon one guest sees an event."""
    with pinned(cores()[1]):
        crowds = [_round(effort) for _ in range(effort.rounds)]
        with face(10, 100) as server:
            idle = [_seen(server, effort.seen) for _ in range(effort.rounds)]
            busy = [_seen_while_busy(server, effort.seen) for _ in range(effort.rounds)]
    return section(effort.watchers, crowds, idle, busy)


def section(
    watchers: int, crowds: Sequence[Crowd], idle: Sequence[list[float]], busy: Sequence[list[float]]
) -> Section:
    """Return what some rounds show."""
    crowd = f"{watchers:,} watchers"
    last = _figure(f"waking {crowd}, until the last", "µs each", (one.quickest.last for one in crowds), "G7")
    bare = _figure(f"bare write to {crowd}, until the last", "µs each", (min(one.bare) for one in crowds))
    slowest = (wake.slowest_poll for one in crowds for wake in one.wakes)
    figures = [
        _figure(f"memory of {crowd}", "KB each", (one.memory for one in crowds), "G9"),
        last,
        _figure(f"waking {crowd}, CPU", "µs each", (one.quickest.cpu for one in crowds)),
        bare,
        _figure("slowest poll meanwhile", "ms", slowest, "G8"),
    ]
    for name, rounds, goal in (("idle", idle, "G19a"), (f"{BUSY:,} polls/s", busy, "G19b")):
        for share, its_goal in ((0.50, ""), (0.99, goal)):
            what = f"event seen, {name}, p{share:.0%}".rstrip("%")
            figures.append(_figure(what, "ms", (percentile(one, share) * 1e3 for one in rounds), its_goal))
    return Section(
        title="watch: guests that wait",
        reading=_READING,
        claims=(claim(f"waking {crowd}", "bare write", above=last, below=bare, reference=bare),),
        figures=tuple(figures),
        notes=_NOTES,
    )


def _figure(name: str, unit: str, values: Iterator[float], goal: str = "") -> Figure:
    return Figure(name=name, unit=unit, values=tuple(values), goal=goal)


def _round(effort: Effort) -> Crowd:
    watchers = effort.watchers
    here, others = sources(range(watchers)), sources(range(watchers, watchers + OTHERS))
    with face(1, watchers + OTHERS) as server, Lines(server.address) as lines:
        _rehearse(server)
        before = memory(server.pid)
        guests = Guests(lines, here)
        answer = lines.answer(guests.all[0], POLL)
        guests.wait()
        at_rest(server.pid)
        used = memory(server.pid) - before
        wakes = [_wake(server, guests, others, _WORDS[number % 2]) for number in range(effort.wakes)]
    return Crowd(used / watchers / 1024, wakes, _bare(answer, here, effort.wakes))


def _wake(server: Face, guests: Guests, others: Sequence[str], word: str) -> Woken:
    """Have all guests woken, who wait again afterwards."""
    watchers = len(guests.all)
    with beside(server.address, others, MEANWHILE, seconds=0.2 + watchers * 100e-6) as polls:
        begun, cpu = time.monotonic(), server.meter(server.pid)
        server.tell(word)
        last = guests.woken()[-1]
        cpu = server.meter(server.pid) - cpu
        waits = [one.waited for one in polls() if begun <= one.due <= last]
    server.listen()
    guests.wait()
    at_rest(server.pid)
    return Woken((last - begun) / watchers * 1e6, cpu / watchers * 1e6, max(waits) * 1e3)


def _bare(answer: bytes, callers: Sequence[str], times: int) -> list[float]:
    """Return how many µs per caller it takes to write an answer to all of them, until the last has it."""
    found = []
    with process(module("bench.baseline", len(callers), len(answer)), talking=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with Lines((LOOPBACK, int(child.stdout.readline()))) as lines:
            for caller in callers:
                lines.connect(caller)
            for _ in range(times):
                at_rest(child.pid)
                begun = time.monotonic()
                child.stdin.write(answer)
                child.stdin.flush()
                found.append((answered(lines, len(callers))[-1] - begun) / len(callers) * 1e6)
    return found


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
            server.tell(_WORDS[number % 2])
            (woken,) = guests.woken()
            found.append(woken - begun)
            server.listen()
    return found


def _seen_while_busy(server: Face, times: int) -> list[float]:
    callers = sources(range(100, 350))
    with beside(server.address, callers, BUSY, seconds=3600.0):
        return _seen(server, times)
