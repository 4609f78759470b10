"""What runs next to a scenario and ends with it: tasks, local servers, and readers of a program's output."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import TypeAlias

from fairwarning.check.messages import LARGEST_HEAD

Work: TypeAlias = Coroutine[None, None, None]
HandleConnection: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Work]

#: How many bytes of a program's output are kept.
OUTPUT_LIMIT = 4000


@asynccontextmanager
async def in_background(work: Work) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a coroutine for the duration of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await _cancel((task,))


@asynccontextmanager
async def local_server(handle: HandleConnection) -> AsyncIterator[int]:
    """Accept connections on a local port for the duration of the block; yields the port."""
    tasks = set[asyncio.Task[None]]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=LARGEST_HEAD)
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield port
    finally:
        server.close()
        await _cancel(tasks)


async def _cancel(tasks: Collection["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class OutputTail:
    """The end of a program's output."""

    def __init__(self) -> None:
        self._kept = b""
        self._complete = asyncio.Event()

    @property
    def text(self) -> str:
        """The end of the output so far."""
        return self._kept.decode(errors="replace").strip()

    async def follow(self, stream: asyncio.StreamReader | None) -> None:
        """Read a stream to its end."""
        while stream is not None and (chunk := await stream.read(OUTPUT_LIMIT)):
            self._kept = (self._kept + chunk)[-OUTPUT_LIMIT:]
        self._complete.set()

    async def final_text(self) -> str:
        """Return the end of the output, once the stream is at its end."""
        await self._complete.wait()
        return self.text
