"""Converts values to rows and back.

A row has a column for every field that is searched for, and the whole value as JSON in ``body``. The JSON
has the field names of the dataclasses in ``core``, so these names are part of the stored format.

A batch is reduced before it is written (``BatchWrites``): the tables of machines, events, scopes and polls
get only the final state of each value, in order of creation. The journal gets every line.

The last column of every row is a checksum: the CRC-32 of the other columns, joined with NUL. It is checked on
every read. Texts are read as bytes, so that a damaged text is found by its checksum and not by its decoding.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Generic, TypeVar, assert_never
from zlib import crc32

import msgspec

from fairwarning.core.changes import (
    EventChanged,
    MachineChanged,
    MachineRemoved,
    PollsRecorded,
    Published,
    ScopeMade,
    ScopePropertiesChanged,
    ScopeRemoved,
    TextChanged,
)
from fairwarning.core.history import ActionNote, CommandRefused
from fairwarning.core.machine_table import MachineTable, MachineTableDraft
from fairwarning.core.model import (
    GONE,
    NO_EVENTS,
    ApprovalSettings,
    Event,
    EventId,
    Machine,
    MachineModel,
    Scope,
    ScopeId,
    ScopeProperties,
    VmName,
    replace,
)
from fairwarning.core.stored.kinds import UnknownKindError, kind_of, service_kind_of
from fairwarning.engine.ports import Batch, Entry, Lease, Line, SetName
from fairwarning.store.entries import event_of, last_polls
from fairwarning.store.errors import NewerContentError, UnreadableRowError

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Row = tuple[str | int | None, ...]
Stored = TypeVar("Stored", bound=tuple[object, ...])

ScopeRow = tuple[bytes, bytes, bytes, int, int, bytes, int, int]
MachineRow = tuple[bytes, bytes, bytes, int]
EventRow = tuple[bytes, bytes, bytes, bytes, bytes, bytes, int]
JournalRow = tuple[int, bytes, bytes, int, bytes, bytes | None, bytes, bytes, int, int, int]
SetRow = tuple[bytes, int, int, int]
DocumentRow = tuple[bytes, bytes, int, int]
PollRow = tuple[bytes, bytes, int]
NoteRow = tuple[bytes, bytes, int]
ClaimRow = tuple[bytes, bytes, int, bytes, int]

#: The decoders of the journal's kinds. A kind that was ever written is never used for another class.
KINDS: Mapping[str, Callable[[bytes], Line]] = {
    "ScopeMade": msgspec.json.Decoder(ScopeMade).decode,
    "FactsChanged": msgspec.json.Decoder(ScopePropertiesChanged).decode,
    "ScopeRemoved": msgspec.json.Decoder(ScopeRemoved).decode,
    "MachineChanged": msgspec.json.Decoder(MachineChanged).decode,
    "MachineRemoved": msgspec.json.Decoder(MachineRemoved).decode,
    "EventChanged": msgspec.json.Decoder(EventChanged).decode,
    "Published": msgspec.json.Decoder(Published).decode,
    "Refused": msgspec.json.Decoder(CommandRefused).decode,
    "Remark": msgspec.json.Decoder(ActionNote).decode,
    "TextChanged": msgspec.json.Decoder(TextChanged).decode,
    "Polled": msgspec.json.Decoder(PollsRecorded).decode,
}

#: The kind under which each class is written. Classes may be renamed, kinds may not.
KIND_OF: Mapping[type[Line], str] = {
    ScopeMade: "ScopeMade",
    ScopePropertiesChanged: "FactsChanged",
    ScopeRemoved: "ScopeRemoved",
    MachineChanged: "MachineChanged",
    MachineRemoved: "MachineRemoved",
    EventChanged: "EventChanged",
    Published: "Published",
    CommandRefused: "Refused",
    ActionNote: "Remark",
    TextChanged: "TextChanged",
    PollsRecorded: "Polled",
}

#: The columns that the checksum of each table covers, in this order.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "header": ("database", "commits", "last_line"),
    "scope": ("id", "set_name", "kind", "version", "incarnation", "body", "stamp"),
    "machine": ("scope", "name", "body"),
    "event": ("scope", "id", "status", "not_before", "barrier", "body"),
    "poll": ("scope", "at"),
    "fleet_set": ("set_id", "stamp", "incarnation"),
    "document": ("key", "body", "stamp"),
    "note": ("key", "value"),
    "claim": ("key", "owner", "fence", "until"),
    "journal": ("seq", "at", "scope", "version", "kind", "event", "body", "request", "stamp", "ends"),
}

#: Formats that join columns with NUL, by the number of columns: formatting is twice as fast as joining.
_JOINED = tuple("\0".join(["%s"] * number) for number in range(11))

#: In the JSON of a machine, its scope, its name and its ids come first; other machines may share the rest.
_SHARED_FIELDS = b',"update_domain":'

#: How many combinations of shared fields are remembered while the machines of a scope are read.
_MOST_COMBINATIONS = 1024

_encoder = msgspec.json.Encoder()
_properties = msgspec.json.Decoder(ScopeProperties)
_machine = msgspec.json.Decoder(Machine)
_event = msgspec.json.Decoder(Event)

#: What reads the bodies of a table.
_BODIES: Mapping[str, Callable[[bytes], object]] = {
    "scope": _properties.decode,
    "machine": _machine.decode,
    "event": _event.decode,
}
#: What finds the kind of a value in a table by its key.
_KEYS: Mapping[str, Callable[[str], object]] = {"document": kind_of, "note": service_kind_of}


class _UnknownLineError(ValueError):
    """A journal line is of a kind that this version does not know."""


class _OwnFields(msgspec.Struct, forbid_unknown_fields=True):
    scope: ScopeId
    name: VmName
    vm_id: str
    instance: str


_own_fields = msgspec.json.Decoder(_OwnFields)


@dataclass(slots=True)
class FinalRows(Generic[Key, Value]):
    """The final state of each machine, or of each event, that a batch changes."""

    removed: dict[ScopeId, set[Key]] = field(default_factory=lambda: defaultdict(set))
    values: dict[ScopeId, dict[Key, Value]] = field(default_factory=lambda: defaultdict(dict))

    def put(self, scope: ScopeId, key: Key, value: Value) -> None:
        """Set the state of ``key``."""
        self.values[scope][key] = value

    def remove(self, scope: ScopeId, key: Key) -> None:
        """Remove ``key``; if it is added again, it is a new row at the end."""
        self.values[scope].pop(key, None)
        self.removed[scope].add(key)

    def forget(self, scope: ScopeId) -> None:
        """Forget the changes of a scope that is removed as a whole."""
        self.values.pop(scope, None)
        self.removed.pop(scope, None)

    def __iter__(self) -> Iterator[Value]:
        return (value for values in self.values.values() for value in values.values())

    def removed_keys(self) -> Iterator[tuple[ScopeId, Key]]:
        """Yield the keys of the rows to delete before any row is written."""
        return ((scope, key) for scope, keys in self.removed.items() for key in keys)


class BatchWrites:
    """The rows of scopes, machines, events and polls that a batch writes and deletes."""

    def __init__(self, batch: Batch) -> None:
        self.wiped = {scope_id for scope_id, scope in batch.after.items() if scope is None}
        self.scopes = [scope for scope in batch.after.values() if scope is not None]
        self.machines: FinalRows[VmName, Machine] = FinalRows()
        self.events: FinalRows[EventId, Event] = FinalRows()
        self.polls = last_polls(batch)
        for part in batch.parts:
            for line in part.lines:
                self._add(line)

    def _add(self, line: Line) -> None:
        match line:
            case EventChanged(scope=scope, event=event) if event.status is GONE:
                self.events.remove(scope, event.id)
            case EventChanged(scope=scope, event=event):
                self.events.put(scope, event.id, event)
            case ScopePropertiesChanged() | Published() | TextChanged():
                pass  # the batch has the properties, incarnations and texts after it
            case ScopeMade(scope=scope) | ScopeRemoved(scope=scope):
                self.wiped.add(scope)
                self.machines.forget(scope)
                self.events.forget(scope)
            case MachineChanged(scope=scope, machine=machine):
                self.machines.put(scope, machine.name, machine)
            case MachineRemoved(scope=scope, name=name):
                self.machines.remove(scope, name)
            case PollsRecorded() | CommandRefused() | ActionNote():
                pass
            case _:
                assert_never(line)


def row_checksum(*columns: str | int | None) -> int:
    """Return the checksum of the columns of a row."""
    return crc32((_JOINED[len(columns)] % columns).encode())


def verified_rows(table: str, rows: Iterable[Stored]) -> Iterator[Stored]:
    """Yield rows whose checksum is right; raise ``UnreadableRowError`` at the first that is wrong."""
    for row in rows:
        columns = _as_bytes(row[:-1])
        if crc32(b"\0".join(columns)) != row[-1]:
            raise _damaged(table, columns)
        yield row


def known_rows(table: str, columns: Sequence[str], rows: Iterable[Stored]) -> Iterator[Stored]:
    """Yield verified rows; raise ``NewerContentError`` at the first that only a newer version understands."""
    for row in rows:
        values = dict(zip(columns, _as_bytes(row), strict=False))
        try:
            if table == "journal":
                _decode_line(values["kind"], values["body"])
            elif table in _BODIES:
                _BODIES[table](values["body"])
            elif table in _KEYS:
                _KEYS[table](values["key"].decode(errors="replace"))
        except (ValueError, UnknownKindError) as problem:
            name = _row_name(table, tuple(values.values()))
            error = unreadable(f"row {name} of table {table}", problem)
            if isinstance(error, NewerContentError):
                raise error from problem
        yield row


def verified_lines(rows: Iterable[JournalRow]) -> Iterator[JournalRow]:
    """Yield journal lines with right checksums, where a checksum does not cover ``seq`` and ``ends``."""
    for row in rows:
        if crc32(b"\0".join(_as_bytes(row[1:-2]))) != row[-1]:
            raise _damaged("journal", _as_bytes(row[:1]))
        yield row


def _as_bytes(columns: Iterable[object]) -> list[bytes]:
    return [column if isinstance(column, bytes) else str(column).encode() for column in columns]


def _damaged(table: str, columns: Sequence[bytes]) -> UnreadableRowError:
    return UnreadableRowError(f"row {_row_name(table, columns)} of table {table} does not match its checksum")


def _row_name(table: str, columns: Sequence[bytes]) -> str:
    key_length = 2 if table in ("machine", "event") else 1
    return b"/".join(columns[:key_length]).decode(errors="backslashreplace")


def scope_row(scope: Scope, stamp: int) -> Row:
    """Return id, set_name, kind, version, incarnation, body, stamp, checksum."""
    name, kind, body = scope.facts.set_name, scope.facts.kind.value, _body(scope.facts)
    return with_checksum(scope.id, name, kind, scope.version, scope.incarnation, body, stamp)


def machine_row(machine: Machine) -> Row:
    """Return scope, name, body, checksum."""
    return with_checksum(machine.scope, machine.name, _body(machine))


def event_row(event: Event) -> Row:
    """Return scope, id, status, not_before, barrier, body, checksum."""
    return with_checksum(
        event.scope, event.id, event.status.value, instant(event.not_before), event.barrier, _body(event)
    )


def journal_row(entry: Entry) -> Row:
    """Return seq, at, scope, version, kind, event, body, request, stamp, ends, checksum."""
    return with_checksum(entry.seq, *_line_columns(entry), entry.ends)


def unnumbered_row(entry: Entry) -> Row:
    """Return at, scope, version, kind, event, body, request, stamp, checksum."""
    return with_checksum(*_line_columns(entry))


def _line_columns(entry: Entry) -> Row:
    line = entry.change
    return (
        instant(entry.at),
        line.scope,
        entry.version,
        KIND_OF[type(line)],
        event_of(line),
        _body(line),
        entry.request,
        entry.stamp,
    )


def claim_row(lease: Lease) -> Row:
    """Return key, owner, fence, until, checksum."""
    return with_checksum(lease.key, lease.owner, lease.fence, instant(lease.until))


def with_checksum(*columns: str | int | None) -> Row:
    """Return a row with its checksum as the last column."""
    return (*columns, row_checksum(*columns))


@lru_cache(maxsize=256)
def instant(when: datetime) -> str:
    """Return an instant as text of fixed width, which sorts like the instants."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def read_entry(row: JournalRow) -> Entry:
    """Return the journal line in a verified row."""
    seq, at, _, version, kind, _, body, request, stamp, ends, _ = row
    try:
        return Entry(
            seq=seq,
            at=datetime.fromisoformat(at.decode()),
            version=version,
            change=_decode_line(kind, body),
            request=request.decode(),
            stamp=stamp,
            ends=ends,
        )
    except ValueError as problem:
        raise unreadable(f"journal line {seq}", problem) from problem


