"""The clock page."""

from datetime import timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import EventStatus
from fairwarning.core.policy import Policy
from tests.conftest import NOON
from tests.console.console_client import console_client, text

WEB = Blueprint(name="web", count=2)


def test_a_manual_clock_is_advanced() -> None:
    client = console_client(WEB)

    page = client.accepted("/clock/advance", "/clock", by="1h30m")

    assert "2026-11-16 13:30:00Z" in text(page)
    assert client.stage.now == NOON + timedelta(minutes=90)


def test_time_stops_at_every_deadline_on_the_way() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")

    client.accepted("/clock/advance", "/clock", by="1d")

    assert client.stage.story(event) == ["scheduled", "started", "finished"]


def test_the_next_deadline_is_shown_and_the_clock_can_be_advanced_to_it() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    before = text(client.page("/clock"))

    page = client.accepted("/clock/next", "/clock")

    assert "Next deadline 2026-11-16 12:15:00Z" in before
    assert "The clock was advanced by 15m." in text(page)
    assert client.stage.status(event) is EventStatus.STARTED


def test_where_nothing_is_due_the_clock_stays() -> None:
    client = console_client(WEB, watched=False)

    page = client.accepted("/clock/next", "/clock")

    assert "Nothing is due; the clock was not advanced." in text(page)
    assert client.stage.now == NOON


@pytest.mark.parametrize("by", ["", "soon", "-5m", "400d", "1e9s"])
def test_an_invalid_duration_is_refused_in_place(by: str) -> None:
    client = console_client(WEB)

    page = client.refused("/clock/advance", "/clock", by=by, status=422)

    assert 'class="field wrong"' in page
    assert client.stage.now == NOON


def test_a_manual_clock_has_no_speed() -> None:
    client = console_client(WEB)

    assert "/clock/speed" not in client.page("/clock")
    assert "a manual clock has no speed" in text(
        client.refused("/clock/speed", "/clock", speed="2", status=409)
    )


def test_a_real_clock_cannot_be_advanced_and_says_so() -> None:
    client = console_client(WEB, real_clock=True)

    page = text(client.page("/clock"))

    assert "This fleet runs on real time." in page
    assert "Advance" not in page
    assert "cannot be advanced" in text(client.refused("/clock/next", "/clock", status=409))


def test_the_speed_of_a_real_clock_is_told_and_changed() -> None:
    client = console_client(WEB, real_clock=True, policy=Policy(speed=10.0))
    before = text(client.page("/clock"))

    page = text(client.accepted("/clock/speed", "/clock", speed="60"))

    assert "Speed 10×" in before
    assert "Speed 60×" in page
    assert client.stage.engine.policy.speed == 60.0


@pytest.mark.parametrize("speed", ["", "fast", "0", "-1", "nan", "inf", "1e9"])
def test_an_invalid_speed_is_refused_in_place(speed: str) -> None:
    client = console_client(WEB, real_clock=True)

    page = client.refused("/clock/speed", "/clock", speed=speed, status=422)

    assert 'class="field wrong"' in page
    assert client.stage.engine.policy.speed == 1.0
