"""The client of the endpoint, against servers that answer, fail and stall."""

import json
import socket
import ssl
import threading
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest

from fairwarning.agent.client import (
    FIRST_TIMEOUT,
    LONG_POLL,
    TIMEOUT,
    MetadataClient,
    RefusedError,
    TimedConnection,
    UnavailableError,
)
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventId
from tests.agent.scripted import Answer, FakeClock, dripping, endpoint

ONE = b'{"DocumentIncarnation":3,"Events":[{"EventId":"A","EventStatus":"Scheduled","Resources":["web_0"]}]}'
OURS = {"Server": "IMDS/fairwarning", "ETag": '"3"'}


def seconds(clock: FakeClock) -> list[float]:
    return [wait.total_seconds() for wait in clock.waits]


def keep_polling(client: MetadataClient, clock: FakeClock, times: int) -> list[str]:
    """Poll as the agent does and return what went wrong each time."""
    problems: list[str] = []
    for _ in range(times):
        try:
            client.poll()
            problems.append("")
        except (UnavailableError, RefusedError) as problem:
            problems.append(type(problem).__name__)
        clock.wait(client.pause)
    return problems


@pytest.mark.rule("C-01")
def test_it_polls_once_a_second_and_says_what_it_has() -> None:
    clock = FakeClock()
    with endpoint(Answer(200, ONE, {"ETag": '"3"'}), Answer(304, b"")) as script:
        client = MetadataClient(script.url, clock)

        documents = [client.poll(), client.poll()]

    assert [document is None for document in documents] == [False, True]
    assert client.pause == timedelta(seconds=1)
    assert "if-none-match" not in script.asked[0].headers
    assert script.asked[1].headers["if-none-match"] == '"3"'
    assert {request.headers["metadata"] for request in script.asked} == {"true"}


def test_a_server_that_offers_it_is_asked_to_wait() -> None:
    clock = FakeClock()
    with endpoint(Answer(200, ONE, OURS), Answer(200, ONE, OURS)) as script:
        client = MetadataClient(script.url, clock)

        client.poll()
        first_pause = client.pause
        client.poll()

    assert first_pause == timedelta(0)
    assert [request.path.partition("&")[2] for request in script.asked] == ["", "wait=20"]


def test_a_server_that_answers_at_once_what_it_should_hold_is_not_asked_more_often() -> None:
    with endpoint(Answer(200, ONE, OURS), Answer(304, b"", OURS)) as script:
        client = MetadataClient(script.url, FakeClock())

        client.poll()
        client.poll()

    assert client.pause == timedelta(seconds=1)


@pytest.mark.rule("C-02")
@pytest.mark.parametrize("status", [0, 404, 410, 429, 500, 503])
def test_a_server_in_trouble_is_asked_again_ever_more_slowly(status: int) -> None:
    clock = FakeClock()
    with endpoint(Answer(status, b"")) as script:
        problems = keep_polling(MetadataClient(script.url, clock), clock, 7)

    assert problems == ["UnavailableError"] * 7
    assert seconds(clock) == [1, 2, 4, 8, 16, 16, 16]


@pytest.mark.rule("C-02")
def test_an_outage_of_five_minutes_is_outlived() -> None:
    clock = FakeClock()
    with endpoint(*[Answer(503, b"")] * 22, Answer(200, ONE)) as script:
        client = MetadataClient(script.url, clock)
        keep_polling(client, clock, 22)

        document = client.poll()

    assert clock.elapsed() >= timedelta(minutes=5)
    assert document is not None
    assert client.pause == timedelta(seconds=1)


@pytest.mark.rule("C-02")
@pytest.mark.parametrize("status", [400, 405])
def test_a_request_that_is_wrong_is_not_repeated(status: int) -> None:
    clock = FakeClock()
    with endpoint(Answer(status, b'{"error":"no"}')) as script:
        client = MetadataClient(script.url, clock)

        with pytest.raises(RefusedError, match=str(status)):
            client.poll()
        with pytest.raises(RefusedError, match=str(status)):
            client.approve(EventId("A"))

    assert [request.method for request in script.asked] == ["GET", "POST"]
    assert client.pause == timedelta(minutes=1)


@pytest.mark.rule("C-02")
def test_the_first_answer_may_take_two_minutes_and_later_ones_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timeouts: list[float | None] = []
    connect = socket.create_connection

    def noting(address: tuple[str, int], timeout: float | None, source: None = None) -> socket.socket:
        timeouts.append(timeout)
        return connect(address, timeout, source)

    monkeypatch.setattr(socket, "create_connection", noting)
    with endpoint(Answer(503, b""), Answer(200, ONE)) as script:
        clock = FakeClock()
        keep_polling(MetadataClient(script.url, clock), clock, 3)

    patient, quick = FIRST_TIMEOUT.total_seconds(), TIMEOUT.total_seconds()
    assert timeouts == pytest.approx([patient, patient, quick], rel=0.1)
    assert (patient, quick) == (120, 5)


