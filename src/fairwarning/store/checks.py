"""Whether a database holds what was written to it.

A checksum tells whether a row is what was written; SQLite's own check tells whether every row is there, once,
in its place and in every index.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from fairwarning.store.errors import UnreadableRowError
from fairwarning.store.rows import COLUMNS, intact

#: How many of the newest journal lines are checked when a store is opened; a longer journal takes too long.
LINES_AT_START = 10_000

#: The first schema with checksums, and with a header that says which database it is.
WITH_HEADER = 4

_LOADED = ("scope", "machine", "event")
_BESIDE = ("document", "note", "last_incarnation")
_NEWEST = f"{{rows}} ORDER BY seq DESC LIMIT {LINES_AT_START}"
_FEW_LINES = f"SELECT count(*) <= {LINES_AT_START} FROM (SELECT 1 FROM journal LIMIT {LINES_AT_START + 1})"


@dataclass(frozen=True, slots=True)
class Header:
    """Which database this is, how often it was written, and the number of its last journal line."""

    database: str
    commits: int
    last_line: int


def read_header(database: sqlite3.Connection) -> Header:
    """Return the only row of its table.

    Raises:
        Unreadable: it is not what was written.
    """
    rows = list(intact("header", database.execute(rows_of("header"))))
    if len(rows) != 1:
        raise UnreadableRowError(f"table header has {len(rows)} rows, not one")
    ((name, commits, last_line, _),) = rows
    return Header(name.decode(), commits, last_line)


def rows_of(table: str) -> str:
    """Return the query for all rows of a table as their checksums cover them."""
    return f"SELECT {', '.join(COLUMNS[table])}, checksum FROM {table}"


def check_at_start(database: sqlite3.Connection) -> None:
    """Check all but what is loaded afterwards and the older part of a long journal.

    Raises:
        Unreadable: something is not what was written.
    """
    check_structure(database, "header", *_BESIDE)
    for table in _BESIDE:
        _count(intact(table, database.execute(rows_of(table))))
    check_journal_end(database)
    ((few,),) = database.execute(_FEW_LINES)
    if few:
        check_structure(database, "journal")


def check_loaded(database: sqlite3.Connection) -> None:
    """Check that every row of what is loaded is there, once; whether it is right is checked in loading."""
    check_structure(database, *_LOADED)


def check_journal_end(database: sqlite3.Connection) -> None:
    """Check that the journal ends where its header says, with lines that are as they were written."""
    ((last,),) = database.execute("SELECT coalesce(max(seq), 0) FROM journal")
    expected = read_header(database).last_line
    if last not in (expected, 0):  # an empty journal may have been pruned; its structure tells
        raise UnreadableRowError(f"its journal ends with line {last}, not with line {expected}")
    _count(intact("journal", database.execute(_NEWEST.format(rows=rows_of("journal")))))


def check_all(database: sqlite3.Connection) -> dict[str, int]:
    """Check everything and return how many rows each table has."""
    check_structure(database)
    counts = {table: _count(intact(table, database.execute(rows_of(table)))) for table in COLUMNS}
    check_journal_end(database)
    return counts


def check_structure(database: sqlite3.Connection, *tables: str) -> None:
    """Check that every row is in its place and in every index: of some tables, or of the whole file."""
    for only in [f"({table})" for table in tables] or [""]:
        found = [_text(problem) for (problem,) in database.execute(f"PRAGMA integrity_check{only}")]
        if found != ["ok"]:
            raise UnreadableRowError("; ".join(found[:3]))


def _text(said: bytes) -> str:
    return " ".join(said.decode(errors="replace").split())


def _count(rows: Iterable[object]) -> int:
    return sum(1 for _ in rows)