def _decode_line(kind: bytes, body: bytes) -> Line:
    decode = KINDS.get(kind.decode(errors="replace"))
    if decode is None:
        raise _UnknownLineError(f"the kind {kind.decode(errors='replace')}")
    return decode(body)


def read_notes(rows: Iterable[NoteRow]) -> dict[str, str]:
    """Return the values of the service by key."""
    with _reading("table note"):
        return {key.decode(): value.decode() for key, value, _ in verified_rows("note", rows)}


def read_leases(rows: Iterable[ClaimRow]) -> dict[str, Lease]:
    """Return the newest leases by key."""
    with _reading("table claim"):
        return {
            key.decode(): Lease(key.decode(), owner.decode(), fence, datetime.fromisoformat(until.decode()))
            for key, owner, fence, until, _ in verified_rows("claim", rows)
        }


def read_polls(rows: Iterable[PollRow], scopes: Mapping[ScopeId, Scope]) -> dict[ScopeId, datetime]:
    """Return the last poll of each scope, with the scopes' own ids as keys."""
    with _reading("table poll"):
        return {
            scopes[ScopeId(scope.decode())].id: datetime.fromisoformat(at.decode())
            for scope, at, _ in verified_rows("poll", rows)
        }


def read_sets(rows: Iterable[SetRow]) -> dict[str, SetName]:
    """Return the names of the sets; names that were written together share their values."""
    shared: dict[tuple[int, int], SetName] = {}
    sets: dict[str, SetName] = {}
    with _reading("table fleet_set"):
        for set_id, stamp, incarnation, _ in verified_rows("fleet_set", rows):
            name = shared.get((stamp, incarnation)) or SetName(stamp, incarnation)
            sets[set_id.decode()] = shared[stamp, incarnation] = name
    return sets