@pytest.mark.rule("C-02")
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100, b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_drips_in_is_given_up_when_its_time_is_over(head: bytes) -> None:
    with dripping(head + ONE) as url:
        client = MetadataClient(url, FakeClock(), first_timeout=timedelta(seconds=0.2))

        with pytest.raises(UnavailableError, match="does not answer: the answer took too long"):
            client.poll()


@pytest.mark.parametrize(
    ("tls", "port"),
    [
        pytest.param(None, 80, id="http"),
        pytest.param(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), 443, id="https"),
    ],
)
def test_an_address_of_ipv6_without_a_port_has_that_of_its_scheme(
    tls: ssl.SSLContext | None, port: int
) -> None:
    connection = TimedConnection("fd00::1", None, timedelta(seconds=1), tls=tls)

    assert (connection.host, connection.port) == ("fd00::1", port)


def test_a_poll_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with endpoint(Answer(200, ONE)) as script:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        document = MetadataClient(script.url, FakeClock()).poll()

    assert document is not None


@pytest.mark.rule("C-03")
def test_an_empty_answer_is_no_information() -> None:
    with endpoint(Answer(200, b"", {"ETag": '"1"'}), Answer(200, ONE)) as script:
        client = MetadataClient(script.url, FakeClock())

        first, second = client.poll(), client.poll()

    assert first is None
    assert second is not None
    assert "if-none-match" not in script.asked[1].headers


@pytest.mark.rule("C-04")
def test_after_an_outage_the_whole_document_is_asked_for() -> None:
    clock = FakeClock()
    with endpoint(
        Answer(200, ONE, {"ETag": '"3"'}), Answer(503, b""), Answer(200, ONE, {"ETag": '"3"'})
    ) as script:
        keep_polling(MetadataClient(script.url, clock), clock, 3)

    assert ["if-none-match" in request.headers for request in script.asked] == [False, True, False]


def numbered(incarnation: int | str) -> Answer:
    body: Json = {"DocumentIncarnation": incarnation, "Events": []}
    return Answer(200, json.dumps(body).encode(), {"Server": "IMDS/fairwarning", "ETag": f'"{incarnation}"'})


def incarnations_read(*answers: Answer, poll: timedelta = timedelta(seconds=1)) -> list[tuple[float, object]]:
    """Poll as the agent does; return when the client returned which document."""
    clock = FakeClock()
    read: list[tuple[float, object]] = []
    with endpoint(*answers) as script:
        client = MetadataClient(script.url, clock, poll=poll)
        for _ in answers:
            with suppress(UnavailableError):
                document = client.poll()
                if document is not None:
                    read.append((clock.elapsed().total_seconds(), document.incarnation))
            clock.wait(client.pause)
    return read


@pytest.mark.rule("C-14")
def test_a_document_of_a_node_that_is_behind_is_ignored() -> None:
    answers = [numbered(number) for number in (7, 6, 6, 7, 6, 8)]

    read = incarnations_read(*answers)

    assert [incarnation for _, incarnation in read] == [7, 7, 8]


@pytest.mark.rule("C-14")
@pytest.mark.parametrize("poll", [1, 30], ids=["polled every second", "polled every half minute"])
def test_a_server_that_stays_behind_for_five_seconds_is_believed(poll: int) -> None:
    read = incarnations_read(numbered(7), *[numbered(2)] * 8, poll=timedelta(seconds=poll))

    assert [incarnation for _, incarnation in read] == [7, 2, 2, 2]
    assert 5 <= read[1][0] - read[0][0] <= 7


@pytest.mark.rule("C-14")
def test_a_newer_document_in_between_begins_the_five_seconds_anew() -> None:
    answers = [numbered(number) for number in (7, 6, 6, 6, 7, 6, 6, 6, 8)]

    assert [incarnation for _, incarnation in incarnations_read(*answers)] == [7, 7, 8]


@pytest.mark.rule("C-14")
def test_a_poll_without_an_answer_begins_the_five_seconds_anew() -> None:
    stood_still = [numbered(7), numbered(6), numbered(6), Answer(503, b""), *[numbered(6)] * 4, numbered(8)]

    assert [incarnation for _, incarnation in incarnations_read(*stood_still)] == [7, 8]


