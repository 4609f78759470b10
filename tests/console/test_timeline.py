"""The drawing of a scope's events: its content, and that hostile texts are escaped."""

from datetime import datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from fairwarning.console.axis import Axis
from fairwarning.console.event_timeline import EventTimeline, event_timelines
from fairwarning.console.timeline import MOST_LANES, WIDTH, draw_timeline, summary
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.model import (
    BarrierId,
    Event,
    EventId,
    EventSource,
    EventStatus,
    EventType,
    ScopeId,
    VmName,
)
from fairwarning.drivers.simulated import Mishap
from fairwarning.engine.ports import Entry
from tests.fleet_harness import NOON, FleetHarness, span

WEB = Blueprint(name="web", count=6, terminate_notice=timedelta(minutes=5))
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '"><script>alert(1)</script><!-- &amp; \x00\x1b ]]>'


def timelines(stage: FleetHarness, scope: str = "web") -> tuple[EventTimeline, ...]:
    """Return the timelines of a scope's events."""
    return event_timelines(stage.journal(), stage.pending(scope))


def drawn(stage: FleetHarness, window: str = "1d") -> ElementTree.Element:
    """Return the picture of the stage's only scope, which has to be well-formed."""
    return ElementTree.fromstring(draw_timeline(ScopeId("web"), timelines(stage), stage.now, span(window)))


def parts(picture: ElementTree.Element, sort: str) -> list[ElementTree.Element]:
    """Return the parts of a sort that lie in lanes, without the legend's."""
    return [part for lane in picture.iter(f"{SVG}g") for part in lane if part.get("class") == sort]


def texts(picture: ElementTree.Element) -> list[str]:
    """Return every text in the picture."""
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def edges(part: ElementTree.Element) -> tuple[float, float]:
    """Return where a bar begins and ends."""
    left = float(part.get("x", ""))
    return left, left + float(part.get("width", ""))


def approved(id: str = "ONE", by: str = "web_0", name: str = "web_0", cause: str = "restart") -> Entry:
    """Return the journal line of an event with these words in it."""
    event = Event(
        id=EventId(id),
        scope=ScopeId("web"),
        cause=cause,
        kind=EventType.REBOOT,
        source=EventSource.USER,
        resources=(VmName(name),),
        description="",
        duration=-1,
        created_at=NOON,
        not_before=NOON + span("15m"),
        barrier=BarrierId("alone"),
        approved_by=by,
    )
    change = EventChanged(scope=event.scope, event=event, what=EventMilestone.APPROVED, by=by)
    return Entry(seq=1, at=NOON, version=1, change=change)


def test_an_approved_event_shows_its_notice_its_approval_and_its_impact() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")
    stage.advance("2m")
    stage.approve(event, by="web_1")
    stage.advance("1m")

    picture = drawn(stage)

    (notice,), (impact,), (unused,) = (parts(picture, sort) for sort in ("notice", "impact", "unused"))
    assert edges(notice)[1] == pytest.approx(edges(impact)[0], abs=0.2)
    assert edges(impact)[0] == pytest.approx(edges(unused)[0], abs=0.2)
    assert len(parts(picture, "approval")) == 1
    assert (
        "announced 12:00:00 · NotBefore 12:15:00 · approved 12:02:00 by web_1 · started 12:02:00"
        " · finished 12:02:05" in texts(picture)
    )


def test_what_still_waits_says_how_long_and_has_no_impact() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("5m")

    picture = drawn(stage)

    assert len(parts(picture, "notice")) == len(parts(picture, "due")) == 1
    assert parts(picture, "impact") == parts(picture, "unused") == []
    assert "announced 12:00:00 · NotBefore 12:15:00 · due in 10m" in texts(picture)


def test_a_cancelled_event_is_greyed_and_says_by_whom() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("redeploy", "web_0")
    stage.advance("2m")
    stage.cancel(event)

    picture = drawn(stage)

    assert [len(parts(picture, sort)) for sort in ("cancelled", "cross", "notice", "impact")] == [1, 1, 0, 0]
    assert any(text.endswith("cancelled 12:02:00 by operator") for text in texts(picture))


