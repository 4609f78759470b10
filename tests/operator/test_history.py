"""The history: pages of it, and as it is written."""

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
from tests.operator.operator_client import Office, office

WEB = Blueprint(name="web", count=3)
WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
LONG, QUIET = timedelta(hours=1), timedelta(0)


def restart_and_approve(desk: Office) -> str:
    """Let a restart happen, approved by the second machine; return its event."""
    (event,) = desk.cause("restart", "web_0", by="alice").events
    desk.stage.approve(event.id, by="web_1")
    desk.advance("1m")
    return event.id


def messages(response: httpx2.Response) -> list[httpx2.ServerSentEvent]:
    """Return the messages of a feed that has ended."""
    return [message for message in httpx2.EventSource(response) if message.data]


def resume(desk: Office, query: str = "", **headers: str) -> list[int]:
    """Return the numbers of the lines that a feed of a closing server still tells."""
    desk.closing.set()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [int(one.id) for one in messages(desk.send("GET", f"/feed{query}", headers=named))]


def restart(machine: str) -> Schedule:
    """Return the command that restarts a machine of web."""
    ref = MachineRef(ScopeId("web"), VmName(machine))
    return Schedule(id=derive_id(machine), cause="restart", machines=(ref,))


async def collect(feed: AsyncGenerator[list[FeedMessage], None]) -> list[HistoryEntry]:
    """Return all lines of a feed that ends."""
    return [one.line async for told in feed for one in told if one.line is not None]


async def anext_of(messages: AsyncGenerator[bytes, None]) -> bytes:
    """Return what a feed sends next."""
    return await anext(messages)


async def take(feed: AsyncGenerator[list[FeedMessage], None], count: int) -> list[HistoryEntry | None]:
    """Return the next few lines of a feed, None for silence."""
    taken: list[HistoryEntry | None] = []
    while len(taken) < count:
        taken += [one.line for one in await anext(feed)] or [None]
    return taken


def test_the_history_tells_who_did_what_to_which_event_and_when() -> None:
    desk = office(WEB)
    event = restart_and_approve(desk)

    page = desk.history()

    assert [(line.kind, line.by, line.at - NOON) for line in page.history] == [
        ("scheduled", "operator:alice", timedelta(0)),
        ("approved", "web_1", timedelta(0)),
        ("started", "web_1", timedelta(0)),
        ("advanced", "operator", timedelta(0)),
        ("finished", "platform", timedelta(seconds=5)),
    ]
    about = {(line.event, line.type, line.scope) for line in page.history if line.kind != "advanced"}
    assert about == {(event, "Reboot", "web")}
    assert page.history[0].resources == ["web_0"]
    assert page.next is None


def test_what_was_refused_is_in_the_history_with_the_reason() -> None:
    desk = office(WEB)

    desk.refused("POST", "/events", {"cause": "evict", "machines": ["web_0"], "by": "mallory"})

    (line,) = desk.history().history
    assert (line.kind, line.type, line.by, line.event) == ("refused", "evict", "operator:mallory", None)
    assert line.reason.startswith("web_0 is not a Spot machine")


def test_the_history_of_one_event_leaves_out_all_others() -> None:
    desk = office(WEB)
    event = restart_and_approve(desk)
    desk.cause("freeze", "web_2")

    lines = desk.history(f"?event={event.lower()}").history

    assert {line.event for line in lines} == {event}
    assert len(lines) == 4


def test_nobody_knows_the_history_of_an_unknown_event() -> None:
    desk = office(WEB)

    assert desk.history("?event=E1") == schemas.HistoryBody(history=[], next=None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_pages_of_any_size_tell_the_whole_history_once(limit: int) -> None:
    desk = office(WEB)
    restart_and_approve(desk)

    told, after, pages = [], 0, 0
    while True:
        page = desk.history(f"?limit={limit}&after={after}")
        told += page.history
        pages += 1
        if page.next is None:
            break
        after = page.next

    assert told == desk.history().history
    assert pages == -(-5 // limit)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-1", "after=x", "limit=", "since=3"])
def test_a_page_that_makes_no_sense_is_refused(query: str) -> None:
    desk = office()

    problem = desk.refused("GET", f"/history?{query}")

    assert (problem.status, problem.field) == (422, query.partition("=")[0])


def test_a_line_of_the_feed_is_numbered_named_and_the_same_as_in_the_history() -> None:
    desk = office(WEB)
    restart_and_approve(desk)
    desk.closing.set()

    response = desk.send("GET", "/feed?after=0")

    assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
    history = desk.history().history
    told = messages(response)
    assert [msgspec.json.decode(one.data, type=schemas.HistoryLineBody) for one in told] == history
    assert [(int(one.id), one.event) for one in told] == [(line.seq, line.kind) for line in history]


def test_a_feed_resumes_behind_the_line_its_listener_saw_last() -> None:
    desk = office(WEB)
    restart_and_approve(desk)
    seqs = [line.seq for line in desk.history().history]

    assert resume(desk, f"?after={seqs[1]}") == seqs[2:]
    assert resume(desk, Last_Event_ID=str(seqs[1])) == seqs[2:]
    assert resume(desk, "?after=0", Last_Event_ID=str(seqs[2])) == seqs[3:]
    assert resume(desk) == []


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 30])
def test_a_feed_cannot_resume_from_what_is_no_number(given: str) -> None:
    desk = office()

    response = desk.send("GET", "/feed", headers={"Last-Event-ID": given})

    assert response.status_code == 422
    assert msgspec.json.decode(response.content, type=schemas.ProblemBody).field == "Last-Event-ID"


