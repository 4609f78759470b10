"""How long it takes from starting a process until it has answered its first poll."""

import compileall
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.load import PATH
from bench.measure import scheduler_seconds
from bench.references import REFERENCES
from bench.report import Figure, Section, claim
from bench.servers import LOOPBACK, ROOT, appears, first_answer, free_port, module, process
from fairwarning.testing import fleet

MACHINES = 10
METADATA, OPERATOR = "metadata only", "fairwarning up, metadata and operator API"
EVERY_FACE = "fairwarning up, every face"
FIXTURE = "pytest fixture with three machines, after the first of the process"

_READING = (
    "Ratio = what the reference needs ÷ what we need: 1.00 is as quick as the reference, more is better."
)
_NOTES = (
    f"{MACHINES} machines; a client tries every millisecond.",
    "Our code is compiled beforehand, as installing it does.",
    "Metadata only is the engine, the memory store and the metadata face without the command line.",
    "fairwarning up has started when a machine's poll and the operator API's health check are both answered, "
    "and with every face once its ready file is there: then the management API answers too.",
)

#: The goals of contestants, by their names.
_GOALS: Mapping[str, str] = {METADATA: "G16a", EVERY_FACE: "G16b"}


@dataclass(frozen=True, slots=True)
class Start:
    """A command to be started, what it must answer at which offset from its port, and a file it writes."""

    command: Sequence[str]
    answers: Mapping[int, str]
    ready: Path | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """What it took until everything was answered, in seconds."""

    elapsed: float
    cpu: float


Starter = Callable[[int, Path], Start | None]


def suite(rounds: int) -> Section:
    """Start every contestant once per round, in turns."""
    found: dict[str, list[Started]] = {}
    for code in ("src", "bench"):
        compileall.compile_dir(ROOT / code, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "document.json")
        document.write_text("{}")
        for _ in range(rounds):
            for name, starter in CONTESTANTS.items():
                started = _time(starter, document)
                if started is not None:
                    found.setdefault(name, []).append(started)
    measured = section(found)
    return replace(measured, figures=(*measured.figures, fixture(rounds)))


def fixture(rounds: int) -> Figure:
    """Return how long a test waits for its fleet; the first of the process has modules to load."""
    took = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        with fleet(scale_set=3):
            took.append((time.perf_counter() - began) * 1e3)
    return Figure(name=FIXTURE, unit="ms", values=tuple(took[1:]))


def section(found: Mapping[str, Sequence[Started]]) -> Section:
    """Return what some rounds show."""
    elapsed = {
        name: Figure(
            name=name,
            unit="ms",
            values=tuple(one.elapsed * 1e3 for one in rounds),
            goal=_GOALS.get(name, ""),
        )
        for name, rounds in found.items()
    }
    cpu = {
        name: Figure(name=name, unit="ms CPU", values=tuple(one.cpu * 1e3 for one in rounds))
        for name, rounds in found.items()
    }
    return Section(
        title="start: process start to first answer",
        reading=_READING,
        claims=tuple(
            claim(f"{ours}: {what}", other.name, measured[other.name], measured[ours], measured[other.name])
            for what, measured in (("CPU", cpu), ("time", elapsed))
            for ours in (METADATA, OPERATOR)
            for other in REFERENCES
            if other.name in found
        ),
        figures=(*cpu.values(), *elapsed.values()),
        notes=_NOTES,
    )


def _time(starter: Starter, document: Path) -> Started | None:
    port = free_port()
    start = starter(port, document)
    if start is None:
        return None
    began = time.perf_counter()
    with process(start.command) as child:
        for offset, path in start.answers.items():
            first_answer(child, (LOOPBACK, port + offset), path)
        if start.ready is not None:
            appears(child, start.ready)
        return Started(time.perf_counter() - began, scheduler_seconds(child.pid))


def _reference(command: Callable[[int, Path], Sequence[str] | None]) -> Starter:
    def starter(port: int, document: Path) -> Start | None:
        words = command(port, document)
        return None if words is None else Start(words, {0: PATH})

    return starter


def _metadata(port: int, document: Path) -> Start:
    return Start(module("bench.server_under_test", port, 1, MACHINES), {0: PATH})


def _operator(port: int, document: Path) -> Start:
    words = ("up", "--scale-set", f"web={MACHINES}", "--port-base", port)
    return Start(module("fairwarning", *words), {1: PATH, 0: "/healthz"})


def _every_face(port: int, document: Path) -> Start:
    start = _operator(port, document)
    ready = document.with_name(f"ready-{port}.json")
    return replace(start, command=[*start.command, "--ready-file", str(ready)], ready=ready)


CONTESTANTS: Mapping[str, Starter] = {
    **{one.name: _reference(one.command) for one in REFERENCES},
    METADATA: _metadata,
    OPERATOR: _operator,
    EVERY_FACE: _every_face,
}
