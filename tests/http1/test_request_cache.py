"""Which requests are cached, and for how long."""

import pytest

from fairwarning.http1.messages import FIELD_LIMIT, HEAD_LIMIT, CacheableGet, Request
from fairwarning.http1.request_cache import MAX_ENTRY_BYTES, RequestCache

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


def numbered(number: int) -> bytes:
    return b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number


class Router:
    """Calls every request cacheable, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: Request) -> CacheableGet:
        self.asked.append(request.path)
        return CacheableGet(request.path)


def test_a_head_that_comes_again_is_read_and_routed_no_more() -> None:
    router = Router()
    cache = RequestCache(router)

    found = [cache.lookup(GET) for _ in range(5)]

    assert [cached.get for cached in found if cached is not None] == [CacheableGet("/a")] * 5
    assert router.asked == ["/a"]
    assert found[1] is found[4]


def test_heads_that_never_come_again_are_not_remembered() -> None:
    cache = RequestCache(None)

    for number in range(100):
        cache.lookup(numbered(number))

    assert len(cache) == 0


def test_a_head_that_is_new_only_where_nobody_looks_is_routed_no_more() -> None:
    router = Router()
    cache = RequestCache(router)

    found = [cache.lookup(GET[:-2] + b"X-Request-Id: %d\r\n\r\n" % number) for number in range(5)]

    assert [cached.get for cached in found if cached is not None] == [CacheableGet("/a")] * 5
    assert router.asked == ["/a"]
    assert len(cache) == 0


def test_what_nobody_sends_any_more_is_forgotten_and_the_rest_is_not() -> None:
    router = Router()
    cache = RequestCache(router, max_entries=4)

    for number in range(40):
        for _ in range(2):
            cache.lookup(numbered(number))
            cache.lookup(GET)

    assert len(cache) <= 8
    assert router.asked.count("/a") == 1
    assert cache.recent.get(numbered(0)) is None


def test_what_is_not_sent_for_two_minutes_is_forgotten_though_there_is_room() -> None:
    router = Router()
    cache = RequestCache(router)
    for data in (GET, GET, numbered(0), numbered(0)):
        cache.lookup(data)

    for minute in range(1, 4):
        cache.expire(60.0 * minute)
        cache.lookup(GET)
    cache.lookup(numbered(0))

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
    cache = RequestCache(None)

    assert [cache.lookup(data) for _ in range(3)] == [None] * 3
    assert len(cache) == 0


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
        pytest.param(GET[:-2] + b"X: y\r\n" * FIELD_LIMIT + b"\r\n", id="a line too many"),
    ],
)
def test_a_head_that_is_known_but_for_a_broken_rule_is_not_known(data: bytes) -> None:
    cache = RequestCache(Router())
    cache.lookup(GET)

    assert [cache.lookup(data) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", id="a last request"),
        pytest.param(
            b"GET /a HTTP/1.1\r\nHost: h\r\nX: %b\r\n\r\n" % (b"x" * MAX_ENTRY_BYTES), id="a long head"
        ),
    ],
)
def test_some_requests_are_read_every_time(data: bytes) -> None:
    cache = RequestCache(None)

    found = [cache.lookup(data) for _ in range(3)]

    assert [cached.request is not None for cached in found if cached is not None] == [True] * 3
    assert len(cache) == 0
