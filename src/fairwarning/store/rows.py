"""Values as rows and rows as values: what is searched for has a column, the whole is one JSON text.

A batch of commits is folded before it is written: of everything that changed only the last word reaches the
tables, in the order in which things came to be. The journal keeps every word.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Generic, TypeVar, assert_never

import msgspec

from fairwarning.core.changes import (
    Change,
    EventChanged,
    FactsChanged,
    MachineChanged,
    MachineRemoved,
    Published,
    ScopeMade,
    ScopeRemoved,
)
from fairwarning.core.history import Note, Refused, Remark
from fairwarning.core.model import Event, EventId, Facts, Machine, Scope, ScopeId, Status, VmName
from fairwarning.core.roster import Roster, RosterDraft
from fairwarning.engine.ports import Commit, Entry
from fairwarning.store.entries import event_of

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Row = tuple[str | int | None, ...]

#: The journal's kinds by name. A name that was ever written is never given to another shape.
KINDS: Mapping[str, Callable[[str], Change | Note]] = {
    "ScopeMade": msgspec.json.Decoder(ScopeMade).decode,
    "FactsChanged": msgspec.json.Decoder(FactsChanged).decode,
    "ScopeRemoved": msgspec.json.Decoder(ScopeRemoved).decode,
    "MachineChanged": msgspec.json.Decoder(MachineChanged).decode,
    "MachineRemoved": msgspec.json.Decoder(MachineRemoved).decode,
    "EventChanged": msgspec.json.Decoder(EventChanged).decode,
    "Published": msgspec.json.Decoder(Published).decode,
    "Refused": msgspec.json.Decoder(Refused).decode,
    "Remark": msgspec.json.Decoder(Remark).decode,
}

_encoder = msgspec.json.Encoder()
_facts = msgspec.json.Decoder(Facts)
_machine = msgspec.json.Decoder(Machine)
_event = msgspec.json.Decoder(Event)


class Unreadable(Exception):
    """A row holds something that this version never wrote."""


@dataclass(slots=True)
class Part(Generic[Key, Value]):
    """The last word on each machine, or on each event, of the scopes in a batch."""

    gone: dict[ScopeId, set[Key]] = field(default_factory=lambda: defaultdict(set))
    kept: dict[ScopeId, dict[Key, Value]] = field(default_factory=lambda: defaultdict(dict))

    def keep(self, scope: ScopeId, key: Key, value: Value) -> None:
        """Note that ``key`` looks like this now."""
        self.kept[scope][key] = value

    def drop(self, scope: ScopeId, key: Key) -> None:
        """Note that ``key`` is no more; should it come back, it comes last."""
        self.kept[scope].pop(key, None)
        self.gone[scope].add(key)

    def wipe(self, scope: ScopeId) -> None:
        """Forget what was noted about a scope, which goes as a whole."""
        self.kept.pop(scope, None)
        self.gone.pop(scope, None)

    def __iter__(self) -> Iterator[Value]:
        return (value for values in self.kept.values() for value in values.values())

    def dropped(self) -> Iterator[tuple[ScopeId, Key]]:
        """Yield what has to go before anything is kept."""
        return ((scope, key) for scope, keys in self.gone.items() for key in keys)


class Writes:
    """What a batch of commits leaves in the tables of what is true now."""

    def __init__(self, commits: Iterable[Commit]) -> None:
        self.wiped: set[ScopeId] = set()
        self.scopes: dict[ScopeId, Scope] = {}
        self.machines: Part[VmName, Machine] = Part()
        self.events: Part[EventId, Event] = Part()
        for commit in commits:
            for change in commit.changes:
                self._take(change)
            self.scopes.update(commit.after)

    def _take(self, change: Change | Note) -> None:
        match change:
            case ScopeMade(scope=scope) | ScopeRemoved(scope=scope):
                self.wiped.add(scope)
                self.scopes.pop(scope, None)
                self.machines.wipe(scope)
                self.events.wipe(scope)
            case MachineChanged(scope=scope, machine=machine):
                self.machines.keep(scope, machine.name, machine)
            case MachineRemoved(scope=scope, name=name):
                self.machines.drop(scope, name)
            case EventChanged(scope=scope, event=Event(status=Status.GONE) as event):
                self.events.drop(scope, event.id)
            case EventChanged(scope=scope, event=event):
                self.events.keep(scope, event.id, event)
            case FactsChanged() | Published() | Refused() | Remark():
                pass  # facts and incarnation are in the scope as it is afterwards
            case _:
                assert_never(change)


def scope_row(scope: Scope) -> Row:
    """Return id, set_name, kind, version, incarnation, body."""
    facts = scope.facts
    return (scope.id, facts.set_name, facts.kind.value, scope.version, scope.incarnation, _body(facts))


def machine_row(machine: Machine) -> Row:
    """Return scope, name, body."""
    return (machine.scope, machine.name, _body(machine))


def event_row(event: Event) -> Row:
    """Return scope, id, status, not_before, barrier, body."""
    return (
        event.scope, event.id, event.status.value, instant(event.not_before), event.barrier, _body(event)
    )  # fmt: skip


def journal_row(entry: Entry) -> Row:
    """Return seq, at, scope, version, kind, event, body."""
    change = entry.change
    kind = type(change).__name__
    at, event = instant(entry.at), event_of(change)
    return (entry.seq, at, change.scope, entry.version, kind, event, _body(change))


@lru_cache(maxsize=256)
def instant(when: datetime) -> str:
    """Return an instant as text of fixed width, so that text sorts as time does."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def read_entry(row: tuple[int, str, int, str, str]) -> Entry:
    """Return the journal line in seq, at, version, kind, body."""
    seq, at, version, kind, body = row
    if kind not in KINDS:
        raise Unreadable(f"journal line {seq} is a {kind}")
    try:
        return Entry(seq=seq, at=datetime.fromisoformat(at), version=version, change=KINDS[kind](body))
    except ValueError as problem:
        raise Unreadable(f"journal line {seq}: {problem}") from problem


def read_scopes(
    scopes: Iterable[tuple[int, int, str]], machines: Iterable[tuple[str]], events: Iterable[tuple[str]]
) -> Mapping[ScopeId, Scope]:
    """Return the scopes in (version, incarnation, body) with their machines and events, order kept."""
    rosters: dict[ScopeId, RosterDraft] = defaultdict(lambda: RosterDraft(Roster()))
    events_of: dict[ScopeId, dict[EventId, Event]] = defaultdict(dict)
    found: dict[ScopeId, Scope] = {}
    try:
        for (body,) in machines:
            machine = _machine.decode(body)
            rosters[machine.scope].keep(machine)
        for (body,) in events:
            event = _event.decode(body)
            events_of[event.scope][event.id] = event
        for version, incarnation, body in scopes:
            facts = _facts.decode(body)
            found[facts.id] = Scope(
                facts=facts,
                version=version,
                incarnation=incarnation,
                machines=rosters[facts.id].roster(),
                events=MappingProxyType(events_of[facts.id]),
            )
    except msgspec.DecodeError as problem:
        raise Unreadable(str(problem)) from problem
    return MappingProxyType(found)


def _body(value: Facts | Machine | Event | Change | Note) -> str:
    return _encoder.encode(value).decode()
