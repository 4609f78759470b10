"""A caller that exceeds its work limit is not read for a while, on either transport."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TypeVar

import pytest

from fairwarning.http1.framing import CHUNKS_PER_TURN
from fairwarning.http1.limits import STEPS, Limits
from fairwarning.http1.messages import Request, Response, failure
from fairwarning.http1.server import HttpServer
from fairwarning.http1.throttle import Account, Rate
from tests.http1.parsing import CHUNKED_HEAD
from tests.http1.server_client import get, identify, new_server

pytestmark = [pytest.mark.usefixtures("transports"), pytest.mark.rule("R-26")]

T = TypeVar("T")

OWN, UNKNOWN, OTHER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
#: Ten steps, and ten more in every second.
TEN = Rate(10.0, 10.0)
GARBAGE = b"nonsense\r\n\r\n"


class MovedLoop(asyncio.SelectorEventLoop):
    """A loop whose time a test moves."""

    now = 100.0

    def time(self) -> float:
        return self.now


class Stage:
    """A server, its clients, and the time."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.asked: list[str] = []
        self._limits = limits
        self._stack = ExitStack()

    async def __aenter__(self) -> "Stage":
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovedLoop)
        self._loop = loop
        self.server: HttpServer[str] = new_server(self._answer, self._limits, TEN)
        self._address = (await self.server.listen_tcp(OWN, 0, identify)).address
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._stack.close()
        await self.turns()
        await self.server.close()

    def _answer(self, caller: str | None, request: Request) -> Response:
        self.asked.append(request.path)
        return failure(int(request.path[1:4]), caller or "unknown")

    async def call(self, data: bytes, source: str = OWN) -> socket.socket:
        """Return a connection on which something was sent, and its answers have come as far as they do."""
        one = self._stack.enter_context(socket.create_connection(self._address, source_address=(source, 0)))
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self.say(one, data)
        return one

    async def say(self, one: socket.socket, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the server may close the connection meanwhile
            one.sendall(data)
        await self.turns()

    async def turns(self) -> None:
        """Let everything happen that can without time passing."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def wait(self, seconds: float) -> None:
        self._loop.now += seconds
        await self.turns()


def run(story: Callable[[], Coroutine[object, object, T]]) -> T:
    with asyncio.Runner(loop_factory=MovedLoop) as runner:
        return runner.run(story())


def heard(one: socket.socket) -> bytes | None:
    """Return what the server has said; None if that is nothing."""
    try:
        return one.recv(1 << 20)
    except BlockingIOError:
        return None


@pytest.mark.parametrize("status", ["200", "403", "404", "405", "429", "500"])
def test_every_answer_costs_a_step_whatever_it_says(status: str) -> None:
    async def story() -> list[int]:
        async with Stage() as stage:
            await stage.call(get(f"/{status}") * 40)
            counted = [len(stage.asked)]
            for seconds in (0.9, 0.11, 0.9):
                await stage.wait(seconds)
                counted.append(len(stage.asked))
            return counted

    # The connection costs a step too. After its rest the caller has a second's steps.
    assert run(story) == [9, 9, 19, 19]


def test_a_caller_that_rests_is_read_on_none_of_its_connections_and_others_are() -> None:
    async def story() -> tuple[list[bytes | None], bytes | None, int]:
        async with Stage() as stage:
            before = await stage.call(get("/200"))
            heard(before)
            await stage.call(get("/404") * 40)
            await stage.say(before, get("/201"))
            new = await stage.call(get("/202"))
            other = await stage.call(get("/203"), OTHER)
            resting = [heard(before), heard(new)]
            rests = stage.server.metrics().rests
            await stage.wait(1.01)
            return [*resting, heard(before), heard(new)], heard(other), rests

    resting, other, rests = run(story)

    assert resting[:2] == [None, None]
    assert [said[9:12] for said in resting[2:] if said] == [b"201", b"202"]
    assert other is not None
    assert other.startswith(b"HTTP/1.1 203 ")
    assert rests == 1


async def answered_late(stage: Stage) -> bool:
    """Whether the caller's next request is answered after a rest, and not before."""
    new = await stage.call(get("/200"))
    soon = heard(new)
    await stage.wait(1.01)
    return soon is None and (heard(new) or b"").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "costly",
    [
        pytest.param([b"x"] * 40, id="bytes that come one by one"),
        pytest.param([CHUNKED_HEAD + b"1\r\nx\r\n" * CHUNKS_PER_TURN * 40], id="chunks of a byte each"),
        pytest.param([GARBAGE] * 20, id="what is sent after a refusal"),
    ],
)
def test_what_leads_to_no_answer_costs_too(costly: list[bytes]) -> None:
    async def story() -> bool:
        async with Stage() as stage:
            one = await stage.call(b"")
            for piece in costly:
                await stage.say(one, piece)
            return await answered_late(stage)

    assert run(story)


