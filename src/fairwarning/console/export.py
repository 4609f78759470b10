"""The history to take away: CSV for spreadsheets, JSON for programs, written while it is read."""

import csv
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass

from fairwarning.core.history import HistoryEntry

#: What a spreadsheet would take for a formula (and some whitespace in front of one).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

#: The columns, in order, and where each comes from.
COLUMNS: Mapping[str, Callable[[HistoryEntry], str]] = {
    "seq": lambda told: str(told.seq),
    "at": lambda told: f"{told.at:%Y-%m-%dT%H:%M:%S.%fZ}",
    "kind": lambda told: told.kind,
    "scope": lambda told: told.scope,
    "event": lambda told: told.event or "",
    "type": lambda told: told.type,
    "machines": lambda told: " ".join(told.resources),
    "by": lambda told: told.by,
    "reason": lambda told: told.reason,
}


async def as_csv(lines: AsyncIterator[HistoryEntry]) -> AsyncGenerator[bytes, None]:
    """Yield the lines as CSV, with a heading."""
    yield _row(COLUMNS)
    async for told in lines:
        yield _row(_harmless(column(told)) for column in COLUMNS.values())


async def as_json(lines: AsyncIterator[HistoryEntry]) -> AsyncGenerator[bytes, None]:
    """Yield the lines as one JSON array, a line each."""
    before = "[\n"
    async for told in lines:
        yield (before + json.dumps(_object(told), ensure_ascii=False)).encode(errors="replace")
        before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write the history."""

    media_type: str
    write: Callable[[AsyncIterator[HistoryEntry]], AsyncGenerator[bytes, None]]


FORMATS: Mapping[str, Format] = {
    "csv": Format("text/csv; charset=utf-8", as_csv),
    "json": Format("application/json", as_json),
}


def _row(cells: Iterable[str]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue().encode(errors="replace")


def _harmless(cell: str) -> str:
    """Keep a cell from being computed: a quote in front makes any spreadsheet take it as text."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _object(told: HistoryEntry) -> Mapping[str, str | int | list[str] | None]:
    texts = {name: column(told) for name, column in COLUMNS.items()}
    return {**texts, "seq": told.seq, "event": told.event, "machines": list(told.resources)}