@pytest.mark.rule("C-14")
def test_a_node_that_is_behind_is_told_of_the_newer_document_and_not_waited_for() -> None:
    with endpoint(numbered(7), numbered(6), numbered(7)) as script:
        client = MetadataClient(script.url, FakeClock())

        client.poll()
        client.poll()
        pause = client.pause
        client.poll()

    assert [request.headers.get("if-none-match") for request in script.asked] == [None, '"7"', '"7"']
    assert pause == timedelta(seconds=1)


@pytest.mark.rule("C-14")
def test_incarnations_that_are_no_numbers_have_no_order() -> None:
    read = incarnations_read(numbered("b"), numbered("a"), numbered(1), numbered("a"))

    assert [incarnation for _, incarnation in read] == ["b", "a", 1, "a"]


@pytest.mark.parametrize(
    "body", [pytest.param(b"<html>", id="a page"), pytest.param(b'{"Events":1}', id="no list")]
)
def test_an_answer_that_is_no_document_is_a_failure(body: bytes) -> None:
    with endpoint(Answer(200, body)) as script:
        client = MetadataClient(script.url, FakeClock())

        with pytest.raises(UnavailableError, match="the document"):
            client.poll()


def test_never_more_than_five_requests_leave_in_a_second() -> None:
    clock = FakeClock()
    sent: list[timedelta] = []
    with endpoint() as script:
        client = MetadataClient(script.url, clock)
        for _ in range(20):
            client.name() if len(sent) % 2 else client.approve(EventId("A"))
            sent.append(clock.elapsed())
            script.answers = [Answer(200, b"web_0")]

    assert all(later - sooner >= timedelta(milliseconds=200) for sooner, later in pairwise(sent))


@pytest.mark.rule("C-02", "C-08")
def test_an_approval_is_tried_again_until_it_is_accepted() -> None:
    clock = FakeClock()
    with endpoint(Answer(410, b""), Answer(0), Answer(500, b""), Answer(200, b"")) as script:
        MetadataClient(script.url, clock).approve(EventId("A"))

    assert [json.loads(request.body) for request in script.asked] == [
        {"StartRequests": [{"EventId": "A"}]}
    ] * 4
    assert [wait for wait in seconds(clock) if wait >= 1] == [1, 2, 4]


def test_an_approval_that_is_never_answered_is_given_up() -> None:
    clock = FakeClock()
    with endpoint(Answer(503, b"")) as script, pytest.raises(UnavailableError, match="503"):
        MetadataClient(script.url, clock).approve(EventId("A"))

    assert len(script.asked) == 6


@pytest.mark.rule("D-05")
def test_a_proxy_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with endpoint(Answer(200, ONE)) as script:
        document = MetadataClient(script.url, FakeClock()).poll()

    assert document is not None


@pytest.mark.rule("C-05")
def test_a_machine_learns_its_name_from_the_endpoint() -> None:
    with endpoint(Answer(200, b"web_0\n")) as script:
        name = MetadataClient(script.url, FakeClock()).name()

    assert name == "web_0"
    assert script.asked[0].path.startswith("/metadata/instance/compute/name?")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(Answer(404, b""), id="an endpoint without instance metadata"),
        pytest.param(Answer(400, b""), id="an endpoint that will not say"),
        pytest.param(Answer(200, b"{}"), id="an answer that is no name"),
        pytest.param(Answer(200, b""), id="an empty answer"),
    ],
)
def test_a_missing_name_is_an_error(line: Answer) -> None:
    with endpoint(line) as script, pytest.raises(UnavailableError, match=r"no machine name|answers 404"):
        MetadataClient(script.url, FakeClock()).name()


def test_the_time_is_that_of_the_endpoints_clock() -> None:
    with endpoint(Answer(200, ONE, {"Date": "Tue, 17 Nov 2026 12:00:00 GMT"})) as script:
        clock = FakeClock()
        client = MetadataClient(script.url, clock)

        client.poll()

    assert client.now() == clock.now() + timedelta(days=1)


@pytest.mark.parametrize(
    "date",
    [
        pytest.param("Fri, 31 Dec 9999 23:59:59 GMT", id="at the end of the calendar"),
        pytest.param("0001-01-01T00:00:00Z", id="at the beginning of the calendar"),
    ],
)
def test_a_date_that_leaves_no_room_for_durations_is_ignored(date: str) -> None:
    with endpoint(Answer(200, ONE, {"Date": date})) as script:
        clock = FakeClock()
        client = MetadataClient(script.url, clock)

        client.poll()
        clock.wait(LONG_POLL)

    assert client.now() == clock.now()
