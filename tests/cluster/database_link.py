"""The connection between a node and its database, as a proxy on loopback that tests can cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto


class LinkState(Enum):
    """What happens to bytes."""

    UP = auto()
    #: Connections are reset, and new ones as soon as they are accepted.
    CUT = auto()
    #: Requests arrive, answers do not: connections stay open.
    ANSWERS_LOST = auto()
    #: Nothing arrives: connections stay open.
    HANGING = auto()


class DatabaseLink:
    """Forwards the connections of one node; what a state drops is lost for good, and so is its connection."""

    def __init__(self, host: str, port: int) -> None:
        """Take the address of the database; a host with a slash is the directory of its socket."""
        self.port = 0
        self.state = LinkState.UP
        self._host = host
        self._port = port
        self._connections: set[asyncio.StreamWriter] = set()

    def lead_to(self, host: str) -> None:
        """Forward new connections to another database; the others stay where they are."""
        self._host = host

    def cut(self) -> None:
        """Reset all connections; new ones may be made."""
        for writer in self._connections:
            writer.transport.abort()

    def change(self, state: LinkState) -> None:
        """Change what happens to bytes; connections that have lost some are reset."""
        before, self.state = self.state, state
        if state is LinkState.CUT or before is not LinkState.UP:
            self.cut()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["DatabaseLink"]:
        """Listen on a free port during the block."""
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.sleep(0)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward a connection until one side ends it."""
        if self.state is LinkState.CUT:
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            inner_reader, inner_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            self._connections.discard(writer)
            return
        pair = {writer, inner_writer}
        self._connections |= pair
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._forward(reader, inner_writer, {LinkState.HANGING}))
                both.create_task(
                    self._forward(inner_reader, writer, {LinkState.HANGING, LinkState.ANSWERS_LOST})
                )
        finally:
            self._connections -= pair

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost_in: set[LinkState]
    ) -> None:
        """Forward bytes until one side ends; then the other side ends, too."""
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.state not in lost_in:
                    writer.write(data)
                    await writer.drain()
        writer.close()
