"""The fast path answers a poll as the slow path does, whichever headers the checks read."""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.http1.encoding import encode
from fairwarning.http1.head_parser import read_head
from fairwarning.http1.messages import Request, Response
from fairwarning.http1.request_cache import RequestCache
from fairwarning.http1.request_clock import Moment
from fairwarning.metadata.checks import GuestHeader
from tests.guest import EVENTS, METADATA, NEWEST, NOON, Cloud, cloud

T = TypeVar("T")

WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
DATE = b"Date: now\r\n"


class ObservedHeaders(dict[str, tuple[str, ...]]):
    """The headers of a request, which remember what was looked for."""

    def __init__(self, headers: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(headers)
        self.read: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: T | None = None) -> tuple[str, ...] | T | None:  # type: ignore[override]
        self.read.add(name)
        return super().get(name, default)


def headers_read() -> set[str]:
    """Return the names of the headers that a poll is answered by."""
    headers = ObservedHeaders(METADATA)
    with cloud() as guests:
        assert guests.get(headers=headers, query=f"{NEWEST}&wait=1").status == 200
    return headers.read


READ = sorted(headers_read())


def test_the_checks_read_the_headers_that_they_declare() -> None:
    assert sorted(GuestHeader) == READ


VALUES = st.sampled_from(["true", "TRUE ", "false", "", '"1"', '"2"', "*", "10.0.0.1"])
LINES = st.lists(st.tuples(st.sampled_from([*READ, "x-request-id"]), VALUES), max_size=4)


@st.composite
def polls(draw: st.DrawFn) -> bytes:
    """Return the head of a poll with headers that the checks read, and with one that they ignore."""
    lines = ["Metadata: true"] if draw(st.booleans()) else []
    for name, value in draw(LINES):
        lines.append(f"{draw(st.sampled_from([name, name.title(), name.upper()]))}: {value}")
    return "\r\n".join([f"GET {EVENTS}?{NEWEST} HTTP/1.1", "Host: h", *lines, "", ""]).encode()


@settings(max_examples=60)
@given(st.lists(polls(), min_size=2, max_size=8))
def test_the_fast_path_answers_as_the_slow_path_does(sent: list[bytes]) -> None:
    with cloud() as guests:
        guests.get()
        cache = RequestCache(guests.app.prepare, guests.app.headers)

        for data in sent:
            assert quick_answer(guests, cache, data) in (None, answer(guests, read_head(data).request))


def quick_answer(guests: Cloud, cache: RequestCache, data: bytes) -> bytes | None:
    """Return what the fast path sends; None if it leaves the poll to the slow path."""
    cached = cache.lookup(data)
    if cached is None or cached.get is None:
        return None
    get = cached.get

    async def ask() -> bytes | None:
        moment = Moment(asyncio.get_running_loop().time(), NOON, DATE)
        return guests.app.fast_path(WEB_0).answer(get, moment)

    sent = guests.run(ask())
    assert sent is not None
    return sent


def answer(guests: Cloud, request: Request) -> bytes:
    """Return what the slow path sends."""
    response = guests.ask("web_0", request)
    assert isinstance(response, Response)
    return encode(response).dated(DATE)
