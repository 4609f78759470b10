"""The cost of waiting guests: memory, waking all of them, and the delay until a guest sees an event."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.controlled_server import ControlledServer, controlled_server
from bench.guests import Guests, answered, at_rest
from bench.load import POLL, Address, ClientConnections
from bench.measure import cores, memory, percentile, pinned
from bench.report import Figure, Section, claim
from bench.servers import LOOPBACK, module, process, sources
from bench.steady import background_polls
from fairwarning.http1.limits import raise_descriptor_limit, share_descriptors

MOST = 10_000

#: Polls per second of other guests during a wake, and while one guest waits for an event.
MEANWHILE, BUSY = 200, 5_000

#: How many other guests poll: enough that no poll has to wait for the answer to another.
OTHERS = 100

#: The calls that wake the watchers, in turns, so that a scope has at most one additional event.
_CALLS = "restart", "cancel"

_READING = (
    "Ratio = time until the last watcher has its answer ÷ time of a loop that only writes the same bytes to "
    "as many connections; less is better. Figures are absolute."
)
_NOTES = (
    "Watchers are long polls of one scope, each from a machine and an address of its own. Each round has a "
    "new server, whose watchers are woken several times. The quickest wake of a round counts, and the "
    "slowest poll of each wake.",
    "Memory is the private memory of the process, with every watcher waiting and without. A watcher is woken "
    "when the client has its complete answer; the client is one Python process on the other core.",
    "The bare write is a Python loop that writes as many bytes to as many connections and does nothing else, "
    "timed by the same client.",
    f"Polls meanwhile come {MEANWHILE} times a second from another process, and are timed from the instant "
    "they were due. That process shares the client's core, which adds to the waits.",
    "Seen: from the call that creates or cancels an event until a waiting guest has the new "
    f"document, idle and with {BUSY:,} polls a second by others; clients share one core.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rounds and wakes, how many watchers, and how many events one guest sees."""

    rounds: int
    wakes: int
    watchers: int
    seen: int


@dataclass(frozen=True, slots=True)
class Wake:
    """One wake: µs and µs of CPU per watcher, and the slowest poll meanwhile in ms."""

    last: float
    cpu: float
    slowest_poll: float


@dataclass(frozen=True, slots=True)
class WatcherRound:
    """One round: KB per watcher, the wakes of a server, and µs per watcher of bare writes."""

    memory: float
    wakes: Sequence[Wake]
    bare: Sequence[float]

    @property
    def quickest(self) -> Wake:
        """The quickest wake: other users of the machine only add to its time."""
        return min(self.wakes, key=lambda wake: wake.last)


class Seen(NamedTuple):
    """How long after the call that made a change, and after its answer, a waiting guest saw the change."""

    since_call: float
    since_answer: float


