"""Limits on time, connections and buffers, on either transport."""

import asyncio

import pytest

from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import Request, Response
from tests.http1.server_client import (
    NAMES,
    QUICK,
    Held,
    ask,
    calling,
    exchange,
    get,
    last,
    name_the_caller,
    read_answer,
    serving,
    talking,
)

pytestmark = pytest.mark.usefixtures("transports")


def test_a_client_that_closed_is_waited_for_only_a_moment() -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held, QUICK) as address, calling(address) as (_, writer):
            writer.write(get("/wait"))
            await held.asked.wait()
            writer.close()
            await held.cancelled.wait()

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    async def scenario() -> tuple[str, tuple[int, bytes]]:
        held = Held()
        async with serving(held, QUICK) as address, calling(address) as (reader, writer):
            writer.write(get("/wait"))
            await held.asked.wait()
            idle = await exchange(address, get("/a"))
            held.go.set()
            return idle, await read_answer(reader)

    idle, waited = asyncio.run(scenario())

    assert idle.endswith("web_0 /a 0")
    assert waited == (200, b"waited")


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"GET / HT", id="a head that does not end"),
        pytest.param(get("/", "Content-Length: 9") + b"x", id="a body that does not end"),
        pytest.param(get("/a") + b"G", id="a second request that does not end"),
    ],
)
def test_a_request_that_takes_too_long_to_arrive_is_refused(begun: bytes) -> None:
    text = ask(begun, Limits(head=0.05))

    assert text.endswith('{"error":"request did not arrive in time"}')


def test_a_client_cannot_win_time_by_sending_byte_after_byte() -> None:
    async def scenario() -> bytes:
        limits = Limits(head=0.05)
        async with serving(name_the_caller, limits) as address, calling(address) as (reader, writer):
            writer.write(get("/", "Content-Length: 65536"))
            answer = asyncio.ensure_future(reader.readline())
            while not answer.done():
                writer.write(b"x")
                await asyncio.sleep(0)
            return await answer

    assert asyncio.run(scenario()) == b"HTTP/1.1 408 Request Timeout\r\n"


def test_a_connection_too_many_is_told_so() -> None:
    async def scenario() -> tuple[str, str]:
        crowd = Limits(connections=2)  # the listener is one of them
        async with serving(name_the_caller, crowd) as address, calling(address) as (reader, writer):
            writer.write(get("/a"))
            await read_answer(reader)
            second = await exchange(address, b"")
            writer.write(last("/b"))
            return second, (await reader.read()).decode()

    second, first = asyncio.run(scenario())

    assert second.startswith("HTTP/1.1 503 ")
    assert second.endswith('{"error":"too many connections"}')
    assert first.endswith("web_0 /b 0")


def test_a_caller_with_too_many_connections_shuts_out_nobody_else() -> None:
    async def scenario() -> tuple[str, list[str]]:
        few = Limits(per_caller=1, strangers=1)
        async with serving(name_the_caller, few) as address, calling(address), calling(address, "127.0.0.2"):
            own = await exchange(address, b"")
            async with calling(address, "127.0.0.3") as (reader, _):
                unknown = (await reader.read()).decode()
            NAMES["127.0.0.4"] = "web_4"
            try:
                other = await exchange(address, last("/a"), "127.0.0.4")
            finally:
                del NAMES["127.0.0.4"]
            return other, [own, unknown]

    other, refused = asyncio.run(scenario())

    assert other.endswith("web_4 /a 0")
    assert all(text.startswith("HTTP/1.1 503 ") for text in refused)


def test_a_stranger_with_too_many_connections_shuts_out_no_other_stranger() -> None:
    async def scenario() -> list[str]:
        few = Limits(per_stranger=1)
        async with serving(name_the_caller, few) as address, calling(address, "127.0.0.2"):
            return [await exchange(address, last("/a"), f"127.0.0.{number}") for number in (2, 3, 3)]

    refused, *others = asyncio.run(scenario())

    assert refused.startswith("HTTP/1.1 503 ")
    assert all(text.startswith("HTTP/1.1 403 ") for text in others)


def test_a_caller_may_come_back_for_as_long_as_it_leaves_before() -> None:
    async def scenario() -> list[str]:
        async with serving(name_the_caller, Limits(per_caller=1)) as address:
            return [await exchange(address, last("/a")) for _ in range(3)]

    assert all(text.endswith("web_0 /a 0") for text in asyncio.run(scenario()))


def test_a_client_that_does_not_read_is_not_answered_further_until_it_does() -> None:
    asked: list[str] = []

    def answer(caller: str | None, request: Request) -> Response:
        asked.append(request.path)
        return Response(200, b"x" * 1_000_000)

    async def scenario() -> tuple[int, int]:
        async with serving(answer) as address, calling(address) as (reader, writer):
            writer.write(get("/big") * 100)
            await writer.drain()
            async with calling(address) as (other, other_writer):
                other_writer.write(get("/other"))
                await read_answer(other)
            meanwhile = asked.count("/big")
            for _ in range(100):
                await read_answer(reader)
            return meanwhile, asked.count("/big")

    meanwhile, finally_asked = asyncio.run(scenario())

    assert meanwhile < 100
    assert finally_asked == 100


def test_requests_behind_one_that_waits_are_read_when_there_is_room() -> None:
    async def scenario() -> list[bytes]:
        held = Held()
        upload = get("/p", "Content-Length: 60000") + b"x" * 60_000
        async with talking(held) as (reader, writer):
            writer.write(get("/wait") + upload * 100)
            await held.asked.wait()
            held.go.set()
            return [(await read_answer(reader))[1] for _ in range(101)]

    assert asyncio.run(scenario()) == [b"waited", *[b"web_0 /p 60000"] * 100]
