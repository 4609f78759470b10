"""CPU time, spreads and ratios: what makes figures from a noisy machine comparable.

Wall rates swing with whatever else the machine does; the CPU time a request costs hardly does. Contestants
take turns in rounds, and a claim is made of the ratios inside each round.
"""

import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: A reference that varies by more than this says nothing about whoever is compared with it.
NOISY = 0.30

#: Gives the CPU seconds that a process and its descendants have used so far.
Meter = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Spread:
    """What some rounds gave."""

    median: float
    low: float
    high: float

    @property
    def noisy(self) -> bool:
        """Whether the rounds differ too much to be believed."""
        return self.high - self.low > NOISY * self.median


def spread(values: Sequence[float]) -> Spread:
    """Return the median of all rounds, between the lowest and the highest."""
    return Spread(statistics.median(values), min(values), max(values))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, ...]:
    """Return one ratio per round: what was measured together is compared together."""
    return tuple(above / below for above, below in zip(numerators, denominators, strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that ``share`` of all values do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * share), 1) - 1]


def exponent(costs: Mapping[float, float]) -> float:
    """Return how cost grows with size, as the slope of both logarithms: 0 not at all, 1 in proportion."""
    sizes, values = (list(map(math.log, one)) for one in (costs, costs.values()))
    return statistics.linear_regression(sizes, values).slope


def scheduler_seconds(pid: int) -> float:
    """Return the CPU seconds of a process tree, to the nanosecond; threads that ended are left out."""
    tasks = (task for one in family(pid) for task in Path(f"/proc/{one}/task").iterdir())
    return sum(int(_text(task / "schedstat").partition(" ")[0] or 0) for task in tasks) / 1e9


def accounted_seconds(pid: int) -> float:
    """Return the CPU seconds of a process tree, to the nanosecond; threads that ended are counted."""
    # The number that clock_getcpuclockid() gives the clock of a process; Python has no name for it.
    return sum(time.clock_gettime(~one << 3 | 2) for one in family(pid))


def memory(pid: int) -> int:
    """Return the bytes of memory that a process has to itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    (anonymous,) = re.findall(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return int(anonymous) * 1024


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def family(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in _text(task / "children").split():
            yield from family(int(child))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
        return ""


@cache  # who asks again may have been pinned since, and would be told to share its own core with the server
def cores() -> tuple[int, int]:
    """Return the core for servers and the core for who loads them; the same if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Stay on one core during the block, and give it to every process started there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
