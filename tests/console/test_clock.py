"""The clock page."""

from datetime import timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import EventStatus
from fairwarning.core.policy import Policy
from tests.conftest import NOON
from tests.console.console_client import lobby, text

WEB = Blueprint(name="web", count=2)


def test_a_manual_clock_is_advanced() -> None:
    desk = lobby(WEB)

    page = desk.done("/clock/advance", "/clock", by="1h30m")

    assert "2026-11-16 13:30:00Z" in text(page)
    assert desk.stage.now == NOON + timedelta(minutes=90)


def test_time_stops_at_every_deadline_on_the_way() -> None:
    desk = lobby(WEB)
    (event,) = desk.stage.cause("restart", "web_0")

    desk.done("/clock/advance", "/clock", by="1d")

    assert desk.stage.story(event) == ["scheduled", "started", "finished"]


def test_the_next_deadline_is_told_and_can_be_gone_to() -> None:
    desk = lobby(WEB)
    (event,) = desk.stage.cause("restart", "web_0")
    before = text(desk.page("/clock"))

    page = desk.done("/clock/next", "/clock")

    assert "Next deadline 2026-11-16 12:15:00Z" in before
    assert "time moved on by 15m" in text(page)
    assert desk.stage.status(event) is EventStatus.STARTED


def test_where_nothing_is_due_time_stays() -> None:
    desk = lobby(WEB, watched=False)

    page = desk.done("/clock/next", "/clock")

    assert "nothing is due: time stays" in text(page)
    assert desk.stage.now == NOON


@pytest.mark.parametrize("by", ["", "soon", "-5m", "400d", "1e9s"])
def test_a_journey_that_makes_no_sense_is_refused_in_place(by: str) -> None:
    desk = lobby(WEB)

    page = desk.refused("/clock/advance", "/clock", by=by, status=422)

    assert 'class="field wrong"' in page
    assert desk.stage.now == NOON


def test_a_manual_clock_has_no_speed() -> None:
    desk = lobby(WEB)

    assert "/clock/speed" not in desk.page("/clock")
    assert "clock has no speed" in text(desk.refused("/clock/speed", "/clock", speed="2", status=409))


def test_a_real_clock_cannot_be_advanced_and_says_so() -> None:
    desk = lobby(WEB, real_clock=True)

    page = text(desk.page("/clock"))

    assert "Time is real" in page
    assert "Advance" not in page
    assert "cannot be advanced" in text(desk.refused("/clock/next", "/clock", status=409))


def test_the_speed_of_a_real_clock_is_told_and_changed() -> None:
    desk = lobby(WEB, real_clock=True, policy=Policy(speed=10.0))
    before = text(desk.page("/clock"))

    page = text(desk.done("/clock/speed", "/clock", speed="60"))

    assert "Speed 10×" in before
    assert "Speed 60×" in page
    assert desk.stage.engine.policy.speed == 60.0


@pytest.mark.parametrize("speed", ["", "fast", "0", "-1", "nan", "inf", "1e9"])
def test_a_speed_that_makes_no_sense_is_refused_in_place(speed: str) -> None:
    desk = lobby(WEB, real_clock=True)

    page = desk.refused("/clock/speed", "/clock", speed=speed, status=422)

    assert 'class="field wrong"' in page
    assert desk.stage.engine.policy.speed == 1.0
