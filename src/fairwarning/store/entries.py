"""Builds and selects journal lines; every store uses these functions."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from fairwarning.core.changes import MADE_OR_REMOVED, EventChanged, PollsRecorded, TextChanged
from fairwarning.core.history import ActionNote, CommandRefused
from fairwarning.core.model import EventId, ScopeId
from fairwarning.engine.ports import Batch, Entry, Line
from fairwarning.formats.hidden_characters import readable as readable

#: The number of batches that are recognised if they are sent again.
RECEIPTS = 1000


def number_lines(batch: Batch, after: int) -> list[Entry]:
    """Return the journal lines of a batch; the first has the number ``after + 1``."""
    ends = after + sum(len(part.lines) for part in batch.parts)
    entries: list[Entry] = []
    for part in batch.parts:
        request = readable(part.request)
        for line in part.lines:
            after += 1
            version = part.versions.get(line.scope, 0)
            entries.append(Entry(after, part.at, version, _legible(line), request, batch.stamp, ends))
    return entries


def event_of(line: Line) -> EventId | None:
    """Return the event that a journal line concerns, if any."""
    match line:
        case EventChanged(event=event):
            return event.id
        case CommandRefused(event=event_id):
            return event_id
        case _:
            return None


def readable_texts(texts: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Return texts and keys as they can be stored."""
    return {readable(key): None if text is None else readable(text) for key, text in texts.items()}


def remade_scopes(batch: Batch) -> set[ScopeId]:
    """Return the scopes that a batch creates or removes; nothing of what they were before remains."""
    lines = (line for part in batch.parts for line in part.lines)
    return {line.scope for line in lines if isinstance(line, MADE_OR_REMOVED)}


def last_polls(batch: Batch) -> dict[ScopeId, datetime]:
    """Return the last poll of each scope, without those of scopes that the batch removes afterwards."""
    polls: dict[ScopeId, datetime] = {}
    for part in batch.parts:
        for line in part.lines:
            if isinstance(line, PollsRecorded):
                polls.update((scope, max(line.at, polls.get(scope, line.at))) for scope in line.scopes)
            elif isinstance(line, MADE_OR_REMOVED):
                polls.pop(line.scope, None)
    return polls


class Receipts:
    """The newest batches by stamp, each with the numbers of its lines."""

    def __init__(self) -> None:
        self._lines: OrderedDict[int, range] = OrderedDict()

    def add(self, stamp: int, lines: range) -> None:
        """Remember a batch that was stored."""
        self._lines[stamp] = lines
        if len(self._lines) > RECEIPTS:
            self._lines.popitem(last=False)

    def get(self, stamp: int) -> range | None:
        """Return the numbers of a batch's lines; None if no such batch is known."""
        return self._lines.get(stamp)


def _legible(line: Line) -> Line:
    """Return a line as it can be stored: a text that a caller chose must not make the whole batch fail."""
    match line:
        case EventChanged(reason=reason, by=by):
            if reason.isprintable() and by.isprintable():
                return line
            return replace(line, reason=readable(reason), by=readable(by))
        case CommandRefused(event=event):
            return replace(
                line,
                asked=readable(line.asked),
                reason=readable(line.reason),
                by=readable(line.by),
                event=None if event is None else EventId(readable(event)),
            )
        case TextChanged(key=key, text=text):
            return TextChanged(key=readable(key), text=None if text is None else readable(text))
        case ActionNote(detail=detail, by=by):
            return replace(line, detail=readable(detail), by=readable(by))
        case _:
            return line
