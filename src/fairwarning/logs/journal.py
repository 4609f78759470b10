"""What a log says about journal lines: one line per step of an event, and one per kind of change.

The changes of a request to several machines are one log line with their number. A journal line has the new
value of what changed but not the old one, so ``KnownFleet`` holds the fleet before the request.

Secrets and bodies are in no journal line. Texts that a caller chose are cut off by ``LogMessage``.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from fairwarning.core.changes import (
    EventChanged,
    EventMilestone,
    MachineChanged,
    MachineRemoved,
    PollsRecorded,
    ScopeMade,
    ScopePropertiesChanged,
    ScopeRemoved,
    TextChanged,
)
from fairwarning.core.history import ActionNote, CommandRefused, Note, OperatorAction
from fairwarning.core.model import NO_SCOPE, Machine, MachineRef, Scope, ScopeId, ScopeProperties
from fairwarning.core.stored.kinds import FIRST_READS, kind_name
from fairwarning.engine.ports import Entry
from fairwarning.formats.log_messages import LogMessage

#: The steps of an event that only people who look for a defect want to see.
_INTERNAL_STEPS = frozenset({EventMilestone.SHOWN, EventMilestone.OPENED, EventMilestone.PROGRESSED})

#: Actions that change no state, by the name of their log line.
ACTION_EVENTS: Mapping[OperatorAction, str] = {
    OperatorAction.FAULT: "fault_set",
    OperatorAction.HEALED: "fault_cleared",
    OperatorAction.ADVANCED: "clock_advanced",
    OperatorAction.SPEED: "speed_changed",
    OperatorAction.RESTORED: "database_restored",
    OperatorAction.HELD: "hold_set",
    OperatorAction.UNHELD: "hold_ended",
}


class LogLine(NamedTuple):
    """A line of the log, with the instant of the journal line that it is about."""

    level: int
    at: datetime
    message: LogMessage


class KnownFleet:
    """The fleet as it was before the next journal line."""

    def __init__(self, scopes: Mapping[ScopeId, Scope]) -> None:
        self._scopes = dict(scopes)
        # What the journal has said since the scopes were given.
        self._properties: dict[ScopeId, ScopeProperties] = {}
        self._machines: dict[MachineRef, Machine | None] = {}

    def properties(self, scope_id: ScopeId) -> ScopeProperties | None:
        """Return the properties of a scope; None if they are not known."""
        scope = self._scopes.get(scope_id)
        return self._properties.get(scope_id, None if scope is None else scope.facts)

    def machine(self, ref: MachineRef) -> Machine | None:
        """Return a machine; None if there is none."""
        if ref in self._machines:
            return self._machines[ref]
        scope = self._scopes.get(ref.scope)
        return None if scope is None else scope.machines.get(ref.name)

    def learn(self, change: object) -> None:
        """Take a journal line into account."""
        match change:
            case ScopeMade(scope=scope_id, facts=properties):
                self._scopes.pop(scope_id, None)
                self._properties[scope_id] = properties
            case ScopePropertiesChanged(scope=scope_id, facts=properties):
                self._properties[scope_id] = properties
            case MachineChanged(machine=machine):
                self._machines[machine.ref] = machine
            case MachineRemoved(scope=scope_id, name=name):
                self._machines[MachineRef(scope_id, name)] = None
            case _:
                pass

    def refresh(self, touched: Iterable[ScopeId], scopes: Mapping[ScopeId, Scope]) -> None:
        """Take over the touched scopes as they are now, after every line that was learned."""
        for scope_id in touched:
            if scope_id in scopes:
                self._scopes[scope_id] = scopes[scope_id]
            else:
                self._scopes.pop(scope_id, None)
        self._properties.clear()
        self._machines.clear()


class _Fact(NamedTuple):
    """What one journal line says; facts that differ only in scope and machine become one log line."""

    event: str
    scope: ScopeId
    fields: tuple[tuple[str, object], ...] = ()
    by: str = ""
    machine: MachineRef | None = None
    level: int = logging.INFO


@dataclass(slots=True)
class _Tally:
    """A log line to be, with what was counted for it."""

    fact: _Fact
    entry: Entry
    scopes: set[ScopeId] = field(default_factory=set)
    machines: int = 0

    def add(self, fact: _Fact) -> None:
        self.scopes.add(fact.scope)
        self.machines += fact.machine is not None

    def line(self) -> LogLine:
        fact = self.fact
        scope = {"scope": fact.scope} if len(self.scopes) == 1 else {"scopes": len(self.scopes)}
        only = fact.machine.name if fact.machine is not None and self.machines == 1 else None
        message = LogMessage(
            fact.event,
            **dict(fact.fields),
            **scope,
            machines=self.machines or None,
            machine=only,
            by=fact.by or None,
            request=self.entry.request or None,
        )
        return LogLine(fact.level, self.entry.at, message)


def lines_of(entries: Iterable[Entry], known: KnownFleet) -> Iterator[LogLine]:
    """Yield the log lines about journal lines, request by request; ``known`` learns from them."""
    for _, request in groupby(entries, key=lambda entry: entry.request):
        yield from _lines_of_request(list(request), known)


def _lines_of_request(entries: Sequence[Entry], known: KnownFleet) -> list[LogLine]:
    lines: list[LogLine | _Tally] = []
    tallies: dict[tuple[object, ...], _Tally] = {}
    made: dict[ScopeId, _Tally] = {}
    for entry in entries:
        change = entry.change
        match change:
            case EventChanged(what=EventMilestone.OVERDUE):
                pass  # the reconciler logs a warning
            case EventChanged():
                lines.append(_event_line(entry, change))
            case CommandRefused():
                lines.append(_refusal_line(entry, change))
            case ActionNote():
                lines.append(_action_line(entry, change))
            case MachineChanged(scope=scope_id) if scope_id in made:
                made[scope_id].machines += 1
            case _:
                for fact in _facts(change, known):
                    key = (fact.event, fact.fields, fact.by, fact.level)
                    if key not in tallies:
                        tallies[key] = _Tally(fact, entry)
                        lines.append(tallies[key])
                    tallies[key].add(fact)
                    if isinstance(change, ScopeMade):
                        made[fact.scope] = tallies[key]
        known.learn(change)
    kinds = [kind_name(entry.change.key) for entry in entries if isinstance(entry.change, TextChanged)]
    if kinds and not lines and set(kinds) == {FIRST_READS.name}:
        message = LogMessage("reads_recorded", events=len(kinds), request=entries[0].request or None)
        return [LogLine(logging.DEBUG, entries[0].at, message)]
    if kinds and not lines:
        message = LogMessage(
            "documents_changed",
            documents=len(kinds),
            kinds=", ".join(sorted(set(kinds))),
            request=entries[0].request or None,
        )
        return [LogLine(logging.INFO, entries[0].at, message)]
    return [line.line() if isinstance(line, _Tally) else line for line in lines]


def _event_line(entry: Entry, change: EventChanged) -> LogLine:
    event, step = change.event, change.what
    failed = step is EventMilestone.FAILED
    message = LogMessage(
        "impact_failed" if failed else f"event_{step.value}",
        event_id=event.id,
        type=event.kind,
        scope=change.scope,
        machines=len(event.resources),
        done=len(event.done) if step is EventMilestone.PROGRESSED else None,
        cause=event.cause if step is EventMilestone.SCHEDULED else None,
        by=change.by,
        not_before=event.not_before if step is EventMilestone.SCHEDULED else None,
        attempt=event.attempt if failed else None,
        retry_at=event.retry_at if failed else None,
        reason=change.reason or None,
        request=entry.request or None,
    )
    level = logging.DEBUG if step in _INTERNAL_STEPS else logging.INFO
    return LogLine(level, entry.at, message)


def _refusal_line(entry: Entry, note: CommandRefused) -> LogLine:
    message = LogMessage(
        "refused",
        asked=note.asked,
        event_id=note.event,
        **_subject(note),
        reason=note.reason,
        request=entry.request or None,
    )
    return LogLine(logging.INFO, entry.at, message)


def _action_line(entry: Entry, note: ActionNote) -> LogLine:
    event = ACTION_EVENTS[note.deed]
    message = LogMessage(event, detail=note.detail, **_subject(note), request=entry.request or None)
    return LogLine(logging.INFO, entry.at, message)


def _subject(note: Note) -> dict[str, object]:
    machines = note.machines
    return {
        "scope": None if note.scope == NO_SCOPE else note.scope,
        "machines": len(machines) or None,
        "machine": machines[0].name if len(machines) == 1 else None,
        "by": note.by,
    }


def _facts(change: object, known: KnownFleet) -> Iterator[_Fact]:
    match change:
        case ScopeMade(scope=scope_id, facts=properties, by=by):
            named = (("set", properties.set_id), ("kind", properties.kind))
            yield _Fact("set_created", scope_id, named, by)
        case ScopeRemoved(scope=scope_id):
            yield _Fact("scope_deleted", scope_id)
        case ScopePropertiesChanged(scope=scope_id, facts=properties, by=by):
            yield from _property_facts(scope_id, known.properties(scope_id), properties, by)
        case MachineChanged(machine=machine, by=by):
            yield _machine_fact(known.machine(machine.ref), machine, by)
        case MachineRemoved(scope=scope_id, name=name):
            yield _Fact("machines_deleted", scope_id, machine=MachineRef(scope_id, name))
        case PollsRecorded(scopes=scopes):
            for scope_id in scopes:
                yield _Fact("polls_recorded", scope_id, level=logging.DEBUG)
        case _:
            pass


def _machine_fact(before: Machine | None, after: Machine, by: str) -> _Fact:
    ref = after.ref
    if before is None:
        return _Fact("machines_added", ref.scope, (), by, ref)
    if before.power is not after.power:
        return _Fact("power_changed", ref.scope, (("power", after.power),), by, ref)
    if before.host != after.host:
        return _Fact("machines_moved", ref.scope, (), by, ref)
    if before.model.number != after.model.number:
        return _Fact("machines_upgraded", ref.scope, (("model", after.model.number),), by, ref)
    if before.protected is not after.protected:
        return _Fact("protection_changed", ref.scope, (("protected", after.protected),), by, ref)
    return _Fact("machines_changed", ref.scope, (), by, ref)


def _property_facts(
    scope_id: ScopeId, before: ScopeProperties | None, after: ScopeProperties, by: str
) -> Iterator[_Fact]:
    """Yield what changed; a change of the next instance's number belongs to machines that were added."""
    if before is None:
        yield _Fact("scope_changed", scope_id, (), by)
        return
    yield from _rollout_facts(scope_id, before, after, by)
    if before.deleting is not after.deleting:
        yield _Fact("deletion_started" if after.deleting else "deletion_stopped", scope_id, (), by)
    if (before.model.number, before.upgrades_itself) != (after.model.number, after.upgrades_itself):
        yield _Fact("model_changed", scope_id, (("model", after.model.number),), by)
    elif before.model != after.model:  # tags are no part of a new model
        yield _Fact("scope_changed", scope_id, (), by)
    if before.approvals != after.approvals:
        yield _Fact("approvals_changed", scope_id, (), by)
    if (before.enabled_at is None) is not (after.enabled_at is None):
        yield _Fact("events_disabled" if after.enabled_at is None else "events_enabled", scope_id, (), by)


def _rollout_facts(
    scope_id: ScopeId, before: ScopeProperties, after: ScopeProperties, by: str
) -> Iterator[_Fact]:
    if before.walk == after.walk:
        return
    if after.walk is None:
        yield _Fact("rollout_ended", scope_id, (), by)
    elif before.walk is None:
        fields = (("cause", after.walk.cause), ("domains", len(after.walk.domains)))
        yield _Fact("rollout_started", scope_id, fields, by)
    else:
        yield _Fact("rollout_advanced", scope_id, (("domain", after.walk.current),), by)
