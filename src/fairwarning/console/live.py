"""Live updates: one event stream per open tab, which sends the fragments that have changed.

The stream of a page calls the function that rendered the page, compares the fragments with those it sent
last, and sends the difference. It renders again when the journal has news, when a clock was moved, and
every few seconds for what no journal line reports (polls, endpoint faults). It never renders more often
than a person can read.

Every message carries a digest of everything the page shows. A browser that reconnects sends the digest it
has; if the page shows something else now, the browser gets all fragments. So the server keeps no state
per browser, and no update is lost. Tabs that show the same page share one rendering, and even its
messages (``PageRenderer``).
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

#: The shortest time between two renderings of a page.
INTERVAL = timedelta(milliseconds=500)

#: A page that takes long to render pauses for this many times as long, so that guests are served meanwhile.
PAUSE_FACTOR = 10

#: How often a page is rendered without news, for what no journal line reports.
REFRESH = timedelta(seconds=5)

#: How many pages keep their last rendering.
MOST_PAGES = 256

#: What ends a line of an event stream; other line separators of Unicode are text.
_LINE_END = re.compile(r"\r\n|\r|\n")


class ShownPage:
    """What a page shows at one moment, and the messages that lead to it from earlier states."""

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        self.digest = digest(fragments)
        self.keys = {fragment.id: _key(fragment) for fragment in fragments}
        self._fragments = fragments
        self._messages: dict[str | None, bytes] = {}

    def message(self, before: "ShownPage | None") -> bytes:
        """Return the message that updates a browser from ``before``; built once for all tabs that need it."""
        known = None if before is None else before.digest
        if known not in self._messages:
            fragments = changed({} if before is None else before.keys, self._fragments)
            self._messages[known] = _message(self.digest, fragments)
        return self._messages[known]


#: Collects the fragments of a page.
Collect = Callable[[], Awaitable[Sequence[Fragment]]]

#: Renders a page; returns None once the session of the tab has ended.
Render = Callable[[], Awaitable[ShownPage | None]]

#: The position in the feed and the state of the clock; two renderings with equal moments show the same.
Moment = tuple[int, asyncio.Event]


class PageRenderer:
    """Renders each page once for all tabs that show it: after a change, and not too often."""

    def __init__(self, feed: Feed, time_control: TimeControl, interval: timedelta = INTERVAL) -> None:
        self._feed = feed
        self._time_control = time_control
        self._interval = interval
        self._newest: dict[Hashable, _Rendering] = {}

    async def render(self, page: Hashable, collect: Collect) -> ShownPage:
        """Return what a page shows now, or its last rendering if nothing has happened since."""
        rendering = self._newest.pop(page, None)
        if rendering is None or not (rendering.waiting or self._is_fresh(rendering)):
            rendering = _Rendering(collect, self._moment, rendering, self._interval)
        self._newest[page] = rendering
        if len(self._newest) > MOST_PAGES:
            del self._newest[next(iter(self._newest))]
        # A tab that closes must not cancel the rendering for the other tabs.
        return await asyncio.shield(rendering.task)

    def _is_fresh(self, rendering: "_Rendering") -> bool:
        now = asyncio.get_running_loop().time()
        return rendering.moment == self._moment() and now < rendering.pause_until

    def _moment(self) -> Moment:
        return self._feed.revision, self._time_control.moved


class _Rendering:
    """A rendering of a page; it starts after the pause of the rendering before it."""

    def __init__(
        self,
        collect: Collect,
        moment: Callable[[], Moment],
        before: "_Rendering | None",
        interval: timedelta,
    ) -> None:
        self.waiting = True
        self.moment: Moment | None = None
        self.pause_until = 0.0
        self.task = asyncio.create_task(self._run(collect, moment, before, interval))

    async def _run(
        self,
        collect: Collect,
        moment: Callable[[], Moment],
        before: "_Rendering | None",
        interval: timedelta,
    ) -> ShownPage:
        loop = asyncio.get_running_loop()
        if before is not None:
            await asyncio.wait([before.task])
            await asyncio.sleep(before.pause_until - loop.time())
        self.waiting, self.moment, began = False, moment(), loop.time()
        self.pause_until = began + interval.total_seconds()
        page = ShownPage(await collect())
        self.pause_until = max(self.pause_until, loop.time() + (loop.time() - began) * PAUSE_FACTOR)
        return page


def digest(fragments: Iterable[Fragment]) -> str:
    """Return a digest of everything a page shows."""
    sha = sha256()
    for fragment in fragments:
        sha.update(f"{fragment.id}\0{_key(fragment)}\0".encode())
    return sha.hexdigest()[:32]


def changed(before: Mapping[str, str], now: Sequence[Fragment]) -> list[Fragment]:
    """Return the fragments whose keys differ from ``before``; an outer fragment includes its inner ones."""
    sent: dict[str, Fragment] = {}
    outer = {fragment.id: fragment.within for fragment in now}
    for fragment in now:
        if before.get(fragment.id) != _key(fragment) and not any(
            around in sent for around in _enclosing(fragment, outer)
        ):
            sent[fragment.id] = fragment
    return list(sent.values())


async def messages(
    feed: Feed,
    time_control: TimeControl,
    render: Render,
    have: str,
    shutdown: asyncio.Event,
    *,
    interval: timedelta = INTERVAL,
    refresh: timedelta = REFRESH,
) -> AsyncGenerator[bytes, None]:
    """Yield the updates of a page, for a browser that has the state with the digest ``have``."""
    yield b": listening\n\n"
    # Only the fact that there is news matters, so a tiny queue is enough: losing lines is news as well.
    with feed.subscribe(size=2) as subscription:
        before: ShownPage | None = None
        while not shutdown.is_set():
            moved = time_control.moved
            now = await render()
            if now is None:
                return
            yield b": quiet\n\n" if now.digest == have else now.message(before)
            before, have = now, now.digest
            await _first_of(interval, shutdown.wait())
            await _first_of(refresh, _news(subscription), moved.wait(), shutdown.wait())


async def _first_of(timeout: timedelta, *reasons: Coroutine[object, object, object]) -> None:
    """Return when the first of the coroutines does, or after the timeout."""
    tasks = [asyncio.create_task(reason) for reason in reasons]
    try:
        await asyncio.wait(tasks, timeout=timeout.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _news(subscription: Subscription) -> None:
    try:
        await subscription.next()
    except LaggingError:
        return


def _message(digest: str, fragments: Iterable[Fragment]) -> bytes:
    html = "".join(
        f'<hx-partial id="{escape(fragment.id)}" hx-swap="outerMorph">{fragment.html}</hx-partial>'
        for fragment in fragments
    )
    data = "".join(f"data: {line}\n" for line in _LINE_END.split(html))
    return f"id: {digest}\n{data}\n".encode()


def _key(fragment: Fragment) -> str:
    return fragment.html if fragment.key is None else fragment.key


def _enclosing(fragment: Fragment, outer: Mapping[str, str | None]) -> Iterable[str]:
    """Yield the ids of the fragments around a fragment, from the inside out."""
    around = fragment.within
    while around is not None:
        yield around
        around = outer.get(around)
