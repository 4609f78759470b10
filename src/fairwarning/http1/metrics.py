"""What the metadata face has done so far, in plain numbers."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample

#: Where the status is in the bytes of an answer.
STATUS = slice(len("HTTP/1.1 "), len("HTTP/1.1 200"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """One reading of the numbers."""

    #: Answers by the class of their status: ``2xx``, ``3xx`` and so on.
    answered: dict[str, int]
    #: Answers that said that there were too many requests.
    throttled: int
    #: Connections taken since the start, and those of them that were turned away for want of room.
    taken: int
    turned_away: int
    #: How often a caller was not read for a while.
    rests: int
    #: Connections that are open, and answers that are held back.
    connections: int
    watchers: int

    def families(self) -> Iterator[MetricFamily]:
        """Return the numbers as monitoring reads them."""
        answered = tuple(Sample(count, {"status": status}) for status, count in self.answered.items())
        yield MetricFamily(
            "fairwarning_metadata_answers_total", MetricType.COUNTER, "Answers to guests", answered
        )
        for name, sort, help_text, value in (
            ("throttled_total", MetricType.COUNTER, "Guests told that they ask too often", self.throttled),
            ("connections_total", MetricType.COUNTER, "Connections taken", self.taken),
            (
                "turned_away_total",
                MetricType.COUNTER,
                "Connections turned away for want of room",
                self.turned_away,
            ),
            ("rests_total", MetricType.COUNTER, "Guests not read for a while", self.rests),
            ("connections", MetricType.GAUGE, "Connections that are open", self.connections),
            ("watchers", MetricType.GAUGE, "Guests that wait for a change of their document", self.watchers),
        ):
            yield MetricFamily(f"fairwarning_metadata_{name}", sort, help_text, (Sample(value),))


@dataclass(slots=True)
class Counters:
    """The numbers as they are counted."""

    answered: defaultdict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    taken: int = 0
    turned_away: int = 0
    rests: int = 0
    connections: int = 0
    watchers: int = 0

    def figures(self) -> ServerMetrics:
        """Return the numbers as they are now."""
        classes: Counter[str] = Counter()
        for status, count in self.answered.items():
            classes[f"{status[:1].decode()}xx"] += count
        return ServerMetrics(
            answered=dict(sorted(classes.items())),
            throttled=self.answered.get(b"429", 0),
            taken=self.taken,
            turned_away=self.turned_away,
            rests=self.rests,
            connections=self.connections,
            watchers=self.watchers,
        )
