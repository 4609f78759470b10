"""Guests with long polls, which wait for their document to change."""

import re
import time
from collections.abc import Sequence

from bench.load import PATIENCE, POLL, ClientConnection, ClientConnections, UnansweredError, waiting
from bench.measure import scheduler_seconds

_TAG = re.compile(rb'\r\netag: *("[^"]*")\r\n', re.IGNORECASE)
_SCHEDULED = re.compile(rb'"EventId":"([^"]+)","EventStatus":"Scheduled"')


class Guests:
    """Guests of one scope, each with a connection."""

    def __init__(self, connections: ClientConnections, sources: Sequence[str]) -> None:
        self._connections = connections
        self.all = connections.connect_all(sources)

    def wait(self) -> None:
        """Send a long poll for each guest."""
        request = waiting(tag(self._connections.answer(self.all[0], POLL)))
        for connection in self.all:
            connection.send(request)
        self._connections.start_waiting()

    def woken(self) -> list[float]:
        """Return when each guest was answered, earliest first."""
        return answered(self._connections, len(self.all))


def answered(connections: ClientConnections, count: int) -> list[float]:
    """Return when each of the next answers arrived, earliest first."""
    connections.start_waiting()
    times: list[float] = []
    while len(times) < count:
        for _ in connections.answers(1.0):
            times.append(time.monotonic())
    return times


def tag(answer: bytes) -> str:
    """Return the ETag of a document."""
    match = _TAG.search(answer)
    if match is None:
        raise UnansweredError("a document without an ETag")
    return match[1].decode()


def scheduled(answer: bytes) -> list[str]:
    """Return the ids of a document's scheduled events."""
    return [event.decode() for event in _SCHEDULED.findall(answer)]


def wait_again(connection: ClientConnection, answer: bytes) -> None:
    """Send another long poll after an answer."""
    connection.send(waiting(tag(answer)))


def at_rest(pid: int) -> None:
    """Return once a server uses no more CPU time."""
    end = time.monotonic() + PATIENCE
    used = -1.0
    while (now := scheduler_seconds(pid)) != used:
        if time.monotonic() > end:
            raise UnansweredError(f"process {pid} is never at rest")
        used = now
        time.sleep(0.1)
