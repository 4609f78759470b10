"""Queries over the state: what guests see, what drivers have to do and observe, when time changes something.

``machine_state`` sums up a machine in one word, from its power and its events.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from fairwarning.core.errors import UnknownEventError, UnknownMachineError, UnknownScopeError
from fairwarning.core.model import (
    SCHEDULED,
    STARTED,
    Event,
    EventId,
    EventType,
    EvictionPolicy,
    Failure,
    HostId,
    Machine,
    MachineRef,
    PowerState,
    Scope,
    ScopeId,
    ScopeProperties,
    VmName,
)
from fairwarning.core.policy import Policy
from fairwarning.core.stored.releases import NEWEST, DataRelease


def nothing_stored(key: str) -> str | None:
    """Return None: no value is stored."""
    return None


class FleetState(NamedTuple):
    """The scopes and the stored values that a decision is about, and the policy it follows."""

    scopes: Mapping[ScopeId, Scope]
    policy: Policy = Policy()
    #: The highest incarnation among the removed scopes of each set, by set id (L-11).
    last_incarnations: Mapping[str, int] = MappingProxyType({})
    #: Returns the text of a stored value by its key (``stored.kinds``); None if there is no such value.
    stored: Callable[[str], str | None] = nothing_stored
    #: The stored values that the decision has changed so far; None for a value that is removed.
    values: Mapping[str, str | None] = MappingProxyType({})
    #: The oldest release that may read what is decided (U-01).
    oldest_reader: DataRelease = NEWEST

    def text(self, key: str) -> str | None:
        """Return the text of a stored value; None if there is none."""
        return self.values[key] if key in self.values else self.stored(key)

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope, or raise ``UnknownScopeError``."""
        if scope_id not in self.scopes:
            raise UnknownScopeError(scope_id)
        return self.scopes[scope_id]

    def machine(self, ref: MachineRef) -> Machine:
        """Return a machine, or raise ``UnknownMachineError``."""
        machine = self.scope(ref.scope).machines.get(ref.name)
        if machine is None:
            raise UnknownMachineError(ref.name)
        return machine

    def event(self, scope_id: ScopeId, event_id: EventId) -> Event:
        """Return a pending event, or raise ``UnknownEventError``; ids are case-insensitive (V-09)."""
        event = self.scope(scope_id).events.get(EventId(event_id.upper()))
        if event is None:
            raise UnknownEventError(event_id)
        return event

    def events(self) -> Iterator[Event]:
        """Return the pending events of all scopes."""
        return chain.from_iterable(scope.events.values() for scope in self.scopes.values())


class Progress(StrEnum):
    """How far a driver is with an impact."""

    NOT_BEGUN = "not_begun"
    ACTING = "acting"
    DONE = "done"
    FAILED = "failed"


class Observation(NamedTuple):
    """What a driver observed about one impact on one machine."""

    event: EventId
    machine: VmName
    progress: Progress
    attempt: int = 0
    exists: bool = True
    #: The machine's power state and host; None if they are what they were.
    power: PowerState | None = None
    host: HostId | None = None
    #: Why the impact failed, or why it is not done although it should be.
    problem: str | None = None
    #: When to look again; None if nothing is known to change by itself.
    again_at: datetime | None = None


class Impact(NamedTuple):
    """Work for a driver: what one event does to one machine."""

    event: EventId
    machine: MachineRef
    kind: EventType
    cause: str
    duration: int
    since: datetime
    attempt: int
    vm_id: str
    host: HostId
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    speed: float = 1.0
    #: Whether guests see the event.
    seen: bool = True

    def after(self, duration: timedelta) -> datetime:
        """Return when the impact has lasted for a duration, at the clock's speed."""
        return self.since + (duration if self.speed == 1.0 else duration / self.speed)

    def observed(
        self, progress: Progress, *, problem: str | None = None, again_at: datetime | None = None
    ) -> Observation:
        """Return an observation of the impact; the machine is what it was."""
        name, attempt = self.machine.name, self.attempt
        return Observation(self.event, name, progress, attempt, problem=problem, again_at=again_at)


def visible_events(scope: Scope, machine: VmName | None = None) -> tuple[Event, ...]:
    """Return the events that a machine sees, or that any machine of the scope sees, in order of creation."""
    if machine is None:
        return tuple(event for event in scope.events.values() if event.seen)
    return tuple(event for event in scope.events.values() if shown_to(machine, event, scope.facts))


def shown_to(machine: VmName, event: Event, properties: ScopeProperties) -> bool:
    """Whether a machine sees an event; S-03: without broadcast it sees only events that list it."""
    return event.seen and (properties.broadcast or machine in event.resources)


