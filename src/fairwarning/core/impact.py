"""What an impact leaves behind: the machine is back, elsewhere, stopped or no more."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from fairwarning.core.changes import Change, EventChanged, EventMilestone, MachineChanged, MachineRemoved
from fairwarning.core.commands import ImpactOutcome, ReportOutcomes
from fairwarning.core.fleet import FleetState
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.model import (
    Event,
    EventId,
    EventStatus,
    EventType,
    EvictionPolicy,
    HostId,
    Machine,
    PowerState,
    VmName,
)
from fairwarning.core.policy import Policy, retry_delay

DRIVER = "driver"


def record_outcomes(fleet: FleetState, report: ReportOutcomes, now: datetime) -> Iterator[Change]:
    """Yield what a driver's observations change, each on top of those before it.

    What concerns nobody any more is ignored, also when it was this very report that removed the machine.
    """
    scope = fleet.scopes.get(report.scope)
    if scope is None:
        return
    outcomes: dict[EventId, list[ImpactOutcome]] = {}
    for outcome in report.outcomes:
        outcomes.setdefault(outcome.event, []).append(outcome)
    concerned = {outcome.machine for outcome in report.outcomes}
    machines = {name: scope.machines[name] for name in concerned if name in scope.machines}
    for event in scope.events.values():
        if event.status is EventStatus.STARTED and event.id in outcomes:
            yield from _progress(event, outcomes[event.id], machines, fleet.policy, now)


def _progress(
    event: Event,
    outcomes: list[ImpactOutcome],
    machines: dict[VmName, Machine],
    policy: Policy,
    now: datetime,
) -> Iterator[Change]:
    """Yield what became of one event, and leave ``machines`` as its impacts leave them."""
    due = machines.keys() & event.undone
    news = [outcome for outcome in outcomes if outcome.machine in due]
    finished = tuple(dict.fromkeys(one.machine for one in news if one.problem is None))
    problems = [f"{one.machine}: {one.problem}" for one in news if one.problem is not None]
    if finished:
        event = replace(event, done=(*event.done, *finished))
        yield EventChanged(scope=event.scope, event=event, what=EventMilestone.PROGRESSED, by=DRIVER)
    for name in finished:
        before = machines.pop(name)
        after = _aftermath(event.kind, before)
        if after is None:
            yield MachineRemoved(scope=event.scope, name=name)
            continue
        machines[name] = after
        if after != before:
            yield MachineChanged(scope=event.scope, machine=after, by=DRIVER)
    if problems:
        attempt = event.attempt + 1
        delay = policy.shorten(retry_delay(attempt))
        failed = replace(advance(event, Signal.FAILED, now), attempt=attempt, retry_at=now + delay)
        reason = "; ".join(problems)
        yield EventChanged(
            scope=event.scope, event=failed, what=EventMilestone.FAILED, by=DRIVER, reason=reason
        )


def _aftermath(kind: EventType, machine: Machine) -> Machine | None:
    match kind:
        case EventType.FREEZE | EventType.REBOOT | EventType.REBALANCE:
            return machine
        case EventType.REDEPLOY:
            return replace(machine, host=next_host(machine.host))
        case EventType.PREEMPT if machine.eviction is EvictionPolicy.DEALLOCATE:
            return replace(machine, power=PowerState.STOPPED)
        case EventType.PREEMPT | EventType.TERMINATE:
            return None
        case _:
            assert_never(kind)


def next_host(host: HostId) -> HostId:
    """Return another host than this one."""
    name, _, number = host.rpartition("~")
    return HostId(f"{name}~{int(number) + 1}" if name and number.isdecimal() else f"{host}~2")
