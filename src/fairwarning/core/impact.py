"""What an impact does to a machine: it is back, on another host, stopped or gone."""

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
    """Yield the changes that follow from a driver's observations, in their order.

    Outcomes for machines or events that no longer exist are ignored, even if an earlier outcome of the same
    report removed the machine.
    """
    scope = fleet.scopes.get(report.scope)
    if scope is None:
        return
    outcomes: dict[EventId, list[ImpactOutcome]] = {}
    for outcome in report.outcomes:
        outcomes.setdefault(outcome.event, []).append(outcome)
    names = {outcome.machine for outcome in report.outcomes}
    machines = {name: scope.machines[name] for name in names if name in scope.machines}
    for event in scope.events.values():
        if event.status is EventStatus.STARTED and event.id in outcomes:
            yield from _advance_event(event, outcomes[event.id], machines, fleet.policy, now)


def _advance_event(
    event: Event,
    outcomes: list[ImpactOutcome],
    machines: dict[VmName, Machine],
    policy: Policy,
    now: datetime,
) -> Iterator[Change]:
    """Yield the changes of one event and its machines, and update ``machines`` accordingly."""
    due = machines.keys() & event.undone
    outcomes = [outcome for outcome in outcomes if outcome.machine in due]
    failed = [outcome for outcome in outcomes if outcome.problem is not None]
    finished = tuple(dict.fromkeys(outcome.machine for outcome in outcomes if outcome.problem is None))
    if finished:
        event = replace(event, done=(*event.done, *finished))
        yield EventChanged(scope=event.scope, event=event, what=EventMilestone.PROGRESSED, by=DRIVER)
    for name in finished:
        before = machines.pop(name)
        after = _machine_after(event.kind, before)
        if after is None:
            yield MachineRemoved(scope=event.scope, name=name)
            continue
        machines[name] = after
        if after != before:
            yield MachineChanged(scope=event.scope, machine=after, by=DRIVER)
    if failed:
        attempt = event.attempt + 1
        delay = policy.shorten(retry_delay(attempt))
        event = replace(advance(event, Signal.FAILED, now), attempt=attempt, retry_at=now + delay)
        reason = "; ".join(f"{outcome.machine}: {outcome.problem}" for outcome in failed)
        yield EventChanged(
            scope=event.scope, event=event, what=EventMilestone.FAILED, by=DRIVER, reason=reason
        )


def _machine_after(kind: EventType, machine: Machine) -> Machine | None:
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
    """Return the host to which a machine on this host moves."""
    name, _, number = host.rpartition("~")
    return HostId(f"{name}~{int(number) + 1}" if name and number.isdecimal() else f"{host}~2")
