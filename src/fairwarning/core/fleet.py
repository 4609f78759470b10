"""Questions about the state: what guests see, what should be under way, when to look again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain
from types import MappingProxyType

from fairwarning.core.errors import UnknownEventError, UnknownMachineError, UnknownScopeError
from fairwarning.core.model import (
    Event,
    EventId,
    EventStatus,
    EventType,
    Machine,
    MachineRef,
    PowerState,
    Scope,
    ScopeId,
    ScopeProperties,
    VmName,
)
from fairwarning.core.policy import Policy


@dataclass(frozen=True, slots=True)
class FleetState:
    """The scopes a decision is about, and the policy it obeys."""

    scopes: Mapping[ScopeId, Scope]
    policy: Policy = Policy()
    #: The highest incarnation that a removed scope of each set had, by set id (L-11).
    last_incarnations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope, or refuse."""
        if scope_id not in self.scopes:
            raise UnknownScopeError(scope_id)
        return self.scopes[scope_id]

    def machine(self, ref: MachineRef) -> Machine:
        """Return a machine, or refuse."""
        machine = self.scope(ref.scope).machines.get(ref.name)
        if machine is None:
            raise UnknownMachineError(ref.name)
        return machine

    def event(self, scope_id: ScopeId, event_id: EventId) -> Event:
        """Return a pending event, or refuse; ids are compared without regard to case (V-09)."""
        event = self.scope(scope_id).events.get(EventId(event_id.upper()))
        if event is None:
            raise UnknownEventError(event_id)
        return event

    def events(self) -> Iterator[Event]:
        """Return every pending event, one after the other."""
        return chain.from_iterable(scope.events.values() for scope in self.scopes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Something that should be under way on one machine."""

    event: EventId
    machine: MachineRef
    kind: EventType
    cause: str
    duration: int
    since: datetime
    attempt: int


def visible(scope: Scope, machine: VmName | None = None) -> tuple[Event, ...]:
    """Return the events shown to a machine, or to anybody in the scope, in order of creation."""
    if machine is None:
        return tuple(event for event in scope.events.values() if event.seen)
    return tuple(event for event in scope.events.values() if shown_to(machine, event, scope.facts))


def shown_to(machine: VmName, event: Event, facts: ScopeProperties) -> bool:
    """Whether a machine sees an event; S-03: without broadcast it sees only what concerns it."""
    return event.seen and (facts.broadcast or machine in event.resources)


def outstanding(scope: Scope) -> tuple[Impact, ...]:
    """Return what should be under way; a driver that was told before finds the same again."""
    return tuple(
        Impact(
            event=event.id,
            machine=MachineRef(scope.id, name),
            kind=event.kind,
            cause=event.cause,
            duration=event.duration,
            since=event.retry_at or event.started_at,
            attempt=event.attempt,
        )
        for event in scope.events.values()
        if event.status is EventStatus.STARTED and event.started_at is not None
        for name in impending(event, scope)
    )


def impending(event: Event, scope: Scope) -> list[VmName]:
    """Return the machines that are still to have the event's impact."""
    there = scope.machines.keys()
    return [name for name in event.undone if name in there]


def next_deadline(scope: Scope, policy: Policy) -> datetime | None:
    """Return when time alone will change this scope; None means never."""
    instants = [_due(event) for event in scope.events.values() if event.waiting]
    if scope.facts.polled_at is not None and scope.enabled and policy.disable_after is not None:
        instants.append(scope.facts.polled_at + policy.shorten(policy.disable_after))
    return min(instants, default=None)


def overdue(fleet: FleetState, now: datetime) -> bool:
    """Whether time alone has changed what is pending."""
    return any(_due(event) <= now and event.waiting for event in fleet.events())


def _due(event: Event) -> datetime:
    return event.not_before if event.withdraw_at is None else min(event.not_before, event.withdraw_at)


class MachineState(StrEnum):
    """The state of a machine, as people would say it."""

    RUNNING = "running"
    WARNED = "warned"
    FROZEN = "frozen"
    REBOOTING = "rebooting"
    MOVING = "moving"
    EVICTING = "evicting"
    TERMINATING = "terminating"
    STOPPED = "stopped"


#: What a started event does to a machine, the gravest first; a rebalance recommendation does nothing to it.
IMPACTS: Mapping[EventType, MachineState] = {
    EventType.TERMINATE: MachineState.TERMINATING,
    EventType.PREEMPT: MachineState.EVICTING,
    EventType.REDEPLOY: MachineState.MOVING,
    EventType.REBOOT: MachineState.REBOOTING,
    EventType.FREEZE: MachineState.FROZEN,
}


def machine_states(scope: Scope) -> Mapping[str, MachineState]:
    """Return how each machine of a scope is."""
    concerning: dict[str, list[Event]] = {}
    for event in scope.events.values():
        for name in event.undone:
            concerning.setdefault(name, []).append(event)
    return {name: _condition(machine, concerning.get(name, ())) for name, machine in scope.machines.items()}


def machine_state(scope: Scope, machine: Machine) -> MachineState:
    """Return how one machine of a scope is."""
    name, events = machine.name, scope.events.values()
    return _condition(machine, [one for one in events if name in one.undone])


def _condition(machine: Machine, concerning: Sequence[Event]) -> MachineState:
    if machine.power is PowerState.STOPPED:
        return MachineState.STOPPED
    acting = {event.kind for event in concerning if event.status is EventStatus.STARTED}
    for kind, impact in IMPACTS.items():
        if kind in acting:
            return impact
    return MachineState.WARNED if any(event.seen for event in concerning) else MachineState.RUNNING
