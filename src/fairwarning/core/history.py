"""The journal as people read it: who did what, and when."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairwarning.core.changes import Change, EventChanged, EventMilestone
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName

#: The scope of what is about none, or about all.
NOWHERE = ScopeId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRefused:
    """Somebody asked for something that the rules forbid; nothing changed."""

    scope: ScopeId
    asked: str
    reason: str
    by: str
    event: EventId | None = None
    machines: tuple[MachineRef, ...] = ()


class OperatorAction(StrEnum):
    """What somebody does that leaves the fleet as it is, and yet explains what follows."""

    FAULT = "fault"
    HEALED = "healed"
    ADVANCED = "advanced"
    SPEED = "speed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionNote:
    """Somebody did something that changed no machine, no event and no scope."""

    deed: OperatorAction
    detail: str
    by: str
    scope: ScopeId = NOWHERE
    machines: tuple[MachineRef, ...] = ()


#: What the journal keeps beside changes.
Note = CommandRefused | ActionNote

#: What a remark is about.
_SUBJECTS: Mapping[OperatorAction, str] = {
    OperatorAction.FAULT: "endpoint",
    OperatorAction.HEALED: "endpoint",
    OperatorAction.ADVANCED: "clock",
    OperatorAction.SPEED: "clock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One line of the history."""

    seq: int
    at: datetime
    kind: str
    scope: ScopeId
    event: EventId | None
    type: str
    resources: tuple[VmName, ...]
    by: str
    reason: str = ""


#: What happens to an event behind the scenes is in the journal, not in the history.
_UNSUNG = frozenset({EventMilestone.SHOWN, EventMilestone.PROGRESSED})


def line(seq: int, at: datetime, change: Change | Note) -> HistoryEntry | None:
    """Return a journal line as people read it; None for what is not theirs to care about."""
    match change:
        case CommandRefused(asked=asked, reason=reason):
            return _noted(seq, at, change, kind="refused", type=asked, event=change.event, reason=reason)
        case ActionNote(deed=deed, detail=detail):
            return _noted(seq, at, change, kind=deed.value, type=_SUBJECTS[deed], event=None, reason=detail)
        case EventChanged(what=what) if what not in _UNSUNG:
            return HistoryEntry(
                seq=seq,
                at=at,
                kind=what.value,
                scope=change.scope,
                event=change.event.id,
                type=change.event.kind.value,
                resources=change.event.resources,
                by=change.by,
                reason=change.reason,
            )
        case _:
            return None


def _noted(
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
