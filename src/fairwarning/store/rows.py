"""Values as rows and rows as values: what is searched for has a column, the whole is one JSON text.

A batch of commits is folded before it is written: of everything that changed only the last word reaches the
tables, in the order in which things came to be. The journal keeps every word.

Every row ends with a checksum of its columns. Rows are read with their texts as bytes, so that a text that is
none any more is found by its checksum, too.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Generic, TypeVar, assert_never
from zlib import crc32

import msgspec

from fairwarning.core.changes import (
    Change,
    EventChanged,
    MachineChanged,
    MachineRemoved,
    Published,
    ScopeMade,
    ScopePropertiesChanged,
    ScopeRemoved,
)
from fairwarning.core.history import ActionNote, CommandRefused, Note
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
from fairwarning.engine.ports import Commit, Entry
from fairwarning.store.entries import event_of
from fairwarning.store.errors import UnreadableRowError

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Row = tuple[str | int | None, ...]
Stored = TypeVar("Stored", bound=tuple[object, ...])

ScopeRow = tuple[bytes, bytes, bytes, int, int, bytes, int]
MachineRow = tuple[bytes, bytes, bytes, int]
EventRow = tuple[bytes, bytes, bytes, bytes, bytes, bytes, int]
JournalRow = tuple[int, bytes, bytes, int, bytes, bytes | None, bytes, int]
TextRow = tuple[bytes, bytes, int]

#: The journal's kinds by name. A name that was ever written is never given to another shape.
KINDS: Mapping[str, Callable[[bytes], Change | Note]] = {
    "ScopeMade": msgspec.json.Decoder(ScopeMade).decode,
    "FactsChanged": msgspec.json.Decoder(ScopePropertiesChanged).decode,
    "ScopeRemoved": msgspec.json.Decoder(ScopeRemoved).decode,
    "MachineChanged": msgspec.json.Decoder(MachineChanged).decode,
    "MachineRemoved": msgspec.json.Decoder(MachineRemoved).decode,
    "EventChanged": msgspec.json.Decoder(EventChanged).decode,
    "Published": msgspec.json.Decoder(Published).decode,
    "Refused": msgspec.json.Decoder(CommandRefused).decode,
    "Remark": msgspec.json.Decoder(ActionNote).decode,
}

#: The kind under which each class is written. Classes may be renamed, kinds may not.
KIND_OF: Mapping[type[Change | Note], str] = {
    ScopeMade: "ScopeMade",
    ScopePropertiesChanged: "FactsChanged",
    ScopeRemoved: "ScopeRemoved",
    MachineChanged: "MachineChanged",
    MachineRemoved: "MachineRemoved",
    EventChanged: "EventChanged",
    Published: "Published",
    CommandRefused: "Refused",
    ActionNote: "Remark",
}

#: What the checksums cover, in this order.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "header": ("database", "commits", "last_line"),
    "scope": ("id", "set_name", "kind", "version", "incarnation", "body"),
    "machine": ("scope", "name", "body"),
    "event": ("scope", "id", "status", "not_before", "barrier", "body"),
    "document": ("key", "body"),
    "note": ("key", "value"),
    "last_incarnation": ("set_id", "incarnation"),
    "journal": ("seq", "at", "scope", "version", "kind", "event", "body"),
}

#: Columns with a NUL between them, by their number: formatting is twice as quick as joining.
_JOINED = tuple("\0".join(["%s"] * number) for number in range(8))

_encoder = msgspec.json.Encoder()
_facts = msgspec.json.Decoder(ScopeProperties)
_machine = msgspec.json.Decoder(Machine)
_event = msgspec.json.Decoder(Event)


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
            case EventChanged(scope=scope, event=Event(status=EventStatus.GONE) as event):
                self.events.drop(scope, event.id)
            case EventChanged(scope=scope, event=event):
                self.events.keep(scope, event.id, event)
            case ScopePropertiesChanged() | Published() | CommandRefused() | ActionNote():
                pass  # facts and incarnation are in the scope as it is afterwards
            case _:
                assert_never(change)


def row_checksum(*columns: str | int | None) -> int:
    """Return the checksum of a row that is to be written."""
    return crc32((_JOINED[len(columns)] % columns).encode())


def intact(table: str, rows: Iterable[Stored]) -> Iterator[Stored]:
    """Yield rows as they were written; raise at the first that is not."""
    for row in rows:
        columns = [one if isinstance(one, bytes) else str(one).encode() for one in row[:-1]]
        if crc32(b"\0".join(columns)) != row[-1]:
            raise _damaged(table, columns)
        yield row


def _damaged(table: str, columns: Sequence[bytes]) -> UnreadableRowError:
    names = 2 if COLUMNS[table][0] == "scope" else 1
    name = b"/".join(columns[:names]).decode(errors="backslashreplace")
    return UnreadableRowError(f"row {name} of table {table} does not match its checksum")


def scope_row(scope: Scope) -> Row:
    """Return id, set_name, kind, version, incarnation, body, checksum."""
    facts = scope.facts
    return _sealed(
        scope.id, facts.set_name, facts.kind.value, scope.version, scope.incarnation, _body(facts)
    )  # fmt: skip


def machine_row(machine: Machine) -> Row:
    """Return scope, name, body, checksum."""
    return _sealed(machine.scope, machine.name, _body(machine))


def event_row(event: Event) -> Row:
    """Return scope, id, status, not_before, barrier, body, checksum."""
    return _sealed(
        event.scope, event.id, event.status.value, instant(event.not_before), event.barrier, _body(event)
    )


def journal_row(entry: Entry) -> Row:
    """Return seq, at, scope, version, kind, event, body, checksum."""
    change = entry.change
    kind = KIND_OF[type(change)]
    at, event = instant(entry.at), event_of(change)
    return _sealed(entry.seq, at, change.scope, entry.version, kind, event, _body(change))


def text_row(key: str, text: str) -> Row:
    """Return key, text, checksum."""
    return _sealed(key, text)


def _sealed(*columns: str | int | None) -> Row:
    return (*columns, row_checksum(*columns))


@lru_cache(maxsize=256)
def instant(when: datetime) -> str:
    """Return an instant as text of fixed width, so that text sorts as time does."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def read_entry(row: JournalRow) -> Entry:
    """Return the journal line in a row that is intact."""
    seq, at, _, version, kind, _, body, _ = row
    name = kind.decode(errors="replace")
    if name not in KINDS:
        raise UnreadableRowError(f"journal line {seq} is a {name}")
    try:
        when = datetime.fromisoformat(at.decode())
        return Entry(seq=seq, at=when, version=version, change=KINDS[name](body))
    except ValueError as problem:
        raise UnreadableRowError(f"journal line {seq}: {problem}") from problem