def efforts(quick: bool) -> Effort:
    """Return the effort, with as many watchers as a server on this machine allows."""
    descriptors = raise_descriptor_limit()
    watchers = min(MOST, descriptors // 2, share_descriptors(descriptors).guests.held_responses)
    return Effort(3, 3, watchers, 40) if quick else Effort(5, 6, watchers, 200)


def suite(effort: Effort) -> Section:
    """Measure servers with many watchers, then how soon one guest sees an event."""
    with pinned(cores()[1]):
        rounds = [_round(effort) for _ in range(effort.rounds)]
        with controlled_server(10, 100) as server:
            idle = [_seen(server, effort.seen) for _ in range(effort.rounds)]
            busy = [_seen_while_busy(server, effort.seen) for _ in range(effort.rounds)]
    return section(effort.watchers, rounds, idle, busy)


def section(
    watchers: int, rounds: Sequence[WatcherRound], idle: Sequence[list[float]], busy: Sequence[list[float]]
) -> Section:
    """Return the section of the report."""
    crowd = f"{watchers:,} watchers"
    last = _figure(
        f"waking {crowd}, until the last", "µs each", (result.quickest.last for result in rounds), "G7"
    )
    bare = _figure(
        f"bare write to {crowd}, until the last", "µs each", (min(result.bare) for result in rounds)
    )
    slowest = (wake.slowest_poll for result in rounds for wake in result.wakes)
    figures = [
        _figure(f"memory of {crowd}", "KB each", (result.memory for result in rounds), "G9"),
        last,
        _figure(f"waking {crowd}, CPU", "µs each", (result.quickest.cpu for result in rounds)),
        bare,
        _figure("slowest poll meanwhile", "ms", slowest, "G8"),
    ]
    for name, delays, goal in (("idle", idle, "G19a"), (f"{BUSY:,} polls/s", busy, "G19b")):
        for share, its_goal in ((0.50, ""), (0.99, goal)):
            what = f"event seen, {name}, p{share:.0%}".rstrip("%")
            figures.append(
                _figure(what, "ms", (percentile(delay, share) * 1e3 for delay in delays), its_goal)
            )
    return Section(
        title="watch: guests that wait",
        reading=_READING,
        claims=(claim(f"waking {crowd}", "bare write", above=last, below=bare, reference=bare),),
        figures=tuple(figures),
        notes=_NOTES,
    )


def _figure(name: str, unit: str, values: Iterator[float], goal: str = "") -> Figure:
    return Figure(name=name, unit=unit, values=tuple(values), goal=goal)


def _round(effort: Effort) -> WatcherRound:
    watchers = effort.watchers
    here, others = sources(range(watchers)), sources(range(watchers, watchers + OTHERS))
    with controlled_server(1, watchers + OTHERS) as server, ClientConnections(server.address) as connections:
        _warm_up(server)
        before = memory(server.pid)
        guests = Guests(connections, here)
        answer = connections.answer(guests.all[0], POLL)
        guests.wait()
        at_rest(server.pid)
        used = memory(server.pid) - before
        wakes = [_wake(server, guests, others, _CALLS[number % 2]) for number in range(effort.wakes)]
    return WatcherRound(used / watchers / 1024, wakes, _bare(answer, here, effort.wakes))


def _wake(server: ControlledServer, guests: Guests, others: Sequence[str], call: str) -> Wake:
    """Wake all guests, and let them wait again."""
    watchers = len(guests.all)
    with background_polls(server.address, others, MEANWHILE, seconds=0.2 + watchers * 100e-6) as polls:
        begun, cpu = time.monotonic(), server.meter(server.pid)
        server.send(call)
        last = guests.woken()[-1]
        cpu = server.meter(server.pid) - cpu
        waits = [poll.waited for poll in polls() if begun <= poll.due <= last]
    server.receive()
    guests.wait()
    at_rest(server.pid)
    return Wake((last - begun) / watchers * 1e6, cpu / watchers * 1e6, max(waits) * 1e3)


def _bare(answer: bytes, callers: Sequence[str], times: int) -> list[float]:
    """Return the µs per caller until all callers have received a written answer."""
    times_per_caller = []
    with process(module("bench.baseline", len(callers), len(answer)), piped=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with ClientConnections((LOOPBACK, int(child.stdout.readline()))) as connections:
            for caller in callers:
                connections.connect(caller)
            for _ in range(times):
                at_rest(child.pid)
                begun = time.monotonic()
                child.stdin.write(answer)
                child.stdin.flush()
                times_per_caller.append(
                    (answered(connections, len(callers))[-1] - begun) / len(callers) * 1e6
                )
    return times_per_caller


def _warm_up(server: ControlledServer) -> None:
    """Wake some guests once, so that one-time costs of the server are not counted as memory of watchers."""
    with ClientConnections(server.address) as connections:
        guests = Guests(connections, sources(range(100)))
        guests.wait()
        at_rest(server.pid)
        server.call("restart")
        guests.woken()
    at_rest(server.pid)


def seen(server: ControlledServer, times: int, address: Address | None = None) -> list[Seen]:
    """Return when a guest that waits, on this or another server, sees each of some changes."""
    changes = []
    with ClientConnections(address or server.address) as connections:
        guests = Guests(connections, sources([0]))
        for number in range(times):
            guests.wait()
            time.sleep(0.005)  # the request must arrive before the event
            called = time.monotonic()
            server.send(_CALLS[number % 2])
            (woken,) = guests.woken()
            changes.append(Seen(woken - called, woken - server.finished()))
    return changes


def _seen(server: ControlledServer, times: int) -> list[float]:
    return [change.since_call for change in seen(server, times)]


def _seen_while_busy(server: ControlledServer, times: int) -> list[float]:
    callers = sources(range(100, 350))
    with background_polls(server.address, callers, BUSY, seconds=3600.0):
        return _seen(server, times)
