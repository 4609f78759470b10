"""What the agent counts, in the text form that Prometheus reads."""

import threading
from collections import Counter
from collections.abc import Mapping

HELP: Mapping[str, str] = {
    "polls": "Answers and failures of the metadata endpoint",
    "prepares": "Preparations that ended",
    "recovers": "Recoveries that ended",
    "approvals": "Approvals by what became of them",
}


class Figures:
    """Counters that several threads may read."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._turn = threading.Lock()

    def count(self, what: str, result: str) -> None:
        """Count one more."""
        with self._turn:
            self._counts[what, result] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return everything counted and measured; a gauge has a line of help and a value."""
        with self._turn:
            counts = sorted(self._counts.items())
        lines: list[str] = []
        for what, help_text in HELP.items():
            name = f"fairwarning_agent_{what}_total"
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} counter"]
            lines += [f'{name}{{result="{result}"}} {n}' for (kind, result), n in counts if kind == what]
        for what, (help_text, value) in gauges.items():
            name = f"fairwarning_agent_{what}"
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"
