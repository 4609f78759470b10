"""Formatting instants."""

from datetime import timedelta

import pytest

from fairwarning.formats.timestamps import for_people
from tests.guest import NOON


@pytest.mark.parametrize(
    ("after", "text"),
    [
        pytest.param(timedelta(0), "12:00:00Z", id="now"),
        pytest.param(timedelta(hours=11, minutes=59), "23:59:00Z", id="later today"),
        pytest.param(timedelta(hours=-12), "00:00:00Z", id="earlier today"),
        pytest.param(timedelta(hours=12), "2026-11-17 00:00:00Z", id="tomorrow"),
        pytest.param(timedelta(hours=-13), "2026-11-15 23:00:00Z", id="yesterday"),
        pytest.param(timedelta(days=7), "2026-11-23 12:00:00Z", id="in a week"),
        pytest.param(timedelta(days=365), "2027-11-16 12:00:00Z", id="in a year"),
    ],
)
def test_an_instant_has_a_date_unless_it_is_todays(after: timedelta, text: str) -> None:
    assert for_people(NOON + after, NOON) == text


def test_an_instant_has_a_date_unless_today_is_given() -> None:
    assert for_people(NOON) == "2026-11-16 12:00:00Z"
