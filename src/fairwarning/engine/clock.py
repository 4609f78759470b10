"""The only module, outside the agent, that reads the wall clock or makes random identifiers."""

import os
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from fairwarning.core.model import EventId, derive_id

#: Returns the seconds since this host was started, also those for which it was suspended. Polls read it, so
#: there is no function of our own around it.
uptime: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic
)


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """Return the current time, always in UTC."""
        ...


class SystemClock:
    """Real time."""

    def now(self) -> datetime:
        """Return the current time, always in UTC."""
        return datetime.now(UTC)


class ManualClock:
    """Time that moves only on command.

    Nothing sleeps under a manual clock: ``time_control`` moves it from deadline to deadline.
    """

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the current time, always in UTC."""
        return self._now

    def set(self, when: datetime) -> None:
        """Move to ``when``; a manual clock never goes back."""
        self._now = max(self._now, when)


def cpu_seconds() -> float:
    """Return the CPU time of the calling thread."""
    return time.thread_time()


def new_event_id() -> EventId:
    """Return a new random event id (V-09)."""
    return derive_id(os.urandom(16).hex())


def new_request_id() -> str:
    """Return a new random id of a request."""
    return f"{random.getrandbits(64):016x}"


def new_node_id() -> str:
    """Return a new random id of a node: different at every start of its process."""
    return f"{random.getrandbits(64):016x}"


def new_stamp() -> int:
    """Return a new random stamp of a batch: 63 bits, and never 0, the stamp of what does not exist."""
    return random.getrandbits(63) or 1


def new_secret() -> bytes:
    """Return a random key for signatures that are valid as long as the process runs."""
    return os.urandom(32)
