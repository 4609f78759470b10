"""Journal lines as they are sent, each rendered once however many listen."""

from dataclasses import dataclass

import msgspec

from fairwarning.core.history import HistoryEntry, to_history_entry
from fairwarning.engine.ports import Entry
from fairwarning.operator import schemas

#: How many lines are kept as they were sent.
MOST = 1000


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """What is sent, and the line of the history that it tells; None if it tells of lines that are missing."""

    line: HistoryEntry | None
    message: bytes


class RenderedFeed:
    """The newest lines of the feed, each rendered once however many listen."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._told: dict[int, FeedMessage | None] = {}

    def of(self, entry: Entry) -> FeedMessage | None:
        """Return a journal line as the feed tells it; None if it does not."""
        if entry.seq not in self._told:
            told = to_history_entry(entry.seq, entry.at, entry.change)
            self._told[entry.seq] = None if told is None else FeedMessage(told, _message(told))
            if len(self._told) > self._most:
                del self._told[next(iter(self._told))]
        return self._told[entry.seq]


def line_shape(told: HistoryEntry) -> schemas.HistoryLineBody:
    """Return a line of the history as the operator sees it."""
    return schemas.HistoryLineBody(
        seq=told.seq,
        at=told.at,
        kind=told.kind,
        event=told.event,
        type=told.type,
        scope=told.scope,
        by=told.by,
        resources=list(told.resources),
        reason=told.reason,
    )


def _message(told: HistoryEntry) -> bytes:
    data = msgspec.json.encode(line_shape(told)).decode()
    return f"id: {told.seq}\nevent: {told.kind}\ndata: {data}\n\n".encode()


def missing(after: int, upto: int) -> FeedMessage:
    """Return what a reader is told whose next lines may have been pruned; it goes on from what is kept."""
    data = msgspec.json.encode(schemas.GapBody(after=after, upto=upto)).decode()
    return FeedMessage(None, f"event: gap\ndata: {data}\n\n".encode())
