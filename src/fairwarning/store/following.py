"""Wakes the followers of a journal when lines are added to it.

Every page that is read begins with the line that the follower has reached: its stamp proves that the page
goes on there, and not in another journal with the same numbers.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from fairwarning.engine.ports import Entry, GapError

#: The number of lines that are read at once; a page is longer if its last batch is.
PAGE = 1000

#: Returns the first lines after a line, at most as many as given, and the last line of the pruned part.
ReadPage = Callable[[int, int], Awaitable[tuple[Sequence[Entry], int]]]


class Followers:
    """The followers of one journal."""

    def __init__(self) -> None:
        #: The newest batch, for followers that have everything before it; none if it is very long.
        self._newest: Sequence[Entry] = ()
        self._waiting: set[asyncio.Event] = set()
        #: How often there was a hint that the journal may have more than the newest batch.
        self._hints = 0

    async def follow(self, after: int, stamp: int, read: ReadPage) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the lines after line ``after`` as they are added, whole batches at once."""
        woken = asyncio.Event()
        self._waiting.add(woken)
        followed = None
        try:
            while True:
                woken.clear()
                newest = self._newest
                # The first page is read, as a batch of this node does not prove what came before it.
                if followed is not None and newest and newest[0].seq == after + 1:
                    page = newest
                else:
                    followed = self._hints
                    page = await _read_batches(after, stamp, read)
                if page:
                    after, stamp = page[-1].seq, page[-1].stamp
                    yield page
                if len(page) < PAGE and followed == self._hints:
                    await woken.wait()
        finally:
            self._waiting.discard(woken)

    def announce(self, entries: Sequence[Entry], loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Tell all followers that a batch was stored; ``loop`` is theirs if this is another thread."""
        self._newest = entries if len(entries) <= PAGE else ()
        if loop is None:
            self._wake()
        elif self._waiting:
            loop.call_soon_threadsafe(self._wake)

    def wake(self) -> None:
        """Let all followers read the journal: others may have added lines."""
        self._hints += 1
        self._wake()

    def _wake(self) -> None:
        for woken in self._waiting:
            woken.set()


async def _read_batches(after: int, stamp: int, read: ReadPage) -> Sequence[Entry]:
    page, pruned = await read(after - 1, PAGE + 1)
    reached = page[0] if page and page[0].seq == after else None
    page = page if reached is None else page[1:]
    if page and page[-1].ends > page[-1].seq:
        rest, pruned = await read(page[-1].seq, page[-1].ends - page[-1].seq)
        page = [*page, *rest]
    if pruned > after:
        raise GapError(f"the journal was pruned up to line {pruned}, the follower has reached line {after}")
    if reached is None and after > pruned:
        raise GapError(f"the journal has no line {after}")
    if stamp and (reached is None or reached.stamp != stamp):
        raise GapError(f"the journal does not go on after line {after} of the follower")
    if page and page[0].seq != after + 1:
        raise GapError(f"the journal has no line {after + 1}")
    return page
