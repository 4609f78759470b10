"""What a poll costs: server CPU per answered request, ours and that of servers that only answer.

The same servers are then asked at a fixed rate, to see how long callers wait for a server that is not busy.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench.faces import face
from bench.load import MODES, Mode
from bench.measure import cores, percentile, pinned
from bench.references import NGINX, REFERENCES, reference
from bench.report import Claim, Figure, Section, claim
from bench.servers import Server, cost, fetch, sources
from bench.steady import steady

OURS, PORTABLE = "fairwarning", "fairwarning, portable driver"
SETS, MACHINES = 10, 100
CALLERS = 64

#: The open loop: polls per second, and over how many connections.
RATE, CONNECTIONS = 5_000, 250

#: Which goal a comparison with nginx has, by mode and by who is compared.
_GOALS: Mapping[tuple[str, str], str] = {
    ("keep-alive", OURS): "G1",
    ("new connection each", OURS): "G2",
    ("unique heads", OURS): "G3",
    ("keep-alive", PORTABLE): "G4a",
    ("new connection each", PORTABLE): "G4b",
}

_READING = (
    "Ratio = the reference's CPU per answered poll ÷ ours: 1.00 is as cheap as the reference, more is "
    "better; at a fixed rate: what ours makes callers wait ÷ what the reference does, less is better."
)
_NOTES = (
    f"{CALLERS} callers, each from an address of its own, of {SETS * MACHINES:,} machines in {SETS} sets; "
    "all servers answer with a document of the same length.",
    "A round looks at every server several times, in turns and for some hundredths of a second each; of CPU "
    "the cheapest look counts, of waits all of them.",
    "Ours knows its callers, checks headers and versions, counts requests and notes the poll; "
    "the references only answer.",
    "uvicorn runs on asyncio's own loop with httptools.",
    "The load is pure Python: with new connections it keeps fast servers less than busy.",
    f"At a fixed rate, {RATE:,} polls a second over {CONNECTIONS} connections; waits are counted from the "
    "instant a poll was due. p99 is set against twice the reference's p99 and a millisecond.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to look, and how long each time: at a busy server, and at one asked at a fixed rate."""

    rounds: int
    #: Looks at every server in a round; the servers take turns, so that all have their quiet moments.
    looks: int
    warm_up: float
    seconds: float
    fixed_rate: float


QUICK, USUAL = Effort(5, 8, 0.02, 0.06, 0.1), Effort(7, 8, 0.02, 0.08, 0.25)

#: One value per round, by mode or percentile, and server.
Figures = Mapping[tuple[str, str], Figure]


def suite(effort: Effort) -> Section:
    """Measure all servers in turns."""
    with _servers() as servers:
        costs = measure(servers, effort)
        waits = _waits([one for one in servers if one.name in (OURS, NGINX)], effort)
    return Section(
        title="poll: CPU per request, and how long callers wait",
        reading=_READING,
        claims=(*_cost_claims(costs), *_wait_claims(waits)),
        figures=(*costs.values(), *waits.values()),
        notes=_NOTES,
    )


@contextmanager
def _servers() -> Iterator[list[Server]]:
    """Give all servers that are there, ours among them, all answering with the same document."""
    with ExitStack() as stack:
        ours = stack.enter_context(face(SETS, MACHINES, name=OURS))
        portable = stack.enter_context(face(SETS, MACHINES, "portable", name=PORTABLE))
        document = Path(stack.enter_context(tempfile.TemporaryDirectory()), "document.json")
        document.write_bytes(fetch(ours.address))
        others = [stack.enter_context(reference(one, document)) for one in REFERENCES]
        yield [*(other for other in others if other is not None), portable, ours]


def measure(servers: Sequence[Server], effort: Effort) -> Figures:
    """Return what a request costs each server, in every mode."""
    found: dict[tuple[str, str], list[float]] = {}
    with pinned(cores()[1]):
        for _ in range(effort.rounds):
            for name, mode in MODES.items():
                looks = [[_cost(server, mode, effort) for server in servers] for _ in range(effort.looks)]
                for server, costs in zip(servers, zip(*looks, strict=True), strict=True):
                    # Whoever else uses the machine only adds to what a request costs.
                    found.setdefault((name, server.name), []).append(min(costs))
    return _figures(found, "µs CPU per request")


def _cost(server: Server, mode: Mode, effort: Effort) -> float:
    callers = sources(range(0, SETS * MACHINES, SETS * MACHINES // CALLERS))[:CALLERS]
    return cost(server, callers, mode, effort.warm_up, effort.seconds)


def _waits(servers: Sequence[Server], effort: Effort) -> Figures:
    """Return how long callers wait for each server at a fixed rate."""
    found: dict[tuple[str, str], list[float]] = {}
    callers = sources(range(CONNECTIONS))
    with pinned(cores()[1]):
        for _ in range(effort.rounds):
            waits: dict[str, list[float]] = {server.name: [] for server in servers}
            for server in [*servers] * effort.looks:
                asked = steady(server.address, callers, RATE, effort.fixed_rate)
                waits[server.name] += (one.waited * 1e6 for one in asked)
            for (name, all_), (what, share) in product(waits.items(), (("p50", 0.50), ("p99", 0.99))):
                key = f"{RATE:,} polls/s, {what}", name
                found.setdefault(key, []).append(percentile(all_, share))
    return _figures(found, "µs")


def _figures(found: Mapping[tuple[str, str], Sequence[float]], unit: str) -> Figures:
    return {
        (what, server): Figure(name=f"{what}: {server}", unit=unit, values=tuple(values))
        for (what, server), values in found.items()
    }


def _cost_claims(costs: Figures) -> Iterator[Claim]:
    """Yield how each of ours stands to each reference that is there."""
    for other in REFERENCES:
        for ours in (OURS, PORTABLE):
            for mode in MODES:
                theirs = costs.get((mode, other.name))
                if theirs is not None:
                    goal = _GOALS.get((mode, ours), "") if other.name == NGINX else ""
                    name = mode if ours == OURS else f"{mode}, portable driver"
                    yield claim(name, other.name, theirs, costs[mode, ours], reference=theirs, goal=goal)


def _wait_claims(waits: Figures) -> Iterator[Claim]:
    """Yield how long ours makes callers wait, against nginx where it is installed."""
    for (what, server), theirs in waits.items():
        if server == NGINX:
            ours = waits[what, OURS]
            late = what.endswith("p99")
            allowed = tuple(2 * one + 1e3 for one in theirs.values) if late else theirs.values
            limit = Figure(name=theirs.name, unit=theirs.unit, values=allowed)
            goal = "G6b" if late else "G6a"
            yield claim(what, server, above=ours, below=limit, reference=theirs, goal=goal)
