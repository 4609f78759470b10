"""Checks that a database contains exactly what was written to it.

Two checks complement each other. The checksum of a row tells whether the row is what was written. SQLite's
``integrity_check`` tells whether every row exists once, in its place and in every index.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from fairwarning.store.errors import UnreadableRowError
from fairwarning.store.migrate import schema
from fairwarning.store.rows import COLUMNS, known_rows, verified_rows

#: The number of newest journal lines that are checked when a store is opened; checking all may take too long.
LINES_AT_START = 10_000

#: The first schema with checksums and a header, with last incarnations, and with stamps.
WITH_HEADER, WITH_LAST_INCARNATIONS, WITH_STAMPS = 4, 5, 6

_COLUMNS_WITH_STAMPS = frozenset({"stamp", "request", "ends"})
_TABLES_WITH_STAMPS = frozenset({"poll", "fleet_set", "claim"})
_LOADED = ("scope", "machine", "event", "poll", "fleet_set", "document")
_OTHERS = ("note", "claim")
_NEWEST = f"{{rows}} ORDER BY seq DESC LIMIT {LINES_AT_START}"
_FEW_LINES = f"SELECT count(*) <= {LINES_AT_START} FROM (SELECT 1 FROM journal LIMIT {LINES_AT_START + 1})"


@dataclass(frozen=True, slots=True)
class Header:
    """The id of a database, the number of commits to it, and the number of its last journal line."""

    database: str
    commits: int
    last_line: int


def read_header(database: sqlite3.Connection) -> Header:
    """Return the header of a database.

    Raises:
        UnreadableRowError: the header is not what was written.
    """
    rows = list(verified_rows("header", database.execute(select_rows("header"))))
    if len(rows) != 1:
        raise UnreadableRowError(f"table header has {len(rows)} rows, not one")
    ((name, commits, last_line, _),) = rows
    return Header(name.decode(), commits, last_line)


def columns_in(version: int) -> Mapping[str, tuple[str, ...]]:
    """Return the columns that the checksum of each table covers in a schema with checksums."""
    if version >= WITH_STAMPS:
        return COLUMNS
    tables = {
        table: tuple(column for column in columns if column not in _COLUMNS_WITH_STAMPS)
        for table, columns in COLUMNS.items()
        if table not in _TABLES_WITH_STAMPS
    }
    if version >= WITH_LAST_INCARNATIONS:
        tables["last_incarnation"] = ("set_id", "incarnation")
    return tables


def select_rows(table: str, columns: Iterable[str] = ()) -> str:
    """Return the query for all rows of a table: the columns that the checksum covers, and the checksum."""
    return f"SELECT {', '.join(columns or COLUMNS[table])}, checksum FROM {table}"


def check_at_start(database: sqlite3.Connection) -> None:
    """Check everything except the tables that are loaded afterwards and the older part of a long journal.

    Raises:
        UnreadableRowError: a row is not what was written.
    """
    check_structure(database, "header", *_OTHERS)
    for table in _OTHERS:
        _count(verified_rows(table, database.execute(select_rows(table))))
    check_journal_end(database)
    ((few,),) = database.execute(_FEW_LINES)
    if few:
        check_structure(database, "journal")


def check_loaded(database: sqlite3.Connection) -> None:
    """Check the structure of the tables that are loaded; loading checks their checksums."""
    check_structure(database, *_LOADED)


def check_journal_end(database: sqlite3.Connection) -> None:
    """Check that the journal ends where the header says, and the checksums of its newest lines."""
    _check_last_line(database)
    _count(verified_rows("journal", database.execute(_NEWEST.format(rows=select_rows("journal")))))


def check_all(database: sqlite3.Connection) -> dict[str, int]:
    """Check everything in a database with checksums and return the number of rows of each table."""
    check_structure(database)
    _check_last_line(database)
    return {
        table: _check_rows(database, table, columns)
        for table, columns in columns_in(schema(database)).items()
    }


def _check_rows(database: sqlite3.Connection, table: str, columns: Sequence[str]) -> int:
    """Check the rows of a table and return their number."""
    # The error about a row may outlive the connection, and with the error a cursor that would keep a lock.
    with closing(database.execute(select_rows(table, columns))) as rows:
        return _count(known_rows(table, columns, verified_rows(table, rows)))


def _check_last_line(database: sqlite3.Connection) -> None:
    ((last,),) = database.execute("SELECT coalesce(max(seq), 0) FROM journal")
    expected = read_header(database).last_line
    if last not in (expected, 0):  # an empty journal may have been pruned; check_structure covers it
        raise UnreadableRowError(f"its journal ends with line {last}, not with line {expected}")


def check_structure(database: sqlite3.Connection, *tables: str) -> None:
    """Check that every row is in its place and in every index, in some tables or in the whole file."""
    for argument in [f"({table})" for table in tables] or [""]:
        messages = [_text(message) for (message,) in database.execute(f"PRAGMA integrity_check{argument}")]
        if messages != ["ok"]:
            raise UnreadableRowError("; ".join(messages[:3]))


def _text(message: bytes) -> str:
    return " ".join(message.decode(errors="replace").split())


def _count(rows: Iterable[object]) -> int:
    return sum(1 for _ in rows)
