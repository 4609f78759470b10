"""The journal as people read it: in pages, and live as server-sent events.

A feed reads the journal to its end and then waits for new lines. It subscribes before it reads, so that no
line is lost in between; a line that arrives both ways is sent once. The queue of a subscription is bounded:
a feed that falls behind loses the queue and reads the journal again, from the last line it sent. If lines
after that one have been pruned, the reader gets a ``gap`` message, and the feed continues with the lines that
are left.

A reader's last line is the number of a journal line, which every node understands: it may be ahead of the
replica, whose lines up to there are left out. Only a line beyond the end of the journal itself was read
before a backup was restored; the reader gets a ``gap`` message that says so.
"""

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
from fairwarning.operator.rendered_feed import FeedMessage, RenderedFeed, gap_message, history_line_body
from fairwarning.streams import EVENT_STREAM

#: How many journal lines are read at a time.
PAGE_SIZE = 500

#: How long a feed stays silent before it sends a comment.
HEARTBEAT = timedelta(seconds=15)

RESUME_HEADER = "Last-Event-ID"


async def history(context: OperatorContext, _: str, request: schemas.HistoryRequest) -> schemas.HistoryBody:
    """Return a page of the history, of one event or of all."""
    event = None if request.event is None else parse_event_id(request.event, "event")
    lines, next_after = await _read_page(context.engine, request, event)
    last = None if lines else await _end_before(context.engine, request.after)
    if last is not None:
        gap = schemas.GapBody(after=request.after, upto=last)
        return schemas.HistoryBody(history=[], next=None, gap=gap)
    # Read last, so that lines pruned while the page was read are reported too.
    first = await first_complete_line(context.engine.store)
    if first is None:
        return schemas.HistoryBody(history=lines, next=next_after)
    upto = first.seq - 1
    return schemas.HistoryBody(
        history=lines,
        next=next_after,
        begins=schemas.BeginningBody(seq=first.seq, at=first.at),
        gap=schemas.GapBody(after=request.after, upto=upto) if request.after < upto else UNSET,
    )


async def _read_page(
    engine: Engine, request: schemas.HistoryRequest, event: EventId | None
) -> tuple[list[schemas.HistoryLineBody], int | None]:
    """Return the lines of a page, and the number to continue from if there are more."""
    lines: list[schemas.HistoryLineBody] = []
    async with aclosing(_journal(engine, request.after, event)) as entries:
        async for entry in entries:
            shown = to_history_entry(entry.seq, entry.at, entry.change)
            if shown is not None and len(lines) == request.limit:
                return lines, lines[-1].seq
            if shown is not None:
                lines.append(history_line_body(shown))
    return lines, None


async def feed(context: OperatorContext, request: Request, start: schemas.FeedRequest) -> ASGIApp:
    """Return the live history, after the reader's last line or from now on."""
    # A browser that reconnects repeats its query, so the header is newer than the query.
    last = request.headers.get(RESUME_HEADER, "")
    if last and not (last.isascii() and last.isdecimal() and len(last) <= 15):
        raise BadRequestError(
            422, f"{RESUME_HEADER}: must be the number of a history line, not {last[:40]!r}", RESUME_HEADER
        )
    if request.method == "HEAD":
        return Response(media_type=EVENT_STREAM)
    batches = follow(
        context.engine,
        int(last) if last else start.after,
        context.shutdown,
        rendered_feed=context.rendered_feed,
        pace=lambda: context.streams.write_interval,
    )
    return context.streams.stream(_messages(batches))


async def follow(
    engine: Engine,
    after: int | None,
    shutdown: asyncio.Event,
    interval: timedelta = HEARTBEAT,
    *,
    rendered_feed: RenderedFeed | None = None,
    pace: Callable[[], timedelta] = timedelta,
) -> AsyncGenerator[list[FeedMessage], None]:
    """Yield the history after line ``after`` and then live, each line once; an empty list is a heartbeat."""
    heartbeat, rendered_feed = _Heartbeat(interval), rendered_feed or RenderedFeed()
    async with aclosing(_entries(engine, after, shutdown, heartbeat)) as batches:
        async for batch in batches:
            if isinstance(batch, schemas.GapBody):
                messages = [gap_message(batch.after, batch.upto)]
            else:
                messages = [m for m in map(rendered_feed.render, batch) if m is not None]
            if messages or heartbeat.remaining() <= timedelta(0):
                yield messages
                heartbeat.restart()
                await asyncio.sleep(pace().total_seconds())


class _Heartbeat:
    """How long a feed may stay silent; journal lines that the history leaves out do not break the silence."""

    def __init__(self, interval: timedelta) -> None:
        self._loop = asyncio.get_running_loop()
        self._interval = interval.total_seconds()
        self.restart()

    def restart(self) -> None:
        self._due = self._loop.time() + self._interval

    def remaining(self) -> timedelta:
        return timedelta(seconds=max(0.0, self._due - self._loop.time()))


async def _entries(
    engine: Engine, after: int | None, shutdown: asyncio.Event, heartbeat: _Heartbeat
) -> AsyncGenerator[Sequence[Entry] | schemas.GapBody, None]:
    # Subscribe before reading the journal. Lines committed meanwhile arrive twice and are filtered below.
    with engine.feed.subscribe() as subscription, _woken_by(shutdown, subscription):
        is_behind, reported_upto = True, 0
        while True:
            last = None if after is None or not is_behind else await _end_before(engine, after)
            if after is not None and last is not None:
                yield schemas.GapBody(after=after, upto=last)
                after = last
            if is_behind and after is not None:
                async with aclosing(_pages(engine, after)) as pages:
                    async for page in pages:
                        upto = await engine.store.pruned()
                        if upto > max(after, reported_upto):
                            yield schemas.GapBody(after=after, upto=upto)
                            reported_upto = upto
                        after = page[-1].seq
                        yield page
            if shutdown.is_set():
                return
            try:
                entries = await subscription.next_batch(heartbeat.remaining())
            except LaggingError:
                is_behind = True
                continue
            is_behind = False
            entries = [entry for entry in entries if after is None or entry.seq > after]
            if entries:
                after = entries[-1].seq
            if entries or not shutdown.is_set():
                yield entries


async def _end_before(engine: Engine, after: int) -> int | None:
    """Return the journal's last line if a reader has read beyond it; None otherwise."""
    last = await engine.store.last() if after > engine.position else after
    return last if last < after else None


@contextmanager
def _woken_by(shutdown: asyncio.Event, subscription: Subscription) -> Iterator[None]:
    task = asyncio.create_task(shutdown.wait())
    task.add_done_callback(lambda _: subscription.wake())
    try:
        yield
    finally:
        task.cancel()


async def _journal(engine: Engine, after: int, event: EventId | None = None) -> AsyncGenerator[Entry, None]:
    async with aclosing(_pages(engine, after, event)) as pages:
        async for page in pages:
            for entry in page:
                yield entry


async def _pages(
    engine: Engine, after: int, event: EventId | None = None
) -> AsyncGenerator[Sequence[Entry], None]:
    while entries := await engine.store.journal(after=after, limit=PAGE_SIZE, event=event):
        yield entries
        after = entries[-1].seq


async def _messages(batches: AsyncGenerator[list[FeedMessage], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(batches):
        yield b": listening\n\n"
        async for batch in batches:
            yield b"".join(message.message for message in batch) or b": quiet\n\n"
