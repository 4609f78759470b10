"""What is remembered of heads, and for how long."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.http1.grammar import read_head
from fairwarning.http1.messages import HEAD_LIMIT, CacheableGet, Request, RequestRefusedError
from fairwarning.http1.request_cache import LONGEST, RequestCache
from fairwarning.metadata.app import MetadataApp
from fairwarning.store.memory import MemoryStore
from tests.guest import NOON, UNHURRIED

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


def numbered(number: int) -> bytes:
    return b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number


class Router:
    """Says of every request that it is a plain poll, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: Request) -> CacheableGet:
        self.asked.append(request.path)
        return CacheableGet(request.path)


def test_a_head_that_comes_again_is_read_and_routed_no_more() -> None:
    router = Router()
    heads = RequestCache(router)

    read = [heads.read(GET) for _ in range(5)]

    assert [one.poll for one in read if one is not None] == [CacheableGet("/a")] * 5
    assert router.asked == ["/a"]
    assert read[1] is read[4]


def test_heads_that_never_come_again_are_not_remembered() -> None:
    heads = RequestCache(None)

    for number in range(100):
        heads.read(numbered(number))

    assert len(heads) == 0


def test_a_head_that_is_new_only_where_nobody_looks_is_routed_no_more() -> None:
    router = Router()
    heads = RequestCache(router)

    read = [heads.read(GET[:-2] + b"X-Request-Id: %d\r\n\r\n" % number) for number in range(5)]

    assert [one.poll for one in read if one is not None] == [CacheableGet("/a")] * 5
    assert router.asked == ["/a"]
    assert len(heads) == 0


def test_what_nobody_sends_any_more_is_forgotten_and_the_rest_is_not() -> None:
    router = Router()
    heads = RequestCache(router, most=4)

    for number in range(40):
        for _ in range(2):
            heads.read(numbered(number))
            heads.read(GET)

    assert len(heads) <= 8
    assert router.asked.count("/a") == 1
    assert heads.young.get(numbered(0)) is None


def test_what_is_not_sent_for_two_minutes_is_forgotten_though_there_is_room() -> None:
    router = Router()
    heads = RequestCache(router)
    for data in (GET, GET, numbered(0), numbered(0)):
        heads.read(data)

    for minute in range(1, 4):
        heads.age(60.0 * minute)
        heads.read(GET)
    heads.read(numbered(0))

    assert router.asked == ["/a", "/0", "/0"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n", id="a head with a body"),
        pytest.param(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", id="with chunks"),
        pytest.param(GET + GET, id="two requests"),
        pytest.param(GET + b"x", id="a request and the beginning of another"),
        pytest.param(GET[:-1], id="a request that has not ended"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\r\n\r\n", id="an empty head"),
        pytest.param(b"GET a HTTP/1.1\r\nHost: h\r\n\r\n", id="a head that breaks a rule"),
        pytest.param(b"GET / HTTP/1.1\r\nX: %b\r\n\r\n" % (b"x" * HEAD_LIMIT), id="a head that is too long"),
    ],
)
def test_what_is_not_one_whole_request_without_a_body_is_left_alone(data: bytes) -> None:
    heads = RequestCache(None)

    assert [heads.read(data) for _ in range(3)] == [None] * 3
    assert len(heads) == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GET + b"X: 1\r\n", id="more lines after its end"),
        pytest.param(GET + b"X: 1\r\n\r\n", id="more lines and another end"),
        pytest.param(GET[:-2] + b"X: 1\nX: 2\r\n\r\n", id="a line that ends too soon"),
        pytest.param(GET[:-2] + b"X: 1\r\r\n\r\n", id="a line that ends twice"),
        pytest.param(GET[:-2] + b"X: 1\r\n folded\r\n\r\n", id="a line that goes on in the next"),
        pytest.param(GET[:-2] + b"X: \0\r\n\r\n", id="a control character"),
        pytest.param(GET[:-2] + b"X : 1\r\n\r\n", id="a name that is none"),
        pytest.param(GET[:-2] + b"X: %b\r\n\r\n" % (b"x" * HEAD_LIMIT), id="a line that is too long"),
    ],
)
def test_a_head_that_is_known_but_for_a_broken_rule_is_not_known(data: bytes) -> None:
    heads = RequestCache(Router())
    heads.read(GET)

    assert [heads.read(data) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", id="a last request"),
        pytest.param(b"GET /a HTTP/1.1\r\nHost: h\r\nX: %b\r\n\r\n" % (b"x" * LONGEST), id="a long head"),
    ],
)
def test_some_requests_are_read_every_time(data: bytes) -> None:
    heads = RequestCache(None)

    read = [heads.read(data) for _ in range(3)]

    assert [one.request is not None for one in read if one is not None] == [True] * 3
    assert len(heads) == 0


LINES = st.lists(
    st.sampled_from(
        [
            *("Host: h", "host: h", "Metadata: true", "METADATA:true", "Metadata: false", "Metadata: true "),
            *("X-Forwarded-For: 10.0.0.1", "x-forwarded-for:", 'If-None-Match: "1"', "If-None-Match: *"),
            *("Connection: close", "Connection: keep-alive", "connection: x", "Content-Length: 0"),
            *("Content-Length: 2", "Transfer-Encoding: chunked", "Expect: 100-continue", "Expect: x"),
            *("X-Id: 1", "X-Id: 2", "User-Agent: x", "X-Metadata: true", "Hosts: h", " folded: x", "X"),
            *("X: 1\nX: 2", "X: 1\r", "\nX: 1", "X: \0", "X\t: 1", ": 1", ""),
        ]
    ),
    max_size=5,
)
TARGETS = st.sampled_from(
    [
        "/metadata/scheduledevents?api-version=2020-07-01",
        "/metadata/scheduledevents?api-version=2019-08-01",
        "/metadata/ScheduledEvents/?API-Version=2020-07-01",
        "/metadata/scheduledevents?api-version=2020-07-01&wait=1",
        "/metadata/scheduledevents",
        "/metadata/instance?api-version=2021-02-01",
        "http://h/metadata/scheduledevents?api-version=2020-07-01",
    ]
)


@st.composite
def some_head(draw: st.DrawFn) -> bytes:
    method, version = draw(st.sampled_from(["GET", "GET", "POST", "HEAD"])), draw(st.sampled_from("11110"))
    lines = ["Host: h", "Metadata: true"] if draw(st.booleans()) else []
    first = f"{method} {draw(TARGETS)} HTTP/1.{version}"
    more = draw(st.sampled_from(["", "", "X-Id: 1\r\n", "X-Id: 1\r\n\r\n"]))
    return ("\r\n".join([first, *lines, *draw(LINES), "", ""]) + more).encode()


def expected(prepare: Callable[[Request], CacheableGet | None], data: bytes) -> CacheableGet | None:
    try:
        head = read_head(data)
    except RequestRefusedError:
        return None
    return prepare(head.request) if head.length == 0 else None


PREPARE = MetadataApp(
    Engine(MemoryStore(), ManualClock(NOON), SimulatedDriver(), Policy()), UNHURRIED
).prepare


@settings(max_examples=300)
@given(st.lists(some_head(), min_size=1, max_size=12))
def test_whatever_came_before_a_head_asks_for_what_its_own_lines_say(sent: list[bytes]) -> None:
    heads = RequestCache(PREPARE, most=3)

    for data in sent * 2:
        known = heads.read(data)
        assert (None if known is None else known.poll) == expected(PREPARE, data)
