"""The clock of the agent; no other module of the agent reads the time or sleeps."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class AgentClock(Protocol):
    """A clock; tests have their own."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...

    def elapsed(self) -> timedelta:
        """Return a monotonic time, for measuring."""
        ...

    def wait(self, length: timedelta, until: threading.Event | None = None) -> None:
        """Return after ``length``, or as soon as ``until`` is set."""
        ...


class AgentSystemClock:
    """The clock of the system."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        """Return the monotonic time of the system."""
        return timedelta(seconds=time.monotonic())

    def wait(self, length: timedelta, until: threading.Event | None = None) -> None:
        """Sleep, unless ``until`` is set before the time is over."""
        seconds = max(length.total_seconds(), 0.0)
        if until is None:
            time.sleep(seconds)
        else:
            until.wait(seconds)
