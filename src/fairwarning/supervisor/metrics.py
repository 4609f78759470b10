"""Adds up the metrics of workers.

Each worker counts what it does itself, and knows the whole fleet. So numbers of work are added, and facts
about the fleet, which every worker reports alike, are not: the greatest counts, as the others are about to
follow. All other gauges say which worker they are about.

What a worker had counted stays in the sums after its end, so that no counter goes back.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from operator import add

from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample

#: Facts about the fleet: the same on every worker.
FLEET_METRICS = frozenset(
    {
        "fairwarning_scopes",
        "fairwarning_machines",
        "fairwarning_events",
        "fairwarning_overdue_impacts",
        "fairwarning_journal_lines_total",
        "fairwarning_nodes",
    }
)
#: Gauges of work that the workers share.
SHARED_GAUGES = frozenset(
    {
        "fairwarning_metadata_connections",
        "fairwarning_metadata_watchers",
        "fairwarning_http_connections",
        "fairwarning_streams",
    }
)


class CombinedMetrics:
    """The metrics of all workers, past and present."""

    def __init__(self) -> None:
        #: What each process reported last, by its number, with the index of its worker.
        self._reports: dict[int, tuple[int, Sequence[MetricFamily]]] = {}
        #: What ended processes had counted, by the name of the family, and the numbers of these processes.
        self._past: dict[str, MetricFamily] = {}
        self._ended: set[int] = set()

    def report(self, number: int, worker: int, families: Sequence[MetricFamily]) -> None:
        """Take what a process reports now; an answer that comes after its end would count twice."""
        if number not in self._ended:
            self._reports[number] = worker, families

    def forget_others(self, numbers: Collection[int]) -> None:
        """Drop the gauges of all processes but these; what they had counted stays in the sums."""
        for number in [number for number in self._reports if number not in numbers]:
            _, families = self._reports.pop(number)
            self._ended.add(number)
            for family in families:
                if _added(family):
                    past = self._past.get(family.name)
                    both = [family] if past is None else [past, family]
                    self._past[family.name] = _merged(both, add)

    def families(self) -> Iterator[MetricFamily]:
        """Return every family once."""
        by_name: dict[str, list[MetricFamily]] = {name: [past] for name, past in self._past.items()}
        # A process that replaces another comes later, and so does its gauge.
        for _, (worker, families) in sorted(self._reports.items()):
            for family in families:
                about = family if _comparable(family) else _labelled(family, worker)
                by_name.setdefault(family.name, []).append(about)
        for families in by_name.values():
            yield _merged(families, _rule(families[0]))


def _comparable(family: MetricFamily) -> bool:
    return family.sort is MetricType.COUNTER or family.name in FLEET_METRICS | SHARED_GAUGES


def _added(family: MetricFamily) -> bool:
    return family.sort is MetricType.COUNTER and family.name not in FLEET_METRICS


def _rule(family: MetricFamily) -> Callable[[float, float], float]:
    if family.name in FLEET_METRICS:
        return max
    return add if _comparable(family) else _newest


def _newest(earlier: float, later: float) -> float:
    return later


def _labelled(family: MetricFamily, worker: int) -> MetricFamily:
    samples = (Sample(value, {**labels, "worker": str(worker)}) for value, labels in family.samples)
    return family._replace(samples=tuple(samples))


def _merged(families: Sequence[MetricFamily], rule: Callable[[float, float], float]) -> MetricFamily:
    """Return one family; samples with the same labels become one by the rule."""
    samples: dict[tuple[tuple[str, str], ...], Sample] = {}
    for family in families:
        for sample in family.samples:
            key = tuple(sorted(sample.labels.items()))
            earlier = samples.get(key)
            samples[key] = (
                sample if earlier is None else Sample(rule(earlier.value, sample.value), sample.labels)
            )
    return families[0]._replace(samples=tuple(samples.values()))
