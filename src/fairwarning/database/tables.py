"""The tables of a database, read as they were at one moment.

Both databases keep the same rows, with the same columns and checksums, so a row of one fits the other. A
backup has the same rows in the same order, and is read in the same way.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Protocol
from zlib import crc32

from fairwarning.core.stored.releases import DataRelease
from fairwarning.database.findings import DatabaseFinding

#: A row as it is stored: texts as bytes, the checksum last.
StoredRow = tuple[bytes | int | None, ...]

#: Called with the name of a table and the number of its rows that are done.
Progress = Callable[[str, int], None]

#: The tables in the order in which they are read: the values say where the journal begins, and the journal
#: says what the other tables contain.
ORDER = ("note", "journal", "fleet_set", "scope", "machine", "event", "poll", "document", "claim")

#: The tables whose rows have an order of their own.
ORDERED = frozenset({"scope", "machine", "event", "document"})

#: How many rows are done between two calls of ``Progress``.
STRIDE = 10_000


class Tables(Protocol):
    """All tables at one moment."""

    #: The number of the last line that was stored.
    last_line: int
    #: How far the tables may be behind the database that servers write: a standby follows later.
    behind: timedelta
    #: The oldest release that can read the rows.
    oldest_reader: DataRelease

    def rows(self, table: str) -> Iterator[StoredRow]:
        """Yield the rows of a table in order of creation; the tables are read once, in ``ORDER``."""
        ...

    def problems(self) -> Iterator[DatabaseFinding]:
        """Yield what the database itself finds wrong with its files and tables."""
        ...


def quiet(table: str, rows: int) -> None:
    """Show no progress."""


def counted(table: str, rows: Iterator[StoredRow], progress: Progress) -> Iterator[StoredRow]:
    """Yield rows and show the progress."""
    number = 0
    for number, row in enumerate(rows, 1):
        if number % STRIDE == 0:
            progress(table, number)
        yield row
    progress(table, number)


def matches_checksum(row: StoredRow) -> bool:
    """Whether a row is what was written."""
    columns = (column if isinstance(column, bytes) else str(column).encode() for column in row[:-1])
    return crc32(b"\0".join(columns)) == row[-1]


def row_name(table: str, row: StoredRow) -> str:
    """Return the name of a row: its table and its key."""
    key = row[: 2 if table in ("machine", "event") else 1]
    texts = (part.decode(errors="backslashreplace") if isinstance(part, bytes) else str(part) for part in key)
    return f"{table} {'/'.join(texts)}"
