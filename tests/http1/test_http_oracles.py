"""Two well-known parsers as judges: whatever we accept, they accept with the same meaning.

The property has one direction: both judges are lenient where we refuse. Where they differ from us
although we accept, on purpose:

- httptools knows a fixed list of methods; we take any token, and the router answers 405.
- both judges stop reading HTTP after CONNECT or an upgrade; we ignore upgrades.
- h11 never keeps an HTTP/1.0 connection open; we do when the client asks for it.
- httptools lets ``keep-alive`` win over ``close`` in HTTP/1.0; to us ``close`` always wins.
- httptools refuses a tab after ``chunked``; to us, as to h11, it is white space like any other.
- h11 writes the transfer coding in lower case; we keep what the client sent.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile

import h11
import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.http1.messages import Request
from tests.http1.parsing import parse_all

TAB_AFTER_CHUNKED = re.compile(rb"chunked *\t[ \t]*\r\n", re.IGNORECASE)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")


@dataclass(frozen=True)
class Meaning:
    """What a parser understood."""

    method: str
    path: str
    query: str
    headers: dict[str, tuple[str, ...]]
    body: bytes
    keep_alive: bool


def meaning(
    method: bytes, target: bytes, fields: Iterable[tuple[bytes, bytes]], body: bytes, keep: bool
) -> Meaning:
    """Bring a judge's reading into our words."""
    path, _, query = re.sub("^(?i:http)://[^/]*", "", target.decode("latin-1")).partition("?")
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in fields:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")
        headers[key] = (*headers.get(key, ()), text.lower() if key == "transfer-encoding" else text)
    return Meaning(method.decode("latin-1"), path, query, headers, body, keep)


def ours(pieces: Iterable[bytes]) -> list[Request]:
    return [action for action in parse_all(pieces) if isinstance(action, Request)]


def our_meaning(request: Request) -> Meaning:
    headers = dict(request.headers)
    if "transfer-encoding" in headers:
        headers["transfer-encoding"] = ("chunked",)
    return Meaning(request.method, request.path, request.query, headers, request.body, request.keep_alive)


def leaves_http(request: Request) -> bool:
    options = ",".join(request.headers.get("connection", ())).lower()
    return request.method == "CONNECT" or ("upgrade" in request.headers and "upgrade" in options)


def read_by_h11(raw: bytes) -> tuple[Meaning, bytes] | None:
    """Return h11's reading of the first request and what follows it, unless it refuses it."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(raw)
    request: h11.Request | None = None
    body = b""
    try:
        while True:
            event = connection.next_event()
            match event:
                case h11.Request():
                    request = event
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage():
                    break
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None
    assert request is not None
    keep_alive = connection.their_state is not h11.MUST_CLOSE
    read = meaning(request.method, request.target, request.headers, body, keep_alive)
    return read, connection.trailing_data[0]


@dataclass
class Recorder:
    """Collects what httptools calls out."""

    done: list[Meaning] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.on_message_begin()

    def on_message_begin(self) -> None:
        self.target, self.body, self.in_head = b"", b"", True
        self.fields: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.in_head = False
        self.keep_alive = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        method = self.parser.get_method()
        self.done.append(meaning(method, self.target, self.fields, self.body, self.keep_alive))


def read_by_httptools(raw: bytes) -> list[Meaning]:
    """Return httptools' reading of all requests up to the first it refuses."""
    recorder = Recorder()
    with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        recorder.parser.feed_data(raw)
    return recorder.done


def judge_by_h11(raw: bytes, requests: list[Request]) -> None:
    for request in requests:
        read = read_by_h11(raw)
        assert read is not None
        theirs, raw = read
        if request.version == "1.0" or request.method == "CONNECT" or "upgrade" in request.headers:
            theirs = replace(theirs, keep_alive=request.keep_alive)
        assert theirs == our_meaning(request)


def judge_by_httptools(raw: bytes, requests: list[Request]) -> None:
    if TAB_AFTER_CHUNKED.search(raw):
        return
    known = list(takewhile(lambda request: request.method in METHODS, requests))
    plain = list(takewhile(lambda request: not leaves_http(request), known))
    theirs = read_by_httptools(raw)

    assert len(theirs) >= len(plain)
    for request, their in zip(plain, theirs, strict=False):
        if request.version == "1.0" and not request.keep_alive:
            their = replace(their, keep_alive=False)
        assert their == our_meaning(request)


