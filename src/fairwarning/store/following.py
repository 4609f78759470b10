"""Wakes the followers of a journal when lines are added to it."""

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
        self._waiting: set[asyncio.Event] = set()

    async def follow(self, after: int, read: ReadPage) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the lines after line ``after`` as they are added, whole batches at once."""
        woken = asyncio.Event()
        self._waiting.add(woken)
        try:
            while True:
                woken.clear()
                page = await _read_batches(after, read)
                if page:
                    after = page[-1].seq
                    yield page
                else:
                    await woken.wait()
        finally:
            self._waiting.discard(woken)

    def wake(self) -> None:
        """Let every follower look for new lines."""
        for woken in self._waiting:
            woken.set()

    def __len__(self) -> int:
        return len(self._waiting)


async def _read_batches(after: int, read: ReadPage) -> Sequence[Entry]:
    page, pruned = await read(after, PAGE)
    if page and page[-1].ends > page[-1].seq:
        rest, pruned = await read(page[-1].seq, page[-1].ends - page[-1].seq)
        page = [*page, *rest]
    if pruned > after:
        raise GapError(f"the journal was pruned up to line {pruned}, the follower has reached line {after}")
    return page
