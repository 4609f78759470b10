"""The only place in the agent that reads a clock or waits for one."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class AgentClock(Protocol):
    """Tells the time; tests bring their own."""

    def now(self) -> datetime:
        """Return the instant on the wall, in UTC."""
        ...

    def elapsed(self) -> timedelta:
        """Return a reading that only ever grows, for measuring."""
        ...

    def wait(self, length: timedelta, until: threading.Event | None = None) -> None:
        """Return after ``length``, or as soon as ``until`` is set."""
        ...


class AgentSystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the instant on the wall, in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        """Return how long the machine has been up, or some such."""
        return timedelta(seconds=time.monotonic())

    def wait(self, length: timedelta, until: threading.Event | None = None) -> None:
        """Sleep, unless ``until`` is set before the time is over."""
        seconds = max(length.total_seconds(), 0.0)
        if until is None:
            time.sleep(seconds)
        else:
            until.wait(seconds)
