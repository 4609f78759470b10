"""The journal as people read it: page by page, and live as a stream of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import timedelta

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from fairwarning.core.document.render import parse_event_id
from fairwarning.core.history import to_history_entry
from fairwarning.core.model import EventId
from fairwarning.engine.engine import Engine
from fairwarning.engine.feed import LaggingError, Subscription
from fairwarning.engine.ports import Entry
from fairwarning.engine.retention import first_complete_line
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.problems import BadRequestError
from fairwarning.operator.rendered_feed import FeedMessage, RenderedFeed, line_shape, missing
from fairwarning.streams import EVENT_STREAM

#: How many journal lines are read at a time.
PAGE = 500

#: How long a feed stays silent before it gives a sign of life.
HEARTBEAT = timedelta(seconds=15)

RESUME = "Last-Event-ID"


async def history(desk: OperatorContext, _: str, asked: schemas.HistoryPage) -> schemas.HistoryBody:
    """Return a page of the history, of one event or of all."""
    event = None if asked.event is None else parse_event_id(asked.event, "event")
    found, following = await _page(desk.engine, asked, event)
    # Looked for last: what was pruned while the page was read is told of too.
    first = await first_complete_line(desk.engine.store)
    if first is None:
        return schemas.HistoryBody(history=found, next=following)
    upto = first.seq - 1
    return schemas.HistoryBody(
        history=found,
        next=following,
        begins=schemas.BeginningBody(seq=first.seq, at=first.at),
        gap=schemas.GapBody(after=asked.after, upto=upto) if asked.after < upto else UNSET,
    )


async def _page(
    engine: Engine, asked: schemas.HistoryPage, event: EventId | None
) -> tuple[list[schemas.HistoryLineBody], int | None]:
    found: list[schemas.HistoryLineBody] = []
    async with aclosing(_journal(engine, asked.after, event)) as entries:
        async for entry in entries:
            told = to_history_entry(entry.seq, entry.at, entry.change)
            if told is not None and len(found) == asked.limit:
                return found, found[-1].seq
            if told is not None:
                found.append(line_shape(told))
    return found, None


async def feed(desk: OperatorContext, request: Request, asked: schemas.FeedStart) -> ASGIApp:
    """Return the live history, from where the listener left off or from now on."""
    # A browser that connects again repeats its query and says in the header how far it came.
    given = request.headers.get(RESUME, "")
    if given and not (given.isascii() and given.isdecimal() and len(given) <= 15):
        raise BadRequestError(422, f"{RESUME}: must be the number of a line, not {given[:40]!r}", RESUME)
    if request.method == "HEAD":
        return Response(media_type=EVENT_STREAM)
    after = int(given) if given else asked.after
    lines = follow(desk.engine, after, desk.closing, rendered=desk.rendered, pace=lambda: desk.streams.pace)
    return desk.streams.stream(_messages(lines))


async def follow(
    engine: Engine,
    after: int | None,
    closing: asyncio.Event,
    heartbeat: timedelta = HEARTBEAT,
    *,
    rendered: RenderedFeed | None = None,
    pace: Callable[[], timedelta] = timedelta,
) -> AsyncGenerator[list[FeedMessage], None]:
    """Yield the history behind ``after`` and then live, each line once; nothing when all has been quiet."""
    pulse, rendered = _Pulse(heartbeat), rendered or RenderedFeed()
    async with aclosing(_entries(engine, after, closing, pulse)) as batches:
        async for entries in batches:
            if isinstance(entries, schemas.GapBody):
                told = [missing(entries.after, entries.upto)]
            else:
                told = [one for one in map(rendered.of, entries) if one is not None]
            if told or pulse.left() <= timedelta(0):
                yield told
                pulse.beat()
                await asyncio.sleep(pace().total_seconds())


class _Pulse:
    """How long a feed may stay silent yet: what passes without being told is silence too."""

    def __init__(self, heartbeat: timedelta) -> None:
        self._loop = asyncio.get_running_loop()
        self._heartbeat = heartbeat.total_seconds()
        self.beat()

    def beat(self) -> None:
        self._due = self._loop.time() + self._heartbeat

    def left(self) -> timedelta:
        return timedelta(seconds=max(0.0, self._due - self._loop.time()))


async def _entries(
    engine: Engine, after: int | None, closing: asyncio.Event, pulse: _Pulse
) -> AsyncGenerator[Sequence[Entry] | schemas.GapBody, None]:
    # Listening begins before the journal is read: what is kept meanwhile arrives twice and is told once.
    with engine.feed.subscribe() as listener, _woken_by(closing, listener):
        behind, told_of = True, 0
        while True:
            if behind and after is not None:
                async with aclosing(_pages(engine, after)) as missed:
                    async for page in missed:
                        upto = await engine.store.pruned()
                        if upto > max(after, told_of):
                            yield schemas.GapBody(after=after, upto=upto)
                            told_of = upto
                        after = page[-1].seq
                        yield page
            if closing.is_set():
                return
            try:
                news = await listener.next_batch(pulse.left())
            except LaggingError:
                behind = True
                continue
            behind = False
            news = [one for one in news if after is None or one.seq > after]
            if news:
                after = news[-1].seq
            if news or not closing.is_set():
                yield news


@contextmanager
def _woken_by(closing: asyncio.Event, listener: Subscription) -> Iterator[None]:
    waiting = asyncio.create_task(closing.wait())
    waiting.add_done_callback(lambda _: listener.wake())
    try:
        yield
    finally:
        waiting.cancel()


async def _journal(engine: Engine, after: int, event: EventId | None = None) -> AsyncGenerator[Entry, None]:
    async with aclosing(_pages(engine, after, event)) as pages:
        async for page in pages:
            for entry in page:
                yield entry


async def _pages(
    engine: Engine, after: int, event: EventId | None = None
) -> AsyncGenerator[Sequence[Entry], None]:
    while entries := await engine.store.journal(after=after, limit=PAGE, event=event):
        yield entries
        after = entries[-1].seq


async def _messages(batches: AsyncGenerator[list[FeedMessage], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(batches):
        yield b": listening\n\n"
        async for told in batches:
            yield b"".join(one.message for one in told) or b": quiet\n\n"
