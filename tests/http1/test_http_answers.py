"""How responses are encoded: the framing, the date, and no header that could break them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.http1.encoding import encode
from fairwarning.http1.messages import Response, failure
from fairwarning.http1.request_clock import RequestClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_an_answer_is_framed_dated_and_signed() -> None:
    response = Response(200, b"{}", (("ETag", '"7"'),), "application/json")

    moment = RequestClock(lambda: 0.0, lambda: NOON + timedelta(microseconds=999_999)).moment()

    assert encode(response).dated(moment.date) == (
        b"HTTP/1.1 200 OK\r\nDate: Tue, 01 Jan 2030 12:00:00 GMT\r\nServer: IMDS/fairwarning\r\n"
        b'Content-Type: application/json\r\nETag: "7"\r\nContent-Length: 2\r\n\r\n{}'
    )


def test_an_answer_may_name_another_server() -> None:
    raw = encode(Response(404, headers=(("Server", "other/1.0"),))).after

    assert raw == b"Server: other/1.0\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("keep_alive", "version", "header"),
    [
        pytest.param(True, "1.1", None, id="HTTP/1.1 takes staying open for granted"),
        pytest.param(True, "1.0", b"Connection: keep-alive", id="HTTP/1.0 connection stays open"),
        pytest.param(False, "1.1", b"Connection: close", id="HTTP/1.1 connection closes"),
        pytest.param(False, "1.0", b"Connection: close", id="HTTP/1.0 connection closes"),
    ],
)
def test_a_client_is_told_what_becomes_of_the_connection(
    keep_alive: bool, version: str, header: bytes | None
) -> None:
    lines = encode(Response(200), keep_alive, version).dated(b"").split(b"\r\n")

    assert [line for line in lines if line.startswith(b"Connection")] == ([header] if header else [])


def test_an_empty_answer_has_a_length() -> None:
    assert b"\r\nContent-Length: 0\r\n" in encode(Response(200)).after


def test_304_has_neither_length_nor_body() -> None:
    raw = encode(Response(304, b"x")).after

    assert raw.endswith(b"\r\n\r\n")
    assert b"Content-Length" not in raw


def test_an_answer_to_head_has_the_length_of_the_body_it_leaves_out() -> None:
    raw = encode(Response(405, b"{}"), head=True).after

    assert raw.endswith(b"\r\nContent-Length: 2\r\n\r\n")


def test_an_answer_may_announce_more_than_it_sends() -> None:
    raw = encode(Response(200, b"{", missing=3)).after

    assert raw.endswith(b"\r\nContent-Length: 4\r\n\r\n{")


def test_a_failure_is_a_json_object_with_the_error() -> None:
    response = failure(400, 'no "x"')

    assert json.loads(response.body) == {"error": 'no "x"'}
    assert response.content_type == "application/json; charset=utf-8"


@pytest.mark.parametrize("field", [("X", "a\r\nY: b"), ("X Y", "a"), ("X", "a\0"), ("X", "\u20ac")])
def test_a_header_that_could_break_the_frame_is_not_written(field: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="response header 'X"):
        encode(Response(200, headers=(field,)))


def test_the_date_is_written_anew_when_the_second_is_another() -> None:
    instants = [NOON, NOON + timedelta(seconds=0.9), NOON + timedelta(seconds=1), NOON - timedelta(hours=1)]
    times = iter(instants)
    almanac = RequestClock(lambda: 0.0, lambda: next(times))

    dates = [almanac.moment().date.decode()[-14:-6] for _ in instants]

    assert dates == ["12:00:00", "12:00:00", "12:00:01", "11:00:00"]
