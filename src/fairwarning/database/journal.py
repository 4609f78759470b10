"""Checks the journal itself: its lines, their numbers, and the batches that they form."""

from typing import NamedTuple

import msgspec

from fairwarning.database.findings import FindingKind, Report
from fairwarning.database.replay import JournalReplay
from fairwarning.database.tables import StoredRow, matches_checksum
from fairwarning.engine.ports import Entry
from fairwarning.store.entries import event_of
from fairwarning.store.errors import NewerContentError, UnreadableRowError
from fairwarning.store.rows import JournalRow, read_entry


class _OpenBatch(NamedTuple):
    ends: int
    stamp: int
    requests: set[str]
    request: str


class JournalCheck:
    """Takes the lines of a journal in order, and adds the sound ones to a replay."""

    def __init__(self, replay: JournalReplay, report: Report) -> None:
        self._replay = replay
        self._report = report
        #: Lines up to here may be missing: they were pruned.
        self._pruned = replay.start
        self._next = replay.start + 1
        self._batch: _OpenBatch | None = None
        self._last_stamp = 0

    def add(self, row: StoredRow) -> None:
        """Add a line."""
        entry, seq = self._read(row), row[0]
        if not isinstance(seq, int):
            return
        if seq <= self._pruned:
            self._add_needed_line(seq, entry)
            return
        if seq != self._next:
            self._report(FindingKind.GAP, f"journal line {self._next}", f"is missing; line {seq} follows")
            self._begin_anew(seq - 1)
        self._next = seq + 1
        if entry is None:
            self._begin_anew(seq)
        else:
            self._add_to_batch(entry)
            self._replay.add(entry)

    def end(self, last_line: int) -> None:
        """Take the number of the line that was stored last."""
        self._replay.end_request()
        last = self._next - 1
        if last != last_line and last_line != self._pruned:
            problem = f"ends with line {last}, not with line {last_line}"
            self._report(FindingKind.END, "journal", problem)
            self._replay.forget(last)
        elif self._batch is not None:
            problem = f"belongs to a batch that ends with line {self._batch.ends}, which is missing"
            self._report(FindingKind.BATCH, f"journal line {last}", problem)

    def _read(self, row: StoredRow) -> Entry | None:
        name = f"journal line {row[0]!r}"
        if not matches_checksum(row):
            self._report(FindingKind.CHECKSUM, name, "does not match its checksum")
            return None
        try:
            line = msgspec.convert(row, JournalRow)
            entry = read_entry(line)
        except NewerContentError as problem:
            self._report(FindingKind.NEWER, name, problem.problem)
            return None
        except (msgspec.ValidationError, UnreadableRowError) as problem:
            self._report(FindingKind.UNREADABLE, name, str(problem))
            return None
        scope, event = line[2].decode(), line[5]
        if scope != entry.change.scope or event != _encoded(event_of(entry.change)):
            self._report(FindingKind.COLUMN, name, "its scope or event is not that of its body")
        return entry

    def _add_needed_line(self, seq: int, entry: Entry | None) -> None:
        """Add a line of the pruned part, which is about an event."""
        if entry is None:
            self._replay.forget(self._pruned)
        else:
            self._replay.add(entry)

    def _begin_anew(self, line: int) -> None:
        self._replay.forget(line)
        self._batch = None
        self._last_stamp = 0

    def _add_to_batch(self, entry: Entry) -> None:
        batch, name, is_sound = self._batch, f"journal line {entry.seq}", True
        if batch is not None and (batch.ends, batch.stamp) != (entry.ends, entry.stamp):
            self._report(FindingKind.BATCH, name, f"is not of the batch that ends with line {batch.ends}")
            batch, is_sound = None, False
        elif batch is None and entry.stamp and entry.stamp == self._last_stamp:
            self._report(FindingKind.BATCH, name, "has the stamp of the batch before")
        if batch is None:
            if entry.ends < entry.seq:
                self._report(FindingKind.BATCH, name, f"its batch ends before it, with line {entry.ends}")
            batch = _OpenBatch(entry.ends, entry.stamp, set(), entry.request)
        elif entry.request != batch.request and entry.request in batch.requests:
            self._report(FindingKind.BATCH, name, f"is apart from the lines of its request {entry.request}")
        batch.requests.add(entry.request)
        self._last_stamp = entry.stamp if is_sound else 0
        self._batch = batch._replace(request=entry.request) if entry.seq < entry.ends else None


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
