"""Removes the oldest lines of the journal in SQL, a slice at a time.

The *mark* is the number of the last line of the pruned part. After the mark the journal is complete; before
it only the lines that are still needed remain, and a later slice removes them. SQLite reuses the pages that
become free: the file stops growing, but it does not shrink.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import takewhile

from fairwarning.core.model import EventId
from fairwarning.store.rows import instant

#: The key of the mark in the table ``note``.
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
    """Remove lines after ``mark`` and before an instant unless needed; return the lines examined."""
    limit = b"~" if before is None else instant(before).encode()
    older = takewhile(lambda row: row[1] < limit, database.execute(OLDEST, (mark, spare, most)))
    examined = [seq for seq, _ in older]
    database.execute(PRUNE, (examined[-1] if examined else mark, json.dumps(sorted(keep))))
    return examined


def size(database: sqlite3.Connection) -> int:
    """Return the number of bytes of the file that are in use."""
    ((pages,),) = database.execute(USED_PAGES)
    ((page_size,),) = database.execute("PRAGMA page_size")
    return int(pages) * int(page_size)
