"""What time it is, to whoever reads and answers: the clocks are read once for all that is done in one go."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fairwarning.formats.timestamps import http_date

_SECOND = timedelta(seconds=1)


class Moment(NamedTuple):
    """One reading of the clocks, good for all that is read and answered in one go."""

    #: Seconds of the event loop.
    time: float
    #: The fleet's own time.
    now: datetime
    #: The header line that tells it.
    date: bytes


class RequestClock:
    """Reads the clocks; writes the date once a second."""

    def __init__(self, time: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._time = time
        self._now = now
        self._second = self._next = datetime.min.replace(tzinfo=UTC)
        self._date = b""
        self._this_turn: Moment | None = None

    def moment(self) -> Moment:
        """Return what time it is."""
        now = self._now()
        if not self._second <= now < self._next:
            self._second = now.replace(microsecond=0)
            self._next = self._second + _SECOND
            self._date = _date_line(self._second)
        return Moment(self._time(), now, self._date)

    def this_turn(self) -> Moment:
        """Return what time it was when this was first asked in this turn of the loop."""
        if self._this_turn is None:
            self._this_turn = self.moment()
            asyncio.get_running_loop().call_soon(self._turn)
        return self._this_turn

    def _turn(self) -> None:
        self._this_turn = None


def _date_line(now: datetime) -> bytes:
    return f"Date: {http_date(now)}\r\n".encode("latin-1")
