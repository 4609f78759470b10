"""Hidden characters are refused in names, and escaped in output."""

import json
import re
import sys
import unicodedata

import pytest

from fairwarning.core.blueprint import check_name
from fairwarning.core.document.render import parse_event_id
from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import check_visible
from fairwarning.formats.hidden_characters import (
    HIDDEN,
    HIDDEN_CLASS,
    escape_hidden,
    escape_hidden_json,
    first_hidden,
)

CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
SAMPLES = "\0\n\x1b\x7f\x9b\u00ad\u200b\u2028\u202e\u2066\ufeff\U000e0041"


def test_the_table_is_what_unicode_says() -> None:
    table = {code for first, last in HIDDEN for code in range(first, last + 1)}
    unicode = {code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in CATEGORIES}

    assert unicode <= table
    # A newer version of Unicode may have more of these characters than Python's tables.
    assert {unicodedata.category(chr(code)) for code in table - unicode} <= {"Cn"}


@pytest.mark.parametrize("character", SAMPLES, ids=ascii)
def test_a_hidden_character_is_refused_by_its_number(character: str) -> None:
    number = f"U+{ord(character):04X}"

    with pytest.raises(InvalidError, match=re.escape(f"by: contains the invisible character {number}")):
        check_visible(f"an{character}na", "by")
    with pytest.raises(InvalidError, match=re.escape(number)):
        check_name(f"web{character}")
    with pytest.raises(InvalidError, match="event: must be at most 64 printable characters"):
        parse_event_id(f"A{character}", "event")


@pytest.mark.parametrize("text", ["anna", "Ana María", "аня", "安娜", "a b", "👩", "~!@#$%^&*()"])
def test_what_can_be_seen_is_left_alone(text: str) -> None:
    check_visible(text, "by")

    assert first_hidden(text) is None
    assert escape_hidden(text) == escape_hidden_json(text) == text


@pytest.mark.parametrize("character", SAMPLES, ids=ascii)
def test_what_is_shown_has_nothing_hidden_in_it(character: str) -> None:
    text = f"by {character} nobody"

    assert first_hidden(escape_hidden(text)) is None
    assert escape_hidden(text, keep=character) == text
    assert first_hidden(escape_hidden_json(json.dumps(text, ensure_ascii=False))) is None
    assert json.loads(escape_hidden_json(json.dumps(text, ensure_ascii=False))) == text


def test_the_class_matches_what_is_hidden_and_nothing_else() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))

    left = re.sub(f"[{HIDDEN_CLASS}]", "", every)

    assert len(every) - len(left) == sum(last - first + 1 for first, last in HIDDEN)
