"""Measures this checkout and another one in alternating rounds, and compares them.

On a noisy machine the noise changes faster than the rounds alternate. With ``turn``, both checkouts measure
at the same time, and in turns of a fraction of a second one of them is stopped with all its servers: whatever
slows the machine slows both. Only CPU and memory are compared then: time passes for a stopped process, too.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from bench.measure import family, ratios, spread
from bench.report import show, table
from bench.servers import ROOT

#: Runs one suite in a new process and writes its results.
_ONCE = """\
import json, sys
from datetime import UTC, datetime
from bench import report, run
if __name__ == "__main__":
    json.dump(report.data([run.SUITES[sys.argv[1]](True)], {}, datetime.now(UTC)), open(sys.argv[2], "w"))
"""

#: What a stopped process does not add to: units of CPU, and of memory.
_UNITS_IN_TURNS = ("CPU", "B")

#: One value per round, by suite, name, reference or unit, and goal.
Medians = dict[tuple[str, str, str, str], list[float]]

Process: TypeAlias = "subprocess.Popen[bytes]"

#: The results of a suite.
Results = Mapping[str, list[Mapping[str, object]]]


def compare(suites: Sequence[str], other: Path, rounds: int, turn: float | None = None) -> str:
    """Return a table of everything that both checkouts measured, with the ratio of each round."""
    medians: dict[Path, Medians] = {other: {}, ROOT: {}}
    for number in range(rounds):
        for suite in suites:
            print(f"bench: round {number + 1} of {rounds}, {suite} …", file=sys.stderr)
            checkouts = (other, ROOT) if number % 2 else (ROOT, other)
            results = _both(suite, checkouts, turn)
            for checkout, section in zip(checkouts, results, strict=True):
                for key, value in _measured(suite, section, in_turns=turn is not None):
                    medians[checkout].setdefault(key, []).append(value)
    header = ("suite", "what", "against or unit", "goal", "before", "after", "after ÷ before")
    return table(header, rows(medians[other], medians[ROOT]))


def _both(suite: str, checkouts: Sequence[Path], turn: float | None) -> list[Results]:
    """Run a suite with the code of each checkout: one after the other, or in turns of some seconds."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        script = Path(folder, "once.py")
        script.write_text(_ONCE)
        files = [Path(folder, f"{number}.json") for number, _ in enumerate(checkouts)]
        started = []
        for checkout, file in zip(checkouts, files, strict=True):
            child = stack.enter_context(_started([sys.executable, script, suite, file], suite, checkout))
            started.append(child)
            if turn is None:
                child.wait()
        if turn is not None:
            take_turns(started, turn)
        for child in started:
            if child.returncode:
                raise subprocess.CalledProcessError(child.returncode, child.args)
        return [json.loads(file.read_text())["suites"][0] for file in files]


@contextmanager
def _started(command: Sequence[str | Path], suite: str, checkout: Path) -> Iterator[Process]:
    """Start a suite with the code of a checkout, and with its bench if that has the suite."""
    bench = checkout if (checkout / "bench" / f"{suite}.py").exists() else ROOT
    path = os.pathsep.join(map(str, (checkout / "src", bench)))
    # The suite starts modules of its own from its working directory.
    child = subprocess.Popen(command, cwd=bench, env={**os.environ, "PYTHONPATH": path})
    try:
        yield child
    finally:
        if child.poll() is None:
            _signal(child, signal.SIGCONT)
            child.send_signal(signal.SIGINT)  # so that it ends its servers
            child.wait()


def take_turns(processes: Sequence[Process], seconds: float) -> None:
    """Let processes run until all have ended: one at a time, while the others and their descendants stop."""
    for process in processes:
        _signal(process, signal.SIGSTOP)
    while running := [process for process in processes if process.poll() is None]:
        for process in running:
            _signal(process, signal.SIGCONT)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGSTOP)


def _signal(process: Process, number: signal.Signals) -> None:
    for member in family(process.pid):
        with suppress(ProcessLookupError):
            os.kill(member, number)


def _measured(
    suite: str, section: Results, *, in_turns: bool
) -> Iterator[tuple[tuple[str, str, str, str], float]]:
    for kind, scale in (("claims", "against"), ("figures", "unit")):
        for result in section[kind]:
            name, median = str(result[scale]), result["median"]
            assert isinstance(median, float)
            if not in_turns or (kind == "figures" and not set(name.split()).isdisjoint(_UNITS_IN_TURNS)):
                yield (suite, str(result["name"]), name, str(result["goal"])), median


def rows(before: Medians, after: Medians) -> Iterator[tuple[str, ...]]:
    """Yield a row for each measurement of both checkouts."""
    for (suite, name, scale, goal), values in after.items():
        old = before.get((suite, name, scale, goal))
        if old is not None and all(old):
            change = show(spread(ratios(values, old)))
            yield suite, name, scale, goal, show(spread(old)), show(spread(values)), f"**{change}**"
