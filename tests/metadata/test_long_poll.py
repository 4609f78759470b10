"""Long polls: how many, until when, and what ends them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from math import inf

import pytest

from fairwarning.core.commands import Schedule
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Request, Response
from fairwarning.http1.server import HttpServer
from fairwarning.metadata.long_poll import LongPoll, LongPolls
from tests.guest import E1, Cloud, cloud
from tests.http1.server_client import PORTABLE, Streams, calling, read_answer

pytestmark = pytest.mark.usefixtures("transports")

WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
UNCHANGED = Response(304)
NEWS = Response(200, b"news")


@pytest.fixture
def web() -> Iterator[Cloud]:
    with cloud() as fleet:
        yield fleet


def get(target: str = EVENTS, *lines: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: h", "Metadata: true", *lines, "", ""]).encode()


WAIT = get(f"{EVENTS}&wait=60", 'If-None-Match: "1"')


@asynccontextmanager
async def serving(web: Cloud, limits: Limits) -> AsyncIterator[HttpServer[MachineRef]]:
    server = HttpServer[MachineRef](
        web.app.answer, web.clock.now, limits, fast_path=web.app, portable=PORTABLE[0]
    )
    try:
        yield server
    finally:
        await server.close()


async def waiting(server: HttpServer[MachineRef], count: int) -> None:
    """Return once so many responses are held back."""
    while server.metrics().held_responses != count:
        await asyncio.sleep(0)


async def restart(web: Cloud) -> None:
    await web.engine.handle(Schedule(id=E1, cause="restart", machines=(WEB_0,)))


async def status(reader: asyncio.StreamReader) -> int:
    """Read the head of one answer that has no body."""
    return int((await reader.readuntil(b"\r\n\r\n")).split()[1])


def test_everybody_who_waits_is_answered_when_the_document_changes(web: Cloud) -> None:
    async def story() -> tuple[list[int], int]:
        async with serving(web, Limits()) as server, AsyncExitStack() as stack:
            address = (await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)).address
            clients: list[Streams] = [await stack.enter_async_context(calling(address)) for _ in range(20)]
            for _, writer in clients:
                writer.write(WAIT)
            await waiting(server, len(clients))
            await restart(web)
            answers = [await read_answer(reader) for reader, _ in clients]
            return [code for code, _ in answers], server.metrics().held_responses

    assert web.run(story()) == ([200] * 20, 0)


def test_who_would_wait_beyond_the_quota_is_answered_at_once_and_plain_polls_are_answered(web: Cloud) -> None:
    async def story() -> tuple[int, int, int]:
        async with serving(web, replace(Limits(), held_responses=1)) as server, AsyncExitStack() as stack:
            address = (await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)).address
            held, one_more = [await stack.enter_async_context(calling(address)) for _ in range(2)]
            held[1].write(WAIT)
            await waiting(server, 1)
            one_more[1].write(WAIT)
            refused = await status(one_more[0])
            one_more[1].write(get())
            polled, _ = await read_answer(one_more[0])
            await restart(web)
            answered, _ = await read_answer(held[0])
            return refused, polled, answered

    assert web.run(story()) == (304, 200, 200)


def test_a_client_that_goes_away_is_waited_for_no_more(web: Cloud) -> None:
    async def story() -> None:
        async with serving(web, replace(Limits(), head=0.05)) as server:
            address = (await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)).address
            async with calling(address) as (_, writer):
                writer.write(WAIT)
                await waiting(server, 1)
            await waiting(server, 0)

    web.run(asyncio.wait_for(story(), 10))


def test_what_is_sent_behind_a_request_that_waits_is_answered_after_it(web: Cloud) -> None:
    async def story() -> list[int]:
        async with serving(web, Limits()) as server:
            address = (await server.listen_tcp("127.0.0.1", 0, lambda peer: WEB_0)).address
            async with calling(address) as (reader, writer):
                writer.write(WAIT)
                await waiting(server, 1)
                writer.write(get() + get(EVENTS, 'If-None-Match: "1"'))
                await restart(web)
                return [(await read_answer(reader))[0] for _ in range(3)]

    assert web.run(story()) == [200, 200, 200]


class FakeSource:
    """Gives a long poll its responses one by one, the last for good; also receives the delivered one."""

    def __init__(self, *answers: Response, next_change: float = inf) -> None:
        self._answers = list(answers)
        self._next_change = next_change
        self.times = 0
        self.delivered: list[Response] = []

    def current_response(self, machine: MachineRef, version: str, request: Request) -> Response:
        self.times += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def next_change(self, machine: MachineRef) -> float:
        return self._next_change

    def deliver(self, response: Response) -> None:
        self.delivered.append(response)


def hold(web: Cloud, source: FakeSource, seconds: float) -> LongPoll:
    until = asyncio.get_running_loop().time() + seconds
    request = Request("GET", "/", "", {}, b"", True)
    return LongPoll(LongPolls(web.engine.feed, source), WEB_0, "2020-07-01", request, until)


@pytest.mark.parametrize(
    ("seen", "answer"),
    [
        pytest.param((NEWS,), NEWS, id="there is news"),
        pytest.param((UNCHANGED, UNCHANGED, NEWS), NEWS, id="there is news after some false alarms"),
    ],
)
def test_a_long_poll_ends_when(web: Cloud, seen: tuple[Response, ...], answer: Response) -> None:
    async def story() -> Response:
        held = asyncio.ensure_future(hold(web, FakeSource(*seen), 60))
        while not held.done():
            await asyncio.sleep(0)
            web.engine.feed.wake(WEB_0.scope)
        return await held

    assert web.run(story()) == answer


def test_a_long_poll_does_not_end_before_its_time(web: Cloud) -> None:
    async def story() -> tuple[Response, float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        answer = await hold(web, FakeSource(UNCHANGED), 0.01)
        return answer, loop.time() - begun

    answer, lasted = web.run(story())

    assert answer == UNCHANGED
    assert lasted >= 0.01


def test_a_long_poll_wakes_when_its_view_changes_by_itself(web: Cloud) -> None:
    async def story() -> Response:
        soon = asyncio.get_running_loop().time() + 0.01
        return await hold(web, FakeSource(UNCHANGED, NEWS, next_change=soon), 60)

    assert web.run(story()) == NEWS


def test_a_long_poll_that_was_cancelled_wakes_no_more(web: Cloud) -> None:
    source = FakeSource(NEWS)

    async def story() -> None:
        held = hold(web, source, 60)
        held.start(source)
        web.engine.feed.wake(WEB_0.scope)
        held.cancel()
        await asyncio.sleep(0)

    web.run(story())

    assert (source.times, source.delivered) == (0, [])


def test_who_gives_up_at_the_moment_of_the_news_disturbs_nobody(
    web: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        held = asyncio.ensure_future(hold(web, FakeSource(NEWS), 60))
        await asyncio.sleep(0)
        web.engine.feed.wake(WEB_0.scope)
        held.cancel()
        await asyncio.sleep(0)

    web.run(story())

    assert caplog.records == []
