"""Reading time and moving it."""

import asyncio
from datetime import timedelta

import httpx2
import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.operator import schemas
from tests.fleet_harness import NOON, run
from tests.operator.operator_client import URL, Office, office

WEB = Blueprint(name="web", count=2)


def clock(desk: Office) -> schemas.ClockBody:
    """Return what time it is."""
    return msgspec.json.decode(desk.get("/clock"), type=schemas.ClockBody)


def test_manual_time_stands_still_and_tells_when_it_will_matter() -> None:
    desk = office(WEB)
    desk.cause("restart", "web_0")

    assert clock(desk) == schemas.ClockBody(
        mode="manual", now=NOON, speed=1.0, next_deadline=NOON + timedelta(minutes=15)
    )


def test_instants_are_written_in_utc() -> None:
    desk = office()

    assert (
        desk.get("/clock")
        == b'{"mode":"manual","now":"2026-11-16T12:00:00Z","speed":1.0,"next_deadline":null}'
    )


def test_advancing_lets_everything_happen_that_falls_due_on_the_way() -> None:
    desk = office(WEB)
    (event,) = desk.cause("restart", "web_0").events

    now = desk.advance("1h").now

    assert now == NOON + timedelta(hours=1)
    assert [line.at - NOON for line in desk.history(f"?event={event.id}").history] == [
        timedelta(0),
        timedelta(minutes=15),
        timedelta(minutes=15, seconds=5),
    ]


def test_going_to_the_next_deadline_goes_no_further() -> None:
    desk = office(WEB)
    (event,) = desk.cause("restart", "web_0").events

    there = msgspec.json.decode(desk.fine("POST", "/clock/next"), type=schemas.ClockBody)

    assert there.now == event.not_before
    assert there.next_deadline == event.not_before + timedelta(seconds=5)


def test_where_nothing_is_due_the_next_deadline_is_now() -> None:
    desk = office()

    assert msgspec.json.decode(desk.fine("POST", "/clock/next"), type=schemas.ClockBody).now == NOON


def test_a_moved_clock_is_noted_for_the_next_start() -> None:
    desk = office(WEB)

    desk.advance("90m")
    advanced = run(desk.stage.store.noted("clock"))
    desk.fine("POST", "/clock/next")

    assert advanced == "2026-11-16T13:30:00+00:00"
    assert run(desk.stage.store.noted("clock")) == "2026-11-17T12:00:00+00:00"


JOURNEYS = [
    pytest.param("/clock/advance", {"by": "1h", "who": "ann"}, "operator:ann", "by 1h", id="a while"),
    pytest.param("/clock/next", {"by": "ann"}, "operator:ann", "to the next deadline", id="to what is due"),
    pytest.param("/clock/advance", {"by": "1h"}, "operator", "by 1h", id="nobody in particular"),
]


@pytest.mark.parametrize(("path", "body", "who", "how"), JOURNEYS)
def test_the_history_tells_who_moved_time_and_then_what_that_led_to(
    path: str, body: Json, who: str, how: str
) -> None:
    desk = office(WEB)
    desk.cause("restart", "web_0")

    desk.fine("POST", path, body)

    _, moved, started, *_ = desk.history().history
    assert (moved.kind, moved.type, moved.by, moved.reason) == ("advanced", "clock", who, how)
    assert (moved.at, started.kind) == (NOON, "started")


def test_a_journey_to_nowhere_is_not_told() -> None:
    desk = office()

    desk.fine("POST", "/clock/next")

    assert desk.history().history == []


def test_journeys_asked_for_at_once_are_made_one_after_the_other() -> None:
    desk = office(WEB)
    desk.cause("restart", "web_0")

    async def both() -> None:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(desk.app), base_url=URL) as client:
            await asyncio.gather(
                *(client.post("/fleet/v1/clock/advance", json={"by": by}) for by in ("1h", "2h"))
            )

    run(both())

    assert clock(desk).now == NOON + timedelta(hours=3)


@pytest.mark.parametrize(
    "by",
    ["-5m", "0.5h", "367d", "999999999d", "later", "", "30", "P1Y"],
    ids=lambda by: f"by {by or 'nothing'}",
)
def test_a_journey_that_makes_no_sense_is_refused(by: str) -> None:
    desk = office()

    problem = desk.refused("POST", "/clock/advance", {"by": by})

    assert (problem.status, problem.field) == (422, "by")
    assert clock(desk).now == NOON


def test_no_journey_leads_out_of_the_calendar() -> None:
    desk = office()
    desk.stage.clock.set(NOON.replace(year=8000))

    problem = desk.refused("POST", "/clock/advance", {"by": "366d"})

    assert (problem.status, problem.field) == (422, "by")


def test_real_time_passes_by_itself() -> None:
    desk = office(real_clock=True)

    assert clock(desk).mode == "real"


@pytest.mark.parametrize(
    ("path", "body"), [("/clock/advance", {"by": "15m"}), ("/clock/next", {})], ids=["advance", "next"]
)
def test_real_time_cannot_be_moved(path: str, body: Json) -> None:
    desk = office(real_clock=True)

    problem = desk.refused("POST", path, body)

    assert (problem.status, problem.type) == (409, "urn:fairwarning:problem:wrong-clock")


def test_real_time_may_be_sped_up() -> None:
    desk = office(WEB, real_clock=True)

    answer = desk.fine("PUT", "/clock/speed", {"speed": 60})
    (event,) = desk.cause("restart", "web_0").events

    assert msgspec.json.decode(answer, type=schemas.ClockBody).speed == 60
    # Not-before is rounded up to a whole second.
    assert timedelta(seconds=15) <= event.not_before - event.created_at <= timedelta(seconds=16)


def test_the_history_tells_who_changed_the_speed() -> None:
    desk = office(real_clock=True)

    desk.fine("PUT", "/clock/speed", {"speed": 0.5, "by": "ann"})

    (told,) = desk.history().history
    assert (told.kind, told.by, told.reason) == ("speed", "operator:ann", "0.5 times as fast")


def test_manual_time_has_no_speed() -> None:
    desk = office()

    assert desk.refused("PUT", "/clock/speed", {"speed": 60}).status == 409


@pytest.mark.parametrize("speed", [0, -1, 1e300, "fast", None])
def test_a_speed_that_makes_no_sense_is_refused(speed: Json) -> None:
    desk = office(real_clock=True)

    problem = desk.refused("PUT", "/clock/speed", {"speed": speed})

    assert (problem.status, problem.field) == (422, "speed")
