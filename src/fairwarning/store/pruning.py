"""Removes the oldest lines of a journal in SQL, a slice at a time.

Behind the mark the journal is complete. Before it only those lines are left that somebody needs; they go with
a later slice. Pages that become free are used again: the file stops growing, but it does not shrink.
"""

import json
from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import takewhile
from typing import Protocol

from fairwarning.core.model import EventId
from fairwarning.store.rows import instant

#: Up to which line the journal was pruned, among the notes.
MARK = "pruned"

READ_MARK = "SELECT value FROM note WHERE key = ?"
KEEP_MARK = (
    "INSERT INTO note (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
OLDEST = """
    SELECT seq, at FROM journal WHERE seq > ? AND seq <= (SELECT max(seq) FROM journal) - ?
    ORDER BY seq LIMIT ?
"""
PRUNE = """
    DELETE FROM journal WHERE seq <= ? AND (
        event IS NULL OR (
            event NOT IN (SELECT id FROM event) AND event NOT IN (SELECT value FROM json_each(?))
        )
    )
"""
USED_PAGES = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"


class Database(Protocol):
    """As much of a connection as pruning needs."""

    def execute(
        self, sql: str, parameters: tuple[str | int, ...] = ..., /
    ) -> Iterable[tuple[str | int, ...]]:
        """Run one statement."""
        ...


def prune(
    database: Database, before: datetime | None, most: int, keep: Collection[EventId], spare: int
) -> int:
    """Remove what is before an instant and nobody needs; return through how many lines it went."""
    mark = pruned(database)
    limit = "~" if before is None else instant(before)
    older = takewhile(lambda row: str(row[1]) < limit, database.execute(OLDEST, (mark, spare, most)))
    passed = [int(seq) for seq, _ in older]
    mark = passed[-1] if passed else mark
    database.execute(PRUNE, (mark, json.dumps(sorted(keep))))
    if passed:
        database.execute(KEEP_MARK, (MARK, str(mark)))
    return len(passed)


def pruned(database: Database) -> int:
    """Return up to which line the journal was pruned."""
    return sum(int(value) for (value,) in database.execute(READ_MARK, (MARK,)))


def size(database: Database) -> int:
    """Return how many bytes of the file are in use."""
    ((pages,),) = database.execute(USED_PAGES)
    ((bytes_each,),) = database.execute("PRAGMA page_size")
    return int(pages) * int(bytes_each)
