"""The server on real sockets, on either transport."""

import asyncio
import logging
import socket
import stat
import struct
from pathlib import Path

import pytest

from fairwarning.http1.limits import Limits
from fairwarning.http1.messages import HeldResponse, Recipient, Reply, Request, Response
from tests.http1.server_client import (
    QUICK,
    Held,
    ask,
    calling,
    exchange,
    get,
    identify,
    last,
    name_the_caller,
    new_server,
    read_answer,
    serving,
    talking,
)

pytestmark = pytest.mark.usefixtures("transports")


def test_a_caller_is_known_by_its_address() -> None:
    known = ask(last("/a"))
    unknown = ask(last("/a"), source="127.0.0.2")

    assert known.startswith("HTTP/1.1 200 OK\r\nDate: Tue, 01 Jan 2030 12:00:00 GMT\r\n")
    assert known.endswith("Connection: close\r\n\r\nweb_0 /a 0")
    assert unknown.startswith("HTTP/1.1 403 ")
    assert unknown.endswith('{"error":"caller is unknown"}')


def test_a_caller_is_identified_once_per_connection() -> None:
    peers: list[tuple[str, int]] = []

    def note(peer: tuple[str, int]) -> str:
        peers.append(peer)
        return "db"

    async def scenario() -> str:
        server = new_server(name_the_caller)
        listener = await server.listen_tcp("127.0.0.1", 0, note)
        text = await exchange(listener.address, get("/a") + last("/b"))
        await server.close()
        return text

    text = asyncio.run(scenario())

    assert [peer[0] for peer in peers] == ["127.0.0.1"]
    assert "db /a 0" in text
    assert "db /b 0" in text


def test_a_connection_is_used_again_in_both_versions() -> None:
    async def scenario() -> list[tuple[int, bytes]]:
        answers = []
        async with talking(name_the_caller) as (reader, writer):
            for raw in (get("/a"), get("/b", "Connection: keep-alive", version="1.0"), get("/c")):
                writer.write(raw)
                answers.append(await read_answer(reader))
        return answers

    assert asyncio.run(scenario()) == [(200, b"web_0 /%b 0" % path) for path in (b"a", b"b", b"c")]


def test_pipelined_requests_are_answered_in_order_also_behind_one_that_waits() -> None:
    async def scenario() -> list[bytes]:
        held = Held()
        async with talking(held) as (reader, writer):
            writer.write(get("/a") + get("/wait") + get("/b"))
            first = await read_answer(reader)
            await held.asked.wait()
            held.go.set()
            return [body for _, body in [first, await read_answer(reader), await read_answer(reader)]]

    assert asyncio.run(scenario()) == [b"web_0 /a 0", b"waited", b"web_0 /b 0"]


def test_a_client_that_expects_100_continue_is_told_to_go_on() -> None:
    async def scenario() -> tuple[bytes, tuple[int, bytes]]:
        async with talking(name_the_caller) as (reader, writer):
            writer.write(get("/p", "Expect: 100-continue", "Content-Length: 2"))
            interim = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"ok")
            return interim, await read_answer(reader)

    assert asyncio.run(scenario()) == (b"HTTP/1.1 100 Continue\r\n\r\n", (200, b"web_0 /p 2"))


