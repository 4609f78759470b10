"""An open-loop load: polls are sent at fixed instants, whatever becomes of those before.

Each is timed from the instant at which it was due, so a server that falls behind cannot hide it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.load import POLL, Address, Line, Lines


@dataclass(frozen=True, slots=True)
class Asked:
    """One poll: when it was due, by the clock that all processes share, and how long its answer took."""

    due: float
    waited: float


def _nobody() -> None:
    """Tell nobody."""


def steady(
    address: Address,
    sources: Sequence[str],
    rate: float,
    seconds: float,
    ready: Callable[[], None] = _nobody,
    *,
    fresh: bool = False,
) -> list[Asked]:
    """Poll ``rate`` times a second, from each source in turn; ``ready`` is told once all are connected.

    With ``fresh``, every second poll comes on a new connection.
    """
    found: list[Asked] = []
    total = int(rate * seconds)
    with Lines(address) as lines:
        idle = deque(lines.welcomed(sources))
        ready()
        due: dict[int, float] = {}
        unsent: list[Line] = []
        begin, sent = time.monotonic(), 0
        while len(found) < total:
            now = time.monotonic()
            while sent < total and idle and begin + sent / rate <= now:
                line = idle.popleft()
                if fresh and sent % 2:
                    line = lines.again(line)
                due[line.fd] = begin + sent / rate
                sent += 1
                unsent.append(line)
            unsent = [line for line in unsent if not _asked(line)]
            free = idle and sent < total
            pause = _whole_milliseconds(begin + sent / rate - now) if free else 1.0
            for line, _ in lines.answers(0.001 if unsent else pause):
                asked = due.pop(line.fd)
                found.append(Asked(asked, time.monotonic() - asked))
                idle.append(line)
    return found


def _asked(line: Line) -> bool:
    """Poll, unless a server whose queue is full has not let the line in yet."""
    try:
        line.ask(POLL)
    except BlockingIOError:
        return False
    return True


def _whole_milliseconds(seconds: float) -> float:
    """Round down to what epoll counts in; what is left is less than it is worth sleeping for."""
    return max(int(seconds * 1000), 0) / 1000


@contextmanager
def beside(
    address: Address, sources: Sequence[str], rate: float, seconds: float
) -> Iterator[Callable[[], list[Asked]]]:
    """Poll from another process, which has begun when the block does; give what waits for its polls."""
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_tell, args=(theirs, address, sources, rate, seconds))
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield lambda: _told(ours)
    finally:
        process.kill()
        process.join()
        ours.close()


def _tell(
    pipe: "Connection[list[Asked] | None, None]",
    address: Address,
    sources: Sequence[str],
    rate: float,
    seconds: float,
) -> None:
    pipe.send(steady(address, sources, rate, seconds, ready=lambda: pipe.send(None)))


def _told(pipe: "Connection[None, list[Asked] | None]") -> list[Asked]:
    polls = pipe.recv()
    assert polls is not None
    return polls
