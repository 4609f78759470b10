"""Guests that wait for their document to change, and what they do once it has."""

import re
import time
from collections.abc import Sequence

from bench.load import PATIENCE, POLL, Line, Lines, Unanswered, waiting
from bench.measure import scheduler_seconds

_TAG = re.compile(rb'\r\netag: *("[^"]*")\r\n', re.IGNORECASE)
_SCHEDULED = re.compile(rb'"EventId":"([^"]+)","EventStatus":"Scheduled"')


class Guests:
    """Callers of one scope, all of them waiting."""

    def __init__(self, lines: Lines, sources: Sequence[str]) -> None:
        self._lines = lines
        self.all = lines.welcomed(sources)

    def wait(self) -> None:
        """Let everybody wait for the next document."""
        request = waiting(tag(self._lines.answer(self.all[0], POLL)))
        for line in self.all:
            line.ask(request)
        self._lines.expect()

    def woken(self) -> list[float]:
        """Return when each of those who wait was answered, earliest first."""
        return answered(self._lines, len(self.all))


def answered(lines: Lines, count: int) -> list[float]:
    """Return when each of the next answers came, earliest first."""
    lines.expect()
    found: list[float] = []
    while len(found) < count:
        for _ in lines.answers(1.0):
            found.append(time.monotonic())
    return found


def tag(answer: bytes) -> str:
    """Return what a guest has to say to wait for another document than this one."""
    found = _TAG.search(answer)
    if found is None:
        raise Unanswered("a document without an ETag")
    return found[1].decode()


def scheduled(answer: bytes) -> list[str]:
    """Return the events of a document that can still be approved."""
    return [one.decode() for one in _SCHEDULED.findall(answer)]


def wait_again(line: Line, answer: bytes) -> None:
    """Let a guest that was answered wait for the next document."""
    line.ask(waiting(tag(answer)))


def at_rest(pid: int) -> None:
    """Return once a server has done everything that reached it."""
    end = time.monotonic() + PATIENCE
    used = -1.0
    while (now := scheduler_seconds(pid)) != used:
        if time.monotonic() > end:
            raise Unanswered(f"process {pid} is never at rest")
        used = now
        time.sleep(0.1)
