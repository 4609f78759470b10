"""Exports of the history."""

import csv
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

import pytest

from fairwarning.console.export import COLUMNS, as_csv, as_json
from fairwarning.core.history import HistoryEntry
from fairwarning.core.model import EventId, ScopeId, VmName
from tests.fleet_harness import NOON, run

LINE = HistoryEntry(
    seq=7,
    at=NOON,
    kind="approved",
    scope=ScopeId("web"),
    event=EventId("ONE"),
    type="Reboot",
    resources=(VmName("web_0"), VmName("web_1")),
    by="operator:alice",
)


async def fed(*lines: HistoryEntry) -> AsyncIterator[HistoryEntry]:
    """Yield the lines."""
    for line in lines:
        yield line


async def whole(chunks: AsyncGenerator[bytes, None]) -> str:
    """Return what is written, in one piece."""
    return b"".join([chunk async for chunk in chunks]).decode()


def rows(*lines: HistoryEntry) -> list[list[str]]:
    """Return what a spreadsheet reads."""
    return list(csv.reader(io.StringIO(run(whole(as_csv(fed(*lines)))), newline="")))


def test_csv_has_a_heading_and_a_row_for_every_line() -> None:
    heading, row = rows(LINE)

    assert heading == list(COLUMNS)
    assert row == [
        "7", "2026-11-16T12:00:00.000000Z", "approved", "web", "ONE", "Reboot", "web_0 web_1",
        "operator:alice", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", '=HYPERLINK("http://evil","x")'],
)
def test_no_cell_is_computed_by_a_spreadsheet(cell: str) -> None:
    _, row = rows(replace(LINE, by=cell, reason=cell))

    assert row[-2:] == [f"'{cell}", f"'{cell}"]


@pytest.mark.parametrize("cell", ['a "quoted" word', "a, b; c", "two\nlines", "naïve ✓", ""])
def test_awkward_words_come_back_as_they_were(cell: str) -> None:
    _, row = rows(replace(LINE, reason=cell))

    assert row[-1] == cell


def test_json_is_one_array_of_objects() -> None:
    text = run(whole(as_json(fed(LINE, replace(LINE, seq=8, event=None, reason='</script>"\u2028')))))

    first, second = json.loads(text)
    assert first == {
        "seq": 7,
        "at": "2026-11-16T12:00:00.000000Z",
        "kind": "approved",
        "scope": "web",
        "event": "ONE",
        "type": "Reboot",
        "machines": ["web_0", "web_1"],
        "by": "operator:alice",
        "reason": "",
    }
    assert (second["seq"], second["event"], second["reason"]) == (8, None, '</script>"\u2028')


def test_json_of_nothing_is_an_empty_array() -> None:
    assert json.loads(run(whole(as_json(fed())))) == []


def test_lines_are_written_one_at_a_time() -> None:
    async def count(chunks: AsyncGenerator[bytes, None]) -> int:
        return len([chunk async for chunk in chunks])

    assert run(count(as_csv(fed(LINE, LINE)))) == 3
    assert run(count(as_json(fed(LINE, LINE)))) == 3
