"""What a poll costs: server CPU per answered request, ours and that of servers that only answer."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load import MODES, Load, Mode
from bench.measure import cores, pinned
from bench.references import REFERENCES, reference
from bench.report import Claim, Figure, Section, claim
from bench.servers import FIRST_SOURCE, Server, fetch, free_port, module, serving

OURS = "fairwarning"
SETS, MACHINES = 10, 100
CALLERS = 64

_READING = (
    "Ratio = the reference's CPU per answered poll ÷ ours: 1.00 is as cheap as the reference, more is better."
)
_NOTES = (
    f"{CALLERS} callers, each from an address of its own, of {SETS * MACHINES:,} machines in {SETS} sets; "
    "all servers answer with a document of the same length.",
    "Ours knows its callers, checks headers and versions, counts requests and notes the poll; "
    "the references only answer.",
    "uvicorn runs on asyncio's own loop with httptools.",
    "The load is pure Python: with new connections it keeps fast servers less than busy.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to look."""

    rounds: int
    warm_up: float
    seconds: float


QUICK, USUAL = Effort(3, 0.05, 0.25), Effort(7, 0.1, 0.6)

#: CPU µs per answered request and round, by mode and server.
Costs = Mapping[tuple[str, str], Figure]


def suite(effort: Effort) -> Section:
    """Measure all servers in turns."""
    with _servers() as servers:
        costs = measure(servers, effort)
    return Section(
        title="poll: CPU per request",
        reading=_READING,
        claims=tuple(_claims(costs, [server.name for server in servers if server.name != OURS])),
        figures=tuple(costs.values()),
        notes=_NOTES,
    )


@contextmanager
def _servers() -> Iterator[list[Server]]:
    """Give all servers that are there, ours among them, all answering with the same document."""
    with ExitStack() as stack:
        port = free_port()
        ours = stack.enter_context(serving(OURS, module("bench.face", port, SETS, MACHINES), port))
        document = Path(stack.enter_context(tempfile.TemporaryDirectory()), "document.json")
        document.write_bytes(fetch(ours.address))
        others = [stack.enter_context(reference(one, document)) for one in REFERENCES]
        yield [*(other for other in others if other is not None), ours]


def measure(servers: list[Server], effort: Effort) -> Costs:
    """Return what a request costs each server, in every mode."""
    found: dict[tuple[str, str], list[float]] = {}
    with pinned(cores()[1]):
        for _ in range(effort.rounds):
            for name, mode in MODES.items():
                for server in servers:
                    found.setdefault((name, server.name), []).append(_cost(server, mode, effort))
    return {
        (mode, server): Figure(name=f"{mode}: {server}", unit="µs CPU per request", values=tuple(values))
        for (mode, server), values in found.items()
    }


def _cost(server: Server, mode: Mode, effort: Effort) -> float:
    step = SETS * MACHINES // CALLERS
    sources = [str(FIRST_SOURCE + step * number) for number in range(CALLERS)]
    with Load(server.address, sources, mode) as load:
        load.run(effort.warm_up)
        before = server.meter(server.pid)
        answered = load.run(effort.seconds, at_least=CALLERS)
        return (server.meter(server.pid) - before) / answered * 1e6


def _claims(costs: Costs, others: list[str]) -> Iterator[Claim]:
    for other in others:
        for mode in MODES:
            theirs = costs[mode, other]
            yield claim(mode, other, above=theirs, below=costs[mode, OURS], reference=theirs)
