"""The recorder between a handler and its endpoint changes nothing and misses nothing."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address

import pytest

from fairwarning.check.messages import LARGEST_HEAD, reset
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Asked
from fairwarning.check.recorder import EndpointRecorder
from fairwarning.sandbox.addresses import Endpoint

PATH = b"/metadata/scheduledevents?api-version=2020-07-01"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Story = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


def saying(*answers: bytes) -> Answer:
    """An endpoint that answers each head of a request with the next of these."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for content in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(content)
        await writer.drain()

    return answer


def asking(*requests: bytes, length: int) -> Story:
    """A handler that sends these and reads so many bytes."""

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        for request in requests:
            writer.write(request)
        return await reader.readexactly(length)

    return ask


def record(answer: Answer, story: Story, version: str | None = None) -> tuple[bytes, list[Asked]]:
    """Run a story through a recorder; return what the handler got and what was recorded."""

    async def endpoint(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        await reader.read()
        writer.close()

    async def run() -> tuple[bytes, list[Asked]]:
        log = ObservationLog(asyncio.get_running_loop().time())
        async with await asyncio.start_server(endpoint, "127.0.0.1", 0) as server:
            upstream = Endpoint(IPv4Address("127.0.0.1"), server.sockets[0].getsockname()[1])
            recorder = EndpointRecorder("web_0", upstream, log, version=version)
            async with recorder.listening() as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                got = await story(reader, writer)
                writer.close()
        return got, list(log.asked.values())

    return asyncio.run(run())


def test_a_request_and_its_answer_pass_and_are_recorded() -> None:
    request = b"POST " + PATH + b" HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"

    got, (asked,) = record(saying(OK), asking(request, length=len(OK)))

    assert got == OK
    assert (asked.machine, asked.method, asked.target) == ("web_0", "POST", PATH.decode())
    assert (asked.body, asked.status, asked.answer) == (b"body", 200, b"{}")
    assert asked.ended is not None


def test_requests_on_one_connection_are_distinguished() -> None:
    request = b"GET " + PATH + b" HTTP/1.1\r\n\r\n"
    other = b"HTTP/1.1 304 Not Modified\r\n\r\n"

    got, asked = record(saying(OK, other), asking(request, request, length=len(OK + other)))

    assert got == OK + other
    assert [request.status for request in asked] == [200, 304]


def test_bodies_in_chunks_pass_as_they_are() -> None:
    chunks = b'3\r\n{"a\r\n3\r\n":1\r\n1\r\n}\r\n0\r\n\r\n'
    request = b"POST " + PATH + b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks

    got, (asked,) = record(saying(answer), asking(request, length=len(answer)))

    assert got == answer
    assert (asked.body, asked.answer) == (b'{"a":1}', b'{"a":1}')


def test_an_answer_that_ends_early_is_passed_on_and_recorded() -> None:
    torn = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(torn)
        writer.write_eof()

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET " + PATH + b" HTTP/1.1\r\n\r\n")
        return await reader.read()

    got, (asked,) = record(answer, story)

    assert got == torn
    assert (asked.status, asked.answer, asked.document) == (200, b"{", None)


def test_a_100_continue_is_passed_on() -> None:
    onwards = b"HTTP/1.1 100 Continue\r\n\r\n"
    head = b"POST " + PATH + b" HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(onwards)
        await reader.readexactly(4)
        writer.write(OK)

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(head)
        first = await reader.readexactly(len(onwards))
        writer.write(b"body")
        return first + await reader.readexactly(len(OK))

    got, (asked,) = record(answer, story)

    assert got == onwards + OK
    assert (asked.body, asked.status) == (b"body", 200)


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n{}")
        writer.write_eof()

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET " + PATH + b" HTTP/1.0\r\n\r\n")
        return await reader.read()

    got, (asked,) = record(answer, story)

    assert got == b"HTTP/1.0 200 OK\r\n\r\n{}"
    assert asked.answer == b"{}"


def test_a_reset_is_passed_on_to_the_handler() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reset(writer)

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"POST " + PATH + b" HTTP/1.1\r\nContent-Length: 4\r\n\r\n1234")
        try:
            return await reader.read()
        except ConnectionResetError:
            return b"reset"

    got, (asked,) = record(answer, story)

    assert got == b"reset"
    assert (asked.status, asked.final) == (None, False)


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(b"what\r\n", id="a size that is no number"),
        pytest.param(b"-9\r\n", id="a size below nothing"),
        pytest.param(b"5\r\n{}", id="a chunk that breaks off"),
        pytest.param(b"1" * LARGEST_HEAD * 3, id="a size without an end"),
    ],
)
def test_a_malformed_answer_resets_the_connection(chunks: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        writer.write_eof()

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET " + PATH + b" HTTP/1.1\r\n\r\n")
        try:
            return await reader.read()
        except ConnectionResetError:
            return b"reset"

    got, (asked,) = record(answer, story)

    assert got == b"reset"
    assert (asked.status, asked.ended is None) == (None, False)


def test_a_malformed_request_is_not_forwarded() -> None:
    rest = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        rest.append(await reader.read())
        writer.write_eof()

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"POST " + PATH + b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nwhat\r\n")
        return await reader.read()

    _, (asked,) = record(answer, story)

    assert rest == [b""]
    assert (asked.body, asked.status) == (b"", None)


def test_a_handler_that_gives_up_is_recorded_as_such() -> None:
    asked_at_all = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked_at_all.set()

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET " + PATH + b" HTTP/1.1\r\n\r\n")
        await asked_at_all.wait()
        writer.write_eof()
        return await reader.read()

    got, (asked,) = record(answer, story)

    assert got == b""
    assert asked.status is None
    assert asked.ended is not None


def test_a_request_ends_when_the_handler_gives_up_and_not_when_the_endpoint_lets_go() -> None:
    async def run() -> tuple[Asked, Asked]:
        log = ObservationLog(asyncio.get_running_loop().time())
        let_go = asyncio.Event()

        async def endpoint(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await let_go.wait()
            writer.close()

        async with await asyncio.start_server(endpoint, "127.0.0.1", 0) as server:
            upstream = Endpoint(IPv4Address("127.0.0.1"), server.sockets[0].getsockname()[1])
            async with EndpointRecorder("web_0", upstream, log).listening() as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET " + PATH + b" HTTP/1.1\r\n\r\n")
                await log.wait_until(lambda: bool(log.asked))
                writer.write_eof()
                await log.wait_until(lambda: log.asked[0].ended is not None)
                given_up = log.asked[0]
                let_go.set()
                await reader.read()
                writer.close()
        return given_up, log.asked[0]

    given_up, later = asyncio.run(run())

    assert later == given_up


def test_an_endpoint_that_is_down_is_a_reset() -> None:
    async def run() -> bytes:
        log = ObservationLog(asyncio.get_running_loop().time())
        recorder = EndpointRecorder("web_0", Endpoint(IPv4Address("127.0.0.1"), 1), log)
        async with recorder.listening() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await reader.read()
            except ConnectionResetError:
                return b"reset"
            finally:
                writer.close()

    assert asyncio.run(run()) == b"reset"


@pytest.mark.parametrize(
    ("target", "arrives"),
    [
        pytest.param(PATH, PATH.replace(b"2020-07-01", b"2017-08-01"), id="the document of an older version"),
        pytest.param(
            PATH + b"&wait=20",
            PATH.replace(b"2020-07-01", b"2017-08-01") + b"&wait=20",
            id="with more behind",
        ),
        pytest.param(
            b"/metadata/instance?api-version=2021-02-01",
            b"/metadata/instance?api-version=2021-02-01",
            id="the rest of the metadata as asked for",
        ),
    ],
)
def test_a_scenario_may_ask_for_another_version_of_the_document(target: bytes, arrives: bytes) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.partition(b"\r\n")[0]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(line), line))

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET " + target + b" HTTP/1.1\r\nX-Other: api-version=1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        return await reader.readexactly(int(length[1]) if length else 0)

    got, (asked,) = record(echo, story, version="2017-08-01")

    assert got == b"GET " + arrives + b" HTTP/1.1"
    assert asked.target == target.decode()
