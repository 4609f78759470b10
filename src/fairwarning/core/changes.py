"""What became true. Changes are what the journal keeps; applying them again gives the same state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

from fairwarning.core.model import Event, EventId, Facts, Machine, Scope, ScopeId, Status, VmName


class What(StrEnum):
    """What happened to an event."""

    SCHEDULED = "scheduled"
    SHOWN = "shown"
    APPROVED = "approved"
    STARTED = "started"
    PROGRESSED = "progressed"
    FAILED = "failed"
    FINISHED = "finished"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeMade:
    """A scope exists now."""

    scope: ScopeId
    facts: Facts
    incarnation: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsChanged:
    """The scope as a whole looks like this now."""

    scope: ScopeId
    facts: Facts
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRemoved:
    """The scope is no more."""

    scope: ScopeId


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChanged:
    """A machine is new, or looks like this now."""

    scope: ScopeId
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRemoved:
    """A machine is no more."""

    scope: ScopeId
    name: VmName


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChanged:
    """An event is new, looks like this now, or is gone."""

    scope: ScopeId
    event: Event
    what: What
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The document guests see has changed and carries this number (L-11)."""

    scope: ScopeId
    incarnation: int


Change = ScopeMade | FactsChanged | ScopeRemoved | MachineChanged | MachineRemoved | EventChanged | Published

Scopes = Mapping[ScopeId, Scope]


def apply(scopes: Scopes, changes: Iterable[Change]) -> Scopes:
    """Return the scopes as they are after ``changes``; versions stay."""
    after = dict(scopes)
    for change in changes:
        scope = _evolve(after.get(change.scope), change)
        if scope is None:
            after.pop(change.scope, None)
        else:
            after[change.scope] = scope
    return MappingProxyType(after)


def evolve(scopes: Scopes, changes: Iterable[Change]) -> Scopes:
    """Return the scopes after one commit: ``changes`` applied, the version of each touched scope moved."""
    changes = tuple(changes)
    touched = {change.scope for change in changes}
    after = apply(scopes, changes)
    return MappingProxyType(
        {
            scope_id: replace(scope, version=scope.version + 1) if scope_id in touched else scope
            for scope_id, scope in after.items()
        }
    )


def _evolve(scope: Scope | None, change: Change) -> Scope | None:
    if isinstance(change, ScopeMade):
        return Scope(facts=change.facts, incarnation=change.incarnation)
    if scope is None:
        raise LookupError(f"{type(change).__name__} of scope {change.scope}, which does not exist")
    match change:
        case FactsChanged(facts=facts):
            return replace(scope, facts=facts)
        case ScopeRemoved():
            return None
        case MachineChanged(machine=machine):
            machines = {**scope.machines, machine.name: machine}
            return replace(scope, machines=MappingProxyType(machines))
        case MachineRemoved(name=name):
            left = {other: machine for other, machine in scope.machines.items() if other != name}
            return replace(scope, machines=MappingProxyType(left))
        case EventChanged(event=event):
            return replace(scope, events=MappingProxyType(_with(scope.events, event)))
        case Published(incarnation=incarnation):
            return replace(scope, incarnation=incarnation)
        case _:
            assert_never(change)


def _with(events: Mapping[EventId, Event], event: Event) -> dict[EventId, Event]:
    after = {**events, event.id: event}
    if event.status is Status.GONE:
        del after[event.id]
    return after
