"""The request cache never changes what a request asks the metadata API for."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.control.control import Control
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.http1.head_parser import read_head
from fairwarning.http1.messages import CacheableGet, Request, RequestRefusedError
from fairwarning.http1.request_cache import RequestCache
from fairwarning.metadata.app import MetadataApp
from fairwarning.store.memory import MemoryStore
from tests.guest import NOON, UNHURRIED

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


ENGINE = Engine(MemoryStore(), ManualClock(NOON), SimulatedDriver(), Policy())
APP = MetadataApp(Control(ENGINE), UNHURRIED)


@settings(max_examples=75)
@given(st.lists(some_head(), min_size=1, max_size=12))
def test_whatever_came_before_a_head_asks_for_what_its_own_lines_say(sent: list[bytes]) -> None:
    check_lookups(sent)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(some_head(), min_size=1, max_size=12))
def test_whatever_came_before_each_of_many_heads_asks_for_what_its_own_lines_say(sent: list[bytes]) -> None:
    check_lookups(sent)


def check_lookups(sent: list[bytes]) -> None:
    """Check that the cache finds for each head what the head itself asks for."""
    cache = RequestCache(APP.prepare, APP.headers, max_entries=3)

    for data in sent * 2:
        cached = cache.lookup(data)
        assert (None if cached is None else cached.get) == expected(APP.prepare, data)
