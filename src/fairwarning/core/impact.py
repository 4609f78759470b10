"""What follows from a driver's observations: machines are as observed, events progress or are tried again."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum, auto

from fairwarning.core.changes import Change, EventChanged, EventMilestone, MachineChanged, MachineRemoved
from fairwarning.core.commands import ReportOutcomes
from fairwarning.core.fleet import FleetState, Observation, Progress, last_failures
from fairwarning.core.inventory import moved
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.model import (
    STARTED,
    Event,
    EventId,
    EventType,
    Failure,
    Machine,
    VmName,
    replace,
)
from fairwarning.core.policy import Policy, retry_delay
from fairwarning.core.scaleset import restarted
from fairwarning.core.stored.releases import DataRelease


class ImpactOutcome(Enum):
    """What an observation means for an impact."""

    WAIT = auto()
    DONE = auto()
    FAILED = auto()


#: What the progress of an impact means, by the type of its event. No type differs: a driver knows best.
OUTCOMES: Mapping[tuple[EventType, Progress], ImpactOutcome] = {
    (kind, progress): outcome
    for kind in EventType
    for progress, outcome in (
        (Progress.NOT_BEGUN, ImpactOutcome.WAIT),
        (Progress.ACTING, ImpactOutcome.WAIT),
        (Progress.DONE, ImpactOutcome.DONE),
        (Progress.FAILED, ImpactOutcome.FAILED),
    )
}


def record_outcomes(fleet: FleetState, report: ReportOutcomes, now: datetime) -> Iterator[Change]:
    """Yield the changes that follow from observations, in their order.

    Observations of machines or events that no longer exist are ignored, even if an earlier observation of the
    same report removed the machine.
    """
    scope = fleet.scopes.get(report.scope)
    if scope is None:
        return
    observations: dict[EventId, list[Observation]] = {}
    for observation in report.observations:
        observations.setdefault(observation.event, []).append(observation)
    names = {observation.machine for observation in report.observations}
    machines = {name: scope.machines[name] for name in names if name in scope.machines}
    for event in scope.events.values():
        if event.status is STARTED and event.id in observations:
            due = machines.keys() & event.undone
            relevant = [observation for observation in observations[event.id] if observation.machine in due]
            yield from _advance_event(fleet, event, relevant, machines, now, report.by)


def _advance_event(
    fleet: FleetState,
    event: Event,
    observations: list[Observation],
    machines: dict[VmName, Machine],
    now: datetime,
    by: str,
) -> Iterator[Change]:
    """Yield the changes of one event and its machines, and update ``machines`` accordingly."""
    finished = {seen.machine: seen for seen in observations if _outcome(event, seen) is ImpactOutcome.DONE}
    if finished:
        event = replace(event, done=(*event.done, *finished))
        yield EventChanged(scope=event.scope, event=event, what=EventMilestone.PROGRESSED, by=by)
    for observation in finished.values():
        yield from _change_machine(fleet, event, observation, machines, by)
    failures = last_failures(event)
    # A failure of an earlier attempt has been counted.
    current = [
        seen
        for seen in observations
        if seen.attempt == (failures[seen.machine].attempt if seen.machine in failures else 0)
    ]
    failed = [seen for seen in current if _outcome(event, seen) is ImpactOutcome.FAILED]
    late = [
        seen for seen in current if _outcome(event, seen) is ImpactOutcome.WAIT and seen.problem is not None
    ]
    if failed:
        new = {seen.machine: _failure(seen, fleet.policy, now) for seen in failed}
        event = replace(
            advance(event, Signal.FAILED, now),
            failures=tuple((failures | new).values()),
            attempt=max(event.attempt, *(failure.attempt for failure in new.values())),
            retry_at=min(failure.retry_at for failure in new.values()),
            overdue=False,
        )
        milestone = EventMilestone.FAILED
        yield EventChanged(scope=event.scope, event=event, what=milestone, by=by, reason=_reason(failed))
    elif late and not event.overdue:
        event, milestone = replace(event, overdue=True), EventMilestone.OVERDUE
        yield EventChanged(scope=event.scope, event=event, what=milestone, by=by, reason=_reason(late))


def _outcome(event: Event, observation: Observation) -> ImpactOutcome:
    # Nothing more can happen to a machine that is gone.
    return OUTCOMES[event.kind, observation.progress] if observation.exists else ImpactOutcome.DONE


def _failure(observation: Observation, policy: Policy, now: datetime) -> Failure:
    attempt = observation.attempt + 1
    return Failure(observation.machine, attempt, now + policy.shorten(retry_delay(attempt)))


def _change_machine(
    fleet: FleetState,
    event: Event,
    observation: Observation,
    machines: dict[VmName, Machine],
    by: str,
) -> Iterator[Change]:
    before = machines.pop(observation.machine)
    if not observation.exists:
        yield MachineRemoved(scope=before.scope, name=before.name)
        return
    # U-01: a release that would drop the host of the line lets the next inventory move the machine back.
    listed = not fleet.policy.emulator and fleet.oldest_reader >= DataRelease.V0_3
    after = moved(before, observation.host or before.host, listed=listed)
    allocated = before.allocated and observation.power is None
    after = replace(after, power=observation.power or before.power, allocated=allocated)
    if event.kind is EventType.REBOOT:
        after = restarted(after, fleet.scopes[event.scope].facts)
    machines[before.name] = after
    if after != before:
        yield MachineChanged(scope=before.scope, machine=after, by=by)


def _reason(observations: list[Observation]) -> str:
    return "; ".join(f"{observation.machine}: {observation.problem}" for observation in observations)
