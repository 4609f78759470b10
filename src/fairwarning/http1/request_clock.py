"""The time of a request: the clocks are read once for everything that one loop iteration serves."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fairwarning.formats.timestamps import http_date

_SECOND = timedelta(seconds=1)


class Moment(NamedTuple):
    """One reading of the clocks."""

    #: Seconds of the event loop.
    time: float
    #: The time of day that responses show.
    now: datetime
    #: The ``Date`` header line for ``now``.
    date: bytes


class RequestClock:
    """Reads the clocks, and formats the ``Date`` header line once a second."""

    def __init__(self, time: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._time = time
        self._now = now
        self._second = self._next = datetime.min.replace(tzinfo=UTC)
        self._date = b""
        self._iteration: Moment | None = None

    def moment(self) -> Moment:
        """Read the clocks."""
        now = self._now()
        if not self._second <= now < self._next:
            self._second = now.replace(microsecond=0)
            self._next = self._second + _SECOND
            self._date = _date_line(self._second)
        return Moment(self._time(), now, self._date)

    def iteration_moment(self) -> Moment:
        """Return the moment of the current loop iteration; its first call reads the clocks."""
        if self._iteration is None:
            self._iteration = self.moment()
            asyncio.get_running_loop().call_soon(self._end_iteration)
        return self._iteration

    def _end_iteration(self) -> None:
        self._iteration = None


def _date_line(now: datetime) -> bytes:
    return f"Date: {http_date(now)}\r\n".encode("latin-1")
