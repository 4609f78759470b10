"""What the HTTP core understands, what it refuses, and what it writes."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.metadata.almanac import Almanac
from fairwarning.metadata.connection import Connection
from fairwarning.metadata.encoding import page
from fairwarning.metadata.http import (
    BACKLOG_LIMIT,
    BODY_LIMIT,
    HEAD_LIMIT,
    Action,
    Continue,
    Fault,
    Request,
    Response,
    failure,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

GET = b"GET /metadata/instance?api-version=2021-02-01 HTTP/1.1\r\nHost: h\r\nMetadata: true\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED_HEAD = b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = CHUNKED_HEAD + b"2\r\nhe\r\n003\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n"


def converse(pieces: Iterable[bytes]) -> list[Action]:
    """Feed the pieces, answering each request at once, and return every action."""
    connection = Connection()
    seen: list[Action] = []
    for piece in pieces:
        actions = connection.feed(piece)
        while actions:
            seen += actions
            actions = connection.answered() if isinstance(actions[-1], Request) else []
    return seen


def only_request(raw: bytes) -> Request:
    (action,) = converse([raw])
    assert isinstance(action, Request)
    return action


def head(*lines: str, request: str = "GET / HTTP/1.1", host: str | None = "h") -> bytes:
    hosts = [] if host is None else [f"Host: {host}"]
    return "\r\n".join([request, *hosts, *lines, "", ""]).encode("latin-1")


def test_a_request_is_read_whole() -> None:
    request = only_request(GET)

    assert (request.method, request.path) == ("GET", "/metadata/instance")
    assert request.query == "api-version=2021-02-01"
    assert request.headers == {"host": ("h",), "metadata": ("true",)}
    assert (request.body, request.keep_alive, request.version) == (b"", True, "1.1")


def test_a_header_is_found_whatever_the_case_and_the_first_value_counts() -> None:
    request = only_request(head("META: one", "meta:\t two\t", "Empty:"))

    assert request.headers["meta"] == ("one", "two")
    assert request.header("Meta") == "one"
    assert request.header("empty") == ""
    assert request.header("absent") is None


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
    assert request.header("x-sum") is None


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(head(f"X: {'x' * (HEAD_LIMIT - 32)}"), id="a head of just the limit"),
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

    split = converse(raw[a:b] for a, b in pairwise(edges))

    assert split == [only_request(request) for request in requests]


def test_requests_may_arrive_byte_by_byte() -> None:
    raw = GET + CHUNKED + POST + GET

    assert converse(bytes([byte]) for byte in raw) == converse([raw])


def test_a_request_waits_until_the_one_before_it_is_answered() -> None:
    connection = Connection()

    first = connection.feed(POST + GET)
    meanwhile = connection.feed(POST)
    then = [connection.answered() for _ in range(3)]

    assert first == [only_request(POST)]
    assert meanwhile == []
    assert then == [[only_request(GET)], [only_request(POST)], []]


def test_a_connection_that_holds_one_more_request_is_full() -> None:
    connection = Connection()
    connection.feed(GET)

    before = connection.full
    connection.feed(b"x" * (BACKLOG_LIMIT + 1))

    assert (before, connection.full) == (False, True)


def test_a_connection_knows_whether_a_request_has_begun() -> None:
    connection = Connection()
    seen = [connection.begun]

    for piece in (POST[:4], POST[4:-2], POST[-2:] + b"GET"):
        connection.feed(piece)
        seen.append(connection.begun)
    connection.answered()
    seen.append(connection.begun)

    assert seen == [False, True, True, False, True]


def test_nothing_is_read_after_the_last_request() -> None:
    last = head("Connection: close")

    assert converse([last + GET, GET]) == [only_request(last)]


EXPECTING = head("Expect: 100-Continue", "Content-Length: 2", request="POST / HTTP/1.1")
EXPECTING_CHUNKS = head("Expect: 100-continue", "Transfer-Encoding: chunked")
EXPECTING_OLD = head("Expect: 100-continue", "Content-Length: 2", request="POST / HTTP/1.0")
EXPECTING_NOTHING = head("Expect: 100-continue", "Content-Length: 0")


@pytest.mark.parametrize(
    ("pieces", "kinds"),
    [
        pytest.param([EXPECTING, b"ok"], [Continue, Request], id="a waiting client is told to go on"),
        pytest.param([EXPECTING_CHUNKS, b"0\r\n\r\n"], [Continue, Request], id="also for chunks"),
        pytest.param([EXPECTING + b"ok"], [Request], id="not when the body is already there"),
        pytest.param([EXPECTING + b"o", b"k"], [Request], id="not when the body has begun"),
        pytest.param([EXPECTING_OLD, b"ok"], [Request], id="not in HTTP/1.0"),
        pytest.param([EXPECTING_NOTHING], [Request], id="not when there is no body"),
    ],
)
def test_100_continue(pieces: list[bytes], kinds: list[type[Action]]) -> None:
    assert [type(action) for action in converse(pieces)] == kinds


def post(*lines: str) -> bytes:
    return head(*lines, request="POST / HTTP/1.1")


def chunks(body: bytes) -> bytes:
    return CHUNKED_HEAD + body


REFUSED = [
    pytest.param(b"GET / HTTP/1.1\nHost: h\n\n", Fault.STRAY, id="lines that end in LF alone"),
    pytest.param(b"GET / HTTP/1.1\rHost: h\r\n\r\n", Fault.STRAY, id="a CR without LF"),
    pytest.param(b"GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", Fault.STRAY, id="a CR before the CRLF"),
    pytest.param(head("X: a\0b"), Fault.STRAY, id="a NUL in a value"),
    pytest.param(head("X: a\x1bb"), Fault.STRAY, id="a control character in a value"),
    pytest.param(head(request="GET /\x01 HTTP/1.1"), Fault.STRAY, id="a control in the target"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", Fault.STRAY, id="a TLS hello"),
    pytest.param(b"\r\n" + GET, Fault.REQUEST_LINE, id="an empty line before the request"),
    pytest.param(head(request="GET /"), Fault.REQUEST_LINE, id="a request line of HTTP/0.9"),
    pytest.param(head(request="GET  / HTTP/1.1"), Fault.REQUEST_LINE, id="two spaces"),
    pytest.param(head(request="GET / HTTP/1.1 "), Fault.REQUEST_LINE, id="a space at the end"),
    pytest.param(head(request="GET /a b HTTP/1.1"), Fault.REQUEST_LINE, id="a space in the target"),
    pytest.param(head(request="G@T / HTTP/1.1"), Fault.REQUEST_LINE, id="a method that is no token"),
    pytest.param(head(request="GET / http/1.1"), Fault.REQUEST_LINE, id="a version in lower case"),
    pytest.param(head(request="GET / HTTP/1.10"), Fault.REQUEST_LINE, id="a version of two digits"),
    pytest.param(head(request="GET / HTTP/2.0"), Fault.VERSION, id="a version of the future"),
    pytest.param(head(request="GET / HTTP/0.9"), Fault.VERSION, id="a version of the past"),
    pytest.param(head(request="GET x HTTP/1.1"), Fault.TARGET, id="a target without a slash"),
    pytest.param(head(request="OPTIONS * HTTP/1.1"), Fault.TARGET, id="the asterisk form"),
    pytest.param(head(request="CONNECT h:80 HTTP/1.1"), Fault.TARGET, id="the authority form"),
    pytest.param(head(request="GET https://h/ HTTP/1.1"), Fault.TARGET, id="another scheme"),
    pytest.param(head(request="GET http:///a HTTP/1.1"), Fault.TARGET, id="an empty host"),
    pytest.param(head(request="GET http://u@h/ HTTP/1.1"), Fault.TARGET, id="a user in the target"),
    pytest.param(head(request="GET http://h HTTP/1.1"), Fault.TARGET, id="a host without a path"),
    pytest.param(head(request="GET /a#b HTTP/1.1"), Fault.TARGET, id="a fragment"),
    pytest.param(head(request="GET /\xe9 HTTP/1.1"), Fault.TARGET, id="non-ASCII in the target"),
    pytest.param(head("X y"), Fault.FIELD, id="a header without a colon"),
    pytest.param(head(": y"), Fault.FIELD, id="a header without a name"),
    pytest.param(head("X : y"), Fault.FIELD, id="a space before the colon"),
    pytest.param(head("X\xe9: y"), Fault.FIELD, id="a header name that is no token"),
    pytest.param(head("X: a", " b"), Fault.FOLDED, id="a folded header"),
    pytest.param(head(host=None), Fault.HOST_MISSING, id="no Host"),
    pytest.param(head("Host: h"), Fault.HOST_REPEATED, id="two Hosts"),
    pytest.param(post("Content-Length: +1"), Fault.LENGTH, id="a length with a sign"),
    pytest.param(post("Content-Length: 1_0"), Fault.LENGTH, id="a length with an underscore"),
    pytest.param(post("Content-Length: 1, 1"), Fault.LENGTH, id="a list of lengths"),
    pytest.param(post("Content-Length:"), Fault.LENGTH, id="an empty length"),
    pytest.param(post("Content-Length: \xb2"), Fault.LENGTH, id="a length in another script"),
    pytest.param(post(f"Content-Length: {'9' * 5000}"), Fault.LENGTH, id="a length of many digits"),
    pytest.param(post("Content-Length: 1", "Content-Length: 1"), Fault.LENGTH, id="equal lengths"),
    pytest.param(
        post("Content-Length: 5", "Transfer-Encoding: chunked"),
        Fault.LENGTH_AND_CODING,
        id="a length and chunks",
    ),
    pytest.param(post("Transfer-Encoding: gzip"), Fault.CODING, id="another coding"),
    pytest.param(post("Transfer-Encoding: gzip, chunked"), Fault.CODING, id="two codings"),
    pytest.param(post("Transfer-Encoding: chunked,"), Fault.CODING, id="a coding and a comma"),
    pytest.param(post("Transfer-Encoding: \x0bchunked"), Fault.STRAY, id="a disguised coding"),
    pytest.param(post("Transfer-Encoding:"), Fault.CODING, id="an empty coding"),
    pytest.param(
        post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        Fault.CODING,
        id="chunked twice",
    ),
    pytest.param(
        head("Transfer-Encoding: chunked", request="POST / HTTP/1.0"),
        Fault.CODING_TOO_EARLY,
        id="chunks in HTTP/1.0",
    ),
    pytest.param(chunks(b"x\r\n"), Fault.CHUNK_SIZE, id="a chunk size that is no number"),
    pytest.param(chunks(b"\r\n"), Fault.CHUNK_SIZE, id="an empty chunk size"),
    pytest.param(chunks(b"0x1\r\n"), Fault.CHUNK_SIZE, id="a chunk size with a prefix"),
    pytest.param(chunks(b" 1\r\n"), Fault.CHUNK_SIZE, id="a space before a chunk size"),
    pytest.param(chunks(b"1 \r\n"), Fault.CHUNK_SIZE, id="a space after a chunk size"),
    pytest.param(chunks(b"1;a=b\r\n"), Fault.CHUNK_SIZE, id="a chunk extension"),
    pytest.param(chunks(b"1\nx\n0\n\n    "), Fault.CHUNK_SIZE, id="chunk lines that end in LF"),
    pytest.param(chunks(b"000000001\r\n"), Fault.CHUNK_SIZE, id="a chunk size of many digits"),
    pytest.param(chunks(b"1\r\nxy\r\n"), Fault.CHUNK_END, id="a chunk longer than its size"),
    pytest.param(chunks(b"1\r\nx\n\n"), Fault.CHUNK_END, id="a chunk that ends in LF"),
    pytest.param(chunks(b"0\r\nX y\r\n\r\n"), Fault.FIELD, id="a trailer without a colon"),
    pytest.param(chunks(b"0\r\n X: y\r\n\r\n"), Fault.FOLDED, id="a folded trailer"),
    pytest.param(chunks(b"0\r\nX: y\n\r\n"), Fault.STRAY, id="a trailer that ends in LF"),
    pytest.param(chunks(b"0\r\nHost: h\r\n\r\n"), Fault.TRAILER, id="a Host in the trailers"),
    pytest.param(chunks(b"0\r\nContent-Length: 1\r\n\r\n"), Fault.TRAILER, id="a length there"),
    pytest.param(chunks(b"0\r\nX: " + b"x" * HEAD_LIMIT), Fault.HEAD_SIZE, id="endless trailers"),
    pytest.param(post(f"Content-Length: {BODY_LIMIT + 1}"), Fault.BODY_SIZE, id="a long body"),
    pytest.param(chunks(b"%x\r\n" % (BODY_LIMIT + 1)), Fault.BODY_SIZE, id="a long chunk"),
    pytest.param(chunks(b"8000\r\n" + b"x" * 0x8000 + b"\r\n8001\r\n"), Fault.BODY_SIZE, id="many chunks"),
    pytest.param(head("Expect: 200-ok"), Fault.EXPECT, id="another expectation"),
    pytest.param(head("Expect: 100-continue", "Expect: 100-continue"), Fault.EXPECT, id="two expectations"),
    pytest.param(head(f"X: {'x' * HEAD_LIMIT}"), Fault.HEAD_SIZE, id="a long head"),
    pytest.param(b"GET /" + b"x" * HEAD_LIMIT, Fault.HEAD_SIZE, id="a target without end"),
    pytest.param(head(f"X: {'x' * (HEAD_LIMIT - 31)}"), Fault.HEAD_SIZE, id="one byte too many"),
]


@pytest.mark.parametrize("size", [pytest.param(2**20, id="at once"), pytest.param(1, id="bytewise")])
@pytest.mark.parametrize(("raw", "fault"), REFUSED)
def test_what_two_parsers_could_read_differently_is_refused(raw: bytes, fault: Fault, size: int) -> None:
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]

    assert converse(pieces) == [fault.value]


def test_every_fault_has_a_case() -> None:
    assert {case.values[1] for case in REFUSED} == set(Fault)


def test_nothing_is_read_after_a_refusal() -> None:
    connection = Connection()

    refused = connection.feed(b"nonsense\r\n\r\n" + GET)
    later = [connection.feed(GET), connection.answered()]

    assert refused == [Fault.REQUEST_LINE.value]
    assert later == [[], []]
    assert not connection.begun


def test_a_request_before_a_broken_one_is_still_answered() -> None:
    assert converse([GET + b"nonsense\r\n\r\n"]) == [only_request(GET), Fault.REQUEST_LINE.value]


def test_an_answer_is_framed_dated_and_signed() -> None:
    response = Response(200, b"{}", (("ETag", '"7"'),), "application/json")

    moment = Almanac(lambda: 0.0, lambda: NOON + timedelta(microseconds=999_999)).moment()

    assert page(response).dated(moment.date) == (
        b"HTTP/1.1 200 OK\r\nDate: Tue, 01 Jan 2030 12:00:00 GMT\r\nServer: IMDS/fairwarning\r\n"
        b'Content-Type: application/json\r\nETag: "7"\r\nContent-Length: 2\r\n\r\n{}'
    )


@pytest.mark.parametrize(
    ("keep_alive", "version", "header"),
    [
        pytest.param(True, "1.1", None, id="HTTP/1.1 takes staying open for granted"),
        pytest.param(True, "1.0", b"Connection: keep-alive", id="HTTP/1.0 is told we stay"),
        pytest.param(False, "1.1", b"Connection: close", id="HTTP/1.1 is told we close"),
        pytest.param(False, "1.0", b"Connection: close", id="HTTP/1.0 is told we close"),
    ],
)
def test_a_client_is_told_what_becomes_of_the_connection(
    keep_alive: bool, version: str, header: bytes | None
) -> None:
    lines = page(Response(200), keep_alive, version).dated(b"").split(b"\r\n")

    assert [line for line in lines if line.startswith(b"Connection")] == ([header] if header else [])


def test_an_empty_answer_has_a_length() -> None:
    assert b"\r\nContent-Length: 0\r\n" in page(Response(200)).after


def test_304_has_neither_length_nor_body() -> None:
    raw = page(Response(304, b"x")).after

    assert raw.endswith(b"\r\n\r\n")
    assert b"Content-Length" not in raw


def test_an_answer_to_head_has_the_length_of_the_body_it_leaves_out() -> None:
    raw = page(Response(405, b"{}"), head=True).after

    assert raw.endswith(b"\r\nContent-Length: 2\r\n\r\n")


def test_a_failure_is_a_json_object_with_the_error() -> None:
    response = failure(400, 'no "x"')

    assert json.loads(response.body) == {"error": 'no "x"'}
    assert response.content_type == "application/json; charset=utf-8"


@pytest.mark.parametrize("field", [("X", "a\r\nY: b"), ("X Y", "a"), ("X", "a\0"), ("X", "\u20ac")])
def test_a_header_that_could_break_the_frame_is_not_written(field: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="response header 'X"):
        page(Response(200, headers=(field,)))


def test_the_date_is_written_anew_when_the_second_is_another() -> None:
    instants = [NOON, NOON + timedelta(seconds=0.9), NOON + timedelta(seconds=1), NOON - timedelta(hours=1)]
    times = iter(instants)
    almanac = Almanac(lambda: 0.0, lambda: next(times))

    dates = [almanac.moment().date.decode()[-14:-6] for _ in instants]

    assert dates == ["12:00:00", "12:00:00", "12:00:01", "11:00:00"]
