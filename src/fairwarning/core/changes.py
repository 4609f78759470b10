"""What became true. Changes are what the journal keeps; applying them again gives the same state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

from fairwarning.core.machine_table import MachineTable, MachineTableDraft
from fairwarning.core.model import (
    Event,
    EventId,
    EventStatus,
    Machine,
    Scope,
    ScopeId,
    ScopeProperties,
    VmName,
)


class EventMilestone(StrEnum):
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
    facts: ScopeProperties
    incarnation: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePropertiesChanged:
    """The scope as a whole looks like this now."""

    scope: ScopeId
    facts: ScopeProperties
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRemoved:
    """The scope is no more; a set of this name that is made again counts on from its last incarnation."""

    scope: ScopeId
    # Journals from before these two were kept lack them.
    set_id: str = ""
    incarnation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChanged:
    """A machine is new, or looks like this now."""

    scope: ScopeId
    machine: Machine
    by: str = ""


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
    what: EventMilestone
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The document guests see has changed and carries this number (L-11)."""

    scope: ScopeId
    incarnation: int


Change = (
    ScopeMade
    | ScopePropertiesChanged
    | ScopeRemoved
    | MachineChanged
    | MachineRemoved
    | EventChanged
    | Published
)

Scopes = Mapping[ScopeId, Scope]


def apply(scopes: Scopes, changes: Iterable[Change]) -> Scopes:
    """Return the scopes as they are after ``changes``; versions stay."""
    return _after(scopes, changes, step=0)


def evolve(scopes: Scopes, changes: Iterable[Change]) -> Scopes:
    """Return the scopes after one commit: ``changes`` applied, the version of each touched scope moved."""
    return _after(scopes, changes, step=1)


def touched(changes: Iterable[Change]) -> frozenset[ScopeId]:
    """Return the scopes that ``changes`` speak of."""
    return frozenset(change.scope for change in changes)


def remember_removed(last_incarnations: dict[str, int], changes: Iterable[object]) -> None:
    """Note the highest incarnation that a removed scope of each set had, by set id."""
    for change in changes:
        if isinstance(change, ScopeRemoved):
            last = last_incarnations.get(change.set_id, 0)
            last_incarnations[change.set_id] = max(last, change.incarnation)


def _after(scopes: Scopes, changes: Iterable[Change], step: int) -> Scopes:
    news: dict[ScopeId, list[Change]] = {}
    for change in changes:
        news.setdefault(change.scope, []).append(change)
    after = dict(scopes)
    for scope_id, its in news.items():
        scope = _evolve(after.get(scope_id), its, step)
        if scope is None:
            after.pop(scope_id, None)
        else:
            after[scope_id] = scope
    return MappingProxyType(after)


class _ScopeDraft:
    """A scope while changes are made to it; what none of them speaks of stays the very same value."""

    def __init__(self, scope: Scope) -> None:
        self._before = scope
        self._machines: MachineTableDraft | None = None
        self._events: dict[EventId, Event] | None = None
        self._removed: set[str | None] = set()
        self.facts = scope.facts
        self.incarnation = scope.incarnation

    def keep(self, machine: Machine) -> None:
        # What is removed stays removed; a machine made again under the same name has a vm_id of its own.
        if machine.vm_id in self._removed:
            raise LookupError(f"MachineChanged of machine {machine.ref.full}, which was removed")
        self.machines().keep(machine)

    def remove(self, name: VmName) -> None:
        self._removed.add(self.machines().drop(name))

    def machines(self) -> MachineTableDraft:
        if self._machines is None:
            self._machines = MachineTableDraft(self._before.machines)
        return self._machines

    def events(self) -> dict[EventId, Event]:
        if self._events is None:
            self._events = self._before.events.copy()
        return self._events

    def scope(self, step: int) -> Scope:
        before, machines, events = self._before, self._machines, self._events
        return Scope(
            facts=self.facts,
            version=before.version + step,
            incarnation=self.incarnation,
            machines=before.machines if machines is None else machines.roster(),
            events=before.events if events is None else MappingProxyType(events),
        )


def _evolve(scope: Scope | None, changes: Iterable[Change], step: int) -> Scope | None:
    draft = None if scope is None else _ScopeDraft(scope)
    for change in changes:
        if isinstance(change, ScopeMade):
            draft = _ScopeDraft(
                Scope(facts=change.facts, incarnation=change.incarnation, machines=MachineTable())
            )
        elif draft is None:
            raise LookupError(f"{type(change).__name__} of scope {change.scope}, which does not exist")
        elif isinstance(change, ScopeRemoved):
            draft = None
        else:
            _note(draft, change)
    return None if draft is None else draft.scope(step)


def _note(
    draft: _ScopeDraft,
    change: ScopePropertiesChanged | MachineChanged | MachineRemoved | EventChanged | Published,
) -> None:
    match change:
        case EventChanged(event=event) if event.status is EventStatus.GONE:
            draft.events().pop(event.id, None)
        case EventChanged(event=event):
            draft.events()[event.id] = event
        case Published(incarnation=incarnation):
            draft.incarnation = incarnation
        case ScopePropertiesChanged(facts=facts):
            draft.facts = facts
        case MachineChanged(machine=machine):
            draft.keep(machine)
        case MachineRemoved(name=name):
            draft.remove(name)
        case _:
            assert_never(change)
