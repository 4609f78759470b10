"""Parsing instants in a time zone, and formatting them for people."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.formats.instants import for_people, parse_instant

BERLIN, NEW_YORK, LORD_HOWE = map(ZoneInfo, ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe"))

#: A Monday; in Berlin it is 13:00.
MONDAY = datetime(2026, 11, 16, 12, tzinfo=UTC)

#: Clocks are put forward by an hour at 01:00Z and 07:00Z, and at 15:30Z by half an hour.
BERLIN_SPRING = datetime(2027, 3, 28, 1, tzinfo=UTC)
NEW_YORK_SPRING = datetime(2027, 3, 14, 7, tzinfo=UTC)
LORD_HOWE_SPRING = datetime(2027, 10, 2, 15, 30, tzinfo=UTC)
#: Clocks are put back by an hour at 01:00Z and 06:00Z, and at 15:00Z by half an hour.
BERLIN_AUTUMN = datetime(2027, 10, 31, 1, tzinfo=UTC)
NEW_YORK_AUTUMN = datetime(2027, 11, 7, 6, tzinfo=UTC)
LORD_HOWE_AUTUMN = datetime(2027, 4, 3, 15, tzinfo=UTC)

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


def parsed(text: str, now: datetime, zone: tzinfo) -> str:
    return f"{parse_instant(text, now, zone):%a %Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        pytest.param("Thu 02:00", "Thu 2026-11-19T01:00:00Z", id="a day of the week and a time"),
        pytest.param("thursday 2:00", "Thu 2026-11-19T01:00:00Z", id="in lower case, in full"),
        pytest.param("SUN 23:59", "Sun 2026-11-22T22:59:00Z", id="in upper case"),
        pytest.param("Mon 13:01", "Mon 2026-11-16T12:01:00Z", id="later today"),
        pytest.param("Mon 13:00", "Mon 2026-11-23T12:00:00Z", id="this very minute, so in a week"),
        pytest.param("Mon 12:59", "Mon 2026-11-23T11:59:00Z", id="earlier today, so in a week"),
        pytest.param("14:00", "Mon 2026-11-16T13:00:00Z", id="a time of today"),
        pytest.param("13:00", "Tue 2026-11-17T12:00:00Z", id="a time of tomorrow"),
        pytest.param("0:30", "Mon 2026-11-16T23:30:00Z", id="a time after midnight, where UTC is behind"),
        pytest.param("2026-11-19T02:00+01:00", "Thu 2026-11-19T01:00:00Z", id="ISO 8601 with an offset"),
        pytest.param("2026-11-19T02:00:30-05:30", "Thu 2026-11-19T07:30:30Z", id="with seconds"),
        pytest.param("2026-11-19T02:00Z", "Thu 2026-11-19T02:00:00Z", id="in UTC"),
        pytest.param("2026-11-19T02:00", "Thu 2026-11-19T01:00:00Z", id="in local time"),
        pytest.param("2026-11-19 02:00", "Thu 2026-11-19T01:00:00Z", id="with a space"),
        pytest.param("2026-11-19 02:00 +01:00", "Thu 2026-11-19T01:00:00Z", id="with two spaces"),
        pytest.param("2025-01-01T00:00Z", "Wed 2025-01-01T00:00:00Z", id="in the past"),
        pytest.param("+5h", "Mon 2026-11-16T17:00:00Z", id="a time from now"),
        pytest.param("+90m", "Mon 2026-11-16T13:30:00Z", id="in minutes"),
        pytest.param("+1d12h", "Wed 2026-11-18T00:00:00Z", id="in days and hours"),
    ],
)
def test_an_instant_is_read_as_operators_and_standards_write_it(text: str, instant: str) -> None:
    assert parsed(text, MONDAY, BERLIN) == instant


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("Thu", id="a day without a time"),
        pytest.param("T 02:00", id="too short for a day"),
        pytest.param("Thur 02:00", id="neither short nor in full"),
        pytest.param("Do 02:00", id="a day in another language"),
        pytest.param("Thu  02:00", id="two spaces"),
        pytest.param("Thu 24:00", id="an hour too late"),
        pytest.param("Thu 02:60", id="a minute too late"),
        pytest.param("Thu 2", id="an hour alone"),
        pytest.param("02:00\n", id="a line break"),
        pytest.param("٠٢:٠٠", id="digits of another script"),
        pytest.param("2026-11-19", id="a date alone"),
        pytest.param("2026-02-30T02:00", id="a day that the month does not have"),
        pytest.param("2026-11-19T24:00Z", id="an hour that the day does not have"),
        pytest.param("2026-11-19T02:00+25:00", id="an offset of more than a day"),
        pytest.param("20261119T0200Z", id="without punctuation"),
        pytest.param("1999-11-19T02:00Z", id="another millennium"),
        pytest.param("9999-12-31T23:59-12:00", id="beyond the calendar"),
        pytest.param("5h", id="a duration without a plus sign"),
        pytest.param("-5h", id="a duration gone by"),
        pytest.param("9" * 5000, id="a very long number"),
    ],
)
def test_what_is_no_instant_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="'Thu 02:00', 2026-11-19T02:00") as refusal:
        parse_instant(text, MONDAY, BERLIN)

    assert str(refusal.value).startswith(f"invalid instant {text[:40]!r} (expected e.g. ")


@pytest.mark.parametrize("text", ["+", "+5", "++5h", "+ 5h", "+3651d"])
def test_a_time_from_now_has_to_be_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(invalid duration '.*'|'3651d' is longer than 3650d)"):
        parse_instant(text, MONDAY, BERLIN)


@pytest.mark.parametrize(
    ("text", "now", "zone", "instant"),
    [
        pytest.param(
            "Mon 02:30", BERLIN_SPRING - DAY, BERLIN, "Mon 2027-03-29T00:30:00Z", id="summer time has begun"
        ),
        pytest.param("Sun 01:59", BERLIN_SPRING - DAY, BERLIN, "Sun 2027-03-28T00:59:00Z", id="just before"),
        pytest.param(
            "Sun 03:00", BERLIN_SPRING - DAY, BERLIN, "Sun 2027-03-28T01:00:00Z", id="at the change"
        ),
        pytest.param("02:30", BERLIN_SPRING, BERLIN, "Mon 2027-03-29T00:30:00Z", id="the gap has gone by"),
        pytest.param("Sun 02:30", BERLIN_SPRING, BERLIN, "Sun 2027-04-04T00:30:00Z", id="so in a week"),
        pytest.param("+5h", BERLIN_SPRING - MINUTE, BERLIN, "Sun 2027-03-28T05:59:00Z", id="five hours pass"),
        pytest.param(
            "Sun 03:00", NEW_YORK_SPRING - DAY, NEW_YORK, "Sun 2027-03-14T07:00:00Z", id="in New York, too"
        ),
        pytest.param(
            "Sun 02:30",
            LORD_HOWE_SPRING - DAY,
            LORD_HOWE,
            "Sat 2027-10-02T15:30:00Z",
            id="a gap of half an hour ends",
        ),
        pytest.param(
            "Sun 02:30", BERLIN_AUTUMN - DAY, BERLIN, "Sun 2027-10-31T00:30:00Z", id="the first of two"
        ),
        pytest.param(
            "2027-10-31T02:30", BERLIN_AUTUMN + DAY, BERLIN, "Sun 2027-10-31T00:30:00Z", id="also by its date"
        ),
        pytest.param(
            "2027-10-31T02:30+01:00",
            BERLIN_AUTUMN,
            BERLIN,
            "Sun 2027-10-31T01:30:00Z",
            id="the second by its offset",
        ),
        pytest.param(
            "02:30", BERLIN_AUTUMN, BERLIN, "Sun 2027-10-31T01:30:00Z", id="the second once the first is over"
        ),
        pytest.param(
            "Sun 03:00", BERLIN_AUTUMN - DAY, BERLIN, "Sun 2027-10-31T02:00:00Z", id="winter time has begun"
        ),
        pytest.param(
            "Sun 01:30",
            NEW_YORK_AUTUMN - DAY,
            NEW_YORK,
            "Sun 2027-11-07T05:30:00Z",
            id="the first of two in New York",
        ),
        pytest.param(
            "Sun 01:45",
            LORD_HOWE_AUTUMN - DAY,
            LORD_HOWE,
            "Sat 2027-04-03T14:45:00Z",
            id="the first of two, half an hour apart",
        ),
        pytest.param(
            "Sun 01:45",
            LORD_HOWE_AUTUMN,
            LORD_HOWE,
            "Sat 2027-04-03T15:15:00Z",
            id="the second, half an hour later",
        ),
        pytest.param(
            "Sun 02:30", BERLIN_SPRING - DAY, UTC, "Sun 2027-03-28T02:30:00Z", id="UTC never changes"
        ),
    ],
)
def test_local_time_follows_the_clocks_of_the_zone(
    text: str, now: datetime, zone: tzinfo, instant: str
) -> None:
    assert parsed(text, now, zone) == instant


@pytest.mark.parametrize(
    ("text", "now", "zone", "shown"),
    [
        pytest.param(
            "2027-03-28T02:00", MONDAY, BERLIN, "2027-03-28 02:00", id="the first minute of the hour"
        ),
        pytest.param(
            "2027-03-28T02:59", MONDAY, BERLIN, "2027-03-28 02:59", id="the last minute of the hour"
        ),
        pytest.param(
            "2027-03-28T02:30", BERLIN_SPRING + DAY, BERLIN, "2027-03-28 02:30", id="a date of the past"
        ),
        pytest.param("Sun 02:30", BERLIN_SPRING - DAY, BERLIN, "2027-03-28 02:30", id="a day of the week"),
        pytest.param("02:30", BERLIN_SPRING - MINUTE, BERLIN, "2027-03-28 02:30", id="a time"),
        pytest.param("Sun 02:30", NEW_YORK_SPRING - DAY, NEW_YORK, "2027-03-14 02:30", id="in New York"),
        pytest.param("02:15", LORD_HOWE_SPRING - MINUTE, LORD_HOWE, "2027-10-03 02:15", id="half an hour"),
        pytest.param(
            "2011-12-30T12:00", MONDAY, ZoneInfo("Pacific/Apia"), "2011-12-30 12:00", id="a whole day"
        ),
    ],
)
def test_a_time_that_clocks_skip_is_refused(text: str, now: datetime, zone: tzinfo, shown: str) -> None:
    with pytest.raises(ValueError, match=f"^{shown} does not exist in {zone}: clocks are put forward then$"):
        parse_instant(text, now, zone)


@pytest.mark.parametrize(
    ("when", "zone", "text"),
    [
        pytest.param(MONDAY, BERLIN, "Mon 2026-11-16 13:00 +01:00", id="in winter"),
        pytest.param(BERLIN_SPRING, BERLIN, "Sun 2027-03-28 03:00 +02:00", id="in summer"),
        pytest.param(BERLIN_AUTUMN - MINUTE, BERLIN, "Sun 2027-10-31 02:59 +02:00", id="the first of two"),
        pytest.param(BERLIN_AUTUMN, BERLIN, "Sun 2027-10-31 02:00 +01:00", id="the second of two"),
        pytest.param(MONDAY, NEW_YORK, "Mon 2026-11-16 07:00 -05:00", id="west of Greenwich"),
        pytest.param(MONDAY, LORD_HOWE, "Mon 2026-11-16 23:00 +11:00", id="Lord Howe in summer"),
        pytest.param(
            LORD_HOWE_AUTUMN, LORD_HOWE, "Sun 2027-04-04 01:30 +10:30", id="an offset of half hours"
        ),
        pytest.param(MONDAY, UTC, "Mon 2026-11-16 12:00 +00:00", id="in UTC"),
        pytest.param(
            MONDAY + timedelta(seconds=30, microseconds=5),
            UTC,
            "Mon 2026-11-16 12:00:30 +00:00",
            id="with seconds where there are any",
        ),
    ],
)
def test_people_read_an_instant_in_their_zone_with_its_offset(
    when: datetime, zone: tzinfo, text: str
) -> None:
    assert for_people(when, zone) == text


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC)),
    st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, UTC]),
)
def test_what_people_read_stands_for_the_same_instant_without_its_day(when: datetime, zone: tzinfo) -> None:
    instant = when.replace(microsecond=0)

    assert parse_instant(for_people(instant, zone).partition(" ")[2], instant, zone) == instant


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC)),
    st.integers(1, 22 * 60),
    st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, UTC]),
)
def test_a_time_stands_for_the_next_instant_at_which_clocks_show_it(
    when: datetime, minutes: int, zone: tzinfo
) -> None:
    now = when.replace(second=0, microsecond=0)
    later = now + minutes * MINUTE
    text = f"{later.astimezone(zone):%H:%M}"

    instant = parse_instant(text, now, zone)

    assert now < instant <= later
    assert f"{instant.astimezone(zone):%H:%M}" == text
