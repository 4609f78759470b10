"""The journal as people read it: who did what to which event, and when."""

from dataclasses import dataclass
from datetime import datetime

from fairwarning.core.changes import Change, EventChanged, What
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Somebody asked for something that the rules forbid; nothing changed."""

    scope: ScopeId
    asked: str
    reason: str
    by: str
    event: EventId | None = None
    machines: tuple[MachineRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
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
_UNSUNG = frozenset({What.SHOWN, What.PROGRESSED})


def line(seq: int, at: datetime, change: Change | Refused) -> Line | None:
    """Return a journal line as people read it; None for what is not theirs to care about."""
    if isinstance(change, Refused):
        return Line(
            seq=seq,
            at=at,
            kind="refused",
            scope=change.scope,
            event=change.event,
            type=change.asked,
            resources=tuple(machine.name for machine in change.machines),
            by=change.by,
            reason=change.reason,
        )
    if not isinstance(change, EventChanged) or change.what in _UNSUNG:
        return None
    return Line(
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