def outstanding_impacts(scope: Scope, policy: Policy) -> tuple[Impact, ...]:
    """Return the impacts of started events that are not done; the same state gives the same impacts."""
    impacts: list[Impact] = []
    for event in scope.events.values():
        if event.status is STARTED and event.started_at is not None:
            failures = last_failures(event)
            for name in machines_awaiting_impact(event, scope):
                failure, shared = failures.get(name), scope.machines.shared_fields(name)
                impacts.append(
                    Impact(
                        event.id,
                        MachineRef(scope.id, name),
                        event.kind,
                        event.cause,
                        event.duration,
                        event.started_at if failure is None else failure.retry_at,
                        0 if failure is None else failure.attempt,
                        scope.machines.vm_id(name),
                        shared.host,
                        shared.eviction,
                        policy.speed,
                        event.seen,
                    )
                )
    return tuple(impacts)


def last_failures(event: Event) -> dict[VmName, Failure]:
    """Return the last failure on each machine on which the event's impact has failed."""
    if event.failures or event.retry_at is None:
        return {failure.machine: failure for failure in event.failures}
    # Earlier versions counted the attempts on all machines together.
    return {name: Failure(name, event.attempt, event.retry_at) for name in event.undone}


def machines_awaiting_impact(event: Event, scope: Scope) -> list[VmName]:
    """Return the existing machines that have not had the event's impact."""
    existing = scope.machines.keys()
    return [name for name in event.undone if name in existing]


def next_deadline(scope: Scope, polled_at: datetime | None, policy: Policy) -> datetime | None:
    """Return when the scope changes without a command, given its last poll; None means never."""
    waiting = [event for event in scope.events.values() if event.status is SCHEDULED]
    # A blocked event is looked at when what blocks it changes.
    instants = [event.not_before for event in waiting if not event.blocked]
    instants += [event.opens for event in waiting if event.opens is not None]
    instants += [event.withdraw_at for event in waiting if event.withdraw_at is not None]
    disabled_at = end_of_silence(scope, polled_at, policy)
    return min(instants if disabled_at is None else [*instants, disabled_at], default=None)


def end_of_silence(scope: Scope, polled_at: datetime | None, policy: Policy) -> datetime | None:
    """Return when Scheduled Events is disabled for a scope that is not polled again (R-22); None if never."""
    if polled_at is None or policy.disable_after is None or not scope.enabled:
        return None
    return polled_at + policy.shorten(policy.disable_after)


def is_overdue(fleet: FleetState, now: datetime) -> bool:
    """Whether a waiting event has to start or to be withdrawn, or its window opens."""
    return any(
        (
            event.not_before <= now
            or event.blocked
            or (event.withdraw_at is not None and event.withdraw_at <= now)
            or (event.opens is not None and event.opens <= now)
        )
        and event.waiting
        for event in fleet.events()
    )


class MachineState(StrEnum):
    """The state of a machine in one word."""

    RUNNING = "running"
    WARNED = "warned"
    FROZEN = "frozen"
    REBOOTING = "rebooting"
    MOVING = "moving"
    EVICTING = "evicting"
    TERMINATING = "terminating"
    STOPPED = "stopped"


#: The state during a started event, the most severe first; a rebalance recommendation has no impact.
IMPACTS: Mapping[EventType, MachineState] = {
    EventType.TERMINATE: MachineState.TERMINATING,
    EventType.PREEMPT: MachineState.EVICTING,
    EventType.REDEPLOY: MachineState.MOVING,
    EventType.REBOOT: MachineState.REBOOTING,
    EventType.FREEZE: MachineState.FROZEN,
}


def machine_states(scope: Scope) -> Mapping[str, MachineState]:
    """Return the state of each machine of a scope."""
    events: dict[str, list[Event]] = {}
    for event in scope.events.values():
        for name in event.undone:
            events.setdefault(name, []).append(event)
    return {name: _state(machine, events.get(name, ())) for name, machine in scope.machines.items()}


def machine_state(scope: Scope, machine: Machine) -> MachineState:
    """Return the state of one machine of a scope."""
    return _state(machine, [event for event in scope.events.values() if machine.name in event.undone])


def _state(machine: Machine, events: Sequence[Event]) -> MachineState:
    if machine.power is PowerState.STOPPED:
        return MachineState.STOPPED
    started = {event.kind for event in events if event.status is STARTED}
    for kind, state in IMPACTS.items():
        if kind in started:
            return state
    return MachineState.WARNED if any(event.seen for event in events) else MachineState.RUNNING
