"""Questions about the state: what guests see, what should be under way, when to look again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from fairwarning.core.errors import UnknownEvent, UnknownMachine, UnknownScope
from fairwarning.core.model import (
    Event,
    EventId,
    Kind,
    Machine,
    MachineRef,
    Power,
    Scope,
    ScopeId,
    Status,
    VmName,
)
from fairwarning.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Fleet:
    """The scopes a decision is about, and the policy it obeys."""

    scopes: Mapping[ScopeId, Scope]
    policy: Policy = Policy()

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope, or refuse."""
        if scope_id not in self.scopes:
            raise UnknownScope(scope_id)
        return self.scopes[scope_id]

    def machine(self, ref: MachineRef) -> Machine:
        """Return a machine, or refuse."""
        machine = self.scope(ref.scope).machines.get(ref.name)
        if machine is None:
            raise UnknownMachine(ref.name)
        return machine

    def event(self, scope_id: ScopeId, event_id: EventId) -> Event:
        """Return a pending event, or refuse; ids are compared without regard to case (V-09)."""
        event = self.scope(scope_id).events.get(EventId(event_id.upper()))
        if event is None:
            raise UnknownEvent(event_id)
        return event

    def events(self) -> Iterator[Event]:
        """Yield every pending event."""
        for scope in self.scopes.values():
            yield from scope.events.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Something that should be under way on one machine."""

    event: EventId
    machine: MachineRef
    kind: Kind
    cause: str
    duration: int
    since: datetime
    attempt: int


def visible(scope: Scope, machine: VmName | None = None) -> tuple[Event, ...]:
    """Return the events guests are shown, in order of creation.

    S-03: a scope that does not broadcast shows each machine only what concerns it.
    """
    return tuple(
        event
        for event in scope.events.values()
        if event.seen and (scope.facts.broadcast or machine in (None, *event.resources))
    )


def running(scope: Scope) -> bool:
    """Whether any machine of the scope could still answer."""
    return any(machine.power is Power.RUNNING for machine in scope.machines.values())


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
        if event.status is Status.STARTED and event.started_at is not None
        for name in event.resources
        if name in scope.machines and name not in event.done
    )


def next_deadline(scope: Scope, policy: Policy) -> datetime | None:
    """Return when time alone will change this scope; None means never."""
    instants = [event.not_before for event in scope.events.values() if event.waiting]
    instants += [
        event.withdraw_at
        for event in scope.events.values()
        if event.waiting and event.withdraw_at is not None
    ]
    if scope.facts.polled_at is not None and scope.enabled and policy.disable_after is not None:
        instants.append(scope.facts.polled_at + policy.shorten(policy.disable_after))
    return min(instants, default=None)
