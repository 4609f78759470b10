"""Changes: the facts that a decision makes true.

The journal is made of changes. ``evolve`` applies them to the scopes; applying the same changes to the same
scopes always gives the same result, which is how a journal is replayed.

Readers rely on object identity: a scope that no change names stays the same object, and so do the machines
of a scope whose changes concern only its events, and the other way round.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, assert_never

from fairwarning.core.machine_table import MachineTable, MachineTableDraft
from fairwarning.core.model import (
    GONE,
    NO_EVENTS,
    NO_HOST,
    NO_SCOPE,
    Event,
    EventId,
    HostId,
    Machine,
    Scope,
    ScopeId,
    ScopeProperties,
    VmName,
)


class EventMilestone(StrEnum):
    """A step in the life of an event."""

    SCHEDULED = "scheduled"
    SHOWN = "shown"
    APPROVED = "approved"
    #: The window of its maintenance has opened.
    OPENED = "opened"
    #: It is ready, and something keeps it from starting.
    BLOCKED = "blocked"
    POSTPONED = "postponed"
    STARTED = "started"
    PROGRESSED = "progressed"
    FAILED = "failed"
    OVERDUE = "overdue"
    FINISHED = "finished"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeMade:
    """A scope was created."""

    scope: ScopeId
    facts: ScopeProperties
    incarnation: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePropertiesChanged:
    """The properties of a scope changed."""

    scope: ScopeId
    facts: ScopeProperties
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRemoved:
    """A scope was removed; a new set of the same name continues from its last incarnation."""

    scope: ScopeId
    # Older journals lack these two.
    set_id: str = ""
    incarnation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChanged:
    """A machine was created or changed."""

    scope: ScopeId
    machine: Machine
    by: str = ""
    #: The host from which an operator moved it; empty if no operator did.
    moved_from: HostId = NO_HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRemoved:
    """A machine was removed."""

    scope: ScopeId
    name: VmName


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChanged:
    """An event was announced or changed, or is gone."""

    scope: ScopeId
    event: Event
    what: EventMilestone
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The document of a scope changed and has this incarnation (L-11)."""

    scope: ScopeId
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChanged:
    """A text that another package stores with the fleet was changed; None if it was removed."""

    scope: ClassVar[ScopeId] = NO_SCOPE
    key: str
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollsRecorded:
    """Guests of these scopes polled at this instant or shortly before.

    The last poll of a scope is no part of the scope: it changes no version, no incarnation and no object.
    """

    scope: ClassVar[ScopeId] = NO_SCOPE
    at: datetime
    scopes: tuple[ScopeId, ...]


Change = (
    ScopeMade
    | ScopePropertiesChanged
    | ScopeRemoved
    | MachineChanged
    | MachineRemoved
    | EventChanged
    | Published
)

#: The changes after which nothing remains of what a scope was before.
MADE_OR_REMOVED = (ScopeMade, ScopeRemoved)

Scopes = Mapping[ScopeId, Scope]


def apply(scopes: Scopes, changes: Iterable[Change]) -> Scopes:
    """Return the scopes after ``changes``, with their versions unchanged."""
    return _apply_all(scopes, changes, step=0)


def evolve(scopes: Scopes, changes: Iterable[Change]) -> Scopes:
    """Return the scopes after one commit: changes applied, the version of each touched scope increased."""
    return _apply_all(scopes, changes, step=1)


def touched(changes: Iterable[Change]) -> tuple[ScopeId, ...]:
    """Return the scopes that ``changes`` concern, each once, in order."""
    return tuple(dict.fromkeys(change.scope for change in changes))


def last_incarnations_after(before: Mapping[str, int], changes: Iterable[Change]) -> Mapping[str, int]:
    """Return the highest incarnation among the removed scopes of each set; ``before`` if none is removed."""
    removed = [change for change in changes if isinstance(change, ScopeRemoved)]
    if not removed:
        return before
    after = dict(before)
    for change in removed:
        after[change.set_id] = max(after.get(change.set_id, 0), change.incarnation)
    return after


def _apply_all(scopes: Scopes, changes: Iterable[Change], step: int) -> Scopes:
    changes_by_scope: dict[ScopeId, list[Change]] = {}
    for change in changes:
        changes_by_scope.setdefault(change.scope, []).append(change)
    after = dict(scopes)
    for scope_id, scope_changes in changes_by_scope.items():
        scope = _apply_to_scope(after.get(scope_id), scope_changes, step)
        if scope is None:
            after.pop(scope_id, None)
        else:
            after[scope_id] = scope
    return MappingProxyType(after)


class _ScopeDraft:
    """A scope to which changes are being applied; machines and events are copied only when one changes."""

    def __init__(self, scope: Scope) -> None:
        self._before = scope
        self._machines: MachineTableDraft | None = None
        self._events: dict[EventId, Event] | None = None
        self._removed: set[str | None] = set()
        self.facts = scope.facts
        self.incarnation = scope.incarnation

    def put(self, machine: Machine) -> None:
        # A removed machine stays removed; a new machine of the same name has another vm_id.
        if machine.vm_id in self._removed:
            raise LookupError(f"MachineChanged of machine {machine.ref.full}, which was removed")
        self.machines().put(machine)

    def remove(self, name: VmName) -> None:
        self._removed.add(self.machines().remove(name))

    def machines(self) -> MachineTableDraft:
        if self._machines is None:
            self._machines = MachineTableDraft(self._before.machines)
        return self._machines

    def events(self) -> dict[EventId, Event]:
        if self._events is None:
            self._events = self._before.events.copy()
        return self._events

    def scope(self, step: int) -> Scope:
        before, machines = self._before, self._machines
        events = before.events if self._events is None else MappingProxyType(self._events)
        return Scope(
            facts=self.facts,
            version=before.version + step,
            incarnation=self.incarnation,
            machines=before.machines if machines is None else machines.build(),
            events=events or NO_EVENTS,
        )


def _apply_to_scope(scope: Scope | None, changes: Iterable[Change], step: int) -> Scope | None:
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
            _apply_to_draft(draft, change)
    return None if draft is None else draft.scope(step)


def _apply_to_draft(
    draft: _ScopeDraft,
    change: ScopePropertiesChanged | MachineChanged | MachineRemoved | EventChanged | Published,
) -> None:
    match change:
        case EventChanged(event=event):
            if event.status is GONE:
                draft.events().pop(event.id, None)
            else:
                draft.events()[event.id] = event
        case Published(incarnation=incarnation):
            draft.incarnation = incarnation
        case ScopePropertiesChanged(facts=facts):
            draft.facts = facts
        case MachineChanged(machine=machine):
            draft.put(machine)
        case MachineRemoved(name=name):
            draft.remove(name)
        case _:
            assert_never(change)
