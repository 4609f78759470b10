"""What the journal leads to: the expected content of the other tables.

Every line holds the whole value that it sets, so the last line about a value decides, and replaying needs no
rules. A journal that was pruned proves less: a scope that was created in the kept part is known completely,
of an older scope only what has changed since. Lines about pending events are never pruned, so pending events
are always known completely. A restore is a line too: it adds its jump to every incarnation, and its batch
has written every row.

Values are remembered by their hash and the number of their line: a million machines need no second fleet in
memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, assert_never

from fairwarning.core.changes import (
    Change,
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
from fairwarning.core.model import ANY_SET, EventStatus, ScopeProperties
from fairwarning.database.findings import FindingKind, Report
from fairwarning.engine.ports import Entry


class Expected(NamedTuple):
    """A value that a line has set; ``value`` is its hash, None if the line removed it."""

    line: int
    value: int | None


@dataclass(slots=True)
class ScopeFacts:
    """What is known about a scope."""

    line: int
    stamp: int
    version: int | None = None
    #: Whether its creation was replayed: then everything about it is known.
    complete: bool = False
    exists: bool = True
    set_id: str = ""
    incarnation: int | None = None
    properties: Expected | None = None
    polled_at: datetime | None = None
    machines: dict[str, Expected] = field(default_factory=dict)


@dataclass(slots=True)
class SetFacts:
    """What is known about the name of a set; the incarnation is the highest of its removed scopes."""

    line: int
    stamp: int
    incarnation: int


class TextFacts(NamedTuple):
    """What is known about a text."""

    text: Expected
    stamp: int


class JournalReplay:
    """The facts after the lines that were added so far."""

    def __init__(self, start: int, restores: Mapping[int, int], report: Report) -> None:
        """Take the line after which the journal is complete, and the jump of every restore by its line."""
        self.start = start
        self.complete = start == 0
        self.events_complete = True
        self.scopes: dict[str, ScopeFacts] = {}
        self.events: dict[str, dict[str, Expected]] = {}
        self.sets: dict[str, SetFacts] = {}
        self.texts: dict[str, TextFacts] = {}
        self._restores = restores
        self._report = report
        self._request: tuple[int, str] | None = None
        self._versions: dict[str, int] = {}
        self._made: set[str] = set()

    def forget(self, line: int) -> None:
        """Begin again after a line that cannot be read: whatever it changed is unknown."""
        self.start, self.complete, self.events_complete = line, False, False
        for known in (self.scopes, self.events, self.sets, self.texts, self._versions, self._made):
            known.clear()
        self._request = None

    def add(self, entry: Entry) -> None:
        """Add a line."""
        if isinstance(entry.change, EventChanged):
            self._add_event(entry.seq, entry.change)
        if entry.seq <= self.start:
            return
        if (entry.stamp, entry.request) != self._request or not entry.stamp:
            self.end_request()
            self._request = entry.stamp, entry.request
        match entry.change:
            case TextChanged(key=key, text=text):
                value = None if text is None else hash(text)
                self.texts[key] = TextFacts(Expected(entry.seq, value), stored_stamp(entry))
            case PollsRecorded(at=at, scopes=scopes):
                for scope_id in scopes:
                    self._add_poll(scope_id, at)
            case ActionNote() | CommandRefused():
                if entry.seq in self._restores:
                    self._add_restore(entry, self._restores[entry.seq])
            case change:
                self._add_change(entry, change)

    def end_request(self) -> None:
        """Compare the versions of the scopes that a request has changed with those before it."""
        for scope_id, version in self._versions.items():
            scope = self.scopes[scope_id]
            before = 0 if scope_id in self._made else scope.version
            if scope.exists and before is not None and version != before + 1:
                problem = f"scope {scope_id} goes from version {before} to {version}"
                self._report(FindingKind.VERSION, f"journal line {scope.line}", problem)
            scope.version = version
        self._versions.clear()
        self._made.clear()

    def _add_change(self, entry: Entry, change: Change) -> None:
        if isinstance(change, ScopeMade):
            self._made.add(change.scope)
            scope = ScopeFacts(entry.seq, stored_stamp(entry), complete=True, set_id=change.facts.set_id)
            self.scopes[change.scope] = scope
        else:
            scope = self.scopes.setdefault(change.scope, ScopeFacts(entry.seq, 0))
        scope.line, scope.stamp = entry.seq, stored_stamp(entry)
        if entry.stamp:
            self._versions[change.scope] = entry.version
        else:
            scope.version = entry.version  # earlier releases did not record which lines belong together
        match change:
            case ScopeMade(facts=facts, incarnation=incarnation):
                scope.incarnation = incarnation
                scope.properties = Expected(entry.seq, properties_hash(facts))
                self._write_set(entry, facts.set_id, 0)
                self.events.pop(change.scope, None)
            case ScopeRemoved(set_id=set_id, incarnation=incarnation):
                self._write_set(entry, set_id or scope.set_id or change.scope, incarnation)
                gone = ScopeFacts(entry.seq, scope.stamp, complete=True, exists=False)
                self.scopes[change.scope] = gone
                self._versions.pop(change.scope, None)
                self.events.pop(change.scope, None)
            case ScopePropertiesChanged(facts=facts):
                scope.properties = Expected(entry.seq, properties_hash(facts))
            case MachineChanged(machine=machine):
                scope.machines[machine.name] = Expected(entry.seq, hash(machine))
            case MachineRemoved(name=name):
                if scope.complete:
                    scope.machines.pop(name, None)
                else:
                    scope.machines[name] = Expected(entry.seq, None)
            case Published(incarnation=incarnation):
                self._publish(entry.seq, change.scope, scope, incarnation)
            case EventChanged():
                pass  # added for the pruned part, too
            case _:
                assert_never(change)

    def _publish(self, line: int, scope_id: str, scope: ScopeFacts, incarnation: int) -> None:
        if scope.incarnation is not None and incarnation <= scope.incarnation:
            problem = f"scope {scope_id} goes from incarnation {scope.incarnation} to {incarnation}"
            self._report(FindingKind.INCARNATION, f"journal line {line}", problem)
        scope.incarnation = incarnation

    def _add_event(self, line: int, change: EventChanged) -> None:
        events = self.events.setdefault(change.scope, {})
        if change.event.status is EventStatus.GONE:
            events.pop(change.event.id, None)
        else:
            events[change.event.id] = Expected(line, hash(change.event))

    def _add_poll(self, scope_id: str, at: datetime) -> None:
        scope = self.scopes.get(scope_id)
        if scope is None and not self.complete:
            scope = self.scopes[scope_id] = ScopeFacts(0, 0)
        if scope is not None and scope.exists:
            scope.polled_at = at if scope.polled_at is None else max(at, scope.polled_at)

    def _write_set(self, entry: Entry, set_id: str, incarnation: int) -> None:
        known = self.sets.get(set_id) or self.sets.get(ANY_SET)
        highest = max(incarnation, 0 if known is None else known.incarnation)
        self.sets[set_id] = SetFacts(entry.seq, stored_stamp(entry), highest)

    def _add_restore(self, entry: Entry, jump: int) -> None:
        stamp = stored_stamp(entry)
        for scope in self.scopes.values():
            scope.line, scope.stamp = entry.seq, stamp
            if scope.incarnation is not None:
                scope.incarnation += jump
        self.sets.setdefault(ANY_SET, SetFacts(entry.seq, stamp, 0))
        for name in self.sets.values():
            name.line, name.stamp, name.incarnation = entry.seq, stamp, name.incarnation + jump
        self.texts = {key: facts._replace(stamp=stamp) for key, facts in self.texts.items()}


def stored_stamp(entry: Entry) -> int:
    """Return the stamp of the rows that a line's batch wrote; rows from before stamps have 1."""
    return entry.stamp or 1


def properties_hash(properties: ScopeProperties) -> int:
    """Return the hash of a scope's properties; earlier releases kept the last poll there."""
    return hash(replace(properties, polled_at=None))