def judge(raw: bytes, cuts: list[int]) -> list[Request]:
    """Return what we accept of ``raw``, after both judges have agreed."""
    edges = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    requests = ours(raw[a:b] for a, b in pairwise(edges))
    judge_by_h11(raw, requests)
    judge_by_httptools(raw, requests)
    return requests


TOKEN = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=8)
NAMES = TOKEN.filter(lambda name: name.lower() not in {"host", "te", "expect"})
VALUES = st.text([*'azAZ09 \t"(),;:=@[]{}\\/?', "\x85", "\xa0", "\xff"], max_size=12)
PATHS = st.text("abz09-._~%!$&'()*+,;=:@/\"<>[]\\^`{|}", max_size=12).map("/".__add__)
QUERIES = st.none() | st.text("abz09-._~%!$&'()*+,;=:@/?\"<>[]\\^`{|}", max_size=12)
PREFIXES = st.sampled_from(["", "", "", "http://h", "HTTP://169.254.169.254:80", "http://[::1]"])
CONNECTIONS = st.sampled_from(
    ["close", "keep-alive", "Close", "x, close", "keep-alive, close", "upgrade", "", ",", "closed"]
)
CUTS = st.lists(st.integers(0, 10_000), max_size=6)


@st.composite
def heads(draw: st.DrawFn, framing: str, version: str) -> str:
    target = draw(PREFIXES) + draw(PATHS)
    query = draw(QUERIES)
    fields = [f"{draw(NAMES)}:{draw(VALUES)}" for _ in range(draw(st.integers(0, 4)))]
    if draw(st.booleans()):
        fields.append(f"Connection: {draw(CONNECTIONS)}")
    if draw(st.integers(0, 9)) == 0:
        fields.append("Upgrade: h2c")
    fields += ["Host: h", framing] if framing else ["Host: h"]
    method = draw(st.sampled_from(METHODS) | st.sampled_from(METHODS) | TOKEN)
    line = f"{method} {target}{'' if query is None else '?' + query} HTTP/{version}"
    return "\r\n".join([line, *draw(st.permutations(fields)), "", ""])


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    cuts = draw(st.lists(st.integers(0, len(body)), max_size=3))
    sizes = draw(st.sampled_from([b"%x", b"%X", b"%04x"]))
    parts = [body[a:b] for a, b in pairwise(sorted({0, len(body), *cuts}))]
    trailers = draw(st.sampled_from([b"", b"", b"X-Sum: 1\r\n", b"A:\r\nB: b\r\n"]))
    chunks = b"".join(sizes % len(part) + b"\r\n" + part + b"\r\n" for part in parts)
    return chunks + b"0\r\n" + trailers + b"\r\n"


