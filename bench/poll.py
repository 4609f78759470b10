"""The cost of a poll: CPU per answered request, of our server and of the references.

The same servers are then polled at a fixed rate, to measure how long callers wait for a server that is not
busy.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench.controlled_server import controlled_server
from bench.load import MODES, Mode
from bench.measure import cores, percentile, pinned
from bench.references import NGINX, REFERENCES, running
from bench.report import Claim, Figure, Section, claim
from bench.servers import Server, cost, fetch, sources
from bench.steady import steady

OURS, ASYNCIO = "fairwarning", "fairwarning, asyncio transport"
SETS, MACHINES = 10, 100
CALLERS = 64

#: The open loop: polls per second, and over how many connections.
RATE, CONNECTIONS = 5_000, 250

#: The goals of comparisons with nginx, by mode and server.
_GOALS: Mapping[tuple[str, str], str] = {
    ("keep-alive", OURS): "G1",
    ("new connection each", OURS): "G2",
    ("unique heads", OURS): "G3",
    ("keep-alive", ASYNCIO): "G4a",
    ("new connection each", ASYNCIO): "G4b",
}

_READING = (
    "Ratio = the reference's CPU per answered poll ÷ ours: 1.00 is as cheap as the reference, more is "
    "better. At a fixed rate: the wait for our server ÷ the wait for the reference; less is better."
)
_NOTES = (
    f"{CALLERS} callers, each from an address of its own, of {SETS * MACHINES:,} machines in {SETS} sets; "
    "all servers answer with a document of the same length.",
    "A round samples each server several times, in turns and for some hundredths of a second each. The "
    "cheapest CPU sample counts, and all waits.",
    "Our server identifies callers, checks headers and versions, counts requests and records the poll; the "
    "references only answer.",
    "uvicorn runs on asyncio's own loop with httptools.",
    "The load is pure Python: with new connections it does not keep fast servers fully busy.",
    f"At a fixed rate, {RATE:,} polls a second over {CONNECTIONS} connections; waits are counted from the "
    "instant a poll was due. p99 is compared with twice the p99 of the reference plus a millisecond.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """The number and the length of samples: of a busy server, and of one polled at a fixed rate."""

    rounds: int
    #: Samples of each server in a round; the servers take turns, so that noise hits all of them.
    samples: int
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
        waits = _waits([server for server in servers if server.name in (OURS, NGINX)], effort)
    return Section(
        title="poll: CPU per request, and how long callers wait",
        reading=_READING,
        claims=(*_cost_claims(costs), *_wait_claims(waits)),
        figures=(*costs.values(), *waits.values()),
        notes=_NOTES,
    )


@contextmanager
def _servers() -> Iterator[list[Server]]:
    """Run ours and the installed references, all with the same document."""
    with ExitStack() as stack:
        ours = stack.enter_context(controlled_server(SETS, MACHINES, name=OURS))
        portable = stack.enter_context(controlled_server(SETS, MACHINES, "portable", name=ASYNCIO))
        document = Path(stack.enter_context(tempfile.TemporaryDirectory()), "document.json")
        document.write_bytes(fetch(ours.address))
        others = [stack.enter_context(running(reference, document)) for reference in REFERENCES]
        yield [*(other for other in others if other is not None), portable, ours]


def measure(servers: Sequence[Server], effort: Effort) -> Figures:
    """Return the CPU per request of each server, in each mode."""
    costs: dict[tuple[str, str], list[float]] = {}
    with pinned(cores()[1]):
        for _ in range(effort.rounds):
            for name, mode in MODES.items():
                samples = [[_cost(server, mode, effort) for server in servers] for _ in range(effort.samples)]
                for server, sampled in zip(servers, zip(*samples, strict=True), strict=True):
                    # Other users of the machine only add to the cost of a request.
                    costs.setdefault((name, server.name), []).append(min(sampled))
    return _figures(costs, "µs CPU per request")


def _cost(server: Server, mode: Mode, effort: Effort) -> float:
    callers = sources(range(0, SETS * MACHINES, SETS * MACHINES // CALLERS))[:CALLERS]
    return cost(server, callers, mode, effort.warm_up, effort.seconds)


def _waits(servers: Sequence[Server], effort: Effort) -> Figures:
    """Return how long callers wait for each server at a fixed rate."""
    percentiles: dict[tuple[str, str], list[float]] = {}
    callers = sources(range(CONNECTIONS))
    with pinned(cores()[1]):
        for _ in range(effort.rounds):
            waits: dict[str, list[float]] = {server.name: [] for server in servers}
            for server in [*servers] * effort.samples:
                polls = steady(server.address, callers, RATE, effort.fixed_rate)
                waits[server.name] += (poll.waited * 1e6 for poll in polls)
            for (name, server_waits), (what, share) in product(waits.items(), (("p50", 0.50), ("p99", 0.99))):
                key = f"{RATE:,} polls/s, {what}", name
                percentiles.setdefault(key, []).append(percentile(server_waits, share))
    return _figures(percentiles, "µs")


def _figures(measured: Mapping[tuple[str, str], Sequence[float]], unit: str) -> Figures:
    return {
        (what, server): Figure(name=f"{what}: {server}", unit=unit, values=tuple(values))
        for (what, server), values in measured.items()
    }


def _cost_claims(costs: Figures) -> Iterator[Claim]:
    """Yield the claims of our transports against each installed reference."""
    for other in REFERENCES:
        for ours in (OURS, ASYNCIO):
            for mode in MODES:
                theirs = costs.get((mode, other.name))
                if theirs is not None:
                    goal = _GOALS.get((mode, ours), "") if other.name == NGINX else ""
                    name = mode if ours == OURS else f"{mode}, asyncio transport"
                    yield claim(name, other.name, theirs, costs[mode, ours], reference=theirs, goal=goal)


def _wait_claims(waits: Figures) -> Iterator[Claim]:
    """Yield the claims about waits against nginx, where it is installed."""
    for (what, server), theirs in waits.items():
        if server == NGINX:
            ours = waits[what, OURS]
            late = what.endswith("p99")
            allowed = tuple(2 * wait + 1e3 for wait in theirs.values) if late else theirs.values
            limit = Figure(name=theirs.name, unit=theirs.unit, values=allowed)
            goal = "G6b" if late else "G6a"
            yield claim(what, server, above=ours, below=limit, reference=theirs, goal=goal)
