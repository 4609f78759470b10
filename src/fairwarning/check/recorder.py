"""Stands between a handler and its machine's endpoint, and writes down what passes.

Nothing is changed; delays and cut connections pass too. The one exception is asked for by a scenario:
requests for the document may be turned into requests for another api-version, to see how a handler bears it.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing, suppress

from fairwarning.check.background import beside, conversing
from fairwarning.check.messages import LARGEST_HEAD, NO_BODY, MessageHead, cut, read_body, read_head
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Asked
from fairwarning.core.document.render import EVENTS_PATH
from fairwarning.sandbox.addresses import Endpoint

_VERSION = re.compile(rb"(?i)(^\S+ \S*%s\?\S*?api-version=)[^&\s]*" % EVENTS_PATH.encode())


class EndpointRecorder:
    """The line between one machine's handler and its endpoint."""

    def __init__(
        self,
        machine: str,
        endpoint: Endpoint,
        notebook: ObservationLog,
        survey: Callable[[], None] = lambda: None,
        version: str | None = None,
    ) -> None:
        self._machine = machine
        self._endpoint = endpoint
        self._notebook = notebook
        self._survey = survey
        self._version = version

    def listening(self) -> AbstractAsyncContextManager[int]:
        """Listen for as long as the block lasts, on the port that is given."""
        return conversing(self._converse)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        closed = False
        try:
            closed = await self._pass(reader, writer)
        finally:
            if closed:
                writer.close()
            else:
                cut(writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Pass everything on until the endpoint ends the connection; say whether it closed it in order."""
        host, port = self._endpoint.address
        try:
            theirs, ours = await asyncio.open_connection(host, port, limit=LARGEST_HEAD)
        except OSError:
            return False
        passing = _Passing(self._machine, self._notebook, self._survey, self._version)
        with closing(ours):
            async with beside(passing.requests(reader, ours)):
                return await passing.responses(theirs, writer)


class _Passing:
    """What is under way on one connection: the requests that wait for an answer, oldest first."""

    def __init__(
        self, machine: str, notebook: ObservationLog, survey: Callable[[], None], version: str | None
    ) -> None:
        self._machine = machine
        self._notebook = notebook
        self._survey = survey
        self._version = version
        self._waiting = deque[tuple[int, str]]()

    async def requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass requests on until the handler ends the connection."""
        with suppress(ConnectionError):
            while (head := await read_head(reader)) is not None:
                await self._request(head, reader, writer)
        # Whoever does not wait for the answer has given up; whoever does gets it all the same.
        for number, _ in self._waiting:
            self._notebook.abandoned(number)
        with suppress(OSError):
            writer.write_eof()

    async def _request(
        self, head: MessageHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # What the handler left behind before it asked, it had done before it asked.
        self._survey()
        method, target, _ = head.words
        asked = Asked(machine=self._machine, begun=self._notebook.now(), method=method, target=target)
        number = self._notebook.asking(asked)
        self._waiting.append((number, method))
        writer.write(self._translated(head.raw))
        body = await read_body(reader, head, otherwise="none")
        self._notebook.sent(number, body.content)
        writer.write(body.raw)
        await writer.drain()

    def _translated(self, raw: bytes) -> bytes:
        if self._version is None:
            return raw
        return _VERSION.sub(rb"\g<1>" + self._version.encode(), raw, count=1)

    async def responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Pass answers back until the endpoint ends the connection; say whether it closed it in order."""
        try:
            while (head := await read_head(reader)) is not None:
                await self._response(head, reader, writer)
        except ConnectionError:
            return False
        finally:
            for number, _ in self._waiting:
                self._notebook.abandoned(number)
        return True

    async def _response(
        self, head: MessageHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if 100 <= head.status < 200:
            writer.write(head.raw)
            return
        bare = head.status in {204, 304} or (bool(self._waiting) and self._waiting[0][1] == "HEAD")
        body = NO_BODY if bare else await read_body(reader, head, otherwise="rest")
        # Written down first: what the handler does about it comes later.
        if self._waiting:
            number, _ = self._waiting.popleft()
            self._notebook.answered(number, status=head.status, answer=body.content)
        writer.write(head.raw + body.raw)
        await writer.drain()
