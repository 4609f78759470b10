"""The recorder keeps what an endpoint shows, whatever fails in between."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.agent.client import MetadataClient
from fairwarning.agent.recorder import MAX_PAUSE, Recorder, RecordingRequest
from fairwarning.core.document.recording import RecordedDocument
from tests.agent.scripted import Answer, FakeClock, Script, endpoint

NAME = Answer(body=b"web_0")
NO_NAME = Answer(status=404, body=b'{"error":"Not found"}')
SECOND = timedelta(seconds=1)
REQUEST = RecordingRequest(version="2020-07-01", every=SECOND)


def document(number: int) -> Answer:
    body = {"DocumentIncarnation": number, "Events": [{"EventId": f"E{number}", "NotBefore": ""}]}
    return Answer(body=json.dumps(body).encode())


class RecorderRun:
    """A recorder, the documents that it kept and the messages that it printed."""

    def __init__(self, script: Script, last: RecordedDocument | None = None) -> None:
        self.clock = FakeClock()
        self.kept: list[RecordedDocument] = []
        self.messages: list[str] = []
        client = MetadataClient(script.url, self.clock)
        self._recorder = Recorder(
            client, self.clock, keep=self.kept.append, tell=self.messages.append, last=last
        )

    def run(self, seconds: float, every: timedelta = SECOND) -> None:
        self._recorder.run(replace(REQUEST, every=every, lasts=timedelta(seconds=seconds)))

    def seen(self) -> list[tuple[str | None, int]]:
        return [(recorded.machine, recorded.incarnation) for recorded in self.kept]


def test_every_change_is_kept_once_with_its_time_and_its_machine() -> None:
    with endpoint(document(1), NAME, document(1), document(2), document(2)) as script:
        session = RecorderRun(script)
        began = session.clock.at

        session.run(10)

    assert session.seen() == [("web_0", 1), ("web_0", 2)]
    assert session.kept[0].at == began
    assert session.kept[1].at > began + SECOND
    assert session.messages == []


def test_an_endpoint_is_only_looked_at_and_no_more_than_once_a_second() -> None:
    with endpoint(document(1), NAME, document(1)) as script:
        session = RecorderRun(script)

        session.run(10)

    looks = [asked for asked in script.asked if "scheduledevents" in asked.path]
    assert {asked.method for asked in script.asked} == {"GET"}
    assert len(looks) <= 10
    assert {asked.path for asked in looks} == {"/metadata/scheduledevents?api-version=2020-07-01"}


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        pytest.param(Answer(status=500, body=b""), "the endpoint answers 500: empty body", id="it is broken"),
        pytest.param(Answer(status=410, body=b"Gone"), "the endpoint answers 410: Gone", id="it is updated"),
        pytest.param(
            Answer(body=b""), "the endpoint answers 200: empty body", id="it has nothing to say yet"
        ),
        pytest.param(Answer(body=b"<html>"), "the endpoint's answer is not JSON", id="it is a web page"),
        pytest.param(
            Answer(body=b'{"Events":[]}'),
            "the endpoint's answer is not a document: DocumentIncarnation: must be a whole number",
            id="it has no number",
        ),
    ],
)
def test_a_problem_is_reported_once_and_outlasted(trouble: Answer, message: str) -> None:
    with endpoint(document(1), NAME, trouble, trouble, trouble, document(2)) as script:
        session = RecorderRun(script)

        session.run(30)

    assert session.seen() == [("web_0", 1), ("web_0", 2)]
    assert session.messages == [f"{message}; trying again", "the endpoint answers again"]


def test_an_endpoint_that_hangs_up_is_asked_again() -> None:
    with endpoint(document(1), NAME, Answer(status=0), document(2)) as script:
        session = RecorderRun(script)

        session.run(30)

    assert session.seen() == [("web_0", 1), ("web_0", 2)]
    assert session.messages[0].startswith("127.0.0.1:")


def test_an_endpoint_in_trouble_is_asked_less_and_less() -> None:
    with endpoint(Answer(status=500)) as script:
        session = RecorderRun(script)

        session.run(31)

    assert [wait.total_seconds() for wait in session.clock.waits] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("asked", "rest"),
    [
        pytest.param("7", timedelta(seconds=7), id="as long as it asks for"),
        pytest.param("999999", MAX_PAUSE, id="within reason"),
        pytest.param("Mon, 16 Nov 2026 12:00:00 GMT", SECOND, id="a date is not waited for"),
        pytest.param("²", SECOND, id="nor is what only looks like a number"),
    ],
)
@pytest.mark.rule("R-10")
def test_who_asks_to_be_left_alone_is(asked: str, rest: timedelta) -> None:
    with endpoint(Answer(status=429, headers={"Retry-After": asked}), document(1)) as script:
        session = RecorderRun(script)

        session.run(400)

    assert session.clock.waits[0] == rest


def test_an_endpoint_without_a_name_is_recorded_without_one() -> None:
    with endpoint(
        document(1), NO_NAME, document(1), document(1), document(2), NO_NAME, document(2)
    ) as script:
        session = RecorderRun(script)

        session.run(10)

    assert session.seen() == [(None, 1), (None, 2)]


def test_a_recording_that_goes_on_does_not_repeat_itself() -> None:
    with endpoint(document(1), NAME, document(1)) as script:
        before = RecorderRun(script)
        before.run(2)
    with endpoint(document(1), NAME, document(1), document(2)) as script:
        session = RecorderRun(script, last=before.kept[-1])

        session.run(10)

    assert session.seen() == [("web_0", 2)]


LATER = {"Date": "Thu, 16 Nov 2028 12:00:00 GMT"}
MUCH_LATER = {"Date": "Thu, 16 Nov 2028 12:15:00 GMT"}


def test_documents_of_one_second_are_as_far_apart_as_they_came() -> None:
    news = (replace(document(number), headers=LATER) for number in (1, 2, 3))
    with endpoint(next(news), NAME, *news) as script:
        session = RecorderRun(script)

        session.run(10)

    first, second, third = (recorded.at for recorded in session.kept)
    assert second - first >= SECOND
    assert third - second == SECOND


def test_a_calendar_that_is_moved_on_is_followed() -> None:
    first, moved = replace(document(1), headers=LATER), replace(document(2), headers=MUCH_LATER)
    with endpoint(first, NAME, moved) as script:
        session = RecorderRun(script)

        session.run(10)

    assert session.kept[1].at - session.kept[0].at == timedelta(minutes=15)


def test_a_recording_that_goes_on_goes_on_later() -> None:
    with endpoint(replace(document(1), headers=LATER), NAME) as script:
        before = RecorderRun(script)
        before.run(0)
    with endpoint(replace(document(2), headers=LATER), NAME, replace(document(2), headers=LATER)) as script:
        session = RecorderRun(script, last=before.kept[-1])

        session.run(5)

    assert session.kept[0].at > before.kept[-1].at


def test_the_recorder_polls_as_often_as_it_is_asked_to() -> None:
    with endpoint(document(1), NAME, document(1)) as script:
        session = RecorderRun(script)

        session.run(60, every=timedelta(seconds=30))

    assert len([asked for asked in script.asked if "scheduledevents" in asked.path]) == 2
