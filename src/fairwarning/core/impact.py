"""What an impact leaves behind: the machine is back, elsewhere, stopped or no more."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from fairwarning.core.changes import (
    Change,
    EventChanged,
    MachineChanged,
    MachineRemoved,
    What,
)
from fairwarning.core.commands import Report
from fairwarning.core.fleet import Fleet
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.model import (
    Event,
    EventId,
    Eviction,
    HostId,
    Kind,
    Machine,
    Power,
    Status,
    VmName,
)
from fairwarning.core.policy import retry_delay

DRIVER = "driver"


def take(fleet: Fleet, report: Report, now: datetime) -> Iterator[Change]:
    """Yield what a driver's observations change; what concerns nobody any more is ignored."""
    finished: dict[EventId, list[VmName]] = {}
    problems: dict[EventId, list[str]] = {}
    for outcome in report.outcomes:
        if outcome.problem is None:
            finished.setdefault(outcome.event, []).append(outcome.machine)
        else:
            problems.setdefault(outcome.event, []).append(f"{outcome.machine}: {outcome.problem}")
    scope = fleet.scopes.get(report.scope)
    for event in scope.events.values() if scope else ():
        if event.status is Status.STARTED:
            yield from _progress(fleet, event, finished.get(event.id, []), problems, now)


def _progress(
    fleet: Fleet, event: Event, finished: list[VmName], problems: dict[EventId, list[str]], now: datetime
) -> Iterator[Change]:
    machines = fleet.scopes[event.scope].machines
    news = [n for n in finished if n in event.resources and n not in event.done and n in machines]
    if news:
        event = replace(event, done=(*event.done, *news))
        yield EventChanged(scope=event.scope, event=event, what=What.PROGRESSED, by=DRIVER)
    for name in news:
        yield from _aftermath(event.kind, machines[name])
    if event.id in problems:
        attempt = event.attempt + 1
        delay = fleet.policy.shorten(retry_delay(attempt))
        failed = replace(advance(event, Signal.FAILED, now), attempt=attempt, retry_at=now + delay)
        yield EventChanged(
            scope=event.scope, event=failed, what=What.FAILED, by=DRIVER, reason="; ".join(problems[event.id])
        )


def _aftermath(kind: Kind, machine: Machine) -> Iterator[Change]:
    match kind:
        case Kind.FREEZE | Kind.REBOOT | Kind.REBALANCE:
            return
        case Kind.REDEPLOY:
            moved = replace(machine, host=next_host(machine.host))
            yield MachineChanged(scope=machine.scope, machine=moved, by=DRIVER)
        case Kind.PREEMPT if machine.eviction is Eviction.DEALLOCATE:
            stopped = replace(machine, power=Power.STOPPED)
            yield MachineChanged(scope=machine.scope, machine=stopped, by=DRIVER)
        case Kind.PREEMPT | Kind.TERMINATE:
            yield MachineRemoved(scope=machine.scope, name=machine.name)
        case _:
            assert_never(kind)


def next_host(host: HostId) -> HostId:
    """Return another host than this one."""
    name, _, number = host.rpartition("~")
    return HostId(f"{name}~{int(number) + 1}" if name and number.isdecimal() else f"{host}~2")
