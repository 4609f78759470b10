"""Whether a server grows during long use: mixed load for some time, then all guests disconnect.

Some guests poll at a fixed rate. Others wait, and approve each event they see. Machines of one set are
restarted all the time, and another set has one rollout after the other.
"""

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.controlled_server import ControlledServer, controlled_server, data
from bench.guests import at_rest, scheduled, wait_again
from bench.load import PATIENCE, POLL, ClientConnection, ClientConnections, approval
from bench.measure import cores, descriptors, memory, percentile, pinned
from bench.report import Figure, Section
from bench.servers import sources
from bench.steady import TimedPoll, background_polls

MACHINES = 100
RESTARTED, ROLLED_OUT, POLLED = range(3)
WATCHERS = 50
RATE = 500

#: The share of the time that is left out of growth: caches fill, SQLite's of 2 MB in five minutes.
WARM_UP = 0.5

_READING = "A server should be as large at the end as at the beginning."
_NOTES = (
    f"{RATE} polls a second, {2 * WATCHERS} waiting guests in two scopes, a restart every second, "
    "one rollout after the other in one scope; guests approve every event they see. The fleet is kept in "
    "SQLite.",
    f"Growth is the slope of memory over all seconds after the first {WARM_UP:.0%}, times their number.",
    "Descriptors are counted before the first guest connects and after the last has disconnected.",
)


@dataclass(frozen=True, slots=True)
class SoakResult:
    """The results: bytes of memory each second, counts of what guests did, polls, and surplus descriptors."""

    memory: Sequence[int]
    done: Counter[str]
    polls: Sequence[TimedPoll]
    left_open: int


class SoakGuests:
    """Guests that wait in two scopes and approve the events they see."""

    def __init__(
        self, server: ControlledServer, connections: ClientConnections, approving: ClientConnections
    ) -> None:
        self.done: Counter[str] = Counter()
        self._server = server
        self._connections = connections
        self._approving = approving
        self._approvers: dict[int, ClientConnection] = {}
        self._approved: set[str] = set()

    def connect(self) -> None:
        """Connect all guests, and let them wait."""
        for number in (RESTARTED, ROLLED_OUT):
            first = number * MACHINES
            (approver,) = self._approving.connect_all(sources([first]))
            for connection in self._connections.connect_all(sources(range(first, first + WATCHERS))):
                self._approvers[connection.fd] = approver
                wait_again(connection, self._connections.answer(connection, POLL))

    def run(self, seconds: float) -> None:
        """Cause events, and answer them for some seconds."""
        self.done["restarts"] += int(self._server.call("restart", RESTARTED))
        self.done["rollouts"] += int(self._server.call("rollout", ROLLED_OUT))
        self._connections.start_waiting()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for connection, answer in self._connections.answers(left):
                self.done["documents seen"] += 1
                self._approve(self._approvers[connection.fd], answer)
                wait_again(connection, answer)

    def _approve(self, approver: ClientConnection, answer: bytes) -> None:
        for event in scheduled(answer):
            if event not in self._approved:
                self._approved.add(event)
                self._approving.answer(approver, approval(event))
                self.done["approvals"] += 1


def suite(seconds: int, folder: Path) -> Section:
    """Load a server for some seconds; its fleet is kept below ``folder``."""
    folder.mkdir(exist_ok=True)
    with (
        TemporaryDirectory(dir=folder, prefix="soak-") as fresh,
        controlled_server(3, MACHINES, data(Path(fresh))) as server,
    ):
        return section(_soak(server, seconds))


def _soak(server: ControlledServer, seconds: int) -> SoakResult:
    at_rest(server.pid)
    base, sizes = descriptors(server.pid), []
    others = sources(range(POLLED * MACHINES, (POLLED + 1) * MACHINES))
    with (
        pinned(cores()[1]),
        ClientConnections(server.address) as connections,
        ClientConnections(server.address) as approving,
        background_polls(server.address, others, RATE, seconds) as polls,
    ):
        guests = SoakGuests(server, connections, approving)
        guests.connect()
        for _ in range(seconds):
            guests.run(1.0)
            sizes.append(memory(server.pid))
        timed_polls = polls()
    return SoakResult(sizes, guests.done, timed_polls, _left_open(server, base))


def _left_open(server: ControlledServer, base: int) -> int:
    """Return how many descriptors stay open after the time limits for slow guests."""
    end = time.monotonic() + 2 * PATIENCE
    while (left := descriptors(server.pid) - base) > 0 and time.monotonic() < end:
        time.sleep(0.05)
    return left


def section(result: SoakResult) -> Section:
    """Return the section of the report."""
    waits = [poll.waited * 1e3 for poll in result.polls]
    figures = (
        _figure("memory grown", "% of what it was when warm", growth(result.memory), "G20a"),
        _figure("descriptors left open", "descriptors", result.left_open, "G20b"),
        _figure("memory at the beginning", "MB", result.memory[0] / 1e6),
        _figure("memory when warm", "MB", _warm(result.memory)[0] / 1e6),
        _figure("memory at the end", "MB", result.memory[-1] / 1e6),
        _figure("polls", "answered", len(waits)),
        _figure("polls, p99", "ms", percentile(waits, 0.99)),
        *(_figure(name, "in all", number) for name, number in result.done.items()),
    )
    return Section(
        title=f"soak: {len(result.memory)} seconds of mixed load",
        reading=_READING,
        claims=(),
        figures=figures,
        notes=_NOTES,
    )


def growth(sizes: Sequence[int]) -> float:
    """Return the growth of memory in per cent after the warm-up; 0 if memory shrank."""
    warm = _warm(sizes)
    slope = statistics.linear_regression(range(len(warm)), warm).slope
    return max(slope * len(warm) / warm[0] * 100, 0.0)


def _warm(sizes: Sequence[int]) -> Sequence[int]:
    return sizes[int(len(sizes) * WARM_UP) :]


def _figure(name: str, unit: str, value: float, goal: str = "") -> Figure:
    return Figure(name=name, unit=unit, values=(float(value),), goal=goal)
