"""Log messages are one line of limited length, whatever their fields contain."""

import json
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.formats.hidden_characters import first_hidden
from fairwarning.formats.log_messages import LONGEST_VALUE, LogMessage, json_line


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("web_0", "web_0", id="a plain text is written as it is"),
        pytest.param("no such machine", '"no such machine"', id="a text with blanks is quoted"),
        pytest.param("", '""', id="an empty text is quoted"),
        pytest.param("a=b", '"a=b"', id="a text with an equals sign is quoted"),
        pytest.param('say "no"', r'"say \"no\""', id="a quote is escaped"),
        pytest.param("C:\\data", r'"C:\\data"', id="a backslash is escaped"),
        pytest.param("a\nb", r'"a\nb"', id="a newline is escaped"),
        pytest.param("\x1b[31m", r'"\x1b[31m"', id="a terminal's escape sequence is escaped"),
        pytest.param("a\u202eb", r'"a\u202eb"', id="a character that reverses text is escaped"),
        pytest.param("\ud800", r'"\ud800"', id="a lone surrogate is escaped"),
        pytest.param("Zürich", '"Zürich"', id="letters of all languages stay"),
        pytest.param(3, "3", id="a number is written in digits"),
        pytest.param(True, "true", id="a truth value is written as in JSON"),
        pytest.param(Colour.RED, "red", id="a member of an enumeration is its value"),
        pytest.param(
            datetime(2026, 11, 16, 13, tzinfo=timezone(timedelta(hours=1))),
            "2026-11-16T12:00:00.000Z",
            id="an instant is in UTC",
        ),
        pytest.param(OSError(24, "Too many open files"), '"[Errno 24] Too many open files"', id="an error"),
    ],
)
def test_a_field_as_text(value: object, text: str) -> None:
    assert str(LogMessage("seen", field=value)) == f"seen field={text}"


def test_fields_keep_their_order_and_those_without_a_value_are_left_out() -> None:
    message = LogMessage("set_created", set="web", zone=None, machines=3)

    assert str(message) == "set_created set=web machines=3"


@given(st.text())
def test_any_text_gives_one_line_without_hidden_characters(text: str) -> None:
    message = LogMessage("seen", field=text)

    for line in (str(message), json_line(message.fields)):
        assert first_hidden(line) is None
        assert line.splitlines() == [line]


@given(st.text(max_size=LONGEST_VALUE))
def test_a_program_reads_back_what_was_logged(text: str) -> None:
    message = LogMessage("seen", field=text, at=datetime(2026, 11, 16, tzinfo=UTC), count=2)

    assert json.loads(json_line(message.fields)) == {
        "field": text,
        "at": "2026-11-16T00:00:00.000Z",
        "count": 2,
    }


def test_a_megabyte_is_cut_off() -> None:
    message = LogMessage("seen", field="\n" * 1_000_000)

    assert len(str(message)) < 2 * LONGEST_VALUE + 20
    assert len(json_line(message.fields)) < 6 * LONGEST_VALUE + 20
    assert str(message).endswith('…"')


def test_json_is_ascii_so_that_no_encoding_can_break_it() -> None:
    assert json_line({"name": "Zürich\x7f"}) == '{"name":"Z\\u00fcrich\\u007f"}'
