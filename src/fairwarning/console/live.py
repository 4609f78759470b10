"""Pages that change under one's eyes: one stream per tab, which brings the fragments that differ.

Every message is named by a digest of all that the page shows then. Whoever comes back says which one they
have; if it is not what the page shows now, they are sent all of it. So nothing is missed or kept for anyone.
"""

import asyncio
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import timedelta
from hashlib import sha256

from markupsafe import escape

from fairwarning.console.page import Fragment
from fairwarning.engine.feed import Feed, LaggingError, Subscription
from fairwarning.engine.time_control import TimeControl

#: No page is looked at more often; people cannot read faster.
PACE = timedelta(milliseconds=500)

#: Whoever takes long to look rests so many times as long: a page must not take the server from its guests.
SHARE = 10

#: What no journal line tells (who polls, what ails an endpoint) is looked at so often.
GLANCE = timedelta(seconds=5)

#: How many pages are kept as they were seen last.
MOST_PAGES = 256

#: What ends a line of a stream; other characters that end lines elsewhere are text.
_LINE_END = re.compile(r"\r\n|\r|\n")


class ShownPage:
    """What a page shows at one time, and what is sent to those who saw it at another."""

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        self.name = digest(fragments)
        self.stamps = {one.id: _stamp(one) for one in fragments}
        self._fragments = fragments
        self._messages: dict[str | None, bytes] = {}

    def message(self, before: "ShownPage | None") -> bytes:
        """Return what brings a page from what it showed before to this, rendered once for all who need it."""
        name = None if before is None else before.name
        if name not in self._messages:
            differing = changed({} if before is None else before.stamps, self._fragments)
            self._messages[name] = _message(self.name, differing)
        return self._messages[name]


#: Returns what a page shows; None once whoever looks may do so no longer.
Look = Callable[[], Awaitable[ShownPage | None]]

#: What had been told, and how time had moved; who looked at the same moment saw the same.
Moment = tuple[int, asyncio.Event]


class Looks:
    """Looks at pages for all tabs that show the same, once for every change and not too often."""

    def __init__(self, feed: Feed, journeys: TimeControl, pace: timedelta = PACE) -> None:
        self._feed = feed
        self._journeys = journeys
        self._pace = pace
        self._newest: dict[Hashable, _Look] = {}

    async def at(self, page: Hashable, see: Callable[[], Awaitable[Sequence[Fragment]]]) -> ShownPage:
        """Return what a page shows, not older than this call unless nothing has happened since."""
        look = self._newest.pop(page, None)
        if look is None or not (look.awaited or self._fresh(look)):
            look = _Look(see, self._moment, look, self._pace)
        self._newest[page] = look
        if len(self._newest) > MOST_PAGES:
            del self._newest[next(iter(self._newest))]
        # Who leaves takes nothing from the others.
        return await asyncio.shield(look.task)

    def _fresh(self, look: "_Look") -> bool:
        return look.moment == self._moment() and asyncio.get_running_loop().time() < look.rest_until

    def _moment(self) -> Moment:
        return self._feed.revision, self._journeys.moved


class _Look:
    """One look at a page, which begins once the one before is over and has been rested from."""

    def __init__(
        self,
        see: Callable[[], Awaitable[Sequence[Fragment]]],
        moment: Callable[[], Moment],
        before: "_Look | None",
        pace: timedelta,
    ) -> None:
        self.awaited = True
        self.moment: Moment | None = None
        self.rest_until = 0.0
        self.task = asyncio.create_task(self._see(see, moment, before, pace))

    async def _see(
        self,
        see: Callable[[], Awaitable[Sequence[Fragment]]],
        moment: Callable[[], Moment],
        before: "_Look | None",
        pace: timedelta,
    ) -> ShownPage:
        loop = asyncio.get_running_loop()
        if before is not None:
            await asyncio.wait([before.task])
            await asyncio.sleep(before.rest_until - loop.time())
        self.awaited, self.moment, began = False, moment(), loop.time()
        self.rest_until = began + pace.total_seconds()
        shown = ShownPage(await see())
        self.rest_until = max(self.rest_until, loop.time() + (loop.time() - began) * SHARE)
        return shown


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
    journeys: TimeControl,
    look: Look,
    have: str,
    closing: asyncio.Event,
    *,
    pace: timedelta = PACE,
    glance: timedelta = GLANCE,
) -> AsyncGenerator[bytes, None]:
    """Yield the page as it changes, for somebody who has the state called ``have``."""
    yield b": listening\n\n"
    # That there is news matters here, not what it is: a listener that loses lines is told so, and looks.
    with feed.subscribe(size=2) as listener:
        before: ShownPage | None = None
        while not closing.is_set():
            moved = journeys.moved
            now = await look()
            if now is None:
                return
            yield b": quiet\n\n" if now.name == have else now.message(before)
            before, have = now, now.name
            await _something(pace, closing.wait())
            await _something(glance, _news(listener), moved.wait(), closing.wait())


async def _something(patience: timedelta, *causes: Coroutine[object, object, object]) -> None:
    """Return once there is cause to look again, or a while has passed."""
    waiting = [asyncio.create_task(cause) for cause in causes]
    try:
        await asyncio.wait(waiting, timeout=patience.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _news(listener: Subscription) -> None:
    try:
        await listener.next()
    except LaggingError:
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
