"""What the parser refuses, and how the connection ends."""

import pytest

from fairwarning.http1.messages import BODY_LIMIT, FIELD_LIMIT, HEAD_LIMIT, RequestFault
from fairwarning.http1.request_parser import RequestParser
from tests.http1.parsing import CHUNKED_HEAD, GET, head, only_request, parse_all


def post(*lines: str) -> bytes:
    return head(*lines, request="POST / HTTP/1.1")


def chunks(body: bytes) -> bytes:
    return CHUNKED_HEAD + body


REFUSED = [
    pytest.param(b"GET / HTTP/1.1\nHost: h\n\n", RequestFault.STRAY, id="lines that end in LF alone"),
    pytest.param(b"GET / HTTP/1.1\rHost: h\r\n\r\n", RequestFault.STRAY, id="a CR without LF"),
    pytest.param(b"GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", RequestFault.STRAY, id="a CR before the CRLF"),
    pytest.param(head("X: a\0b"), RequestFault.STRAY, id="a NUL in a value"),
    pytest.param(head("X: a\x1bb"), RequestFault.STRAY, id="a control character in a value"),
    pytest.param(head(request="GET /\x01 HTTP/1.1"), RequestFault.STRAY, id="a control in the target"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", RequestFault.STRAY, id="a TLS hello"),
    pytest.param(b"\r\n" + GET, RequestFault.REQUEST_LINE, id="an empty line before the request"),
    pytest.param(head(request="GET /"), RequestFault.REQUEST_LINE, id="a request line of HTTP/0.9"),
    pytest.param(head(request="GET  / HTTP/1.1"), RequestFault.REQUEST_LINE, id="two spaces"),
    pytest.param(head(request="GET / HTTP/1.1 "), RequestFault.REQUEST_LINE, id="a space at the end"),
    pytest.param(head(request="GET /a b HTTP/1.1"), RequestFault.REQUEST_LINE, id="a space in the target"),
    pytest.param(head(request="G@T / HTTP/1.1"), RequestFault.REQUEST_LINE, id="a method that is no token"),
    pytest.param(head(request="GET / http/1.1"), RequestFault.REQUEST_LINE, id="a version in lower case"),
    pytest.param(head(request="GET / HTTP/1.10"), RequestFault.REQUEST_LINE, id="a version of two digits"),
    pytest.param(head(request="GET / HTTP/2.0"), RequestFault.VERSION, id="a version of the future"),
    pytest.param(head(request="GET / HTTP/0.9"), RequestFault.VERSION, id="a version of the past"),
    pytest.param(head(request="GET x HTTP/1.1"), RequestFault.TARGET, id="a target without a slash"),
    pytest.param(head(request="OPTIONS * HTTP/1.1"), RequestFault.TARGET, id="the asterisk form"),
    pytest.param(head(request="CONNECT h:80 HTTP/1.1"), RequestFault.TARGET, id="the authority form"),
    pytest.param(head(request="GET https://h/ HTTP/1.1"), RequestFault.TARGET, id="another scheme"),
    pytest.param(head(request="GET http:///a HTTP/1.1"), RequestFault.TARGET, id="an empty host"),
    pytest.param(head(request="GET http://u@h/ HTTP/1.1"), RequestFault.TARGET, id="a user in the target"),
    pytest.param(head(request="GET http://h HTTP/1.1"), RequestFault.TARGET, id="a host without a path"),
    pytest.param(head(request="GET /a#b HTTP/1.1"), RequestFault.TARGET, id="a fragment"),
    pytest.param(head(request="GET /\xe9 HTTP/1.1"), RequestFault.TARGET, id="non-ASCII in the target"),
    pytest.param(head("X y"), RequestFault.FIELD, id="a header without a colon"),
    pytest.param(head(": y"), RequestFault.FIELD, id="a header without a name"),
    pytest.param(head("X : y"), RequestFault.FIELD, id="a space before the colon"),
    pytest.param(head("X\xe9: y"), RequestFault.FIELD, id="a header name that is no token"),
    pytest.param(head("X: a", " b"), RequestFault.FOLDED, id="a folded header"),
    pytest.param(head(host=None), RequestFault.HOST_MISSING, id="no Host"),
    pytest.param(head("Host: h"), RequestFault.HOST_REPEATED, id="two Hosts"),
    pytest.param(post("Content-Length: +1"), RequestFault.LENGTH, id="a length with a sign"),
    pytest.param(post("Content-Length: 1_0"), RequestFault.LENGTH, id="a length with an underscore"),
    pytest.param(post("Content-Length: 1, 1"), RequestFault.LENGTH, id="a list of lengths"),
    pytest.param(post("Content-Length:"), RequestFault.LENGTH, id="an empty length"),
    pytest.param(post("Content-Length: \xb2"), RequestFault.LENGTH, id="a length in another script"),
    pytest.param(post(f"Content-Length: {'9' * 5000}"), RequestFault.LENGTH, id="a length of many digits"),
    pytest.param(post("Content-Length: 1", "Content-Length: 1"), RequestFault.LENGTH, id="equal lengths"),
    pytest.param(
        post("Content-Length: 5", "Transfer-Encoding: chunked"),
        RequestFault.LENGTH_AND_CODING,
        id="a length and chunks",
    ),
    pytest.param(post("Transfer-Encoding: gzip"), RequestFault.CODING, id="another coding"),
    pytest.param(post("Transfer-Encoding: gzip, chunked"), RequestFault.CODING, id="two codings"),
    pytest.param(post("Transfer-Encoding: chunked,"), RequestFault.CODING, id="a coding and a comma"),
    pytest.param(post("Transfer-Encoding: \x0bchunked"), RequestFault.STRAY, id="a disguised coding"),
    pytest.param(post("Transfer-Encoding:"), RequestFault.CODING, id="an empty coding"),
    pytest.param(
        post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        RequestFault.CODING,
        id="chunked twice",
    ),
    pytest.param(
        head("Transfer-Encoding: chunked", request="POST / HTTP/1.0"),
        RequestFault.CODING_TOO_EARLY,
        id="chunks in HTTP/1.0",
    ),
    pytest.param(chunks(b"x\r\n"), RequestFault.CHUNK_SIZE, id="a chunk size that is no number"),
    pytest.param(chunks(b"\r\n"), RequestFault.CHUNK_SIZE, id="an empty chunk size"),
    pytest.param(chunks(b"0x1\r\n"), RequestFault.CHUNK_SIZE, id="a chunk size with a prefix"),
    pytest.param(chunks(b" 1\r\n"), RequestFault.CHUNK_SIZE, id="a space before a chunk size"),
    pytest.param(chunks(b"1 \r\n"), RequestFault.CHUNK_SIZE, id="a space after a chunk size"),
    pytest.param(chunks(b"1;a=b\r\n"), RequestFault.CHUNK_SIZE, id="a chunk extension"),
    pytest.param(chunks(b"1\nx\n0\n\n    "), RequestFault.CHUNK_SIZE, id="chunk lines that end in LF"),
    pytest.param(chunks(b"000000001\r\n"), RequestFault.CHUNK_SIZE, id="a chunk size of many digits"),
    pytest.param(chunks(b"1\r\nxy\r\n"), RequestFault.CHUNK_END, id="a chunk longer than its size"),
    pytest.param(chunks(b"1\r\nx\n\n"), RequestFault.CHUNK_END, id="a chunk that ends in LF"),
    pytest.param(chunks(b"0\r\nX y\r\n\r\n"), RequestFault.FIELD, id="a trailer without a colon"),
    pytest.param(chunks(b"0\r\n X: y\r\n\r\n"), RequestFault.FOLDED, id="a folded trailer"),
    pytest.param(chunks(b"0\r\nX: y\n\r\n"), RequestFault.STRAY, id="a trailer that ends in LF"),
    pytest.param(chunks(b"0\r\nHost: h\r\n\r\n"), RequestFault.TRAILER, id="a Host in the trailers"),
    pytest.param(chunks(b"0\r\nContent-Length: 1\r\n\r\n"), RequestFault.TRAILER, id="a length there"),
    pytest.param(chunks(b"0\r\nX: " + b"x" * HEAD_LIMIT), RequestFault.HEAD_SIZE, id="endless trailers"),
    pytest.param(post(f"Content-Length: {BODY_LIMIT + 1}"), RequestFault.BODY_SIZE, id="a long body"),
    pytest.param(chunks(b"%x\r\n" % (BODY_LIMIT + 1)), RequestFault.BODY_SIZE, id="a long chunk"),
    pytest.param(
        chunks(b"8000\r\n" + b"x" * 0x8000 + b"\r\n8001\r\n"), RequestFault.BODY_SIZE, id="many chunks"
    ),
    pytest.param(head("Expect: 200-ok"), RequestFault.EXPECT, id="another expectation"),
    pytest.param(
        head("Expect: 100-continue", "Expect: 100-continue"), RequestFault.EXPECT, id="two expectations"
    ),
    pytest.param(head(*["a:"] * 2030), RequestFault.FIELD_COUNT, id="many header lines"),
    pytest.param(head(*["X: y"] * FIELD_LIMIT), RequestFault.FIELD_COUNT, id="one header line too many"),
    pytest.param(
        chunks(b"0\r\n" + b"X: y\r\n" * 2 * FIELD_LIMIT + b"\r\n"),
        RequestFault.FIELD_COUNT,
        id="many trailers",
    ),
    pytest.param(head(f"X: {'x' * HEAD_LIMIT}"), RequestFault.HEAD_SIZE, id="a long head"),
    pytest.param(b"GET /" + b"x" * HEAD_LIMIT, RequestFault.HEAD_SIZE, id="a target without end"),
    pytest.param(head(f"X: {'x' * (HEAD_LIMIT - 31)}"), RequestFault.HEAD_SIZE, id="one byte too many"),
]


@pytest.mark.parametrize("size", [pytest.param(2**20, id="at once"), pytest.param(1, id="bytewise")])
@pytest.mark.parametrize(("raw", "fault"), REFUSED)
def test_what_two_parsers_could_read_differently_is_refused(
    raw: bytes, fault: RequestFault, size: int
) -> None:
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]

    assert parse_all(pieces) == [fault.value]


def test_every_fault_has_a_case() -> None:
    assert {case.values[1] for case in REFUSED} == set(RequestFault)


def test_nothing_is_read_after_a_refusal() -> None:
    connection = RequestParser()

    refused = connection.feed(b"nonsense\r\n\r\n" + GET)
    later = [connection.feed(GET), connection.answered()]

    assert refused == [RequestFault.REQUEST_LINE.value]
    assert later == [[], []]
    assert not connection.begun


def test_a_request_before_a_broken_one_is_still_answered() -> None:
    assert parse_all([GET + b"nonsense\r\n\r\n"]) == [only_request(GET), RequestFault.REQUEST_LINE.value]
