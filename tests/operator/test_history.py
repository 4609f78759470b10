"""The history: in pages, and live."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta

import httpx2
import msgspec
import pytest
from starlette.types import Message

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Cancel, Command, CreateSet, Schedule, SetPower
from fairwarning.core.history import HistoryEntry
from fairwarning.core.model import EventId, MachineRef, PowerState, ScopeId, VmName, derive_id
from fairwarning.operator import schemas
from fairwarning.operator.history import follow
from fairwarning.operator.rendered_feed import FeedMessage
from fairwarning.streams import Streams
from tests.fleet_harness import NOON, run
from tests.operator.operator_client import OperatorTestClient, operator_client

WEB = Blueprint(name="web", count=3)
WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
LONG, QUIET = timedelta(hours=1), timedelta(0)


def restart_and_approve(client: OperatorTestClient) -> str:
    """Restart a machine, approved by the second machine; return the event's id."""
    (event,) = client.cause("restart", "web_0", by="alice").events
    client.stage.approve(event.id, by="web_1")
    client.advance("1m")
    return event.id


def messages(response: httpx2.Response) -> list[httpx2.ServerSentEvent]:
    """Return the messages of a feed that has ended."""
    return [message for message in httpx2.EventSource(response) if message.data]


def resume(client: OperatorTestClient, query: str = "", **headers: str) -> list[int]:
    """Return the numbers of the lines that a feed sends before the server stops."""
    client.shutdown.set()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [int(message.id) for message in messages(client.send("GET", f"/feed{query}", headers=named))]


def restart(machine: str) -> Schedule:
    """Return the command that restarts a machine of web."""
    ref = MachineRef(ScopeId("web"), VmName(machine))
    return Schedule(id=derive_id(machine), cause="restart", machines=(ref,))


async def collect(feed: AsyncGenerator[list[FeedMessage], None]) -> list[HistoryEntry]:
    """Return all lines of a feed that ends."""
    return [message.line async for batch in feed for message in batch if message.line is not None]


async def anext_of(messages: AsyncGenerator[bytes, None]) -> bytes:
    """Return the next message of a feed."""
    return await anext(messages)


async def take(feed: AsyncGenerator[list[FeedMessage], None], count: int) -> list[HistoryEntry | None]:
    """Return the next lines of a feed, None for a heartbeat."""
    taken: list[HistoryEntry | None] = []
    while len(taken) < count:
        taken += [message.line for message in await anext(feed)] or [None]
    return taken


def test_the_history_shows_who_did_what_to_which_event_and_when() -> None:
    client = operator_client(WEB)
    event = restart_and_approve(client)

    page = client.history()

    assert [(line.kind, line.by, line.at - NOON) for line in page.history] == [
        ("scheduled", "operator", timedelta(0)),
        ("approved", "web_1", timedelta(0)),
        ("started", "web_1", timedelta(0)),
        ("advanced", "operator", timedelta(0)),
        ("finished", "platform", timedelta(seconds=5)),
    ]
    about = {(line.event, line.type, line.scope) for line in page.history if line.kind != "advanced"}
    assert about == {(event, "Reboot", "web")}
    assert page.history[0].resources == ["web_0"]
    assert page.next is None


def test_a_refused_command_is_in_the_history_with_the_reason() -> None:
    client = operator_client(WEB)

    client.refused("POST", "/events", {"cause": "evict", "machines": ["web_0"], "by": "mallory"})

    (line,) = client.history().history
    assert (line.kind, line.type, line.by, line.event) == ("refused", "evict", "operator", None)
    assert line.reason.startswith("web_0 is not a Spot machine")


def test_the_history_of_one_event_leaves_out_all_others() -> None:
    client = operator_client(WEB)
    event = restart_and_approve(client)
    client.cause("freeze", "web_2")

    lines = client.history(f"?event={event.lower()}").history

    assert {line.event for line in lines} == {event}
    assert len(lines) == 4


def test_an_unknown_event_has_an_empty_history() -> None:
    client = operator_client(WEB)

    assert client.history("?event=E1") == schemas.HistoryBody(history=[], next=None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_pages_of_any_size_cover_the_whole_history_once(limit: int) -> None:
    client = operator_client(WEB)
    restart_and_approve(client)

    lines, after, pages = [], 0, 0
    while True:
        page = client.history(f"?limit={limit}&after={after}")
        lines += page.history
        pages += 1
        if page.next is None:
            break
        after = page.next

    assert lines == client.history().history
    assert pages == -(-5 // limit)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-1", "after=x", "limit=", "since=3"])
def test_an_invalid_page_is_refused(query: str) -> None:
    client = operator_client()

    problem = client.refused("GET", f"/history?{query}")

    assert (problem.status, problem.field) == (422, query.partition("=")[0])


def test_a_line_of_the_feed_is_numbered_named_and_the_same_as_in_the_history() -> None:
    client = operator_client(WEB)
    restart_and_approve(client)
    client.shutdown.set()

    response = client.send("GET", "/feed?after=0")

    assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
    history = client.history().history
    sent = messages(response)
    assert [msgspec.json.decode(one.data, type=schemas.HistoryLineBody) for one in sent] == history
    assert [(int(one.id), one.event) for one in sent] == [(line.seq, line.kind) for line in history]


def test_a_feed_resumes_after_the_last_line_of_its_reader() -> None:
    client = operator_client(WEB)
    restart_and_approve(client)
    seqs = [line.seq for line in client.history().history]

    assert resume(client, f"?after={seqs[1]}") == seqs[2:]
    assert resume(client, Last_Event_ID=str(seqs[1])) == seqs[2:]
    assert resume(client, "?after=0", Last_Event_ID=str(seqs[2])) == seqs[3:]
    assert resume(client) == []


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 30])
def test_a_feed_resumes_only_from_a_number(given: str) -> None:
    client = operator_client()

    response = client.send("GET", "/feed", headers={"Last-Event-ID": given})

    assert response.status_code == 422
    assert msgspec.json.decode(response.content, type=schemas.ProblemBody).field == "Last-Event-ID"


