"""Whether a server that is used for long grows: everything at once, and afterwards everybody hangs up.

Some guests poll at a fixed rate; others wait, and approve whatever they see; machines of one set are
restarted all the time, and maintenance walks through another, again and again.
"""

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.faces import Face, data, face
from bench.guests import at_rest, scheduled, wait_again
from bench.load import PATIENCE, POLL, Line, Lines, approval
from bench.measure import cores, descriptors, memory, percentile, pinned
from bench.report import Figure, Section
from bench.servers import sources
from bench.steady import Asked, beside

MACHINES = 100
RESTARTED, WALKED, POLLED = range(3)
WATCHERS = 50
RATE = 500

#: How much of the time passes before growth is looked for: caches fill, SQLite's of 2 MB in five minutes.
WARM_UP = 0.5

_READING = "A server in use should be as large at the end as at the beginning."
_NOTES = (
    f"{RATE} polls a second, {2 * WATCHERS} waiting guests in two scopes, a restart every second, "
    "maintenance walking through one scope without end; guests approve every event they see. The fleet is "
    "kept in SQLite.",
    f"Growth is the slope of memory over all seconds after the first {WARM_UP:.0%}, times their number.",
    "Descriptors are counted before the first guest calls and after the last has hung up.",
)


@dataclass(frozen=True, slots=True)
class Soaked:
    """What was seen: bytes of memory every second, what guests did, their polls, and descriptors too many."""

    memory: Sequence[int]
    done: Counter[str]
    polls: Sequence[Asked]
    left_open: int


class Town:
    """Guests that wait in two scopes and approve what they see."""

    def __init__(self, server: Face, lines: Lines, desk: Lines) -> None:
        self.done: Counter[str] = Counter()
        self._server = server
        self._lines = lines
        self._desk = desk
        self._approvers: dict[int, Line] = {}
        self._approved: set[str] = set()

    def move_in(self) -> None:
        """Let everybody wait."""
        for number in (RESTARTED, WALKED):
            first = number * MACHINES
            (approver,) = self._desk.welcomed(sources([first]))
            for line in self._lines.welcomed(sources(range(first, first + WATCHERS))):
                self._approvers[line.fd] = approver
                wait_again(line, self._lines.answer(line, POLL))

    def live(self, seconds: float) -> None:
        """Let time pass."""
        self.done["restarts"] += int(self._server.ask("announce", RESTARTED))
        self.done["walks"] += int(self._server.ask("walk", WALKED))
        self._lines.expect()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for line, answer in self._lines.answers(left):
                self.done["documents seen"] += 1
                self._approve(self._approvers[line.fd], answer)
                wait_again(line, answer)

    def _approve(self, approver: Line, answer: bytes) -> None:
        for event in scheduled(answer):
            if event not in self._approved:
                self._approved.add(event)
                self._desk.answer(approver, approval(event))
                self.done["approvals"] += 1


def suite(seconds: int, folder: Path) -> Section:
    """Use a server whose fleet is kept below ``folder`` for some seconds."""
    folder.mkdir(exist_ok=True)
    with (
        TemporaryDirectory(dir=folder, prefix="soak-") as fresh,
        face(3, MACHINES, data(Path(fresh))) as server,
    ):
        return section(_soak(server, seconds))


def _soak(server: Face, seconds: int) -> Soaked:
    at_rest(server.pid)
    base, sizes = descriptors(server.pid), []
    others = sources(range(POLLED * MACHINES, (POLLED + 1) * MACHINES))
    with (
        pinned(cores()[1]),
        Lines(server.address) as lines,
        Lines(server.address) as desk,
        beside(server.address, others, RATE, seconds) as polls,
    ):
        town = Town(server, lines, desk)
        town.move_in()
        for _ in range(seconds):
            town.live(1.0)
            sizes.append(memory(server.pid))
        asked = polls()
    return Soaked(sizes, town.done, asked, _left_open(server, base))


def _left_open(server: Face, base: int) -> int:
    """Return how many descriptors stay open, once even those are given up whose guests may only be slow."""
    end = time.monotonic() + 2 * PATIENCE
    while (left := descriptors(server.pid) - base) > 0 and time.monotonic() < end:
        time.sleep(0.05)
    return left


def section(found: Soaked) -> Section:
    """Return what was seen."""
    waits = [one.waited * 1e3 for one in found.polls]
    figures = (
        _figure("memory grown", "% of what it was when warm", growth(found.memory), "G20a"),
        _figure("descriptors left open", "descriptors", found.left_open, "G20b"),
        _figure("memory at the beginning", "MB", found.memory[0] / 1e6),
        _figure("memory when warm", "MB", _warm(found.memory)[0] / 1e6),
        _figure("memory at the end", "MB", found.memory[-1] / 1e6),
        _figure("polls", "answered", len(waits)),
        _figure("polls, p99", "ms", percentile(waits, 0.99)),
        *(_figure(name, "in all", number) for name, number in found.done.items()),
    )
    return Section(
        title=f"soak: {len(found.memory)} seconds of everything",
        reading=_READING,
        claims=(),
        figures=figures,
        notes=_NOTES,
    )


def growth(sizes: Sequence[int]) -> float:
    """Return by how many per cent memory grew, once warm; what shrank did not grow."""
    warm = _warm(sizes)
    slope = statistics.linear_regression(range(len(warm)), warm).slope
    return max(slope * len(warm) / warm[0] * 100, 0.0)


def _warm(sizes: Sequence[int]) -> Sequence[int]:
    return sizes[int(len(sizes) * WARM_UP) :]


def _figure(name: str, unit: str, value: float, goal: str = "") -> Figure:
    return Figure(name=name, unit=unit, values=(float(value),), goal=goal)
