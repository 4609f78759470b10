"""Output never steers the terminal, whatever the data contains."""

import json
from datetime import UTC, datetime

import pytest

from fairwarning.cli.client import HistoryLine
from fairwarning.cli.output import WIDEST, FailureError, print_json, print_json_line, print_note, print_table
from fairwarning.cli.watch import sentence

#: Clears the screen, rings the bell, changes the colour, breaks the line, turns text around.
STEERING = "\x1b[2J\x07\x9b31m\r\n\u202e"
SEEN = r"\x1b[2J\x07\x9b31m\r\n\u202e"


def test_a_table_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("EVENT", "REASON"), [(STEERING, f"because {STEERING}")])

    assert capsys.readouterr().out.splitlines()[1] == f"{SEEN}  because {SEEN}"


def test_the_width_of_a_column_is_limited(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("EVENT", "BY", "REASON"), [("x" * 5000, "web_0", "y" * 5000)])

    heading, row = capsys.readouterr().out.splitlines()
    assert heading.index("BY") == WIDEST + 2
    assert row.split() == ["x" * 63 + "…", "web_0", "y" * 199 + "…"]


def test_a_note_and_a_failure_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_note(STEERING)
    FailureError(STEERING, STEERING).show()

    assert capsys.readouterr().err.splitlines() == [SEEN, f"error: {SEEN}", f"hint: {SEEN}"]


def test_a_sentence_of_the_history_steers_no_terminal() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    line = HistoryLine(
        seq=1, at=at, kind="refused", scope="web", event=STEERING, type="approve", resources=("web_0",),
        by="web_0", reason=f"no scheduled event has the id {STEERING}",
    )  # fmt: skip

    assert sentence(line) == f"approve of web_0 by web_0 is refused: no scheduled event has the id {SEEN}"


def test_json_steers_no_terminal_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"event": STEERING, "café": 1})
    whole = capsys.readouterr().out
    print_json_line(json.dumps({"event": STEERING}, ensure_ascii=False))
    line = capsys.readouterr().out

    assert json.loads(whole) == {"event": STEERING, "café": 1}
    assert json.loads(line) == {"event": STEERING}
    assert "café" in whole
    for text in (whole, line):
        assert not set(text) & set(STEERING) - set("[2J31m\n")
