"""Who waits on one node hears of what another node stores: guests, feeds, histories and open pages."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta

import pytest
from msgspec import UNSET

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.model import MachineRef, ScopeId, VmName, derive_id
from fairwarning.http1.messages import HeldResponse, Request, Response
from fairwarning.operator import schemas
from fairwarning.operator.history import follow as follow_feed
from fairwarning.operator.rendered_feed import FeedMessage, gap_message
from tests.fleet_harness import run
from tests.guest import EVENTS, METADATA, NEWEST
from tests.nodes.node import TOKEN, Node, follow, following, two_nodes
from tests.nodes.test_console_on_nodes import log_in

WEB = Blueprint(name="web", count=2)
WEB_0 = MachineRef(ScopeId("web"), VmName("web_0"))
LONG = timedelta(hours=1)


def restart(machine: str = "web_0") -> Schedule:
    ref = MachineRef(ScopeId("web"), VmName(machine))
    return Schedule(id=derive_id(machine), cause="restart", machines=(ref,))


class Guest:
    """A guest that waits for a response."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def deliver(self, response: Response) -> None:
        self.answered.set_result(response)


def wait_for_change(node: Node, etag: str) -> Guest:
    """Let a guest of a node wait until its document is another one."""
    headers = {**METADATA, "if-none-match": (etag,)}
    held = node.guests.answer(WEB_0, Request("GET", EVENTS, f"{NEWEST}&wait=60", headers, b"", True))
    assert isinstance(held, HeldResponse)
    guest = Guest()
    held.start(guest)
    return guest


async def lines(feed: AsyncGenerator[list[FeedMessage], None], upto: int) -> list[int]:
    """Return the numbers of the lines of a feed up to a line."""
    numbers: list[int] = []
    async with aclosing(feed), asyncio.timeout(10):
        async for batch in feed:
            numbers += [message.line.seq for message in batch if message.line is not None]
            if numbers and numbers[-1] >= upto:
                break
    return numbers


def shown(node: Node) -> list[int]:
    """Return the numbers of all lines of the history."""
    return [line.seq for line in node.operator.history().history]


def test_a_guest_that_waits_on_one_node_is_woken_by_another() -> None:
    first, second = two_nodes(WEB)

    async def story() -> Response:
        async with following(second), asyncio.timeout(10):
            guest = wait_for_change(second, f'"{second.fleet.incarnation("web")}"')
            await first.engine.handle(restart())
            return await guest.answered

    response = run(story())

    assert response.status == 200
    assert b"Reboot" in response.body


def test_a_feed_of_one_node_has_the_lines_of_another() -> None:
    first, second = two_nodes(WEB)

    async def story() -> list[int]:
        async with following(second):
            feed = follow_feed(second.engine, second.engine.position, second.operator.shutdown, LONG)
            reading = asyncio.create_task(lines(feed, second.engine.position + 1))
            await asyncio.sleep(0)
            await first.engine.handle(restart())
            return await reading

    before = shown(first)
    read = run(story())

    assert read == [number for number in shown(first) if number not in before]


def test_a_reader_that_changes_to_a_node_that_is_behind_loses_nothing_and_gets_nothing_twice() -> None:
    first, second = two_nodes(WEB)
    first.operator.cause("restart", "web_0")
    cursor = shown(first)[-1]
    assert second.engine.position < cursor

    async def story() -> list[int]:
        feed = follow_feed(second.engine, cursor, second.operator.shutdown, LONG)
        reading = asyncio.create_task(lines(feed, cursor + 1))
        await asyncio.sleep(0)
        async with following(second):
            await first.engine.handle(restart("web_1"))
            return await reading

    assert run(story()) == [number for number in shown(first) if number > cursor]


def test_a_reader_with_an_old_cursor_reads_beyond_a_replica_that_is_behind() -> None:
    first, second = two_nodes(WEB)
    cursor = second.engine.position
    first.operator.cause("restart", "web_0")
    last = shown(first)[-1]

    async def story() -> list[int]:
        feed = follow_feed(second.engine, cursor, second.operator.shutdown, LONG)
        reading = asyncio.create_task(lines(feed, last + 1))
        while second.engine.position == cursor:
            await second.engine.catch_up()
        async with following(second):
            await first.engine.handle(restart("web_1"))
            return await reading

    assert run(story()) == [number for number in shown(first) if number > cursor]


@pytest.mark.parametrize("beyond", [1, 1000])
def test_a_reader_who_has_read_more_than_there_is_learns_that_a_backup_was_restored(beyond: int) -> None:
    first, _ = two_nodes(WEB)
    last = first.engine.position
    gap = schemas.GapBody(after=last + beyond, upto=last)

    async def story() -> tuple[bytes, list[int]]:
        feed = follow_feed(first.engine, last + beyond, first.operator.shutdown, LONG)
        async with asyncio.timeout(10):
            (told,) = await anext(feed)
        reading = asyncio.create_task(lines(feed, last + 1))
        await first.engine.handle(restart())
        return told.message, await reading

    message, read = run(story())

    assert message == gap_message(gap.after, gap.upto).message
    assert read == [number for number in shown(first) if number > last]
    assert first.operator.history(f"?after={first.engine.position + beyond}").gap == schemas.GapBody(
        after=first.engine.position + beyond, upto=first.engine.position
    )


def test_a_history_that_a_node_has_not_followed_yet_is_no_gap() -> None:
    first, second = two_nodes(WEB)
    first.operator.cause("restart", "web_0")
    assert second.engine.position < first.engine.position

    page = second.operator.history(f"?after={first.engine.position}")

    assert (page.history, page.next, page.gap) == ([], None, UNSET)


def test_every_node_gives_the_same_history_page_by_page() -> None:
    first, second = two_nodes(WEB)
    first.operator.cause("restart", "web_0")
    second.operator.cause("redeploy", "web_1")
    first.operator.cause("freeze", "web_1")
    whole = shown(first)

    pages: list[int] = []
    after: int | None = 0
    for node in (second, first) * len(whole):
        page = node.operator.history(f"?after={after}&limit=1")
        pages += [line.seq for line in page.history]
        after = page.next
        if after is None:
            break

    assert pages == whole
    assert shown(second) == whole


def test_an_open_page_ends_when_its_session_is_ended_on_another_node() -> None:
    first, second = two_nodes(WEB, token=TOKEN)
    log_in(first.console)
    second.console.cookies.update(first.console.cookies)
    before = second.console.send("GET", "/").status_code

    first.console.press("/logout", "/")
    follow(second)
    ended = second.console.send("GET", "/live?page=/", headers={"accept": "text/event-stream"})

    assert (before, ended.status_code) == (200, 401)