def test_a_feed_sends_the_past_and_then_the_present_each_line_once() -> None:
    client = operator_client(WEB)
    restart_and_approve(client)
    freeze = client.cause("freeze", "web_2").events[0].id

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(client.stage.engine, 0, client.shutdown, LONG)) as lines:
            sent = await take(lines, 6)
            # Committed while the past is still being sent: both the journal and the subscription have it.
            await client.stage.engine.handle(Cancel(scope=ScopeId("web"), id=EventId(freeze)))
            sent += await take(lines, 1)
            await client.stage.engine.handle(restart("web_1"))
            return sent + await take(lines, 1)

    sent = run(listen())

    assert sent == client.stage.history()


def test_a_feed_without_a_start_begins_now() -> None:
    client = operator_client(WEB)
    restart_and_approve(client)

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(client.stage.engine, None, client.shutdown, QUIET)) as lines:
            sent = await take(lines, 1)
            await client.stage.engine.handle(restart("web_1"))
            return sent + await take(lines, 1)

    silence, line = run(listen())

    assert silence is None
    assert line == client.stage.history()[-1]


def test_a_reader_that_lags_gets_the_lines_it_missed() -> None:
    client = operator_client(WEB)
    engine = client.stage.engine
    large_sets = [
        CreateSet(seed="s", blueprint=Blueprint(name=name, count=1000)) for name in ("many", "more")
    ]
    meanwhile: list[Command] = [restart("web_1"), *large_sets, restart("web_2")]

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(engine, 0, client.shutdown, LONG)) as lines:
            await engine.handle(restart("web_0"))
            sent = await take(lines, 1)
            for command in meanwhile:
                await engine.handle(command)
            return sent + await take(lines, 2)

    sent = run(listen())

    assert sent == client.stage.history()
    assert [line.resources for line in sent if line] == [("web_0",), ("web_1",), ("web_2",)]


def test_a_quiet_feed_sends_heartbeats() -> None:
    client = operator_client(WEB)

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(client.stage.engine, 0, client.shutdown, QUIET)) as lines:
            return await take(lines, 3)

    assert run(listen()) == [None, None, None]


def test_lines_outside_the_history_do_not_stop_heartbeats() -> None:
    client = operator_client(WEB)
    interval = timedelta(milliseconds=40)

    async def change_power() -> None:
        while True:
            for power in (PowerState.STOPPED, PowerState.RUNNING):
                await client.stage.engine.handle(SetPower(machine=WEB_0, power=power))
                await asyncio.sleep(0)

    async def listen() -> list[HistoryEntry | None]:
        changing = asyncio.create_task(change_power())
        async with aclosing(follow(client.stage.engine, None, client.shutdown, interval)) as lines:
            try:
                return await asyncio.wait_for(take(lines, 2), 10)
            finally:
                changing.cancel()

    assert run(listen()) == [None, None]


def test_a_feed_ends_when_the_server_does() -> None:
    client = operator_client(WEB)

    async def listen() -> list[HistoryEntry]:
        listening = asyncio.create_task(collect(follow(client.stage.engine, 0, client.shutdown, LONG)))
        await client.stage.engine.handle(restart("web_0"))
        client.shutdown.set()
        return await listening

    assert run(listen()) == client.stage.history()


def test_a_feed_whose_reader_left_is_closed() -> None:
    client = operator_client(WEB)
    sent: list[str] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def endless() -> AsyncGenerator[bytes, None]:
        async with aclosing(follow(client.stage.engine, 0, client.shutdown, LONG)) as lines:
            async for _ in lines:
                yield b"line"

    streams, messages = Streams(), endless()

    async def visit() -> None:
        await streams.stream(messages)({"type": "http"}, receive, send)

    run(visit())

    assert streams.open == 0
    with pytest.raises(StopAsyncIteration):
        run(anext_of(messages))


def test_a_head_request_does_not_open_the_feed() -> None:
    client = operator_client(WEB)

    response = client.send("HEAD", "/feed")

    assert (response.status_code, response.content) == (200, b"")
