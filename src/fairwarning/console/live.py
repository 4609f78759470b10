"""Pages that change under one's eyes: one stream per tab, which brings the fragments that differ.

Every message is named by a digest of all that the page shows then. Whoever comes back says which one they
have; if it is not what the page shows now, they are sent all of it. So nothing is missed or kept for anyone.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from hashlib import sha256

from markupsafe import escape
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from fairwarning.console.page import Fragment
from fairwarning.engine.feed import Feed, Lagging, Listener
from fairwarning.engine.journey import Journeys

#: No page is looked at more often; people cannot read faster.
PACE = timedelta(milliseconds=500)

#: Whoever takes long to look rests so many times as long: a page must not take the server from its guests.
SHARE = 10

#: What no journal line tells (who polls, what ails an endpoint) is looked at so often.
GLANCE = timedelta(seconds=5)

EVENT_STREAM = "text/event-stream"

#: What ends a line of a stream; other characters that end lines elsewhere are text.
_LINE_END = re.compile(r"\r\n|\r|\n")

#: Returns what a page shows; None once whoever looks may do so no longer.
Look = Callable[[], Awaitable[Sequence[Fragment] | None]]


class Stream:
    """An answer that lasts; what feeds it is closed with it, however it ends."""

    def __init__(self, messages: AsyncGenerator[bytes, None]) -> None:
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is until there is no more or nobody listens."""
        async with aclosing(self._messages):
            await StreamingResponse(self._messages, media_type=EVENT_STREAM)(scope, receive, send)


def digest(fragments: Iterable[Fragment]) -> str:
    """Return a name for what a page shows."""
    told = sha256()
    for one in fragments:
        told.update(f"{one.id}\0{_stamp(one)}\0".encode())
    return told.hexdigest()[:32]


def changed(before: Mapping[str, str], now: Sequence[Fragment]) -> list[Fragment]:
    """Return what to send to whoever has seen ``before``; inner fragments come with their outer ones."""
    sent: dict[str, Fragment] = {}
    outer = {one.id: one.within for one in now}
    for one in now:
        if before.get(one.id) != _stamp(one) and not any(i in sent for i in _around(one, outer)):
            sent[one.id] = one
    return list(sent.values())


async def messages(
    feed: Feed,
    journeys: Journeys,
    look: Look,
    have: str,
    closing: asyncio.Event,
    *,
    pace: timedelta = PACE,
    glance: timedelta = GLANCE,
) -> AsyncGenerator[bytes, None]:
    """Yield the page as it changes, for somebody who has the state called ``have``."""
    loop = asyncio.get_running_loop()
    yield b": listening\n\n"
    # That there is news matters here, not what it is: a listener that loses lines is told so, and looks.
    with feed.listen(size=2) as listener:
        shown: Mapping[str, str] = {}
        while not closing.is_set():
            moved, began = journeys.moved, loop.time()
            now = await look()
            if now is None:
                return
            took = timedelta(seconds=loop.time() - began)
            name = digest(now)
            yield b": quiet\n\n" if name == have else _message(name, changed(shown, now))
            shown, have = {one.id: _stamp(one) for one in now}, name
            await _something(max(pace, took * SHARE), closing.wait())
            await _something(glance, _news(listener), moved.wait(), closing.wait())


async def _something(patience: timedelta, *causes: Coroutine[object, object, object]) -> None:
    """Return once there is cause to look again, or a while has passed."""
    waiting = [asyncio.create_task(cause) for cause in causes]
    try:
        await asyncio.wait(waiting, timeout=patience.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _news(listener: Listener) -> None:
    try:
        await listener.next()
    except Lagging:
        return


def _message(name: str, fragments: Iterable[Fragment]) -> bytes:
    html = "".join(
        f'<hx-partial id="{escape(one.id)}" hx-swap="outerMorph">{one.html}</hx-partial>' for one in fragments
    )
    data = "".join(f"data: {line}\n" for line in _LINE_END.split(html))
    return f"id: {name}\n{data}\n".encode()


def _stamp(one: Fragment) -> str:
    return one.html if one.key is None else one.key


def _around(one: Fragment, outer: Mapping[str, str | None]) -> Iterable[str]:
    at = one.within
    while at is not None:
        yield at
        at = outer.get(at)
