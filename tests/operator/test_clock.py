"""Reading and moving the fleet's clock."""

import asyncio
from datetime import timedelta
from zoneinfo import ZoneInfo

import httpx2
import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.operator import schemas
from tests.fleet_harness import NOON, run
from tests.operator.operator_client import URL, OperatorTestClient, operator_client

WEB = Blueprint(name="web", count=2)


def clock(client: OperatorTestClient) -> schemas.ClockBody:
    """Return the fleet's clock."""
    return msgspec.json.decode(client.get("/clock"), type=schemas.ClockBody)


def test_manual_time_stands_still_and_shows_the_next_deadline() -> None:
    client = operator_client(WEB)
    client.cause("restart", "web_0")

    assert clock(client) == schemas.ClockBody(
        mode="manual", now=NOON, speed=1.0, next_deadline=NOON + timedelta(minutes=15), zone="UTC"
    )


def test_instants_are_written_in_utc() -> None:
    client = operator_client()

    assert (
        client.get("/clock")
        == b'{"mode":"manual","now":"2026-11-16T12:00:00Z","speed":1.0,"next_deadline":null,"zone":"UTC"}'
    )


def test_the_clock_names_the_zone_in_which_operators_write_instants() -> None:
    client = operator_client(zone=ZoneInfo("Europe/Berlin"))

    assert clock(client).zone == "Europe/Berlin"


def test_advancing_triggers_everything_that_is_due_on_the_way() -> None:
    client = operator_client(WEB)
    (event,) = client.cause("restart", "web_0").events

    now = client.advance("1h").now

    assert now == NOON + timedelta(hours=1)
    assert [line.at - NOON for line in client.history(f"?event={event.id}").history] == [
        timedelta(0),
        timedelta(minutes=15),
        timedelta(minutes=15, seconds=5),
    ]


def test_moving_to_the_next_deadline_stops_there() -> None:
    client = operator_client(WEB)
    (event,) = client.cause("restart", "web_0").events

    moved = msgspec.json.decode(client.call("POST", "/clock/next"), type=schemas.ClockBody)

    assert moved.now == event.not_before
    assert moved.next_deadline == event.not_before + timedelta(seconds=5)


def test_where_nothing_is_due_the_next_deadline_is_now() -> None:
    client = operator_client()

    assert msgspec.json.decode(client.call("POST", "/clock/next"), type=schemas.ClockBody).now == NOON


def test_a_moved_clock_is_stored_for_the_next_start() -> None:
    client = operator_client(WEB)

    client.advance("90m")
    advanced = run(client.stage.store.get_value("clock"))
    client.call("POST", "/clock/next")

    assert advanced == "2026-11-16T13:30:00+00:00"
    assert run(client.stage.store.get_value("clock")) == "2026-11-17T12:00:00+00:00"


MOVES = [
    pytest.param("/clock/advance", {"by": "1h", "who": "ann"}, "by 1h", id="by a duration"),
    pytest.param("/clock/next", {"by": "ann"}, "to the next deadline", id="to a deadline"),
    pytest.param("/clock/advance", {"by": "1h"}, "by 1h", id="without a name"),
]


@pytest.mark.parametrize(("path", "body", "how"), MOVES)
def test_the_history_names_the_operator_who_moved_time_before_the_events_that_follow(
    path: str, body: Json, how: str
) -> None:
    client = operator_client(WEB)
    client.cause("restart", "web_0")

    client.call("POST", path, body)

    _, moved, started, *_ = client.history().history
    assert (moved.kind, moved.type, moved.by, moved.reason) == ("advanced", "clock", "operator", how)
    assert (moved.at, started.kind) == (NOON, "started")


def test_a_move_of_no_length_is_not_in_the_history() -> None:
    client = operator_client()

    client.call("POST", "/clock/next")

    assert client.history().history == []


def test_concurrent_moves_of_the_clock_are_made_one_after_the_other() -> None:
    client = operator_client(WEB)
    client.cause("restart", "web_0")

    async def both() -> None:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(client.app), base_url=URL) as http:
            await asyncio.gather(
                *(http.post("/fleet/v1/clock/advance", json={"by": by}) for by in ("1h", "2h"))
            )

    run(both())

    assert clock(client).now == NOON + timedelta(hours=3)


@pytest.mark.parametrize(
    "by",
    ["-5m", "0.5h", "367d", "999999999d", "later", "", "30", "P1Y"],
    ids=lambda by: f"by {by or 'nothing'}",
)
def test_an_invalid_move_of_the_clock_is_refused(by: str) -> None:
    client = operator_client()

    problem = client.refused("POST", "/clock/advance", {"by": by})

    assert (problem.status, problem.field) == (422, "by")
    assert clock(client).now == NOON


def test_the_clock_cannot_leave_the_calendar() -> None:
    client = operator_client()
    client.stage.clock.set(NOON.replace(year=8000))

    problem = client.refused("POST", "/clock/advance", {"by": "366d"})

    assert (problem.status, problem.field) == (422, "by")


def test_real_time_passes_by_itself() -> None:
    client = operator_client(real_clock=True)

    assert clock(client).mode == "real"


@pytest.mark.parametrize(
    ("path", "body"), [("/clock/advance", {"by": "15m"}), ("/clock/next", {})], ids=["advance", "next"]
)
def test_real_time_cannot_be_moved(path: str, body: Json) -> None:
    client = operator_client(real_clock=True)

    problem = client.refused("POST", path, body)

    assert (problem.status, problem.type) == (409, "urn:fairwarning:problem:wrong-clock")


def test_real_time_may_be_sped_up() -> None:
    client = operator_client(WEB, real_clock=True)

    body = client.call("PUT", "/clock/speed", {"speed": 60})
    (event,) = client.cause("restart", "web_0").events

    assert msgspec.json.decode(body, type=schemas.ClockBody).speed == 60
    # Not-before is rounded up to a whole second.
    assert timedelta(seconds=15) <= event.not_before - event.created_at <= timedelta(seconds=16)


def test_the_history_names_the_operator_who_changed_the_speed() -> None:
    client = operator_client(real_clock=True)

    client.call("PUT", "/clock/speed", {"speed": 0.5, "by": "ann"})

    (line,) = client.history().history
    assert (line.kind, line.by, line.reason) == ("speed", "operator", "0.5 times as fast")


def test_manual_time_has_no_speed() -> None:
    client = operator_client()

    assert client.refused("PUT", "/clock/speed", {"speed": 60}).status == 409


@pytest.mark.parametrize("speed", [0, -1, 1e300, "fast", None])
def test_an_invalid_speed_is_refused(speed: Json) -> None:
    client = operator_client(real_clock=True)

    problem = client.refused("PUT", "/clock/speed", {"speed": speed})

    assert (problem.status, problem.field) == (422, "speed")
