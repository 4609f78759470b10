"""Answers that last: live feeds and live pages, of which there are only so many at a time.

Below the HTTP rooms, so that the operator API and the console count theirs together. Who does not read what
they are sent is cut off by the listener, which sees it.
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

#: How often all of them together are written to in a second, so that the server has time for its guests.
WRITES = 2000


class TooManyStreamsError(FairWarningError):
    """As many live feeds and pages are open as the server keeps."""

    status_hint = 503

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} live feeds and pages are open, as many as are served at a time; close some")
        self.most = most


class Streams:
    """Counts the answers that last, and refuses one too many."""

    def __init__(self, most: int = sys.maxsize) -> None:
        self.most = most
        self.open = 0
        self.refused = 0

    @property
    def pace(self) -> timedelta:
        """How long each of them waits after it has written: the longer, the more there are."""
        return timedelta(seconds=self.open / WRITES)

    def stream(self, messages: AsyncGenerator[bytes, None]) -> ASGIApp:
        """Return an answer that lasts as long as there are messages and somebody reads them.

        Raises:
            TooManyStreamsError: there are as many as there may be.
        """
        if self.open >= self.most:
            self.refused += 1
            raise TooManyStreamsError(self.most)
        return _Stream(self, messages)

    def families(self) -> Iterator[MetricFamily]:
        """Return the numbers as monitoring reads them."""
        yield MetricFamily(
            "fairwarning_streams", MetricType.GAUGE, "Live feeds and pages", (Sample(self.open),)
        )
        refused = "Live feeds and pages refused because there were too many"
        yield MetricFamily(
            "fairwarning_streams_refused_total", MetricType.COUNTER, refused, (Sample(self.refused),)
        )


class _Stream:
    def __init__(self, streams: Streams, messages: AsyncGenerator[bytes, None]) -> None:
        self._streams = streams
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is; what feeds it is closed with it, however it ends."""
        self._streams.open += 1
        try:
            async with aclosing(self._messages):
                await StreamingResponse(self._messages, media_type=EVENT_STREAM)(scope, receive, send)
        finally:
            self._streams.open -= 1
