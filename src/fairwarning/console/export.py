"""Exports of the history: CSV for spreadsheets and JSON for programs, written line by line."""

import csv
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass

from fairwarning.core.history import HistoryEntry

#: Characters that make a spreadsheet read a cell as a formula, and whitespace that it skips before them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

#: The columns in order, and the value of each.
COLUMNS: Mapping[str, Callable[[HistoryEntry], str]] = {
    "seq": lambda entry: str(entry.seq),
    "at": lambda entry: f"{entry.at:%Y-%m-%dT%H:%M:%S.%fZ}",
    "kind": lambda entry: entry.kind,
    "scope": lambda entry: entry.scope,
    "event": lambda entry: entry.event or "",
    "type": lambda entry: entry.type,
    "machines": lambda entry: " ".join(entry.resources),
    "by": lambda entry: entry.by,
    "reason": lambda entry: entry.reason,
}


async def as_csv(entries: AsyncIterator[HistoryEntry]) -> AsyncGenerator[bytes, None]:
    """Yield the entries as CSV, after a header row."""
    yield _row(COLUMNS)
    async for entry in entries:
        yield _row(_escape_formula(column(entry)) for column in COLUMNS.values())


async def as_json(entries: AsyncIterator[HistoryEntry]) -> AsyncGenerator[bytes, None]:
    """Yield the entries as one JSON array, one line each."""
    separator = "[\n"
    async for entry in entries:
        yield (separator + json.dumps(_object(entry), ensure_ascii=False)).encode(errors="replace")
        separator = ",\n"
    yield b"[]\n" if separator == "[\n" else b"\n]\n"


@dataclass(frozen=True, slots=True)
class Format:
    """A file format of the export."""

    media_type: str
    write: Callable[[AsyncIterator[HistoryEntry]], AsyncGenerator[bytes, None]]


FORMATS: Mapping[str, Format] = {
    "csv": Format("text/csv; charset=utf-8", as_csv),
    "json": Format("application/json", as_json),
}


def _row(cells: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode(errors="replace")


def _escape_formula(cell: str) -> str:
    """Put a quote before a formula: spreadsheets then read the cell as text."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _object(entry: HistoryEntry) -> Mapping[str, str | int | list[str] | None]:
    texts = {name: column(entry) for name, column in COLUMNS.items()}
    return {**texts, "seq": entry.seq, "event": entry.event, "machines": list(entry.resources)}
