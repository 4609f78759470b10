"""Checks that the tables of a database agree with each other and with the journal.

The journal is read first: its numbers, its batches, and what it leads to (``replay``). Then every row of the
other tables is compared with that. After a line that cannot be read, or that is missing, the replay begins
anew: one damaged line is one finding, not a hundred.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TypeVar

import msgspec

from fairwarning.core.model import Event, Machine, ScopeProperties
from fairwarning.core.stored.kinds import StoredKind, UnknownKindError, kind_name, kind_of, service_kind_of
from fairwarning.database.columns import (
    EventColumns,
    LeaseColumns,
    MachineColumns,
    PollColumns,
    ScopeColumns,
    SetColumns,
    TextColumns,
    ValueColumns,
    read_columns,
)
from fairwarning.database.findings import FindingKind, Findings, Report
from fairwarning.database.journal import JournalCheck
from fairwarning.database.replay import Expected, JournalReplay, ScopeFacts, properties_hash
from fairwarning.database.restores import RESTORES, read_restores
from fairwarning.database.tables import (
    ORDER,
    Progress,
    Tables,
    counted,
    matches_checksum,
    quiet,
    row_name,
)
from fairwarning.store.errors import NewerContentError
from fairwarning.store.pruning import MARK
from fairwarning.store.rows import instant, unreadable

Columns = TypeVar("Columns", bound=tuple[object, ...])
Value = TypeVar("Value")

_properties = msgspec.json.Decoder(ScopeProperties).decode
_machine = msgspec.json.Decoder(Machine).decode
_event = msgspec.json.Decoder(Event).decode

#: The stamp of rows from before stamps; the journal of that time has no lines about texts.
BEFORE_STAMPS = 1


@dataclass(slots=True)
class CheckReport:
    """What a check has found, and how far the journal proves the rest."""

    findings: Findings = field(default_factory=Findings)
    #: The rows of each table that were read.
    rows: dict[str, int] = field(default_factory=dict)
    #: The line after which the journal is complete.
    complete_after: int = 0
    #: Scopes that the journal proves completely, scopes of which it proves what changed since it begins, and
    #: scopes of which it proves only the pending events.
    proved: int = 0
    partly_proved: int = 0
    unproved: int = 0


def check_tables(tables: Tables, progress: Progress = quiet) -> CheckReport:
    """Check everything that can be checked, and return what was found."""
    check = _Check(tables, progress)
    for finding in tables.problems():
        check.report.findings.add(*finding)
    check.run()
    return check.report


class _OrderCheck:
    """Reports rows that do not come in the order in which the journal creates them, once per scope."""

    def __init__(self, report: Report) -> None:
        self._report = report
        #: The keys of each scope that may still come; None after a report.
        self._left: dict[str, Iterator[str] | None] = {}

    def add(self, name: str, scope_id: str, key: str, created: Iterable[str]) -> None:
        """Take a row, given the keys of its scope in order of creation."""
        if scope_id not in self._left:
            self._left[scope_id] = iter(tuple(created))
        left = self._left[scope_id]
        # Looking for the key drops those before it from the iterator: rows that are missing.
        if left is not None and key not in left:
            self._report(FindingKind.ORDER, name, "is not in the order of creation")
            self._left[scope_id] = None


class _Check:
    def __init__(self, tables: Tables, progress: Progress) -> None:
        self.report = CheckReport()
        self._tables = tables
        self._show = progress
        self._add = self.report.findings.add
        self._values: dict[str, str] = {}
        self._scopes: set[str] = set()
        self._replay = JournalReplay(0, {}, self._add)

    def run(self) -> None:
        steps: Mapping[str, Callable[[], None]] = {
            "note": self._check_values,
            "journal": self._check_journal,
            "fleet_set": self._check_sets,
            "scope": self._check_scopes,
            "machine": self._check_machines,
            "event": self._check_events,
            "poll": self._check_polls,
            "document": self._check_texts,
            "claim": self._check_leases,
        }
        for table in ORDER:
            steps[table]()

    def _progress(self, table: str, rows: int) -> None:
        self.report.rows[table] = rows
        self._show(table, rows)

    def _rows(self, table: str, columns: type[Columns]) -> Iterator[tuple[str, Columns]]:
        """Yield the sound rows of a table with their names, and report the others."""
        for row in counted(table, self._tables.rows(table), self._progress):
            name = row_name(table, row)
            if not matches_checksum(row):
                self._add(FindingKind.CHECKSUM, name, "does not match its checksum")
                self._skip(table, row)
                continue
            try:
                values = read_columns(row, columns)
            except ValueError as problem:
                self._add(FindingKind.UNREADABLE, name, str(problem))
                self._skip(table, row)
            else:
                yield name, values

    def _skip(self, table: str, row: Iterable[object]) -> None:
        """Forget what is expected of a row that was reported already."""
        parts = (part.decode(errors="replace") if isinstance(part, bytes) else part for part in row)
        key = [part for part in islice(parts, 2) if isinstance(part, str)]
        match table, key:
            case "scope", (scope_id, *_):
                self._scopes.add(scope_id)
                self._replay.scopes.pop(scope_id, None)
            case "machine", (scope_id, name):
                if scope_id in self._replay.scopes:
                    self._replay.scopes[scope_id].machines.pop(name, None)
            case "event", (scope_id, event_id):
                self._replay.events.get(scope_id, {}).pop(event_id, None)
            case "poll", (scope_id, *_):
                if scope_id in self._replay.scopes:
                    self._replay.scopes[scope_id].polled_at = None
            case "fleet_set", (set_id, *_):
                self._replay.sets.pop(set_id, None)
            case "document", (text_key, *_):
                self._replay.texts.pop(text_key, None)
            case _:
                pass  # nothing is expected of values and leases

    def _decode(self, name: str, text: str, decode: Callable[[str], Value]) -> Value | None:
        try:
            return decode(text)
        except ValueError as problem:
            error = unreadable(name, problem)
            if isinstance(error, NewerContentError):
                self._add(FindingKind.NEWER, name, error.problem)
            else:
                self._add(FindingKind.UNREADABLE, name, str(problem))
            return None

    def _kind_name(self, name: str, key: str, find: Callable[[str], StoredKind]) -> str:
        try:
            return find(key).name
        except UnknownKindError as problem:
            self._add(FindingKind.NEWER, name, NewerContentError(name, str(problem)).problem)
            return "unknown kind"

    def _check_values(self) -> None:
        for name, (key, value) in self._rows("note", ValueColumns):
            self._kind_name(name, key, service_kind_of)
            self._values[key] = value

    def _check_journal(self) -> None:
        self._replay = JournalReplay(self._pruned(), self._jumps(), self._add)
        journal = JournalCheck(self._replay, self._add)
        for row in counted("journal", self._tables.rows("journal"), self._progress):
            journal.add(row)
        journal.end(self._tables.last_line)
        self.report.complete_after = self._replay.start

    def _pruned(self) -> int:
        try:
            return int(self._values.get(MARK, "0"))
        except ValueError:
            self._add(FindingKind.VALUE, f"note {MARK}", "is not the number of a line")
            return 0

    def _jumps(self) -> dict[int, int]:
        try:
            return {restore.line: restore.jump for restore in read_restores(self._values.get(RESTORES))}
        except ValueError as problem:
            self._add(FindingKind.VALUE, f"note {RESTORES}", str(problem))
            return {}

    def _check_sets(self) -> None:
        replay = self._replay
        for name, (set_id, stamp, incarnation) in self._rows("fleet_set", SetColumns):
            facts = replay.sets.pop(set_id, None)
            if facts is None:
                if replay.complete and stamp != BEFORE_STAMPS:
                    self._add(FindingKind.SET, name, "the journal does not have it")
                continue
            self._check_stamp(name, stamp, facts.stamp, facts.line)
            known = incarnation == facts.incarnation if replay.complete else incarnation >= facts.incarnation
            if stamp != BEFORE_STAMPS and not known:
                problem = f"has incarnation {incarnation}; the journal leads to {facts.incarnation}"
                self._add(FindingKind.SET, name, problem)
        for set_id, facts in replay.sets.items():
            self._add(FindingKind.SET, f"fleet_set {set_id}", f"is missing; line {facts.line} wrote it")

    def _check_scopes(self) -> None:
        for name, row in self._rows("scope", ScopeColumns):
            self._scopes.add(row.id)
            facts = self._replay.scopes.get(row.id)
            self._count(facts)
            self._check_scope(name, row, facts)
        for scope_id, facts in self._replay.scopes.items():
            if scope_id not in self._scopes and facts.exists and facts.line:
                self._add(FindingKind.SCOPE, f"scope {scope_id}", f"is missing; line {facts.line} changed it")

    def _count(self, facts: ScopeFacts | None) -> None:
        if facts is None:
            self.report.unproved += 1
        elif facts.complete:
            self.report.proved += 1
        else:
            self.report.partly_proved += 1

    def _check_scope(self, name: str, row: ScopeColumns, facts: ScopeFacts | None) -> None:
        properties = self._decode(name, row.body, _properties)
        if properties is None:
            return
        if (properties.id, properties.set_name, properties.kind.value) != (row.id, row.set_name, row.kind):
            self._add(FindingKind.COLUMN, name, "its id, name or kind is not that of its body")
        if facts is None:
            if self._replay.complete:
                self._add(FindingKind.SCOPE, name, "the journal does not have it")
            return
        if not facts.exists:
            self._add(FindingKind.SCOPE, name, f"line {facts.line} removed it")
            return
        if not facts.line:
            return
        self._check_stamp(name, row.stamp, facts.stamp, facts.line)
        if facts.version not in (None, row.version):
            problem = f"has version {row.version}; the journal leads to {facts.version}"
            self._add(FindingKind.SCOPE, name, problem)
        if facts.incarnation not in (None, row.incarnation):
            problem = f"has incarnation {row.incarnation}; the journal leads to {facts.incarnation}"
            self._add(FindingKind.SCOPE, name, problem)
        if facts.properties is not None and facts.properties.value != properties_hash(properties):
            self._add(FindingKind.SCOPE, name, _differs(facts.properties))

    def _check_machines(self) -> None:
        scopes, order = self._replay.scopes, _OrderCheck(self._add)
        for name, row in self._rows("machine", MachineColumns):
            machine = self._decode(name, row.body, _machine)
            if machine is None or not self._belongs(name, row.scope):
                self._skip("machine", row)
                continue
            if (machine.scope, machine.name) != (row.scope, row.name):
                self._add(FindingKind.COLUMN, name, "its scope or name is not that of its body")
                self._skip("machine", row)
                continue
            facts = scopes.get(machine.scope)
            if facts is not None and facts.exists:
                if facts.complete and machine.name in facts.machines:
                    order.add(name, machine.scope, machine.name, facts.machines)
                expected = facts.machines.pop(machine.name, None)
                self._compare(FindingKind.MACHINE, name, expected, hash(machine), facts.complete)
        for scope_id, facts in scopes.items():
            if scope_id in self._scopes:
                self._report_missing(FindingKind.MACHINE, f"machine {scope_id}", facts.machines)

    def _check_events(self) -> None:
        replay, order = self._replay, _OrderCheck(self._add)
        for name, row in self._rows("event", EventColumns):
            event = self._decode(name, row.body, _event)
            if event is None or not self._belongs(name, row.scope):
                self._skip("event", row)
                continue
            columns = event.scope, event.id, event.status.value, instant(event.not_before), event.barrier
            if columns != row[:-1]:
                self._add(FindingKind.COLUMN, name, "a column is not what its body says")
            known = replay.events.get(event.scope, {})
            if event.id in known:
                order.add(name, event.scope, event.id, known)
            expected = known.pop(event.id, None)
            self._compare(FindingKind.EVENT, name, expected, hash(event), replay.events_complete)
        for scope_id, events in replay.events.items():
            if scope_id in self._scopes:
                self._report_missing(FindingKind.EVENT, f"event {scope_id}", events)

    def _check_polls(self) -> None:
        for name, (scope_id, at) in self._rows("poll", PollColumns):
            polled_at = self._decode(name, at, datetime.fromisoformat)
            facts = self._replay.scopes.get(scope_id)
            if polled_at is None or not self._belongs(name, scope_id) or facts is None:
                continue
            last, facts.polled_at = facts.polled_at, None
            if last is not None and (polled_at < last or (facts.complete and polled_at != last)):
                self._add(FindingKind.POLL, name, f"is {polled_at}; the journal leads to {last}")
        for scope_id, facts in self._replay.scopes.items():
            if facts.polled_at is not None and scope_id in self._scopes:
                problem = f"is missing; the journal has a poll at {facts.polled_at}"
                self._add(FindingKind.POLL, f"poll {scope_id}", problem)

    def _check_texts(self) -> None:
        replay = self._replay
        for row, (key, body, stamp) in self._rows("document", TextColumns):
            facts, name = replay.texts.pop(key, None), f"{row} ({self._kind_name(row, key, kind_of)})"
            if facts is None:
                if replay.complete and stamp != BEFORE_STAMPS:
                    self._add(FindingKind.TEXT, name, "the journal does not have it")
                continue
            self._check_stamp(name, stamp, facts.stamp, facts.text.line)
            self._compare(FindingKind.TEXT, name, facts.text, hash(body), complete=True)
        missing = {f"{key} ({kind_name(key)})": facts.text for key, facts in replay.texts.items()}
        self._report_missing(FindingKind.TEXT, "document", missing, " ")

    def _check_leases(self) -> None:
        for name, (_, owner, fence, until) in self._rows("claim", LeaseColumns):
            end = self._decode(name, until, datetime.fromisoformat)
            if fence < 1:
                self._add(FindingKind.LEASE, name, f"has the fence {fence}; the first is 1")
            if end is not None and not owner and end.year > 1:
                self._add(FindingKind.LEASE, name, "has no owner, but has not ended")

    def _belongs(self, name: str, scope_id: str) -> bool:
        if scope_id in self._scopes:
            return True
        self._add(FindingKind.ORPHAN, name, "its scope does not exist")
        return False

    def _check_stamp(self, name: str, stamp: int, expected: int, line: int) -> None:
        if stamp != expected:
            self._add(FindingKind.STAMP, name, f"its stamp is not that of line {line}, which wrote it last")

    def _compare(
        self, kind: FindingKind, name: str, expected: Expected | None, value: int, complete: bool
    ) -> None:
        if expected is None:
            if complete:
                self._add(kind, name, "the journal does not have it")
        elif expected.value is None:
            self._add(kind, name, f"line {expected.line} removed it")
        elif expected.value != value:
            self._add(kind, name, _differs(expected))

    def _report_missing(
        self, kind: FindingKind, where: str, left: Mapping[str, Expected], between: str = "/"
    ) -> None:
        for key, expected in left.items():
            if expected.value is not None:
                self._add(kind, f"{where}{between}{key}", f"is missing; line {expected.line} wrote it")


def _differs(expected: Expected) -> str:
    return f"is not what line {expected.line} says"
