"""Builds journal lines; every store uses these functions."""

from collections.abc import Sequence
from dataclasses import replace

from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.history import CommandRefused, Note
from fairwarning.core.model import EventId
from fairwarning.engine.ports import Commit, Entry


def number_lines(commits: Sequence[Commit], after: int) -> list[list[Entry]]:
    """Return the journal lines of each commit; the first has the number ``after + 1``."""
    numbered: list[list[Entry]] = []
    for commit in commits:
        lines = [
            Entry(
                seq=seq,
                at=commit.at,
                version=commit.expected.get(change.scope, -1) + 1,
                change=_legible(change) if isinstance(change, CommandRefused) else change,
            )
            for seq, change in enumerate(commit.changes, start=after + 1)
        ]
        numbered.append(lines)
        after += len(lines)
    return numbered


def event_of(change: Change | Note) -> EventId | None:
    """Return the event that a journal line concerns, if any."""
    match change:
        case EventChanged(event=event):
            return event.id
        case CommandRefused(event=event_id):
            return event_id
        case _:
            return None


def _legible(note: CommandRefused) -> CommandRefused:
    """Replace characters that cannot be encoded: a lone surrogate must not make the whole batch fail."""
    return replace(
        note,
        asked=_readable(note.asked),
        reason=_readable(note.reason),
        by=_readable(note.by),
        event=None if note.event is None else EventId(_readable(note.event)),
    )


def _readable(text: str) -> str:
    return text.encode(errors="replace").decode()