def test_an_event_that_nobody_approved_says_so() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("16m")

    picture = drawn(stage)

    assert parts(picture, "approval") == parts(picture, "unused") == []
    assert any("started 12:15:00 without approval · finished 12:15:05" in text for text in texts(picture))


def test_an_impact_without_notice_has_no_notice_bar() -> None:
    stage = FleetHarness(WEB)
    stage.cause("hardware-failure", "web_0")
    stage.advance("2s")

    picture = drawn(stage)

    assert parts(picture, "notice") == parts(picture, "due") == []
    assert len(parts(picture, "impact")) == 1
    assert "started 12:00:00 without notice · in progress" in texts(picture)


def test_failed_attempts_are_marked() -> None:
    stage = FleetHarness(WEB)
    stage.break_machine("web_0", Mishap.FAILS)
    stage.cause("hardware-failure", "web_0")
    stage.advance("1m")

    picture = drawn(stage)

    assert len(parts(picture, "failure")) == 1
    assert any("1 failed attempt" in text for text in texts(picture))


def test_an_event_in_an_unpolled_scope_says_that_no_guest_was_shown_it() -> None:
    stage = FleetHarness(WEB, watched=False)
    stage.cause("freeze", "web_0")

    assert any("not shown to guests" in text for text in texts(drawn(stage)))


@pytest.mark.parametrize(
    ("cause", "marks"),
    [
        pytest.param("evict", ["16 Nov 12:00:00", "12:00:05"], id="thirty seconds have marks of seconds"),
        pytest.param("restart", ["16 Nov 12:00", "12:02"], id="fifteen minutes have marks of minutes"),
    ],
)
def test_the_axis_has_marks_that_suit_its_length(cause: str, marks: list[str]) -> None:
    stage = FleetHarness(Blueprint(name="web", spot=True))
    stage.cause(cause, "web_0")

    assert texts(drawn(stage))[2:4] == marks


def test_a_day_has_marks_of_hours_and_says_which_day() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("20h")
    stage.cause("restart", "web_1")

    found = texts(drawn(stage))

    assert {"16 Nov 12:00", "18:00", "17 Nov 00:00", "06:00"} <= set(found)
    assert any(text.startswith("announced 16 Nov 12:00:00") for text in found)


def test_what_is_due_beyond_the_window_is_cut_off_with_a_sign() -> None:
    stage = FleetHarness(WEB)
    stage.cause("predicted-failure", "web_0")

    picture = drawn(stage, "2h")

    assert len(parts(picture, "beyond")) == 1
    assert parts(picture, "due") == []
    assert "announced 12:00:00 · NotBefore 23 Nov 12:00:00 · due in 7d" in texts(picture)


def test_what_ended_before_the_window_is_left_out() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("3h")

    assert "no events in this period" in texts(drawn(stage, "1h"))
    assert "no events in this period" not in texts(drawn(stage, "4h"))


def test_what_is_over_fills_the_picture_and_now_is_no_part_of_it() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")
    stage.advance("20h")

    picture = drawn(stage)

    assert "now" not in texts(picture)
    left, _ = edges(parts(picture, "notice")[0])
    _, right = edges(parts(picture, "impact")[0])
    assert right - left > 700


def test_a_notice_that_ended_before_the_window_has_no_sign_ahead() -> None:
    stage = FleetHarness(WEB, azure_timings=True)
    stage.cause("restart", "web_0")
    stage.advance("20m")

    assert parts(drawn(stage, "2m"), "beyond") == []


def test_too_many_events_lose_the_oldest_and_say_so() -> None:
    stage = FleetHarness(Blueprint(name="web", count=MOST_LANES + 3))
    for number in range(MOST_LANES + 3):
        stage.cause("restart", f"web_{number}")
        stage.advance("1s")

    picture = drawn(stage)

    assert len(parts(picture, "notice")) == MOST_LANES
    assert any("3 older events left out" in text for text in texts(picture))
    assert "3 older events left out" in (picture.findtext(f"{SVG}desc") or "")


