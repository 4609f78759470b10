"""Parsing and formatting durations."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.formats.durations import LONGEST_DURATION, for_people, parse

WHOLE_SECONDS = st.integers(0, int(LONGEST_DURATION.total_seconds())).map(lambda n: timedelta(seconds=n))


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0s", timedelta(0)),
        ("30s", timedelta(seconds=30)),
        ("15m", timedelta(minutes=15)),
        ("90m", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("1d2h3m4s", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("PT5M", timedelta(minutes=5)),
        ("PT300S", timedelta(minutes=5)),
        ("PT0H10M", timedelta(minutes=10)),
        ("PT1H30M", timedelta(minutes=90)),
        ("P2D", timedelta(days=2)),
        ("P1DT12H", timedelta(hours=36)),
        ("3650d", LONGEST_DURATION),
    ],
)
def test_a_duration_is_read_as_people_and_standards_write_it(text: str, duration: timedelta) -> None:
    assert parse(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("30", id="a number without its unit"),
        pytest.param("m", id="a unit without its number"),
        pytest.param("-5m", id="a time gone by"),
        pytest.param("1.5h", id="a fraction"),
        pytest.param("30m1h", id="units in the wrong order"),
        pytest.param("5m5m", id="a unit given twice"),
        pytest.param("5 m", id="a space"),
        pytest.param("5m\n", id="a line break"),
        pytest.param("٥m", id="digits of another script"),
        pytest.param("1w", id="weeks"),
        pytest.param("P", id="a standard duration without a length"),
        pytest.param("PT", id="a standard time without a length"),
        pytest.param("P1DT", id="a standard duration that breaks off"),
        pytest.param("P1Y", id="years, which differ in length"),
        pytest.param("pt5m", id="the standard in lower case"),
        pytest.param("3651d", id="more than ten years"),
        pytest.param("999999999d", id="more than the calendar has"),
        pytest.param("9" * 5000 + "s", id="a very long number"),
    ],
)
def test_what_is_no_duration_is_refused_naming_the_field(text: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        parse_duration(text, "notice")

    assert refusal.value.field == "notice"
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(hours=24), "1d"),
        (timedelta(minutes=5, microseconds=999_999), "5m"),
        (timedelta(seconds=-5), "0s"),
    ],
)
def test_a_duration_is_spelt_to_the_whole_second(duration: timedelta, text: str) -> None:
    assert for_people(duration) == text


@given(WHOLE_SECONDS)
def test_what_is_spelt_reads_as_the_same_duration(duration: timedelta) -> None:
    assert parse(for_people(duration)) == duration
