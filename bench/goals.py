"""The goals of the bench, in one table that pages and tests read.

*Must* is a promise, *aim* is an ambition. A goal is judged by the median of its rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from string import ascii_lowercase

from bench.abuse import ABUSES


class Better(StrEnum):
    """Whether more or less is better, as the sign before the limit."""

    MORE = "≥"
    LESS = "≤"


class Verdict(StrEnum):
    """Whether a figure meets its goal."""

    AIM = "aim met"
    MET = "met"
    SHORT = "short"


@dataclass(frozen=True, slots=True)
class Goal:
    """The limits of a figure."""

    what: str
    unit: str
    better: Better
    must: float
    aim: float | None = None

    def keeps(self, value: float, limit: float) -> bool:
        """Whether ``value`` is within ``limit``."""
        return value >= limit if self.better is Better.MORE else value <= limit

    def verdict(self, value: float) -> Verdict:
        """Return whether ``value`` meets the goal."""
        if not self.keeps(value, self.must):
            return Verdict.SHORT
        return Verdict.AIM if self.aim is not None and self.keeps(value, self.aim) else Verdict.MET

    def half_kept(self, value: float) -> bool:
        """Whether ``value`` is within a factor of two of the promise, as tests on a busy machine require."""
        return self.keeps(value, self.must / 2 if self.better is Better.MORE else self.must * 2)


_NGINX = "nginx's ÷ ours"
_EXPONENT = "exponent"
_QUIET = "× without abuse"
_NOTIFY = "× a LISTEN/NOTIFY round trip"

GOALS: Mapping[str, Goal] = {
    "G1": Goal("CPU per poll, keep-alive", _NGINX, Better.MORE, 0.80, 0.95),
    "G2": Goal("CPU per poll, a new connection each", _NGINX, Better.MORE, 0.70, 0.90),
    "G3": Goal("CPU per poll, no two heads alike", _NGINX, Better.MORE, 0.55, 0.70),
    "G4a": Goal("CPU per poll, asyncio transport, keep-alive", _NGINX, Better.MORE, 0.60, 0.75),
    "G4b": Goal("CPU per poll, asyncio transport, a new connection each", _NGINX, Better.MORE, 0.40, 0.50),
    "G6a": Goal("5,000 polls/s on one core, p50", "× nginx's p50", Better.LESS, 1.6, 1.3),
    "G6b": Goal("5,000 polls/s on one core, p99", "× (2 × nginx's p99 + 1 ms)", Better.LESS, 1.0),
    "G7": Goal("waking every watcher of one scope, per watcher", "µs", Better.LESS, 25.0, 20.0),
    "G8": Goal("the slowest poll meanwhile", "ms", Better.LESS, 50.0, 20.0),
    "G9": Goal("memory per idle watcher", "KB", Better.LESS, 1.0, 0.5),
    "G10": Goal("memory per machine of 1,000,000", "B", Better.LESS, 400.0, 250.0),
    "G11": Goal("growth of CPU per poll with the machines", _EXPONENT, Better.LESS, 0.05),
    "G12a": Goal("growth of an approval with the events pending", _EXPONENT, Better.LESS, 0.25),
    "G12b": Goal("growth of an expiry with the events pending", _EXPONENT, Better.LESS, 0.25),
    "G13": Goal("growth of approval and refresh with the events in a scope", _EXPONENT, Better.LESS, 1.05),
    "G14a": Goal("durable approvals, 32 callers, rate", "× one by one", Better.MORE, 5.0),
    "G14b": Goal("durable approvals, 32 callers, p99", "× fdatasync's p50", Better.LESS, 10.0),
    "G14c": Goal("durable approvals, 32 callers, CPU", "× one by one", Better.MORE, 1.0, 2.0),
    "G16a": Goal("start to first answer, metadata only", "ms", Better.LESS, 150.0, 100.0),
    "G16b": Goal("start to first answer, all APIs", "ms", Better.LESS, 500.0, 300.0),
    "G17": Goal("start from SQLite, 1,000,000 machines", "s", Better.LESS, 10.0, 5.0),
    "G18": Goal("full garbage collection, 1,000,000 machines", "ms", Better.LESS, 20.0),
    "G19a": Goal("event created → seen by a waiting guest, idle, p99", "ms", Better.LESS, 10.0),
    "G19b": Goal("event created → seen by a waiting guest, 5,000 polls/s, p99", "ms", Better.LESS, 50.0),
    "G20a": Goal("memory grown during the soak", "% of what it was when warm", Better.LESS, 5.0, 1.0),
    "G20b": Goal("descriptors left open after the soak", "descriptors", Better.LESS, 0.0),
    "G21a": Goal("agent at rest, memory", "MB", Better.LESS, 30.0),
    "G21b": Goal("agent at rest, CPU", "% of a core", Better.LESS, 0.5),
    **{
        f"G22{letter}": Goal(f"p99 of other guests during abuse: {name}", _QUIET, Better.LESS, 3.0)
        for letter, name in zip(ascii_lowercase, ABUSES, strict=False)
    },
    "G23a": Goal("operator API during abuse, p99", _QUIET, Better.LESS, 3.0),
    "G23b": Goal("management API during abuse, p99", _QUIET, Better.LESS, 3.0),
    "G23c": Goal("lateness of the server's timer during abuse, p99", "ms", Better.LESS, 10.0),
    "G24a": Goal("durable approvals through PostgreSQL, 32 callers, rate", "× SQLite's", Better.MORE, 0.8),
    "G24b": Goal("event stored → seen by a guest of another node, p50", _NOTIFY, Better.LESS, 3.0),
    "G24c": Goal("CPU per poll with two workers", "× one node's", Better.LESS, 1.15),
    "G24d": Goal("catching up with the journal of other nodes", "lines/s", Better.MORE, 10_000.0),
    "G24e": Goal("memory of a node with 100,000 machines", "MB", Better.LESS, 200.0),
    "G24f": Goal("smaller share of two workers", "% of 1,000 sources", Better.MORE, 30.0),
}
