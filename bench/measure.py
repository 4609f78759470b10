"""CPU time, spreads and ratios, which make figures from a noisy machine comparable.

Wall rates vary with the other load of the machine; the CPU time per request hardly does. Servers are
measured in alternating rounds, and a claim consists of the ratios inside each round.
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

#: A reference that varies by more than this share is too noisy to compare with.
NOISY = 0.30

#: Gives the CPU seconds that a process and its descendants have used so far.
Meter = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the range of some rounds."""

    median: float
    low: float
    high: float

    @property
    def noisy(self) -> bool:
        """Whether the rounds differ too much."""
        return self.high - self.low > NOISY * self.median


def spread(values: Sequence[float]) -> Spread:
    """Return the median of all rounds with the lowest and the highest."""
    return Spread(statistics.median(values), min(values), max(values))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, ...]:
    """Return one ratio per round."""
    return tuple(above / below for above, below in zip(numerators, denominators, strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that ``share`` of all values do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * share), 1) - 1]


def exponent(costs: Mapping[float, float]) -> float:
    """Return the slope of cost against size, both logarithmic: 0 is no growth, 1 is in proportion."""
    sizes, values = (list(map(math.log, numbers)) for numbers in (costs, costs.values()))
    return statistics.linear_regression(sizes, values).slope


def scheduler_seconds(pid: int) -> float:
    """Return the CPU seconds of a process tree, to the nanosecond, without threads that have ended."""
    tasks = (task for member in family(pid) for task in Path(f"/proc/{member}/task").iterdir())
    return sum(int(_text(task / "schedstat").partition(" ")[0] or 0) for task in tasks) / 1e9


def accounted_seconds(pid: int) -> float:
    """Return the CPU seconds of a process tree, to the nanosecond, with threads that have ended."""
    # The clock id that clock_getcpuclockid() returns for a process; Python has no name for it.
    return sum(time.clock_gettime(~member << 3 | 2) for member in family(pid))


def memory(pid: int) -> int:
    """Return the private memory of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    (anonymous,) = re.findall(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return int(anonymous) * 1024


def descriptors(pid: int) -> int:
    """Return the number of open descriptors of a process."""
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
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended
        return ""


@cache  # a later call from a pinned process would return its own core for both
def cores() -> tuple[int, int]:
    """Return the core for servers and the core for their load; the same if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Pin this process, and the processes it starts, to one core during the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
