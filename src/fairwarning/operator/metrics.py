"""How the fleet is doing, in numbers."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from fairwarning.core.model import Scope, ScopeKind
from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample, render_metrics
from fairwarning.operator.context import OperatorContext


async def text(desk: OperatorContext) -> str:
    """Return what monitoring reads."""
    newest = await desk.engine.store.newest()
    scopes = list(desk.engine.scopes().values())
    # A large fleet takes a while to count, and no scope changes meanwhile: none ever does.
    fleet = await asyncio.to_thread(lambda: list(_fleet(scopes)))
    lines = Sample(0 if newest is None else newest.seq)
    journal = MetricFamily(
        "fairwarning_journal_lines_total", MetricType.COUNTER, "Lines of the journal", (lines,)
    )
    return render_metrics((*fleet, journal, *desk.counted()))


def _fleet(scopes: Iterable[Scope]) -> Iterator[MetricFamily]:
    kinds: Counter[ScopeKind] = Counter()
    machines: Counter[ScopeKind] = Counter()
    events: Counter[tuple[str, str]] = Counter()
    for scope in scopes:
        kinds[scope.facts.kind] += 1
        machines[scope.facts.kind] += len(scope.machines)
        events.update((event.kind.value, event.status.value) for event in scope.events.values())
    yield _gauge("fairwarning_scopes", "Scopes by what they are", _by_kind(kinds))
    yield _gauge("fairwarning_machines", "Machines by what their scope is", _by_kind(machines))
    pending = (Sample(n, {"type": kind, "status": status}) for (kind, status), n in sorted(events.items()))
    yield _gauge("fairwarning_events", "Events that are not over", pending)


def _by_kind(counts: Counter[ScopeKind]) -> Iterator[Sample]:
    return (Sample(count, {"kind": kind}) for kind, count in sorted(counts.items()))


def _gauge(name: str, help_text: str, samples: Iterable[Sample]) -> MetricFamily:
    return MetricFamily(name, MetricType.GAUGE, help_text, tuple(samples))
