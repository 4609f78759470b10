"""Journal lines as every store makes them, before any of them meets a database."""

from collections.abc import Sequence
from dataclasses import replace

from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.history import CommandRefused, Note
from fairwarning.core.model import EventId
from fairwarning.engine.ports import Commit, Entry


def number(commits: Sequence[Commit], after: int) -> list[list[Entry]]:
    """Return the journal lines of each commit, numbered from behind ``after``."""
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
    """Return the event a journal line is about, if any."""
    match change:
        case EventChanged(event=event):
            return event.id
        case CommandRefused(event=event_id):
            return event_id
        case _:
            return None


def _legible(note: CommandRefused) -> CommandRefused:
    """Quote a refused request as far as it is text: half a surrogate pair must not sink a whole batch."""
    return replace(
        note,
        asked=_text(note.asked),
        reason=_text(note.reason),
        by=_text(note.by),
        event=None if note.event is None else EventId(_text(note.event)),
    )


def _text(sent: str) -> str:
    return sent.encode(errors="replace").decode()
