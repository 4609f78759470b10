"""An open-loop load: polls are sent at fixed instants, whether or not earlier ones were answered.

Each poll is timed from the instant at which it was due, so a server that falls behind cannot hide it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.load import POLL, Address, ClientConnection, ClientConnections


@dataclass(frozen=True, slots=True)
class TimedPoll:
    """One poll: when it was due on the monotonic clock, and how long its answer took."""

    due: float
    waited: float


def _ignore() -> None:
    """Do nothing."""


def steady(
    address: Address,
    sources: Sequence[str],
    rate: float,
    seconds: float,
    ready: Callable[[], None] = _ignore,
    *,
    fresh: bool = False,
) -> list[TimedPoll]:
    """Poll ``rate`` times a second, from each source in turn; call ``ready`` once all are connected.

    With ``fresh``, every second poll uses a new connection.
    """
    polls: list[TimedPoll] = []
    total = int(rate * seconds)
    with ClientConnections(address) as connections:
        idle = deque(connections.connect_all(sources))
        ready()
        due: dict[int, float] = {}
        unsent: list[ClientConnection] = []
        begin, sent = time.monotonic(), 0
        while len(polls) < total:
            now = time.monotonic()
            while sent < total and idle and begin + sent / rate <= now:
                connection = idle.popleft()
                if fresh and sent % 2:
                    connection = connections.reconnect(connection)
                due[connection.fd] = begin + sent / rate
                sent += 1
                unsent.append(connection)
            unsent = [connection for connection in unsent if not _send_poll(connection)]
            free = idle and sent < total
            pause = _whole_milliseconds(begin + sent / rate - now) if free else 1.0
            for connection, _ in connections.answers(0.001 if unsent else pause):
                due_at = due.pop(connection.fd)
                polls.append(TimedPoll(due_at, time.monotonic() - due_at))
                idle.append(connection)
    return polls


def _send_poll(connection: ClientConnection) -> bool:
    """Send a poll; return False if the server has not accepted the connection yet."""
    try:
        connection.send(POLL)
    except BlockingIOError:
        return False
    return True


def _whole_milliseconds(seconds: float) -> float:
    """Round down to the resolution of epoll, and not below zero."""
    return max(int(seconds * 1000), 0) / 1000


@contextmanager
def background_polls(
    address: Address, sources: Sequence[str], rate: float, seconds: float
) -> Iterator[Callable[[], list[TimedPoll]]]:
    """Poll from another process during the block; give a function that waits for its polls."""
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_poll_and_send, args=(theirs, address, sources, rate, seconds))
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield lambda: _receive(ours)
    finally:
        process.kill()
        process.join()
        ours.close()


def _poll_and_send(
    pipe: "Connection[list[TimedPoll] | None, None]",
    address: Address,
    sources: Sequence[str],
    rate: float,
    seconds: float,
) -> None:
    pipe.send(steady(address, sources, rate, seconds, ready=lambda: pipe.send(None)))


def _receive(pipe: "Connection[None, list[TimedPoll] | None]") -> list[TimedPoll]:
    polls = pipe.recv()
    assert polls is not None
    return polls
