"""The history: the journal as people read it, who did what and when."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from fairwarning.core.changes import (
    Change,
    EventChanged,
    EventMilestone,
    MachineChanged,
    PollsRecorded,
    TextChanged,
)
from fairwarning.core.commands import DRIVER
from fairwarning.core.model import NO_SCOPE, EventId, MachineRef, ScopeId, VmName
from fairwarning.formats.counts import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRefused:
    """A command was refused; nothing changed."""

    scope: ScopeId
    asked: str
    reason: str
    by: str
    event: EventId | None = None
    machines: tuple[MachineRef, ...] = ()


class OperatorAction(StrEnum):
    """An action that changes no state but explains what happens afterwards."""

    FAULT = "fault"
    HEALED = "healed"
    ADVANCED = "advanced"
    SPEED = "speed"
    RESTORED = "restored"
    HELD = "held"
    UNHELD = "unheld"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionNote:
    """An operator did something that changed no machine, no event and no scope."""

    deed: OperatorAction
    detail: str
    by: str
    scope: ScopeId = NO_SCOPE
    machines: tuple[MachineRef, ...] = ()


#: The journal lines that are not changes.
Note = CommandRefused | ActionNote

#: The type that the history shows for each action.
_SUBJECTS: Mapping[OperatorAction, str] = {
    OperatorAction.FAULT: "endpoint",
    OperatorAction.HEALED: "endpoint",
    OperatorAction.ADVANCED: "clock",
    OperatorAction.SPEED: "clock",
    OperatorAction.RESTORED: "database",
    OperatorAction.HELD: "fleet",
    OperatorAction.UNHELD: "fleet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A line of the history."""

    seq: int
    at: datetime
    kind: str
    scope: ScopeId
    event: EventId | None
    type: str
    resources: tuple[VmName, ...]
    by: str
    reason: str = ""


#: Milestones that are in the journal but not in the history; an operator's report of progress is in both.
_INTERNAL = frozenset({EventMilestone.SHOWN, EventMilestone.OPENED, EventMilestone.PROGRESSED})


def to_history_entry(
    seq: int, at: datetime, change: Change | Note | TextChanged | PollsRecorded
) -> HistoryEntry | None:
    """Return a journal line as a line of the history; None if the history leaves it out."""
    match change:
        case CommandRefused(asked=asked, reason=reason):
            return _note_entry(seq, at, change, kind="refused", type=asked, event=change.event, reason=reason)
        case ActionNote(deed=action, detail=detail):
            subject = _SUBJECTS[action]
            return _note_entry(seq, at, change, kind=action.value, type=subject, event=None, reason=detail)
        case MachineChanged(moved_from=before) if before:
            return _move_entry(seq, at, change)
        case EventChanged(what=EventMilestone.PROGRESSED, event=event, by=by) if by != DRIVER:
            done, machines = event.done, format_count(len(event.resources), "machine")
            reason = change.reason or f"{len(done)} of {machines} done"
            return replace(_event_entry(seq, at, change), resources=done, reason=reason)
        case EventChanged(what=milestone) if milestone not in _INTERNAL:
            return _event_entry(seq, at, change)
        case _:
            return None


def _event_entry(seq: int, at: datetime, change: EventChanged) -> HistoryEntry:
    return HistoryEntry(
        seq=seq,
        at=at,
        kind=change.what.value,
        scope=change.scope,
        event=change.event.id,
        type=change.event.kind.value,
        resources=change.event.resources,
        by=change.by,
        reason=change.reason,
    )


def _move_entry(seq: int, at: datetime, change: MachineChanged) -> HistoryEntry:
    return HistoryEntry(
        seq=seq,
        at=at,
        kind="moved",
        scope=change.scope,
        event=None,
        type="host",
        resources=(change.machine.name,),
        by=change.by,
        reason=f"from {change.moved_from} to {change.machine.host}",
    )


def _note_entry(
    seq: int, at: datetime, note: Note, *, kind: str, type: str, event: EventId | None, reason: str
) -> HistoryEntry:
    return HistoryEntry(
        seq=seq,
        at=at,
        kind=kind,
        scope=note.scope,
        event=event,
        type=type,
        resources=tuple(machine.name for machine in note.machines),
        by=note.by,
        reason=reason,
    )
