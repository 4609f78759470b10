"""The rows that a restore writes: those of the backup, with new stamps and with incarnations moved forward.

Leases are over and keep only their fence, moved forward, too. All sessions of the console end: the backup
does not know which of them were ended after it was taken. The fleet is on hold, unless the operator says
otherwise: events that were over after the backup are pending again (M-08). Lines of the journal say so.
"""

from collections.abc import Callable, Iterator, Mapping

from fairwarning.core.changes import TextChanged
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.maintenance.values import Hold
from fairwarning.core.model import ANY_SET, OPERATOR
from fairwarning.core.stored.kinds import HOLD, SESSIONS_ENDED
from fairwarning.database.columns import (
    LeaseColumns,
    ScopeColumns,
    SetColumns,
    TextColumns,
    ValueColumns,
    read_columns,
)
from fairwarning.database.restores import RESTORES, Restore, moved, read_restores, restores_text
from fairwarning.database.tables import ORDER, Progress, StoredRow, Tables, counted, row_name
from fairwarning.engine.ports import Entry, Lease, Line
from fairwarning.store.leases import LONG_AGO, NO_OWNER
from fairwarning.store.rows import Row, claim_row, journal_row, with_checksum

#: The rows of a table to write, by table, in the order in which they are written.
RestoredTables = Iterator[tuple[str, Iterator[Row]]]


def restored_tables(tables: Tables, restore: Restore, stamp: int, progress: Progress) -> RestoredTables:
    """Yield the rows to write, table by table."""
    rewriting = _Rewriting(restore, stamp)
    for table in ORDER:
        yield table, rewriting.rows(table, counted(table, tables.rows(table), progress))


#: Why a restored fleet is on hold.
_REASON = "restored from a backup"


class _Rewriting:
    def __init__(self, restore: Restore, stamp: int) -> None:
        self._restore = restore
        self._stamp = stamp
        #: The stored values that the restore writes itself.
        self._written = {SESSIONS_ENDED.key(), *((HOLD.key(),) if restore.hold else ())}
        self._rewrite: Mapping[str, Callable[[Iterator[StoredRow]], Iterator[Row]]] = {
            "note": self._values,
            "journal": self._journal,
            "fleet_set": self._sets,
            "scope": self._scopes,
            "document": self._texts,
            "claim": self._leases,
        }

    def rows(self, table: str, rows: Iterator[StoredRow]) -> Iterator[Row]:
        return self._rewrite.get(table, _unchanged)(rows)

    def _values(self, rows: Iterator[StoredRow]) -> Iterator[Row]:
        earlier: tuple[Restore, ...] = ()
        for row in rows:
            key, value = read_columns(row, ValueColumns)
            if key == RESTORES:
                earlier = read_restores(value)
            else:
                yield _as_texts(row)
        yield with_checksum(RESTORES, restores_text((*earlier, self._restore)))

    def _journal(self, rows: Iterator[StoredRow]) -> Iterator[Row]:
        yield from _unchanged(rows)
        restore = self._restore
        detail = f"a backup taken at {restore.taken_at.isoformat()}; incarnations moved on by {restore.jump}"
        note = ActionNote(deed=OperatorAction.RESTORED, detail=detail, by=str(OPERATOR))
        sessions = TextChanged(key=SESSIONS_ENDED.key(), text=SESSIONS_ENDED.encode(restore.restored_at))
        lines: tuple[Line, ...] = note, sessions
        if restore.hold:
            held = ActionNote(deed=OperatorAction.HELD, detail=f"the fleet ({_REASON})", by=str(OPERATOR))
            lines = (*lines, held, TextChanged(key=HOLD.key(), text=self._hold()))
        for seq, line in enumerate(lines, restore.line):
            yield journal_row(
                Entry(
                    seq=seq,
                    at=restore.restored_at,
                    version=0,
                    change=line,
                    request="restore",
                    stamp=self._stamp,
                    ends=restore.last_line,
                )
            )

    def _sets(self, rows: Iterator[StoredRow]) -> Iterator[Row]:
        floor = 0
        for row in rows:
            columns = read_columns(row, SetColumns)
            if columns.set_id == ANY_SET:
                floor = columns.incarnation
                continue
            yield with_checksum(
                columns.set_id, self._stamp, self._move(row, "fleet_set", columns.incarnation)
            )
        yield with_checksum(ANY_SET, self._stamp, moved("new sets", floor, self._restore.jump))

    def _scopes(self, rows: Iterator[StoredRow]) -> Iterator[Row]:
        for row in rows:
            columns = read_columns(row, ScopeColumns)
            incarnation = self._move(row, "scope", columns.incarnation)
            yield with_checksum(*columns._replace(incarnation=incarnation, stamp=self._stamp))

    def _texts(self, rows: Iterator[StoredRow]) -> Iterator[Row]:
        for row in rows:
            columns = read_columns(row, TextColumns)
            if columns.key not in self._written:
                yield with_checksum(*columns._replace(stamp=self._stamp))
        yield with_checksum(
            SESSIONS_ENDED.key(), SESSIONS_ENDED.encode(self._restore.restored_at), self._stamp
        )
        if self._restore.hold:
            yield with_checksum(HOLD.key(), self._hold(), self._stamp)

    def _hold(self) -> str:
        return HOLD.encode(Hold(reason=_REASON, by=str(OPERATOR), since=self._restore.restored_at))

    def _leases(self, rows: Iterator[StoredRow]) -> Iterator[Row]:
        for row in rows:
            columns = read_columns(row, LeaseColumns)
            fence = columns.fence + self._restore.jump
            yield claim_row(Lease(columns.key, NO_OWNER, fence, LONG_AGO))

    def _move(self, row: StoredRow, table: str, incarnation: int) -> int:
        return moved(row_name(table, row), incarnation, self._restore.jump)


def _unchanged(rows: Iterator[StoredRow]) -> Iterator[Row]:
    return map(_as_texts, rows)


def _as_texts(row: StoredRow) -> Row:
    return tuple(value.decode() if isinstance(value, bytes) else value for value in row)
