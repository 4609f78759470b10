"""The requests of one caller do not delay those of others, on either transport."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest

from fairwarning.http1.framing import CHUNKS_PER_TURN
from fairwarning.http1.messages import Pause, Request, Response
from fairwarning.http1.request_parser import RequestParser
from fairwarning.http1.server_state import WAKEUPS_PER_ITERATION
from tests.http1.parsing import CHUNKED_HEAD, parse_all
from tests.http1.server_client import get, serving

pytestmark = [pytest.mark.usefixtures("transports"), pytest.mark.rule("R-26")]

T = TypeVar("T")


def chunked(count: int) -> bytes:
    return CHUNKED_HEAD + b"1\r\nx\r\n" * count + b"0\r\n\r\n"


class Asked:
    """Answers everything, and keeps in which order it was asked."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, caller: str | None, request: Request) -> Response:
        self.paths.append(request.path)
        return Response(200, b"%d" % len(request.body))

    async def until(self, path: str, times: int = 1) -> None:
        while self.paths.count(path) < times:
            await asyncio.sleep(0)


@contextmanager
def connected(address: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    """Give connections that the server has not looked at yet."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address)) for _ in range(count)]


def run(story: Callable[[], Awaitable[T]]) -> T:
    async def limited() -> T:
        return await asyncio.wait_for(story(), 20)

    return asyncio.run(limited())


def test_requests_that_came_together_are_answered_in_turns_with_those_of_others() -> None:
    asked = Asked()

    async def story() -> None:
        async with serving(asked) as address:
            with connected(address, 2) as (many, few):
                many.sendall(get("/many") * 80)
                few.sendall(get("/few") * 8)
                await asked.until("/few", 8)

    run(story)

    assert asked.paths.count("/many") <= 9


def test_everything_that_came_together_is_answered_in_order() -> None:
    def answer(caller: str | None, request: Request) -> Response:
        return Response(200, request.path.encode())

    async def story() -> list[bytes]:
        async with serving(answer) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"".join(get(f"/{number}") for number in range(80)) + get("/half")[:-2])
            writer.write_eof()
            said = await reader.read()
            writer.close()
            return [part[:-8] for part in said.split(b"\r\n\r\n/")[1:]]

    said = run(story)

    assert len(said) == 80
    assert [int(one.partition(b"HTTP")[0]) for one in said[:-1]] == list(range(79))


def test_the_loop_has_its_turn_while_many_requests_wait_for_theirs() -> None:
    asked = Asked()
    seen: list[int] = []

    def answer(caller: str | None, request: Request) -> Response:
        if not asked.paths:
            asyncio.get_running_loop().call_later(0, lambda: seen.append(len(asked.paths)))
        return asked(caller, request)

    async def story() -> None:
        async with serving(answer) as address:
            with connected(address, 4) as callers:
                for one in callers:
                    one.sendall(get("/a") * 100)
                while not seen:
                    await asyncio.sleep(0)

    run(story)

    assert seen[0] <= 2 * WAKEUPS_PER_ITERATION


def test_a_body_of_many_chunks_is_read_in_turns_with_the_requests_of_others() -> None:
    asked = Asked()

    async def story() -> None:
        async with serving(asked) as address:
            with connected(address, 2) as (chunks, plain):
                chunks.sendall(chunked(CHUNKS_PER_TURN * 20))
                plain.sendall(get("/plain"))
                await asked.until("/p")

    run(story)

    assert asked.paths == ["/plain", "/p"]


def test_no_more_chunks_are_taken_at_once_than_may_be() -> None:
    parser = RequestParser()

    actions = [parser.feed(chunked(CHUNKS_PER_TURN * 3))]
    while isinstance(actions[-1][0], Pause):
        actions.append(parser.answered())
    (request,) = actions[-1]

    assert len(actions) == 4
    assert isinstance(request, Request)
    assert len(request.body) == CHUNKS_PER_TURN * 3
    assert len(parse_all([chunked(CHUNKS_PER_TURN * 3)] * 2)) == 2