def test_a_feed_tells_the_past_and_then_the_present_each_line_once() -> None:
    desk = office(WEB)
    restart_and_approve(desk)
    freeze = desk.cause("freeze", "web_2").events[0].id

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(desk.stage.engine, 0, desk.closing, LONG)) as lines:
            told = await take(lines, 6)
            # Kept while the past is still being told: the journal has it, and the listener too.
            await desk.stage.engine.handle(Cancel(scope=ScopeId("web"), id=EventId(freeze)))
            told += await take(lines, 1)
            await desk.stage.engine.handle(restart("web_1"))
            return told + await take(lines, 1)

    told = run(listen())

    assert told == desk.stage.history()


def test_a_feed_that_resumes_from_nowhere_begins_now() -> None:
    desk = office(WEB)
    restart_and_approve(desk)

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(desk.stage.engine, None, desk.closing, QUIET)) as lines:
            told = await take(lines, 1)
            await desk.stage.engine.handle(restart("web_1"))
            return told + await take(lines, 1)

    silence, line = run(listen())

    assert silence is None
    assert line == desk.stage.history()[-1]


def test_a_listener_that_lags_is_told_what_it_missed() -> None:
    desk = office(WEB)
    engine = desk.stage.engine
    crowd = [CreateSet(seed="s", blueprint=Blueprint(name=name, count=1000)) for name in ("many", "more")]
    meanwhile: list[Command] = [restart("web_1"), *crowd, restart("web_2")]

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(engine, 0, desk.closing, LONG)) as lines:
            await engine.handle(restart("web_0"))
            told = await take(lines, 1)
            for command in meanwhile:
                await engine.handle(command)
            return told + await take(lines, 2)

    told = run(listen())

    assert told == desk.stage.history()
    assert [line.resources for line in told if line] == [("web_0",), ("web_1",), ("web_2",)]


def test_a_quiet_feed_gives_a_sign_of_life() -> None:
    desk = office(WEB)

    async def listen() -> list[HistoryEntry | None]:
        async with aclosing(follow(desk.stage.engine, 0, desk.closing, QUIET)) as lines:
            return await take(lines, 3)

    assert run(listen()) == [None, None, None]


def test_what_passes_without_being_told_is_silence_too() -> None:
    desk = office(WEB)
    tell = timedelta(milliseconds=40)

    async def chatter() -> None:
        while True:
            for power in (PowerState.STOPPED, PowerState.RUNNING):
                await desk.stage.engine.handle(SetPower(machine=WEB_0, power=power))
                await asyncio.sleep(0)

    async def listen() -> list[HistoryEntry | None]:
        talking = asyncio.create_task(chatter())
        async with aclosing(follow(desk.stage.engine, None, desk.closing, tell)) as lines:
            try:
                return await asyncio.wait_for(take(lines, 2), 10)
            finally:
                talking.cancel()

    assert run(listen()) == [None, None]


def test_a_feed_ends_when_the_server_does() -> None:
    desk = office(WEB)

    async def listen() -> list[HistoryEntry]:
        listening = asyncio.create_task(collect(follow(desk.stage.engine, 0, desk.closing, LONG)))
        await desk.stage.engine.handle(restart("web_0"))
        desk.closing.set()
        return await listening

    assert run(listen()) == desk.stage.history()


def test_a_feed_whose_listener_left_takes_nothing_with_it() -> None:
    desk = office(WEB)
    sent: list[str] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def endless() -> AsyncGenerator[bytes, None]:
        async with aclosing(follow(desk.stage.engine, 0, desk.closing, LONG)) as lines:
            async for _ in lines:
                yield b"told"

    streams, messages = Streams(), endless()

    async def visit() -> None:
        await streams.stream(messages)({"type": "http"}, receive, send)

    run(visit())

    assert streams.open == 0
    with pytest.raises(StopAsyncIteration):
        run(anext_of(messages))


def test_asking_about_the_feed_does_not_open_it() -> None:
    desk = office(WEB)

    response = desk.send("HEAD", "/feed")

    assert (response.status_code, response.content) == (200, b"")
