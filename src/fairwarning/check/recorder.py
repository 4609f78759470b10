"""A proxy between a handler and its machine's endpoint that records every request and answer.

It changes nothing; delays and reset connections pass through. The exception is a scenario with
``api_version``: the proxy replaces the api-version in requests for the document, to test a handler with
older documents.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing, suppress

from fairwarning.check.background import in_background, local_server
from fairwarning.check.messages import LARGEST_HEAD, NO_BODY, MessageHead, read_body, read_head, reset
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Asked
from fairwarning.core.document.render import EVENTS_PATH
from fairwarning.sandbox.addresses import Endpoint

_VERSION = re.compile(rb"(?i)(^\S+ \S*%s\?\S*?api-version=)[^&\s]*" % EVENTS_PATH.encode())


class EndpointRecorder:
    """The proxy between one machine's handler and its endpoint."""

    def __init__(
        self,
        machine: str,
        endpoint: Endpoint,
        log: ObservationLog,
        scan_markers: Callable[[], None] = lambda: None,
        version: str | None = None,
    ) -> None:
        self._machine = machine
        self._endpoint = endpoint
        self._log = log
        self._scan_markers = scan_markers
        self._version = version

    def listening(self) -> AbstractAsyncContextManager[int]:
        """Listen for the duration of the block; yields the port."""
        return local_server(self._handle_connection)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        orderly = False
        try:
            orderly = await self._forward(reader, writer)
        finally:
            if orderly:
                writer.close()
            else:
                reset(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Forward both ways until the endpoint ends the connection; return whether it closed it in order."""
        host, port = self._endpoint.address
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(host, port, limit=LARGEST_HEAD)
        except OSError:
            return False
        exchange = _Exchange(self._machine, self._log, self._scan_markers, self._version)
        with closing(upstream_writer):
            async with in_background(exchange.requests(reader, upstream_writer)):
                return await exchange.responses(upstream_reader, writer)


class _Exchange:
    """One connection: the requests that wait for an answer, oldest first."""

    def __init__(
        self, machine: str, log: ObservationLog, scan_markers: Callable[[], None], version: str | None
    ) -> None:
        self._machine = machine
        self._log = log
        self._scan_markers = scan_markers
        self._version = version
        self._waiting = deque[tuple[int, str]]()

    async def requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward requests until the handler ends the connection."""
        with suppress(ConnectionError):
            while (head := await read_head(reader)) is not None:
                await self._request(head, reader, writer)
        # The handler has closed its side, so its open requests count as given up; their answers still go out.
        for number, _ in self._waiting:
            self._log.end_request(number)
        with suppress(OSError):
            writer.write_eof()

    async def _request(
        self, head: MessageHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # Markers that exist now were left before this request.
        self._scan_markers()
        method, target, _ = head.words
        request = Asked(machine=self._machine, begun=self._log.now(), method=method, target=target)
        number = self._log.add_request(request)
        self._waiting.append((number, method))
        writer.write(self._with_version(head.raw))
        body = await read_body(reader, head, otherwise="none")
        self._log.add_request_body(number, body.content)
        writer.write(body.raw)
        await writer.drain()

    def _with_version(self, raw: bytes) -> bytes:
        if self._version is None:
            return raw
        return _VERSION.sub(rb"\g<1>" + self._version.encode(), raw, count=1)

    async def responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Forward answers until the endpoint ends the connection; return whether it closed it in order."""
        try:
            while (head := await read_head(reader)) is not None:
                await self._response(head, reader, writer)
        except ConnectionError:
            return False
        finally:
            for number, _ in self._waiting:
                self._log.end_request(number)
        return True

    async def _response(
        self, head: MessageHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if 100 <= head.status < 200:
            writer.write(head.raw)
            return
        bodiless = head.status in {204, 304} or (bool(self._waiting) and self._waiting[0][1] == "HEAD")
        body = NO_BODY if bodiless else await read_body(reader, head, otherwise="rest")
        # Recorded before it is sent, so that the handler's reaction comes later in the log.
        if self._waiting:
            number, _ = self._waiting.popleft()
            self._log.add_answer(number, status=head.status, answer=body.content)
        writer.write(head.raw + body.raw)
        await writer.drain()
