"""The only module that reads a clock or makes identifiers."""

import os
import time
from datetime import UTC, datetime
from typing import Protocol

from fairwarning.core.model import EventId, derive_id


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the current time, always in UTC."""
        ...


class SystemClock:
    """Real time."""

    def now(self) -> datetime:
        """Return the current time, always in UTC."""
        return datetime.now(UTC)


class ManualClock:
    """Time that moves only when told to.

    With manual time nobody sleeps: ``travel`` walks from deadline to deadline.
    """

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the current time, always in UTC."""
        return self._now

    def set(self, when: datetime) -> None:
        """Move to ``when``; time never goes back."""
        self._now = max(self._now, when)


def cpu_seconds() -> float:
    """Return how long the calling thread has been computing."""
    return time.thread_time()


def new_event_id() -> EventId:
    """Return a fresh id in the shape guests expect (V-09)."""
    return derive_id(os.urandom(16).hex())


def new_secret() -> bytes:
    """Return what nobody can guess, to sign with for as long as a process lasts."""
    return os.urandom(32)
