"""The cost of a large fleet: starting from a database, memory, and polls."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.controlled_server import ControlledServer, controlled_server, data
from bench.load import MODES
from bench.measure import cores, exponent, memory, pinned
from bench.report import Curve, Figure
from bench.servers import cost, module, run_to_end, sources

PER_SET = 1_000
CALLERS = 64
PLOT = "machines"

#: The goals of a large fleet are those of this many machines.
LARGE = 1_000_000

NOTES = (
    f"Growth with machines: one server per size, its fleet in sets of {PER_SET:,} read from SQLite; "
    f"{CALLERS} callers spread over all machines, different ones each round; server CPU.",
    "Memory per machine is the private memory of the largest server minus that of the smallest, per "
    "additional machine.",
    "A start is timed from starting the process to its first answered poll; a collection in CPU time.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How large the fleets are, and how long each one is polled per round."""

    sizes: tuple[int, ...]
    rounds: int
    seconds: float = 0.3


@dataclass(frozen=True, slots=True)
class LoadedServer:
    """A running server with its fleet."""

    size: int
    server: ControlledServer
    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Growth:
    """The results: µs of CPU per poll by mode, size and round, and single measurements by size."""

    costs: Mapping[str, Mapping[int, Sequence[float]]]
    seconds: Mapping[int, float]
    memory: Mapping[int, int]
    pauses: Sequence[float]


def measure(effort: Effort, folder: Path) -> Growth:
    """Build every fleet below ``folder``, start a server on each and poll them in turns."""
    with ExitStack() as stack:
        fleets = [_start(stack, size, folder) for size in effort.sizes]
        modes = ("keep-alive", "new connection each")
        costs: dict[str, dict[int, list[float]]] = {mode: {} for mode in modes}
        with pinned(cores()[1]):
            for turn in range(effort.rounds):
                for mode in modes:
                    for fleet in fleets:
                        cpu = _cost(fleet, mode, turn, effort.seconds)
                        costs[mode].setdefault(fleet.size, []).append(cpu)
        return Growth(
            costs=costs,
            seconds={fleet.size: fleet.seconds for fleet in fleets},
            memory={fleet.size: fleet.memory for fleet in fleets},
            pauses=[fleets[-1].server.call("collect") for _ in range(effort.rounds)],
        )


def _start(stack: ExitStack, size: int, folder: Path) -> LoadedServer:
    fresh = Path(stack.enter_context(TemporaryDirectory(dir=folder, prefix="growth-")))
    run_to_end(module("bench.build", fresh, size // PER_SET, PER_SET))
    begun = time.perf_counter()
    server = stack.enter_context(controlled_server(0, 0, data(fresh), name=f"{size:,} machines"))
    return LoadedServer(size, server, time.perf_counter() - begun, memory(server.pid))


def _cost(loaded: LoadedServer, mode: str, turn: int, seconds: float) -> float:
    step = loaded.size // CALLERS
    callers = sources(turn % step + number * step for number in range(CALLERS))
    return cost(loaded.server, callers, MODES[mode], seconds / 4, seconds)


def figures(growth: Growth) -> tuple[Figure, ...]:
    """Return the figures of a growth."""
    smallest, largest = min(growth.seconds), max(growth.seconds)
    large = largest >= LARGE
    extra = (growth.memory[largest] - growth.memory[smallest]) / (largest - smallest)
    costs = [
        Figure(name=f"poll, {mode}, {size:,} machines", unit="µs CPU", values=tuple(values))
        for mode, sizes in growth.costs.items()
        for size, values in sizes.items()
    ]
    return (
        *costs,
        *(
            Figure(name=f"growth of a poll, {mode}", unit="exponent", values=exponents(sizes), goal=goal)
            for (mode, sizes), goal in zip(growth.costs.items(), ("G11", ""), strict=True)
        ),
        Figure(
            name=f"memory per machine of {largest:,}", unit="B", values=(extra,), goal="G10" if large else ""
        ),
        *(
            Figure(
                name=f"start from SQLite, {size:,} machines",
                unit="s",
                values=(seconds,),
                goal="G17" if size >= LARGE else "",
            )
            for size, seconds in growth.seconds.items()
        ),
        Figure(
            name=f"full collection, {largest:,} machines",
            unit="ms CPU",
            values=tuple(pause * 1e3 for pause in growth.pauses),
            goal="G18" if large else "",
        ),
    )


def exponents(sizes: Mapping[int, Sequence[float]]) -> tuple[float, ...]:
    """Return the exponent of cost against size, for each round."""
    return tuple(exponent(dict(zip(sizes, turn, strict=True))) for turn in zip(*sizes.values(), strict=True))


def curves(growth: Growth) -> tuple[Curve, ...]:
    """Return the curves against machines: of each size the cheapest round, because noise only adds."""
    costs = (
        Curve(plot=PLOT, name=f"poll, {mode}", unit="µs CPU", points={s: min(v) for s, v in sizes.items()})
        for mode, sizes in growth.costs.items()
    )
    starts = Curve(
        plot=PLOT,
        name="start from SQLite",
        unit="ms",
        points={size: seconds * 1e3 for size, seconds in growth.seconds.items()},
    )
    return (*costs, starts)
