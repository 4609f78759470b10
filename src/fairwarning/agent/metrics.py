"""What the agent counts."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample

HELP: Mapping[str, str] = {
    "polls": "Answers and failures of the metadata endpoint",
    "prepares": "Preparations that ended",
    "recovers": "Recoveries that ended",
    "approvals": "Approvals by what became of them",
}


class AgentMetrics:
    """Counters that several threads may read."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._turn = threading.Lock()

    def count(self, what: str, result: str) -> None:
        """Count one more."""
        with self._turn:
            self._counts[what, result] += 1

    def families(self) -> Iterator[MetricFamily]:
        """Return everything counted, by what became of it."""
        with self._turn:
            counts = sorted(self._counts.items())
        for what, help_text in HELP.items():
            samples = (Sample(n, {"result": result}) for (kind, result), n in counts if kind == what)
            yield MetricFamily(
                f"fairwarning_agent_{what}_total", MetricType.COUNTER, help_text, tuple(samples)
            )
