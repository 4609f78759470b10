"""Responses without an end (live feeds and live pages), and the limit on how many are open.

This module is below the operator API and the console, so that both count their streams together. The
listener closes the connection of a client that does not read its stream.
"""

import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import timedelta

from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fairwarning.core.errors import FairWarningError
from fairwarning.formats.prometheus import MetricFamily, MetricType, Sample

EVENT_STREAM = "text/event-stream"

#: Writes per second to all streams together, so that the server has time for its guests.
MAX_WRITES_PER_SECOND = 2000


class TooManyStreamsError(FairWarningError):
    """The limit of open streams is reached."""

    status_hint = 503
    retry_after = "5"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} live feeds and pages are open, which is the limit; close one first")
        self.limit = limit


class Streams:
    """Counts the open streams, and refuses more than ``limit``."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.open = 0
        self.refused = 0

    @property
    def write_interval(self) -> timedelta:
        """How long each stream waits between two writes; it grows with the number of streams."""
        return timedelta(seconds=self.open / MAX_WRITES_PER_SECOND)

    def stream(self, messages: AsyncGenerator[bytes, None]) -> ASGIApp:
        """Return a response that lasts until the messages end or the client disconnects.

        Raises:
            TooManyStreamsError: the limit is reached.
        """
        if self.open >= self.limit:
            self.refused += 1
            raise TooManyStreamsError(self.limit)
        return _Stream(self, messages)

    def families(self) -> Iterator[MetricFamily]:
        """Return the metric families."""
        yield MetricFamily(
            "fairwarning_streams", MetricType.GAUGE, "Open live feeds and pages.", (Sample(self.open),)
        )
        refused = "Live feeds and pages refused because of the limit."
        yield MetricFamily(
            "fairwarning_streams_refused_total", MetricType.COUNTER, refused, (Sample(self.refused),)
        )


class _Stream:
    def __init__(self, streams: Streams, messages: AsyncGenerator[bytes, None]) -> None:
        self._streams = streams
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the messages; their generator is closed however the response ends."""
        self._streams.open += 1
        try:
            async with aclosing(self._messages):
                await StreamingResponse(self._messages, media_type=EVENT_STREAM)(scope, receive, send)
        finally:
            self._streams.open -= 1
