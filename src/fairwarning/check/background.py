"""What goes on beside a play and ends with it: tasks, and conversations on ports of our own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import TypeAlias

from fairwarning.check.messages import LARGEST_HEAD

Work: TypeAlias = Coroutine[None, None, None]
Conversation: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Work]


@asynccontextmanager
async def beside(work: Work) -> AsyncIterator["asyncio.Task[None]"]:
    """Let some work go on for as long as the block lasts."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await _end((task,))


@asynccontextmanager
async def conversing(converse: Conversation) -> AsyncIterator[int]:
    """Converse with whoever calls, for as long as the block lasts, at the local port that is given."""
    under_way = set[asyncio.Task[None]]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(converse(reader, writer))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=LARGEST_HEAD)
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield port
    finally:
        server.close()
        await _end(under_way)


async def _end(tasks: Collection["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