def test_everything_stays_inside_the_picture() -> None:
    stage = FleetHarness(WEB)
    for number, cause in enumerate(("restart", "freeze", "redeploy", "hardware-failure", "delete")):
        stage.cause(cause, f"web_{number}")
        stage.advance("4m")

    for bar in drawn(stage).iter(f"{SVG}rect"):
        assert float(bar.get("x", "0")) >= 0
        assert float(bar.get("x", "0")) + float(bar.get("width", "")) <= WIDTH


def test_the_picture_has_a_name_and_tells_its_content_in_words() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")

    picture = drawn(stage)

    assert picture.get("role") == "img"
    assert picture.findtext(f"{SVG}title") == "Scheduled events of web"
    assert (picture.findtext(f"{SVG}desc") or "").startswith("Reboot of web_0: announced 12:00:00")


@pytest.mark.parametrize(
    ("scope", "entry"),
    [
        pytest.param("web", approved(id=HOSTILE), id="in the event's id"),
        pytest.param("web", approved(by=HOSTILE), id="in who approved"),
        pytest.param("web", approved(name=HOSTILE), id="in a machine's name"),
        pytest.param("web", approved(cause=HOSTILE), id="in the cause"),
        pytest.param(HOSTILE, approved(), id="in the scope's name"),
    ],
)
def test_hostile_words_stay_words(scope: str, entry: Entry) -> None:
    text = draw_timeline(ScopeId(scope), event_timelines([entry]), NOON)

    picture = ElementTree.fromstring(text)
    known = ("svg", "title", "desc", "rect", "text", "g", "line", "path")
    assert {element.tag for element in picture.iter()} <= {f"{SVG}{name}" for name in known}
    assert "<script" not in text
    assert "\x00" not in text


def test_the_picture_needs_nothing_from_outside() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0")

    text = draw_timeline(ScopeId("web"), timelines(stage), stage.now)

    for foreign in ("<style", "style=", "href", "url(", "<image", "<use", "@import", "onload"):
        assert foreign not in text


def test_a_pending_event_is_told_even_if_the_journal_no_longer_reaches_back_to_it() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")
    stage.advance("1m")
    stage.approve(event, by="web_1")

    (timeline,) = event_timelines([], stage.pending("web"))

    assert timeline.event.status is EventStatus.STARTED
    assert [step.what for step in timeline.steps] == [EventMilestone.SCHEDULED, EventMilestone.STARTED]
    assert "approved by web_1" in summary(timeline, stage.now)


@pytest.mark.parametrize(
    ("length", "step"),
    [
        pytest.param("4s", "1s", id="a few seconds"),
        pytest.param("32s", "5s", id="half a minute"),
        pytest.param("16m", "2m", id="a quarter of an hour"),
        pytest.param("25h", "6h", id="a day"),
        pytest.param("7d", "1d", id="a week"),
        pytest.param("3650d", "730d", id="ten years"),
        pytest.param("36500d", "1825d", id="a century"),
    ],
)
def test_marks_are_as_far_apart_as_people_like_them(length: str, step: str) -> None:
    axis = Axis(NOON, NOON + span(length), 0, 100)

    marks = [mark.at for mark in axis.marks()]

    assert axis.step == span(step)
    assert all(axis.holds(mark) for mark in marks)
    assert {later - mark for mark, later in pairwise(marks)} <= {span(step)}


@pytest.mark.parametrize(
    ("instant", "x"),
    [
        pytest.param(NOON - span("1m"), 10.0, id="before the beginning is at the left end"),
        pytest.param(NOON + span("30m"), 60.0, id="half-way is half-way"),
        pytest.param(NOON + span("2h"), 110.0, id="after the end is at the right end"),
    ],
)
def test_every_instant_has_a_place_on_the_axis(instant: datetime, x: float) -> None:
    assert Axis(NOON, NOON + span("1h"), 10, 110).x(instant) == x
