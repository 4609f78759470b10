"""What the agent reports about itself: log lines as JSON on stderr, and counters for Prometheus."""

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample

#: The attributes that every log record has; all others are fields that the caller added.
_STANDARD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

HELP: Mapping[str, str] = {
    "polls": "Polls of the metadata endpoint, by result.",
    "prepares": "Finished preparations, by result.",
    "recovers": "Finished recoveries, by result.",
    "approvals": "Approvals, by result.",
}


class JsonLines(logging.Formatter):
    """Renders a log record as one line of JSON: a fixed event name, then fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """Send the log of the agent to stderr, as JSON, during the block."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("fairwarning")
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, level, logger.propagate = before
        logger.setLevel(level)


class AgentMetrics:
    """Counters that several threads may read and increment."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def count(self, counter: str, result: str) -> None:
        """Increment a counter."""
        with self._lock:
            self._counts[counter, result] += 1

    def families(self) -> Iterator[MetricFamily]:
        """Yield the counters, each with one sample per result."""
        with self._lock:
            counts = sorted(self._counts.items())
        for counter, help_text in HELP.items():
            samples = (Sample(n, {"result": result}) for (name, result), n in counts if name == counter)
            yield MetricFamily(
                f"fairwarning_agent_{counter}_total", MetricType.COUNTER, help_text, tuple(samples)
            )