@st.composite
def valid(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A request as bytes, and the body it carries."""
    version = draw(st.sampled_from(["1.1", "1.1", "1.1", "1.0"]))
    body = draw(st.binary(max_size=40) | st.sampled_from([b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]))
    kind = draw(st.sampled_from(["none", "length", "chunked"]))
    if kind == "none":
        return draw(heads("", version)).encode("latin-1"), b""
    if kind == "length" or version == "1.0":
        return draw(heads(f"Content-Length: {len(body)}", version)).encode("latin-1") + body, body
    coding = draw(st.sampled_from(["chunked", "Chunked"]))
    head = draw(heads(f"Transfer-Encoding: {coding}", version)).encode("latin-1")
    return head + draw(chunked(body)), body


SPLINTERS = st.sampled_from(
    [
        *(b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"\t", b"\0", b"\x0b", b"\x7f", b"\xa0"),
        *(b":", b",", b";", b"#", b"?", b"@", b"+", b"-", b"_", b"0", b"1", b"f", b"0x", b"*"),
        *(b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"content-length :3\r\n"),
        *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"TE: x\r\n"),
        *(b"Host: x\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: x\r\n"),
        *(b"Connection: keep-alive\r\n", b"3;x=y\r\nabc\r\n", b"0\r\n\r\n", b"HTTP/1.1", b"chunked"),
    ]
)


@st.composite
def garbled(draw: st.DrawFn) -> bytes:
    """One or two valid requests with a few bytes moved, lost, doubled or put in."""
    raw = b"".join(draw(st.lists(valid().map(lambda pair: pair[0]), min_size=1, max_size=2)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(raw)) | st.sampled_from(line_starts(raw)))
        end = min(len(raw), at + draw(st.sampled_from([0, 0, 1, 2, 8])))
        raw = raw[:at] + draw(SPLINTERS | st.just(raw[at:end] * 2) | st.just(b"")) + raw[end:]
    return raw


FRAMINGS = st.sampled_from(
    [
        *("Content-Length: 3", "Content-Length: 0", "Content-Length: 4", "content-length:03"),
        *("Content-Length: 3, 3", "Content-Length: +3", "Content-Length : 3", "Content-Length: 3 3"),
        *("Transfer-Encoding: chunked", "transfer-encoding:CHUNKED\t", "Transfer-Encoding : chunked"),
        *("Transfer-Encoding: identity", "Transfer-Encoding: x, chunked", "Transfer-Encoding: chunke"),
        *("Transfer-Encoding: \xa0chunked", "Transfer-Encoding: chunked,", " chunked", "\t3"),
        *("Expect: 100-continue", "Connection: close", "Host: x"),
    ]
)
BODIES = st.sampled_from(
    [
        *(b"", b"abc", b"3\r\nabc\r\n0\r\n\r\n", b"0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"3\nabc\n0\n\n"),
        *(b"3;x\r\nabc\r\n0\r\n\r\n", b"3 \r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b"-3\r\n"),
        *(b"3\r\nabcxy0\r\n\r\n", b"0\r\nContent-Length: 3\r\n\r\n", b"0\r\nA: b\n\r\n", b"0\r\nA\r\n\r\n"),
        *(
            b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"100000003\r\nabc\r\n0\r\n\r\n",
            b"0\r\n A: b\r\n\r\n",
        ),
    ]
)


@st.composite
def smuggling(draw: st.DrawFn) -> bytes:
    """A request that says in several ways where it ends, and one hidden behind it."""
    version = draw(st.sampled_from(["1.1", "1.1", "1.0"]))
    lines = [f"POST / HTTP/{version}", "Host: h", *draw(st.lists(FRAMINGS, min_size=1, max_size=3))]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + draw(BODIES) + b"GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"


def line_starts(raw: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(b"\r\n", raw))]


@pytest.mark.slow
@settings(max_examples=200)
@given(valid(), CUTS)
def test_a_valid_request_is_accepted_and_both_judges_read_the_same(
    request_and_body: tuple[bytes, bytes], cuts: list[int]
) -> None:
    raw, body = request_and_body

    (request,) = judge(raw, cuts)

    assert request.body == body


@pytest.mark.slow
@settings(max_examples=500)
@given(garbled(), CUTS)
def test_of_a_garbled_request_we_accept_only_what_both_judges_read_the_same(
    raw: bytes, cuts: list[int]
) -> None:
    judge(raw, cuts)


@pytest.mark.slow
@settings(max_examples=1000)
@given(smuggling(), CUTS)
def test_where_a_request_ends_is_never_read_in_two_ways(raw: bytes, cuts: list[int]) -> None:
    judge(raw, cuts)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(valid(), min_size=2, max_size=4), CUTS)
def test_of_pipelined_requests_both_judges_see_the_same_boundaries(
    pairs: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    requests = judge(b"".join(raw for raw, _ in pairs), cuts)

    assert [request.body for request in requests] == [body for _, body in pairs][: len(requests)]
    assert all(request.keep_alive for request in requests[:-1])
    assert len(requests) == len(pairs) or not requests[-1].keep_alive


@pytest.mark.parametrize(
    "method", [pytest.param(method, id=f"{method} is a method to all") for method in METHODS]
)
def test_the_judges_know_the_usual_methods(method: str) -> None:
    (request,) = judge(f"{method} / HTTP/1.1\r\nHost: h\r\n\r\n".encode(), [])

    assert request.method == method


def test_h11_also_refuses_an_empty_line_before_a_request() -> None:
    raw = b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"

    assert judge(raw, []) == []
    assert read_by_h11(raw) is None
