"""The numbers and switches, and the profiles that bundle them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import InvalidError
from fairwarning.core.policy import (
    PROFILES,
    FirstCall,
    Policy,
    retry_delay,
    whole_second,
    with_speed,
)
from tests.fleet_harness import span


@pytest.mark.rule("V-01")
@pytest.mark.rule("R-25")
def test_the_azure_profile_is_what_azure_does_today() -> None:
    profile = PROFILES["azure"]

    assert profile.versions is None
    assert not profile.preview_version
    assert profile.iso_dates is None
    assert profile.unsupported_version_status == 404
    assert not profile.post_returns_document
    assert (profile.first_call, profile.first_call_delay) == (FirstCall.NONE, timedelta(0))
    assert (profile.requests_per_second, profile.burst) == (5, 5)
    assert profile.policy == Policy(
        speed=1,
        disable_after=span("24h"),
        max_user_events=None,
        one_update_domain=True,
        terminate_requires_enabled=True,
        start_enabled=False,
    )


@pytest.mark.rule("L-16")
def test_the_first_preview_knows_one_version_ten_user_events_and_no_sleep() -> None:
    profile = PROFILES["preview2017"]

    assert profile.versions == frozenset({"2017-03-01"})
    assert profile.unsupported_version_status == 400
    assert profile.policy.max_user_events == 10
    assert profile.policy.disable_after is None
    assert profile.policy.one_update_domain


@pytest.mark.rule("L-05")
def test_speed_divides_every_duration() -> None:
    fast = with_speed(Policy(), 60)

    assert fast.shorten(span("15m")) == span("15s")
    assert fast.poll_refresh == span("6m")


@pytest.mark.parametrize("speed", [0.0, -1.0, 1e-12, 1e9, float("inf"), float("nan")])
def test_time_neither_stands_still_nor_goes_back(speed: float) -> None:
    with pytest.raises(InvalidError, match="speed: must be between"):
        with_speed(Policy(), speed)


@pytest.mark.rule("L-05")
@given(st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_a_whole_second_is_never_earlier_and_less_than_a_second_later(instant: datetime) -> None:
    whole = whole_second(instant)

    assert whole.microsecond == 0
    assert timedelta(0) <= whole - instant < span("1s")


@given(st.integers(min_value=1, max_value=10_000))
def test_a_failed_impact_rests_longer_each_time_up_to_five_minutes(attempt: int) -> None:
    assert span("5s") <= retry_delay(attempt) <= retry_delay(attempt + 1) <= span("5m")
