"""What the parser accepts, in whatever pieces it arrives."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.http1.messages import (
    BACKLOG_LIMIT,
    BODY_LIMIT,
    FIELD_LIMIT,
    HEAD_LIMIT,
    Action,
    Continue,
    Request,
)
from fairwarning.http1.request_parser import RequestParser
from tests.http1.parsing import CHUNKED_HEAD, GET, POST, head, only_request, parse_all

CHUNKED = CHUNKED_HEAD + b"2\r\nhe\r\n003\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n"


def test_a_request_is_read_whole() -> None:
    request = only_request(GET)

    assert (request.method, request.path) == ("GET", "/metadata/instance")
    assert request.query == "api-version=2021-02-01"
    assert request.headers == {"host": ("h",), "metadata": ("true",)}
    assert (request.body, request.keep_alive, request.version) == (b"", True, "1.1")


def test_a_header_is_found_whatever_the_case_with_all_of_its_values() -> None:
    request = only_request(head("META: one", "meta:\t two\t", "Empty:"))

    assert request.headers["meta"] == ("one", "two")
    assert request.headers["empty"] == ("",)
    assert "absent" not in request.headers


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        pytest.param("/a%2Fb?c=%20", "/a%2Fb", "c=%20", id="percent encoding is left alone"),
        pytest.param("/a?", "/a", "", id="an empty query is no query"),
        pytest.param("/a?b?c", "/a", "b?c", id="the first question mark starts the query"),
        pytest.param("//h/a", "//h/a", "", id="two slashes do not name a host"),
        pytest.param("http://169.254.169.254/a?b", "/a", "b", id="a proxy's form loses its host"),
        pytest.param("HTTP://x:80/a", "/a", "", id="the scheme has no case and a port may follow"),
        pytest.param("http://[::1]:80/", "/", "", id="the host may be an IPv6 address"),
    ],
)
def test_a_target_is_a_path_and_a_query(target: str, path: str, query: str) -> None:
    request = only_request(head(request=f"GET {target} HTTP/1.1"))

    assert (request.path, request.query) == (path, query)


@pytest.mark.parametrize(
    ("version", "lines", "keep_alive"),
    [
        pytest.param("1.1", [], True, id="HTTP/1.1 stays open"),
        pytest.param("1.1", ["Connection: close"], False, id="HTTP/1.1 closes when asked"),
        pytest.param("1.1", ["Connection: x, Close"], False, id="close may be one of several"),
        pytest.param("1.1", ["Connection: x", "Connection: close"], False, id="on any line"),
        pytest.param("1.1", ["Connection: closed"], True, id="a longer word is another word"),
        pytest.param("1.1", ["Connection: upgrade", "Upgrade: h2c"], True, id="no upgrade"),
        pytest.param("1.0", [], False, id="HTTP/1.0 closes"),
        pytest.param("1.0", ["Connection: Keep-Alive"], True, id="HTTP/1.0 stays when asked"),
        pytest.param("1.0", ["Connection: keep-alive, close"], False, id="close wins"),
    ],
)
def test_a_connection_stays_open_or_not(version: str, lines: list[str], keep_alive: bool) -> None:
    request = only_request(head(*lines, request=f"GET / HTTP/{version}"))

    assert request.keep_alive is keep_alive
    assert request.version == version


def test_http_1_0_needs_no_host() -> None:
    assert only_request(head(request="GET / HTTP/1.0", host=None)).headers == {}


@pytest.mark.parametrize("raw", [pytest.param(POST, id="by length"), pytest.param(CHUNKED, id="in chunks")])
def test_a_body_is_read_whole_and_its_trailers_are_dropped(raw: bytes) -> None:
    request = only_request(raw)

    assert request.body == b"hello"
    assert "x-sum" not in request.headers


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(head(f"X: {'x' * (HEAD_LIMIT - 32)}"), id="a head of just the limit"),
        pytest.param(head(*["X: y"] * (FIELD_LIMIT - 1)), id="header lines of just the limit"),
        pytest.param(
            head(f"Content-Length: {BODY_LIMIT}") + b"x" * BODY_LIMIT, id="a body of just the limit"
        ),
        pytest.param(
            CHUNKED_HEAD + b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n1\r\nx\r\n0\r\n\r\n",
            id="chunks of just the limit together",
        ),
    ],
)
def test_the_limits_themselves_are_allowed(raw: bytes) -> None:
    only_request(raw)


@given(st.lists(st.sampled_from([GET, POST, CHUNKED]), min_size=1, max_size=4), st.data())
def test_how_bytes_are_split_changes_nothing(requests: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(requests)
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))
    edges = [0, *cuts, len(raw)]

    split = parse_all(raw[a:b] for a, b in pairwise(edges))

    assert split == [only_request(request) for request in requests]


def test_requests_may_arrive_byte_by_byte() -> None:
    raw = GET + CHUNKED + POST + GET

    assert parse_all(bytes([byte]) for byte in raw) == parse_all([raw])


def test_a_request_waits_until_the_one_before_it_is_answered() -> None:
    connection = RequestParser()

    first = connection.feed(POST + GET)
    meanwhile = connection.feed(POST)
    then = [connection.answered() for _ in range(3)]

    assert first == [only_request(POST)]
    assert meanwhile == []
    assert then == [[only_request(GET)], [only_request(POST)], []]


def test_a_connection_that_holds_one_more_request_is_full() -> None:
    connection = RequestParser()
    connection.feed(GET)

    before = connection.full
    connection.feed(b"x" * (BACKLOG_LIMIT + 1))

    assert (before, connection.full) == (False, True)


def test_a_connection_knows_whether_a_request_has_begun() -> None:
    connection = RequestParser()
    seen = [connection.begun]

    for piece in (POST[:4], POST[4:-2], POST[-2:] + b"GET"):
        connection.feed(piece)
        seen.append(connection.begun)
    connection.answered()
    seen.append(connection.begun)

    assert seen == [False, True, True, False, True]


def test_nothing_is_read_after_the_last_request() -> None:
    last = head("Connection: close")

    assert parse_all([last + GET, GET]) == [only_request(last)]


EXPECTING = head("Expect: 100-Continue", "Content-Length: 2", request="POST / HTTP/1.1")
EXPECTING_CHUNKS = head("Expect: 100-continue", "Transfer-Encoding: chunked")
EXPECTING_OLD = head("Expect: 100-continue", "Content-Length: 2", request="POST / HTTP/1.0")
EXPECTING_NOTHING = head("Expect: 100-continue", "Content-Length: 0")


@pytest.mark.parametrize(
    ("pieces", "kinds"),
    [
        pytest.param([EXPECTING, b"ok"], [Continue, Request], id="a waiting client gets 100 Continue"),
        pytest.param([EXPECTING_CHUNKS, b"0\r\n\r\n"], [Continue, Request], id="also for chunks"),
        pytest.param([EXPECTING + b"ok"], [Request], id="not when the body is already there"),
        pytest.param([EXPECTING + b"o", b"k"], [Request], id="not when the body has begun"),
        pytest.param([EXPECTING_OLD, b"ok"], [Request], id="not in HTTP/1.0"),
        pytest.param([EXPECTING_NOTHING], [Request], id="not when there is no body"),
    ],
)
def test_100_continue(pieces: list[bytes], kinds: list[type[Action]]) -> None:
    assert [type(action) for action in parse_all(pieces)] == kinds
