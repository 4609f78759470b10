"""Removes the oldest lines of a journal in SQL, a slice at a time.

Behind the mark the journal is complete. Before it only those lines are left that somebody needs; they go with
a later slice. Pages that become free are used again: the file stops growing, but it does not shrink.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import takewhile

from fairwarning.core.model import EventId
from fairwarning.store.rows import instant

#: Up to which line the journal was pruned, among the notes.
MARK = "pruned"

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


def prune(
    database: sqlite3.Connection,
    mark: int,
    before: datetime | None,
    most: int,
    keep: Collection[EventId],
    spare: int,
) -> Sequence[int]:
    """Remove lines after ``mark`` and before an instant unless needed; return those it went through."""
    limit = b"~" if before is None else instant(before).encode()
    older = takewhile(lambda row: row[1] < limit, database.execute(OLDEST, (mark, spare, most)))
    passed = [seq for seq, _ in older]
    database.execute(PRUNE, (passed[-1] if passed else mark, json.dumps(sorted(keep))))
    return passed


def size(database: sqlite3.Connection) -> int:
    """Return how many bytes of the file are in use."""
    ((pages,),) = database.execute(USED_PAGES)
    ((bytes_each,),) = database.execute("PRAGMA page_size")
    return int(pages) * int(bytes_each)