def read_documents(rows: Iterable[DocumentRow]) -> tuple[dict[str, str], dict[str, int]]:
    """Return texts and their stamps by key, in their order."""
    texts: dict[str, str] = {}
    stamps: dict[str, int] = {}
    with _reading("table document"):
        for key, body, stamp, _ in verified_rows("document", rows):
            name = key.decode()
            texts[name], stamps[name] = body.decode(), stamp
    return texts, stamps


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Say of a value in the block that cannot be read where it is, and whether a newer version wrote it."""
    try:
        yield
    except (ValueError, TypeError, LookupError) as problem:
        raise unreadable(where, problem) from problem


def unreadable(where: str, problem: Exception) -> UnreadableRowError:
    """Return the error about a row with the right checksum that cannot be decoded."""
    # An unknown kind or member of an enum is no damage: a version that knows it has written it.
    unknown = isinstance(problem, _UnknownLineError | UnknownKindError)
    if unknown or str(problem).startswith("Invalid enum value"):
        return NewerContentError(where, str(problem))
    return UnreadableRowError(f"{where}: {problem}")


class MachineReader:
    """Puts tables of machines together; what machines have in common is read once."""

    def __init__(self) -> None:
        self.tables: dict[ScopeId, MachineTableDraft] = defaultdict(lambda: MachineTableDraft(MachineTable()))
        #: The scope of the last machine, its table, and a machine for each JSON of shared fields.
        self._scope: ScopeId | None = None
        self._table = MachineTableDraft(MachineTable())
        self._alike: dict[bytes, VmName] = {}
        #: Equal tags and models of instances: most instances of most sets have the same.
        self._tags: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._models: dict[MachineModel, MachineModel] = {}

    def add(self, body: bytes) -> None:
        """Add a machine to the table of its scope."""
        own, _, shared = body.partition(_SHARED_FIELDS)
        like = self._alike.get(shared)
        if like is None or not self._add_like(like, own + b"}"):
            self._add_whole(body, shared)

    def _add_like(self, like: VmName, own: bytes) -> bool:
        try:
            fields = _own_fields.decode(own)
        except msgspec.ValidationError:  # the fields are in another order
            return False
        if fields.scope != self._scope:
            return False
        self._table.put_like(like, fields.name, fields.vm_id, fields.instance)
        return True

    def _add_whole(self, body: bytes, shared: bytes) -> None:
        machine = _machine.decode(body)
        if machine.model.tags:
            tags = self._tags.setdefault(machine.tags, machine.tags)
            model = self._models.setdefault(machine.model, machine.model)
            machine = replace(machine, tags=tags, model=model)
        if machine.scope != self._scope or len(self._alike) == _MOST_COMBINATIONS:
            self._scope, self._table, self._alike = machine.scope, self.tables[machine.scope], {}
        self._table.put(machine)
        if shared:
            self._alike[shared] = machine.name


class ScopeReader:
    """Puts scopes together from their rows: machines and events first, in any number of portions."""

    def __init__(self) -> None:
        #: The scopes and their stamps, in the order of their rows.
        self.scopes: dict[ScopeId, Scope] = {}
        self.stamps: dict[ScopeId, int] = {}
        self._machines = MachineReader()
        self._events: dict[ScopeId, dict[EventId, Event]] = defaultdict(dict)
        self._shared: dict[int, int] = {}
        self._models: dict[MachineModel, MachineModel] = {}
        self._approvals: dict[ApprovalSettings, ApprovalSettings] = {}

    def add_machines(self, rows: Iterable[MachineRow]) -> None:
        """Add machines, in their order."""
        with _reading("table machine"):
            for scope, name, body, checksum in rows:
                # The same as verified_rows() in half the time: there may be a million machines.
                if crc32(b"\0".join((scope, name, body))) != checksum:
                    raise _damaged("machine", (scope, name))
                self._machines.add(body)

    def add_events(self, rows: Iterable[EventRow]) -> None:
        """Add events, in their order."""
        with _reading("table event"):
            for *_, body, _ in verified_rows("event", rows):
                event = _event.decode(body)
                self._events[event.scope][event.id] = event

    def add_scopes(self, rows: Iterable[ScopeRow]) -> None:
        """Add scopes, with the machines and events that were added before."""
        with _reading("table scope"):
            for _, _, _, version, incarnation, body, stamp, _ in verified_rows("scope", rows):
                properties = self._with_shared_settings(_properties.decode(body))
                events = self._events.get(properties.id)
                # One object for all scopes of a batch.
                self.stamps[properties.id] = self._shared.setdefault(stamp, stamp)
                self.scopes[properties.id] = Scope(
                    facts=properties,
                    version=version,
                    incarnation=incarnation,
                    machines=self._machines.tables[properties.id].build(),
                    events=MappingProxyType(events) if events else NO_EVENTS,
                )

    def _with_shared_settings(self, properties: ScopeProperties) -> ScopeProperties:
        """Return properties with one object for all equal settings: most scopes have the same."""
        model, approvals = properties.model, properties.approvals
        return replace(
            properties,
            model=self._models.setdefault(model, model),
            approvals=self._approvals.setdefault(approvals, approvals),
        )


def _body(value: ScopeProperties | Machine | Event | Line) -> str:
    return _encoder.encode(value).decode()
