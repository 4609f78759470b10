"""What a server counts, and the metric families for it."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample

#: Where the status code is in the bytes of a response.
STATUS = slice(len("HTTP/1.1 "), len("HTTP/1.1 200"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """One reading of the counters."""

    #: Responses by status class: ``2xx``, ``3xx`` and so on.
    responses: dict[str, int]
    #: Responses with status 429.
    throttled: int
    #: Connections accepted since the start, and those among them that exceeded a limit.
    accepted: int
    rejected: int
    #: How often a caller had to rest.
    rests: int
    #: Connections that are open, and responses that are held back.
    connections: int
    held_responses: int

    def families(self, prefix: str) -> Iterator[MetricFamily]:
        """Return the metric families; their names begin with ``prefix``."""
        responses = tuple(Sample(count, {"status": status}) for status, count in self.responses.items())
        yield MetricFamily(
            f"{prefix}_answers_total", MetricType.COUNTER, "HTTP responses, by status class.", responses
        )
        for name, kind, help_text, value in (
            (
                "throttled_total",
                MetricType.COUNTER,
                "Requests answered with 429 Too Many Requests.",
                self.throttled,
            ),
            ("connections_total", MetricType.COUNTER, "Connections accepted.", self.accepted),
            (
                "turned_away_total",
                MetricType.COUNTER,
                "Connections rejected because of a connection limit.",
                self.rejected,
            ),
            (
                "rests_total",
                MetricType.COUNTER,
                "Times that reading from a caller was paused because of its work limit.",
                self.rests,
            ),
            ("connections", MetricType.GAUGE, "Open connections.", self.connections),
            ("watchers", MetricType.GAUGE, "Responses held back (long polls).", self.held_responses),
        ):
            yield MetricFamily(f"{prefix}_{name}", kind, help_text, (Sample(value),))


@dataclass(slots=True)
class Counters:
    """The counters of a running server."""

    responses: defaultdict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    accepted: int = 0
    rejected: int = 0
    rests: int = 0
    connections: int = 0
    held_responses: int = 0

    def read(self) -> ServerMetrics:
        """Return the counters as they are now."""
        classes: Counter[str] = Counter()
        for status, count in self.responses.items():
            classes[f"{status[:1].decode()}xx"] += count
        return ServerMetrics(
            responses=dict(sorted(classes.items())),
            throttled=self.responses.get(b"429", 0),
            accepted=self.accepted,
            rejected=self.rejected,
            rests=self.rests,
            connections=self.connections,
            held_responses=self.held_responses,
        )
