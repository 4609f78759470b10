"""Replays of recordings."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.document.recording import MachineRecording, RecordedDocument, record_document
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.messages import Response
from fairwarning.metadata.replay import Replay
from tests.guest import E1, METADATA, NEWEST, NOON, Cloud, cloud, start

WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
LONG_AGO = NOON - timedelta(days=400)


@pytest.fixture
def web() -> Iterator[Cloud]:
    with cloud() as fleet:
        yield fleet


@pytest.fixture
def pass_time(web: Cloud, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give a function that moves the clock of the loop, which replays use."""
    loop = web.runner.get_loop()
    passed = [0.0]
    real = float(round(loop.time()))  # so that sums are exact
    monkeypatch.setattr(loop, "time", lambda: real + sum(passed))
    return passed.append


def shown(number: int, status: str | None, after: float) -> RecordedDocument:
    event: dict[str, Json] = {
        "EventId": E1.lower(),
        "EventStatus": status,
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0"],
        "NotBefore": "Sun, 12 Oct 2025 12:15:00 GMT" if status == "Scheduled" else "",
    }
    document: Json = {"DocumentIncarnation": number, "Events": [] if status is None else [event]}
    return record_document(LONG_AGO + timedelta(seconds=after), "web_0", "2019-01-01", document)


RECORDING = MachineRecording(
    begins=LONG_AGO,
    documents=(shown(7, None, 0), shown(8, "Scheduled", 60), shown(9, "Started", 960), shown(10, None, 990)),
)


def start_replay(web: Cloud, recording: MachineRecording = RECORDING) -> list[tuple[EventId, ...]]:
    """Start a replay, and return the list that receives its approvals."""
    approved: list[tuple[EventId, ...]] = []

    async def begin() -> None:
        web.app.replay(
            WEB_0, Replay(web.engine, WEB_0, recording, lambda at, machine, ids: approved.append(ids))
        )

    web.run(begin())
    return approved


def number(response: Response) -> int:
    found: int = json.loads(response.body)["DocumentIncarnation"]
    return found


def test_every_document_is_shown_at_its_time_and_the_last_one_stays(
    web: Cloud, pass_time: Callable[[float], None]
) -> None:
    start_replay(web)

    seen = []
    for wait in (0.0, 59.0, 1.0, 900.0, 30.0, 1e6):
        pass_time(wait)
        seen.append((number(web.get()), [event["EventStatus"] for event in web.events()]))

    assert seen == [(7, []), (7, []), (8, ["Scheduled"]), (9, ["Started"]), (10, []), (10, [])]


def test_not_before_is_as_far_away_as_it_was(web: Cloud, pass_time: Callable[[float], None]) -> None:
    start_replay(web)
    pass_time(60.0)

    assert web.events()[0]["NotBefore"] == "Mon, 16 Nov 2026 12:15:00 GMT"
    assert web.events(query="api-version=2017-03-01")[0]["NotBefore"] == "2026-11-16T12:15:00Z"


def test_a_recording_is_played_at_the_speed_of_the_fleet(
    web: Cloud, pass_time: Callable[[float], None]
) -> None:
    web.engine.set_speed(60.0)
    start_replay(web)
    pass_time(1.0)

    assert web.events()[0]["NotBefore"] == "Mon, 16 Nov 2026 12:00:15 GMT"


def test_a_recording_keeps_the_speed_it_began_with(web: Cloud, pass_time: Callable[[float], None]) -> None:
    web.engine.set_speed(60.0)
    start_replay(web)
    pass_time(1.0)
    promised = web.events()[0]["NotBefore"]

    web.engine.set_speed(1.0)
    pass_time(15.0)

    assert promised == "Mon, 16 Nov 2026 12:00:15 GMT"
    assert [event["EventStatus"] for event in web.events()] == ["Started"]


def test_a_date_of_no_calendar_is_shown_as_it_was(web: Cloud) -> None:
    odd: Json = {"EventId": E1, "NotBefore": "9999-12-31T23:59:59Z"}
    document: Json = {"DocumentIncarnation": 1, "Events": [odd]}
    web.engine.set_speed(0.01)
    start_replay(
        web,
        MachineRecording(
            begins=LONG_AGO, documents=(record_document(LONG_AGO, None, "2020-07-01", document),)
        ),
    )

    assert web.events()[0]["NotBefore"] == "Fri, 31 Dec 9999 23:59:59 GMT"


def test_the_other_machines_of_the_scope_see_what_is_true(web: Cloud) -> None:
    start_replay(web)
    web.cause("restart", "web_1")

    assert (web.events(), len(web.events("web_1"))) == ([], 1)


def test_a_guest_that_has_the_document_is_told_so(web: Cloud) -> None:
    start_replay(web)

    reply = web.get(headers={**METADATA, "if-none-match": ('"7"',)})

    assert (reply.status, reply.headers) == (304, (("ETag", '"7"'),))


def test_a_guest_that_waits_is_answered_when_the_next_document_comes(web: Cloud) -> None:
    soon = replace(RECORDING, documents=(shown(7, None, 0), shown(8, "Scheduled", 0.05)))
    start_replay(web, soon)

    reply = web.get(query=f"{NEWEST}&wait=100", headers={**METADATA, "if-none-match": ('"7"',)})

    assert (reply.status, number(reply)) == (200, 8)


def test_an_approval_of_what_is_shown_is_told_and_changes_nothing(
    web: Cloud, pass_time: Callable[[float], None]
) -> None:
    approved = start_replay(web)
    pass_time(60.0)

    reply = web.post(start(E1))

    assert (reply.status, approved) == (200, [(E1,)])
    assert web.events()[0]["EventStatus"] == "Scheduled"


@pytest.mark.rule("R-16")
def test_an_approval_of_what_is_not_shown_is_refused(web: Cloud) -> None:
    approved = start_replay(web)

    reply = web.post(start(E1))

    assert (reply.status, approved) == (400, [])


@pytest.mark.parametrize(
    ("endpoint_fault", "numbers"),
    [(EndpointFault.RESTART, [1, 2, 3]), (EndpointFault.LATE, [7, 7, 8])],
)
def test_an_endpoint_under_replay_can_fail_as_well(
    web: Cloud, pass_time: Callable[[float], None], endpoint_fault: EndpointFault, numbers: list[int]
) -> None:
    start_replay(web)

    async def fail() -> None:
        web.engine.faults.put(WEB_0, ActiveFault(endpoint_fault, float("inf"), delay=500.0))

    web.run(fail())
    seen = []
    for wait in (0.0, 60.0, 900.0):
        pass_time(wait)
        seen.append(number(web.get()))
    web.engine.faults.drop(WEB_0)

    assert seen == numbers
    assert number(web.get()) == 9


def test_a_machine_that_is_gone_takes_its_recording_with_it(web: Cloud) -> None:
    start_replay(web)

    web.app.forget(WEB_0)

    assert number(web.get()) == 1
