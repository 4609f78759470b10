"""The journal as people read it: page by page, and live as a stream of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fairwarning.core.history import Line, line
from fairwarning.core.model import EventId
from fairwarning.core.wire import read_event_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import Lagging, Listener
from fairwarning.engine.ports import Entry
from fairwarning.operator import shapes
from fairwarning.operator.desk import Desk
from fairwarning.operator.problems import Refusal

#: How many journal lines are read at a time.
PAGE = 500

#: How long a feed stays silent before it gives a sign of life.
HEARTBEAT = timedelta(seconds=15)

EVENT_STREAM = "text/event-stream"
RESUME = "Last-Event-ID"


async def history(desk: Desk, _: str, asked: shapes.HistoryPage) -> shapes.History:
    """Return a page of the history, of one event or of all."""
    event = None if asked.event is None else read_event_id(asked.event, "event")
    found: list[shapes.Line] = []
    async with aclosing(_journal(desk.engine, asked.after, event)) as entries:
        async for entry in entries:
            told = line(entry.seq, entry.at, entry.change)
            if told is not None and len(found) == asked.limit:
                return shapes.History(history=found, next=found[-1].seq)
            if told is not None:
                found.append(line_shape(told))
    return shapes.History(history=found, next=None)


async def feed(desk: Desk, request: Request, asked: shapes.FeedStart) -> ASGIApp:
    """Return the live history, from where the listener left off or from now on."""
    # A browser that connects again repeats its query and says in the header how far it came.
    given = request.headers.get(RESUME, "")
    if given and not (given.isascii() and given.isdecimal() and len(given) <= 15):
        raise Refusal(422, f"{RESUME}: must be the number of a line, not {given[:40]!r}", RESUME)
    if request.method == "HEAD":
        return Response(media_type=EVENT_STREAM)
    after = int(given) if given else asked.after
    return Stream(follow(desk.engine, after, desk.closing))


class Stream:
    """An answer that lasts; what feeds it is closed with it, however it ends."""

    def __init__(self, lines: AsyncGenerator[Line | None, None]) -> None:
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is until there is no more or nobody listens."""
        async with aclosing(self._lines), aclosing(_messages(self._lines)) as messages:
            await StreamingResponse(messages, media_type=EVENT_STREAM)(scope, receive, send)


async def follow(
    engine: Engine, after: int | None, closing: asyncio.Event, heartbeat: timedelta = HEARTBEAT
) -> AsyncGenerator[Line | None, None]:
    """Yield the history behind ``after`` and then live, each line once; None when all has been quiet."""
    pulse = _Pulse(heartbeat)
    async with aclosing(_entries(engine, after, closing, pulse)) as entries:
        async for entry in entries:
            told = None if entry is None else line(entry.seq, entry.at, entry.change)
            if told is not None or pulse.left() <= 0:
                yield told
                pulse.beat()


def line_shape(told: Line) -> shapes.Line:
    """Return a line of the history as the operator sees it."""
    return shapes.Line(
        seq=told.seq,
        at=told.at,
        kind=told.kind,
        event=told.event,
        type=told.type,
        scope=told.scope,
        by=told.by,
        resources=list(told.resources),
        reason=told.reason,
    )


class _Pulse:
    """How long a feed may stay silent yet: what passes without being told is silence too."""

    def __init__(self, heartbeat: timedelta) -> None:
        self._loop = asyncio.get_running_loop()
        self._heartbeat = heartbeat.total_seconds()
        self.beat()

    def beat(self) -> None:
        self._due = self._loop.time() + self._heartbeat

    def left(self) -> float:
        return max(0.0, self._due - self._loop.time())


async def _entries(
    engine: Engine, after: int | None, closing: asyncio.Event, pulse: _Pulse
) -> AsyncGenerator[Entry | None, None]:
    # Listening begins before the journal is read: what is kept meanwhile arrives twice and is told once.
    with engine.feed.listen() as listener:
        behind = True
        while True:
            if behind and after is not None:
                async with aclosing(_journal(engine, after)) as missed:
                    async for entry in missed:
                        after = entry.seq
                        yield entry
            if closing.is_set():
                return
            try:
                news = await _next(listener, closing, pulse.left())
            except Lagging:
                behind = True
                continue
            behind = False
            if news is None and not closing.is_set():
                yield None
            elif news is not None and (after is None or news.seq > after):
                after = news.seq
                yield news


async def _next(listener: Listener, closing: asyncio.Event, patience: float) -> Entry | None:
    """Return the next journal line; None if there was none for a while, or the server is closing."""
    arrival = asyncio.create_task(listener.next())
    ending = asyncio.create_task(closing.wait())
    try:
        await asyncio.wait((arrival, ending), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        return arrival.result() if arrival.done() else None
    finally:
        arrival.cancel()
        ending.cancel()


async def _journal(engine: Engine, after: int, event: EventId | None = None) -> AsyncGenerator[Entry, None]:
    while entries := await engine.store.journal(after=after, limit=PAGE, event=event):
        for entry in entries:
            yield entry
        after = entries[-1].seq


async def _messages(lines: AsyncGenerator[Line | None, None]) -> AsyncGenerator[bytes, None]:
    yield b": listening\n\n"
    async for told in lines:
        if told is None:
            yield b": quiet\n\n"
        else:
            data = msgspec.json.encode(line_shape(told)).decode()
            yield f"id: {told.seq}\nevent: {told.kind}\ndata: {data}\n\n".encode()
