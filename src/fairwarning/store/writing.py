"""Writes a batch to the tables, in one transaction that the caller begins and ends."""

import sqlite3
from collections.abc import Iterable, Mapping

from fairwarning.engine.ports import Aggregate, AggregateKind, Batch, Entry, StaleBatchError
from fairwarning.store.entries import number_lines, readable, readable_texts
from fairwarning.store.rows import (
    COLUMNS,
    BatchWrites,
    Row,
    event_row,
    instant,
    journal_row,
    machine_row,
    scope_row,
    with_checksum,
)

#: The stamp of an aggregate.
STAMP: Mapping[AggregateKind, str] = {
    AggregateKind.SCOPE: "SELECT stamp FROM scope WHERE id = ?",
    AggregateKind.SET: "SELECT stamp FROM fleet_set WHERE set_id = ?",
    AggregateKind.TEXT: "SELECT stamp FROM document WHERE key = ?",
}

DELETE_SCOPE = "DELETE FROM scope WHERE id = ?"
DELETE_MACHINE = "DELETE FROM machine WHERE scope = ? AND name = ?"
DELETE_EVENT = "DELETE FROM event WHERE scope = ? AND id = ?"
DELETE_DOCUMENT = "DELETE FROM document WHERE key = ?"

UPSERT_SCOPE = """
    INSERT INTO scope (id, set_name, kind, version, incarnation, body, stamp, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        set_name = excluded.set_name, kind = excluded.kind, version = excluded.version,
        incarnation = excluded.incarnation, body = excluded.body, stamp = excluded.stamp,
        checksum = excluded.checksum
"""
UPSERT_MACHINE = """
    INSERT INTO machine (scope, name, body, checksum) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body, checksum = excluded.checksum
"""
UPSERT_EVENT = """
    INSERT INTO event (scope, id, status, not_before, barrier, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (scope, id) DO UPDATE SET
        status = excluded.status, not_before = excluded.not_before, barrier = excluded.barrier,
        body = excluded.body, checksum = excluded.checksum
"""
UPSERT_SET = """
    INSERT INTO fleet_set (set_id, stamp, incarnation, checksum) VALUES (?, ?, ?, ?)
    ON CONFLICT (set_id) DO UPDATE SET
        stamp = excluded.stamp, incarnation = excluded.incarnation, checksum = excluded.checksum
"""
UPSERT_DOCUMENT = """
    INSERT INTO document (key, body, stamp, checksum) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        body = excluded.body, stamp = excluded.stamp, checksum = excluded.checksum
"""
UPSERT_POLL = """
    INSERT INTO poll (scope, at, checksum) SELECT id, ?2, ?3 FROM scope WHERE id = ?1
    ON CONFLICT (scope) DO UPDATE SET at = excluded.at, checksum = excluded.checksum WHERE excluded.at > at
"""
ADD_LINE = """
    INSERT INTO journal (seq, at, scope, version, kind, event, body, request, stamp, ends, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def write_batch(database: sqlite3.Connection, batch: Batch, last: int) -> list[Entry]:
    """Write a batch after the journal's last line, and return its lines.

    Raises:
        StaleBatchError: an expected stamp does not hold, or the position is not the last line.
    """
    _check(database, batch, last)
    writes, stamp = BatchWrites(batch), batch.stamp
    database.executemany(DELETE_SCOPE, ((scope,) for scope in writes.wiped))
    database.executemany(DELETE_MACHINE, writes.machines.removed_keys())
    database.executemany(DELETE_EVENT, writes.events.removed_keys())
    database.executemany(UPSERT_SCOPE, (scope_row(scope, stamp) for scope in writes.scopes))
    database.executemany(UPSERT_MACHINE, map(machine_row, writes.machines))
    database.executemany(UPSERT_EVENT, map(event_row, writes.events))
    if writes.polls:
        polls = (with_checksum(scope, instant(at)) for scope, at in writes.polls.items())
        database.executemany(UPSERT_POLL, polls)
    if batch.sets:
        sets = (with_checksum(set_id, stamp, incarnation) for set_id, incarnation in batch.sets.items())
        database.executemany(UPSERT_SET, sets)
    if batch.texts:
        _write_texts(database, readable_texts(batch.texts), stamp)
    entries = number_lines(batch, last)
    database.executemany(ADD_LINE, map(journal_row, entries))
    return entries


def is_empty(database: sqlite3.Connection) -> bool:
    """Whether no row was ever stored, apart from the header."""
    tables = (table for table in COLUMNS if table != "header")
    return not any(database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in tables)


def insert_rows(database: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    """Insert whole rows with their checksums, in their order."""
    columns = (*COLUMNS[table], "checksum")
    places = ", ".join("?" * len(columns))
    database.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)


def _write_texts(database: sqlite3.Connection, texts: Mapping[str, str | None], stamp: int) -> None:
    database.executemany(DELETE_DOCUMENT, ((key,) for key, text in texts.items() if text is None))
    rows = (with_checksum(key, text, stamp) for key, text in texts.items() if text is not None)
    database.executemany(UPSERT_DOCUMENT, rows)


def _check(database: sqlite3.Connection, batch: Batch, last: int) -> None:
    stale: dict[Aggregate, int] = {}
    for aggregate, expected in batch.expected.items():
        # A query for each: for the few aggregates of most batches, one query for all is slower.
        rows = database.execute(STAMP[aggregate.kind], (readable(aggregate.name),))
        (stamp,) = next(rows, (0,))
        if stamp != expected:
            stale[aggregate] = stamp
    if stale or batch.position not in (None, last):
        raise StaleBatchError(stale, last)
