"""What a server costs whose fleet is large: to start from a database, to hold in memory, and to poll."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.faces import Face, data, face
from bench.load import MODES
from bench.measure import cores, exponent, memory, pinned
from bench.report import Curve, Figure
from bench.servers import cost, finished, module, sources

PER_SET = 1_000
CALLERS = 64
PLOT = "machines"

#: The goals of a large fleet are those of this many machines; a smaller one says nothing about them.
LARGE = 1_000_000

NOTES = (
    f"Growth with machines: one server per size, its fleet in sets of {PER_SET:,} read from SQLite; "
    f"{CALLERS} callers spread over all machines, others every round; server CPU.",
    "Memory per machine is what the largest server has to itself beyond the smallest, for each machine more.",
    "A start is timed from starting the process until its first poll is answered; a collection in CPU time.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How large the fleets are, and how long each is asked in every round."""

    sizes: tuple[int, ...]
    rounds: int
    seconds: float = 0.3


@dataclass(frozen=True, slots=True)
class Grown:
    """A server with its fleet."""

    size: int
    server: Face
    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What was found: µs of CPU per poll by mode, size and round, and what else was seen once."""

    costs: Mapping[str, Mapping[int, Sequence[float]]]
    seconds: Mapping[int, float]
    memory: Mapping[int, int]
    pauses: Sequence[float]


def measure(effort: Effort, folder: Path) -> Growth:
    """Build every fleet below ``folder``, start a server on each and poll them in turns."""
    with ExitStack() as stack:
        fleets = [_grow(stack, size, folder) for size in effort.sizes]
        modes = ("keep-alive", "new connection each")
        costs: dict[str, dict[int, list[float]]] = {mode: {} for mode in modes}
        with pinned(cores()[1]):
            for turn in range(effort.rounds):
                for mode in modes:
                    for one in fleets:
                        costs[mode].setdefault(one.size, []).append(_cost(one, mode, turn, effort.seconds))
        return Growth(
            costs=costs,
            seconds={one.size: one.seconds for one in fleets},
            memory={one.size: one.memory for one in fleets},
            pauses=[fleets[-1].server.ask("collect") for _ in range(effort.rounds)],
        )


def _grow(stack: ExitStack, size: int, folder: Path) -> Grown:
    fresh = Path(stack.enter_context(TemporaryDirectory(dir=folder, prefix="growth-")))
    finished(module("bench.build", fresh, size // PER_SET, PER_SET))
    begun = time.perf_counter()
    server = stack.enter_context(face(0, 0, data(fresh), name=f"{size:,} machines"))
    return Grown(size, server, time.perf_counter() - begun, memory(server.pid))


def _cost(one: Grown, mode: str, turn: int, seconds: float) -> float:
    step = one.size // CALLERS
    callers = sources(turn % step + number * step for number in range(CALLERS))
    return cost(one.server, callers, MODES[mode], seconds / 4, seconds)


def figures(found: Growth) -> tuple[Figure, ...]:
    """Return what was found, as far as it has a unit."""
    smallest, largest = min(found.seconds), max(found.seconds)
    large = largest >= LARGE
    extra = (found.memory[largest] - found.memory[smallest]) / (largest - smallest)
    costs = [
        Figure(name=f"poll, {mode}, {size:,} machines", unit="µs CPU", values=tuple(values))
        for mode, sizes in found.costs.items()
        for size, values in sizes.items()
    ]
    return (
        *costs,
        *(
            Figure(name=f"growth of a poll, {mode}", unit="exponent", values=exponents(sizes), goal=goal)
            for (mode, sizes), goal in zip(found.costs.items(), ("G11", ""), strict=True)
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
            for size, seconds in found.seconds.items()
        ),
        Figure(
            name=f"full collection, {largest:,} machines",
            unit="ms CPU",
            values=tuple(pause * 1e3 for pause in found.pauses),
            goal="G18" if large else "",
        ),
    )


def exponents(sizes: Mapping[int, Sequence[float]]) -> tuple[float, ...]:
    """Return, round by round, how cost grows with size."""
    return tuple(exponent(dict(zip(sizes, turn, strict=True))) for turn in zip(*sizes.values(), strict=True))


def curves(found: Growth) -> tuple[Curve, ...]:
    """Return what can be drawn against machines: the cheapest round of each size, for noise only adds."""
    costs = (
        Curve(plot=PLOT, name=f"poll, {mode}", unit="µs CPU", points={s: min(v) for s, v in sizes.items()})
        for mode, sizes in found.costs.items()
    )
    starts = Curve(
        plot=PLOT,
        name="start from SQLite",
        unit="ms",
        points={size: seconds * 1e3 for size, seconds in found.seconds.items()},
    )
    return (*costs, starts)