def test_connections_that_come_and_go_cost_too() -> None:
    async def story() -> bool:
        async with Stage() as stage:
            for _ in range(20):
                (await stage.call(b"")).close()
                await stage.turns()
            return await answered_late(stage)

    assert run(story)


def test_a_caller_that_rests_and_has_too_many_connections_gets_no_response() -> None:
    async def story() -> tuple[bytes | None, int]:
        async with Stage(Limits(per_caller=1)) as stage:
            await stage.call(get("/404") * 40)
            try:
                return heard(await stage.call(b"")), stage.server.metrics().rejected
            except ConnectionResetError:
                return b"", stage.server.metrics().rejected

    assert run(story) == (b"", 1)


def test_unknown_callers_are_distinguished_by_address() -> None:
    async def story() -> tuple[int, bytes | None]:
        async with Stage() as stage:
            await stage.call(get("/403") * 40, UNKNOWN)
            count = len(stage.asked)
            return count, heard(await stage.call(get("/403"), OTHER))

    count, other = run(story)

    assert count == 9
    assert other is not None
    assert other.startswith(b"HTTP/1.1 403 ")


def test_a_client_that_stopped_sending_gets_its_answers_after_the_rest() -> None:
    async def story() -> list[int]:
        async with Stage() as stage:
            one = await stage.call(get("/200") * 15)
            one.shutdown(socket.SHUT_WR)
            said = [heard(one) or b""]
            await stage.wait(1.01)
            said.append(heard(one) or b"")
            return [text.count(b"HTTP/1.1 200 ") for text in (*said, heard(one) or b"")]

    assert run(story) == [9, 6, 0]


def test_a_client_that_is_gone_when_its_rest_ends_is_forgotten() -> None:
    async def story() -> int:
        async with Stage(replace(Limits(), per_caller=1)) as stage:
            (await stage.call(get("/200") * 15)).close()
            await stage.wait(1.01)
            return stage.server.metrics().connections

    assert run(story) == 0


@pytest.mark.parametrize(
    ("steps_at", "admitted"),
    [
        pytest.param(lambda second: [second + n / 10 for n in range(10)], True, id="five polls a second"),
        pytest.param(lambda second: [float(second)] * 30, True, id="thirty at the start of each second"),
        pytest.param(lambda second: [float(second)] * 60, False, id="sixty steps a second for ever"),
    ],
)
def test_a_caller_within_the_rate_limit_never_rests(
    steps_at: Callable[[int], list[float]], admitted: bool
) -> None:
    account = Account(STEPS, 1.0)

    charged = [account.charge(100.0 + at) for second in range(600) for at in steps_at(second)]

    assert all(charged) is admitted


@pytest.mark.rule("R-26")
def test_repeated_excess_makes_rests_longer_and_a_pause_resets_them() -> None:
    account = Account(Rate(1.0, 1.0), 1.0)
    now, rests = 100.0, []
    for _ in range(4):
        while account.charge(now):
            pass
        rests.append(account.until - now)
        now = account.until

    now += 60.0
    while account.charge(now):
        pass

    assert rests == [1.0, 2.0, 4.0, 4.0]
    assert account.until - now == 1.0
