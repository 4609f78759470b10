"""Metrics of the whole server, in Prometheus' text format."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from fairwarning.core.fleet import FleetState, machines_awaiting_impact
from fairwarning.core.maintenance.release import RestraintKind
from fairwarning.core.maintenance.waits import count_waits
from fairwarning.core.model import Scope, ScopeKind
from fairwarning.engine.engine import Engine
from fairwarning.engine.membership import NotReadyReason
from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample, render_metrics
from fairwarning.operator.context import OperatorContext


async def metrics_text(context: OperatorContext) -> str:
    """Return the metrics of the fleet, the journal and the other APIs."""
    scopes = list(context.engine.scopes().values())
    # Counting a large fleet takes a while. Scopes are immutable, so another thread may read them.
    fleet = await asyncio.to_thread(lambda: list(_fleet_metrics(scopes)))
    steered = await asyncio.to_thread(lambda: list(_maintenance_metrics(context)))
    lines = Sample(context.engine.position)
    journal = MetricFamily(
        "fairwarning_journal_lines_total", MetricType.COUNTER, "Lines written to the journal.", (lines,)
    )
    node = _node_metrics(context.engine)
    others = (family for source in context.metric_sources for family in source())
    return render_metrics((*fleet, *steered, journal, *node, *others))


def _fleet_metrics(scopes: Iterable[Scope]) -> Iterator[MetricFamily]:
    kinds: Counter[ScopeKind] = Counter()
    machines: Counter[ScopeKind] = Counter()
    events: Counter[tuple[str, str]] = Counter()
    overdue = 0
    for scope in scopes:
        kinds[scope.facts.kind] += 1
        machines[scope.facts.kind] += len(scope.machines)
        for event in scope.events.values():
            events[event.kind.value, event.status.value] += 1
            overdue += len(machines_awaiting_impact(event, scope)) if event.overdue else 0
    yield _gauge("fairwarning_scopes", "Scopes, by kind.", _by_kind(kinds))
    yield _gauge("fairwarning_machines", "Machines, by the kind of their scope.", _by_kind(machines))
    pending = (Sample(n, {"type": kind, "status": status}) for (kind, status), n in sorted(events.items()))
    yield _gauge("fairwarning_events", "Pending events, by type and status.", pending)
    late = "Impacts on machines that take longer than their driver allows."
    yield _gauge("fairwarning_overdue_impacts", late, (Sample(overdue),))


def _maintenance_metrics(context: OperatorContext) -> Iterator[MetricFamily]:
    engine = context.engine
    scopes = {scope.id: scope for scope in tuple(engine.scopes().values()) if scope.events}
    fleet = FleetState(scopes, engine.policy, stored=engine.stored)
    counts = count_waits(fleet, engine.clock.now())
    waiting = "Scheduled events that wait for something besides their own notice, by what it is."
    samples = (Sample(counts[kind], {"reason": kind.value}) for kind in RestraintKind)
    yield _gauge("fairwarning_waiting_events", waiting, samples)
    held = "Whether the fleet is on hold."
    yield _gauge("fairwarning_hold", held, (Sample(int(context.control.maintenances.hold_of() is not None)),))


def _node_metrics(engine: Engine) -> Iterator[MetricFamily]:
    reasons = {problem.reason for problem in engine.problems()}
    problems = (Sample(int(reason in reasons), {"reason": reason}) for reason in NotReadyReason)
    yield _gauge("fairwarning_ready", "Whether the server may be sent traffic.", (Sample(int(not reasons)),))
    yield _gauge("fairwarning_problems", "Whether the server has a problem, by reason.", problems)
    others = (one for one in engine.membership.members if one.report.id != engine.membership.id)
    nodes = 1 + sum(1 for _ in others)
    yield _gauge(
        "fairwarning_nodes", "Servers of the fleet that are alive, this one included.", (Sample(nodes),)
    )
    inventory = engine.membership.inventory
    applied = "The version of the inventory that the server has applied, as a label."
    yield _gauge(
        "fairwarning_inventory_info", applied, (Sample(1, {"version": inventory}),) if inventory else ()
    )
    failed = "Whether the last reload of the file failed and left everything as it was."
    yield _gauge("fairwarning_reload_failed", failed, (Sample(int(engine.membership.reload_failed)),))
    age = "Seconds since the state was last known to be complete; 0 if no other server can change it."
    yield _gauge("fairwarning_state_age_seconds", age, (Sample(engine.freshness.age),))
    offset = "Seconds by which the server's clock is ahead of the store's."
    seconds = engine.membership.offset.total_seconds()
    yield _gauge("fairwarning_clock_offset_seconds", offset, (Sample(seconds),))


def _by_kind(counts: Counter[ScopeKind]) -> Iterator[Sample]:
    return (Sample(count, {"kind": kind}) for kind, count in sorted(counts.items()))


def _gauge(name: str, help_text: str, samples: Iterable[Sample]) -> MetricFamily:
    return MetricFamily(name, MetricType.GAUGE, help_text, tuple(samples))
