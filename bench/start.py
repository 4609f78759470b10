"""The time from starting a process to its first answered poll."""

import compileall
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from bench.load import PATH
from bench.measure import scheduler_seconds
from bench.references import REFERENCES
from bench.report import Figure, Section, claim
from bench.servers import LOOPBACK, ROOT, appears, first_answer, free_port, module, process
from fairwarning.testing import fleet

MACHINES = 10
METADATA, OPERATOR = "metadata only", "fairwarning up, metadata and operator API"
ALL_APIS = "fairwarning up, all APIs"
FIXTURE = "pytest fixture with three machines, after the first of the process"
#: A fixture takes so little that a round measures several.
FLEETS = 20

_READING = (
    "Ratio = time or CPU of the reference ÷ that of our server: 1.00 is as quick as the reference, more is "
    "better."
)
_NOTES = (
    f"{MACHINES} machines; a client tries every millisecond.",
    "Our code is compiled beforehand, as an installation does.",
    "Metadata only is the engine, the memory store and the metadata API without the command line.",
    "fairwarning up has started when a machine's poll and the operator API's health check are both answered, "
    "and with all APIs once its ready file exists: then the management API answers too.",
)

#: The goals of our servers, by name.
_GOALS: Mapping[str, str] = {METADATA: "G16a", ALL_APIS: "G16b"}


@dataclass(frozen=True, slots=True)
class Start:
    """A command, the paths it must answer by offset from its port, and the ready file it writes."""

    command: Sequence[str]
    answers: Mapping[int, str]
    ready: Path | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The time and CPU until everything was answered, in seconds."""

    elapsed: float
    cpu: float


Starter = Callable[[int, Path], Start | None]


def suite(rounds: int) -> Section:
    """Start each server once per round, in turns."""
    starts: dict[str, list[Started]] = {}
    for code in ("src", "bench"):
        compileall.compile_dir(ROOT / code, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "document.json")
        document.write_text("{}")
        for _ in range(rounds):
            for name, starter in STARTERS.items():
                started = _time(starter, document)
                if started is not None:
                    starts.setdefault(name, []).append(started)
    measured = section(starts)
    return replace(measured, figures=(*measured.figures, *fixture(rounds)))


def fixture(rounds: int) -> tuple[Figure, ...]:
    """Return how long a test waits for its fleet, without the first one, which imports modules."""
    with fleet(scale_set=3):
        pass
    times, cpu = [], []
    for _ in range(rounds * FLEETS):
        began, used = time.perf_counter(), time.process_time()
        with fleet(scale_set=3):
            times.append((time.perf_counter() - began) * 1e3)
            cpu.append((time.process_time() - used) * 1e3)
    return (
        Figure(name=FIXTURE, unit="ms CPU", values=_averages(cpu)),
        Figure(name=FIXTURE, unit="ms", values=_averages(times)),
    )


def _averages(values: Sequence[float]) -> tuple[float, ...]:
    """Return the averages of the fleets of each round."""
    return tuple(fmean(values[begin : begin + FLEETS]) for begin in range(0, len(values), FLEETS))


def section(starts: Mapping[str, Sequence[Started]]) -> Section:
    """Return the section of the report."""
    elapsed = {
        name: Figure(
            name=name,
            unit="ms",
            values=tuple(start.elapsed * 1e3 for start in rounds),
            goal=_GOALS.get(name, ""),
        )
        for name, rounds in starts.items()
    }
    cpu = {
        name: Figure(name=name, unit="ms CPU", values=tuple(start.cpu * 1e3 for start in rounds))
        for name, rounds in starts.items()
    }
    return Section(
        title="start: process start to first answer",
        reading=_READING,
        claims=tuple(
            claim(f"{ours}: {what}", other.name, measured[other.name], measured[ours], measured[other.name])
            for what, measured in (("CPU", cpu), ("time", elapsed))
            for ours in (METADATA, OPERATOR)
            for other in REFERENCES
            if other.name in starts
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


def _all_apis(port: int, document: Path) -> Start:
    start = _operator(port, document)
    ready = document.with_name(f"ready-{port}.json")
    return replace(start, command=[*start.command, "--ready-file", str(ready)], ready=ready)


STARTERS: Mapping[str, Starter] = {
    **{reference.name: _reference(reference.command) for reference in REFERENCES},
    METADATA: _metadata,
    OPERATOR: _operator,
    ALL_APIS: _all_apis,
}