def test_an_answer_to_head_has_no_body_so_that_the_next_answer_is_found() -> None:
    text = ask(b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" + last("/b"))

    assert "Content-Length: 10\r\n\r\nHTTP/1.1 200 OK" in text
    assert text.endswith("web_0 /b 0")


def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    text = ask(get("/p", "Content-Length: 4000000") + b"x" * 4_000_000)

    assert text.startswith("HTTP/1.1 413 ")
    assert "Connection: close" in text
    assert text.endswith('{"error":"Request body is larger than MaxBodyLength: 65536"}')


class LastWord(HeldResponse):
    """A response that is held back for ever."""

    def current_response(self) -> Response:
        return Response(304)

    def start(self, recipient: Recipient) -> None:
        pass

    def cancel(self) -> None:
        pass


async def fail_later(error: BaseException) -> Response:
    raise error


def break_down(caller: str | None, request: Request) -> Reply:
    match request.path:
        case "/raise":
            raise LookupError("no such thing")
        case "/later":
            return fail_later(LookupError("no such thing"))
        case "/cancel":
            return fail_later(asyncio.CancelledError())
        case "/frame":
            return Response(200, headers=(("X", "a\r\nY: b"),))
        case _:
            return name_the_caller(caller, request)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/raise", id="an answer that fails at once"),
        pytest.param("/later", id="an answer that fails later"),
        pytest.param("/cancel", id="an answer that is cancelled from inside"),
        pytest.param("/frame", id="an answer that cannot be written"),
    ],
)
def test_a_broken_answer_is_logged_and_is_a_500_on_a_connection_that_lives_on(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> list[tuple[int, bytes]]:
        async with talking(break_down) as (reader, writer):
            writer.write(get(path) + get("/fine"))
            return [await read_answer(reader), await read_answer(reader)]

    with caplog.at_level(logging.ERROR, logger="fairwarning.metadata"):
        answers = asyncio.run(scenario())

    assert answers == [(500, b'{"error":"Internal server error"}'), (200, b"web_0 /fine 0")]
    (record,) = caplog.records
    assert record.getMessage() == f"answer_failed method=GET path={path}"


def test_an_answer_nobody_waits_for_any_more_is_cancelled() -> None:
    async def scenario() -> None:
        held = Held()
        async with serving(held) as address, calling(address) as (_, writer):
            writer.write(get("/wait"))
            await held.asked.wait()
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            writer.transport.abort()
            await held.cancelled.wait()

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_client_that_stopped_sending_still_gets_every_answer() -> None:
    async def scenario() -> str:
        held = Held()
        held.go.set()
        async with serving(held) as address:
            return await exchange(address, get("/wait") + get("/a"), half_close=True)

    text = asyncio.run(scenario())

    assert "waited" in text
    assert text.endswith("web_0 /a 0")


def test_a_unix_socket_belongs_to_one_caller(tmp_path: Path) -> None:
    path = tmp_path / "web_7.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()

    async def scenario() -> tuple[int, str]:
        server = new_server(name_the_caller)
        listener = await server.listen_unix(path, "web_7")
        mode = stat.S_IMODE(path.stat().st_mode)
        text = await exchange(listener.address, last("/a"))
        await server.close()
        return mode, text

    mode, text = asyncio.run(scenario())

    assert mode == 0o600
    assert text.endswith("web_7 /a 0")
    assert not path.exists()


def test_closing_one_listener_drops_its_connections_and_no_others(tmp_path: Path) -> None:
    async def scenario() -> tuple[bytes, tuple[int, bytes], bool]:
        held = Held()
        server = new_server(held)
        kept = await server.listen_tcp("127.0.0.1", 0, identify)
        gone = await server.listen_unix(tmp_path / "s", "web_1")
        async with calling(kept.address) as streams, calling(gone.address) as (reader, writer):
            writer.write(get("/wait"))
            await held.asked.wait()
            await gone.close()
            await gone.close()
            streams[1].write(get("/a"))
            answer = await read_answer(streams[0])
            rest = await reader.read()
        await server.close()
        return rest, answer, held.cancelled.is_set()

    assert asyncio.run(scenario()) == (b"", (200, b"web_0 /a 0"), True)


def test_a_closing_server_lets_answers_finish_and_says_that_it_closes() -> None:
    async def scenario() -> tuple[bytes, str]:
        held = Held()
        server = new_server(held, Limits(grace=10))
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (idle, idle_writer), calling(address) as (reader, writer):
            idle_writer.write(get("/a"))
            await read_answer(idle)
            writer.write(get("/wait"))
            await held.asked.wait()
            closing = asyncio.ensure_future(server.close())
            nothing = await idle.read()
            held.go.set()
            await closing
            return nothing, (await reader.read()).decode()

    nothing, text = asyncio.run(scenario())

    assert nothing == b""
    assert text.endswith("Connection: close\r\n\r\nwaited")


def test_a_closing_server_answers_at_once_what_it_holds_back() -> None:
    async def scenario() -> str:
        server = new_server(lambda caller, request: LastWord(), Limits(grace=10))
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (reader, writer):
            writer.write(get("/wait"))
            while not server.metrics().held_responses:
                await asyncio.sleep(0)
            await server.close()
            return (await reader.read()).decode()

    text = asyncio.run(scenario())

    assert text.startswith("HTTP/1.1 304 ")
    assert "Connection: close" in text


def test_a_closing_server_that_lingers_answers_one_more_request_of_an_idle_connection() -> None:
    async def scenario() -> str:
        server = new_server(name_the_caller, Limits(grace=10, linger=5))
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (reader, writer):
            for _ in range(3):
                writer.write(get("/a"))
                await read_answer(reader)
            closing = asyncio.ensure_future(server.close())
            await asyncio.sleep(0)
            writer.write(get("/a"))
            text = (await reader.read()).decode()
            await closing
            return text

    assert asyncio.run(scenario()).endswith("Connection: close\r\n\r\nweb_0 /a 0")


def test_a_closing_server_that_lingers_closes_connections_that_stay_idle() -> None:
    async def scenario() -> bytes:
        server = new_server(name_the_caller, Limits(grace=10, linger=0.05))
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (reader, writer):
            writer.write(get("/a"))
            await read_answer(reader)
            await server.close()
            return await reader.read()

    assert asyncio.run(scenario()) == b""


def test_a_closing_server_does_not_wait_for_ever() -> None:
    async def scenario() -> bytes:
        held = Held()
        server = new_server(held, QUICK)
        address = (await server.listen_tcp("127.0.0.1", 0, identify)).address
        async with calling(address) as (reader, writer):
            writer.write(get("/wait"))
            await held.asked.wait()
            await server.close()
            await held.cancelled.wait()
            return await reader.read()

    assert asyncio.run(scenario()) == b""
