"""Journal lines as the feed sends them, each rendered once for all readers."""

from typing import NamedTuple

import msgspec

from fairwarning.core.history import HistoryEntry, to_history_entry
from fairwarning.engine.ports import Entry
from fairwarning.operator import schemas

#: How many rendered lines are kept.
MAX_LINES = 1000


class FeedMessage(NamedTuple):
    """The bytes of a message and its history line, which is None for a gap message."""

    line: HistoryEntry | None
    message: bytes


class RenderedFeed:
    """A cache of the newest lines of the feed, so that each is rendered once."""

    def __init__(self, max_lines: int = MAX_LINES) -> None:
        self._max_lines = max_lines
        #: By number and stamp: after the loss of a database, other lines may have the same numbers.
        self._messages: dict[tuple[int, int], FeedMessage | None] = {}

    def render(self, entry: Entry) -> FeedMessage | None:
        """Return the message of a journal line; None if the history leaves the line out."""
        key = entry.seq, entry.stamp
        if key not in self._messages:
            shown = to_history_entry(entry.seq, entry.at, entry.change)
            self._messages[key] = None if shown is None else FeedMessage(shown, _message(shown))
            if len(self._messages) > self._max_lines:
                del self._messages[next(iter(self._messages))]
        return self._messages[key]


def history_line_body(entry: HistoryEntry) -> schemas.HistoryLineBody:
    """Return the body of a history line."""
    return schemas.HistoryLineBody(
        seq=entry.seq,
        at=entry.at,
        kind=entry.kind,
        event=entry.event,
        type=entry.type,
        scope=entry.scope,
        by=entry.by,
        resources=list(entry.resources),
        reason=entry.reason,
    )


def _message(entry: HistoryEntry) -> bytes:
    data = msgspec.json.encode(history_line_body(entry)).decode()
    return f"id: {entry.seq}\nevent: {entry.kind}\ndata: {data}\n\n".encode()


def gap_message(after: int, upto: int) -> FeedMessage:
    """Return the message for a reader whose next lines may have been pruned."""
    data = msgspec.json.encode(schemas.GapBody(after=after, upto=upto)).decode()
    return FeedMessage(None, f"event: gap\ndata: {data}\n\n".encode())
