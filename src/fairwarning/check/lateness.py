"""Measures how late this machine runs while scenarios run.

A handler that has no processor, or whose request waits in a check that has none, misses its deadlines through
no fault of its own. A timer alone does not show that: a process that mostly sleeps is woken first, even on a
machine with ten times more work than processors. So the watch does what a handler does, which is to sleep and
then to work a little, again and again. Such a pulse is late by the time that it took beyond its sleep and
beyond the processor time that it used. The lateness of a scenario is the greatest sum over any five seconds,
which is the shortest time that a standard scenario gives a handler.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from fairwarning.engine.clock import cpu_seconds

#: A pulse sleeps and works for this long.
SLEEP, WORK = timedelta(milliseconds=200), timedelta(milliseconds=10)

#: Lateness is added up over any period of this length.
PERIOD = timedelta(seconds=5)

#: More lateness than this in a period can explain why a handler missed a deadline. It takes a halt of this
#: length, or about six times more work than processors.
TOO_LATE = timedelta(seconds=1.5)

#: Hashing this much needs a fraction of a millisecond, in which other threads may run.
_BLOCK = bytes(64 * 1024)


@dataclass(frozen=True, slots=True)
class Pulse:
    """A sleep and some work, and by how much they took too long."""

    begun: timedelta
    ended: timedelta
    late: timedelta


def greatest_lateness(pulses: Iterable[Pulse], since: timedelta, until: timedelta) -> timedelta:
    """Return the greatest lateness in any period between two moments."""
    greatest = timedelta(0)
    period: list[Pulse] = []
    for pulse in pulses:
        if pulse.ended > since and pulse.begun < until:
            period = [other for other in period if other.ended > pulse.ended - PERIOD]
            period.append(pulse)
            greatest = max(greatest, sum((other.late for other in period), timedelta(0)))
    return greatest


class LatenessWatch:
    """Pulses, one after the other."""

    def __init__(self) -> None:
        self._pulses: list[Pulse] = []
        #: When the pulse that is not over has begun.
        self._begun: timedelta | None = None

    async def run(self) -> None:
        """Make pulses for ever."""
        while True:
            self._begun = now()
            worked = await asyncio.to_thread(_work)
            await asyncio.sleep(SLEEP.total_seconds())
            self._pulses.append(_pulse(self._begun, worked))

    def lateness(self, since: timedelta, until: timedelta) -> timedelta:
        """Return the greatest lateness in any period between two moments, in the time of ``now``."""
        # A scenario may end while the machine stands still.
        unfinished = () if self._begun is None else (_pulse(self._begun, WORK),)
        return greatest_lateness((*self._pulses, *unfinished), since, until)


def now() -> timedelta:
    """Return the time of the running event loop."""
    return timedelta(seconds=asyncio.get_running_loop().time())


def _pulse(begun: timedelta, worked: timedelta) -> Pulse:
    ended = now()
    return Pulse(begun, ended, max(ended - begun - worked - SLEEP, timedelta(0)))


def _work() -> timedelta:
    begun = cpu_seconds()
    while (used := timedelta(seconds=cpu_seconds() - begun)) < WORK:
        sha256(_BLOCK).digest()
    return used