def read_texts(table: str, rows: Iterable[TextRow]) -> dict[str, str]:
    """Return the texts in (key, text, checksum) by key, order kept."""
    try:
        return {key.decode(): text.decode() for key, text, _ in intact(table, rows)}
    except ValueError as problem:
        raise UnreadableRowError(f"table {table}: {problem}") from problem


def read_scopes(
    scopes: Iterable[ScopeRow], machines: Iterable[MachineRow], events: Iterable[EventRow]
) -> Mapping[ScopeId, Scope]:
    """Return the scopes with their machines and events, order kept."""
    rosters: dict[ScopeId, MachineTableDraft] = defaultdict(lambda: MachineTableDraft(MachineTable()))
    events_of: dict[ScopeId, dict[EventId, Event]] = defaultdict(dict)
    found: dict[ScopeId, Scope] = {}
    try:
        for scope, name, body, checksum in machines:
            # As intact() does, in half the time: there may be a million machines.
            if crc32(b"\0".join((scope, name, body))) != checksum:
                raise _damaged("machine", (scope, name))
            machine = _machine.decode(body)
            rosters[machine.scope].keep(machine)
        for *_, body, _ in intact("event", events):
            event = _event.decode(body)
            events_of[event.scope][event.id] = event
        for _, _, _, version, incarnation, body, _ in intact("scope", scopes):
            facts = _facts.decode(body)
            found[facts.id] = Scope(
                facts=facts,
                version=version,
                incarnation=incarnation,
                machines=rosters[facts.id].roster(),
                events=MappingProxyType(events_of[facts.id]),
            )
    except (ValueError, TypeError) as problem:
        raise UnreadableRowError(str(problem)) from problem
    return MappingProxyType(found)


def _body(value: ScopeProperties | Machine | Event | Change | Note) -> str:
    return _encoder.encode(value).decode()
