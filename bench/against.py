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
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

from bench.load import PATIENCE
from bench.measure import ratios, spread
from bench.report import show, table
from bench.servers import ROOT

#: Runs one suite in a new process and writes its results. A process in the background would ignore SIGINT.
_ONCE = """\
import json, signal, sys
from datetime import UTC, datetime
from bench import report, run
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    json.dump(report.data([run.SUITES[sys.argv[1]](True)], {}, datetime.now(UTC)), open(sys.argv[2], "w"))
"""

#: What a stopped process does not add to: units of CPU, and of memory.
_UNITS_IN_TURNS = ("CPU", "B", "MB")

#: One value per round, by suite, name, reference or unit, and goal.
Medians = dict[tuple[str, str, str, str], list[float]]

#: The results of a suite.
Results = Mapping[str, list[Mapping[str, object]]]

Process: TypeAlias = "subprocess.Popen[bytes]"


def compare(suites: Sequence[str], other: Path, rounds: int, turn: float | None = None) -> str:
    """Return a table of everything that both checkouts measured, with the ratio of each round."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))  # leaves no process stopped
    before, after = Medians(), Medians()
    for number in range(rounds):
        for suite in suites:
            print(f"bench: round {number + 1} of {rounds}, {suite} …", file=sys.stderr)
            sides = [(other, before), (ROOT, after)]
            sides = sides if number % 2 else sides[::-1]
            results = _both(suite, [checkout for checkout, _ in sides], turn)
            for (_, medians), section in zip(sides, results, strict=True):
                for key, value in _measured(suite, section, in_turns=turn is not None):
                    medians.setdefault(key, []).append(value)
    header = ("suite", "what", "against or unit", "goal", "before", "after", "after ÷ before")
    return table(header, rows(before, after))


def _both(suite: str, checkouts: Sequence[Path], turn: float | None) -> list[Results]:
    """Run a suite with the code of each checkout: one after the other, or in turns of some seconds."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        script = Path(folder, "once.py")
        script.write_text(_ONCE)
        files = [Path(folder, f"{number}.json") for number, _ in enumerate(checkouts)]
        started = []
        for checkout, file in zip(checkouts, files, strict=True):
            started.append(
                stack.enter_context(_suite([sys.executable, script, suite, file], suite, checkout))
            )
            if turn is None:
                check_end(started[-1])
        if turn is not None:
            take_turns(started, turn)
        return [json.loads(file.read_text())["suites"][0] for file in files]


def _suite(command: Sequence[str | Path], suite: str, checkout: Path) -> AbstractContextManager[Process]:
    """Start a suite with the code of a checkout, and with its bench if that has the suite."""
    bench = checkout if (checkout / "bench" / f"{suite}.py").exists() else ROOT
    path = os.pathsep.join(map(str, (checkout / "src", bench)))
    # The suite starts modules of its own from its working directory.
    return started_group(command, cwd=bench, env={**os.environ, "PYTHONPATH": path})


@contextmanager
def started_group(
    command: Sequence[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run a process in a group of its own, so that it can be stopped with its children; end it at last."""
    child = subprocess.Popen(command, cwd=cwd, env=env, start_new_session=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGCONT)
            child.send_signal(signal.SIGINT)  # a suite then ends its servers
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def take_turns(processes: Sequence[Process], seconds: float) -> None:
    """Let processes run until all have ended: one at a time, while the groups of the others are stopped.

    Raises:
        CalledProcessError: a process failed; the others have not ended.
    """
    for process in processes:
        os.killpg(process.pid, signal.SIGSTOP)
    while running := [process for process in processes if process.returncode is None]:
        for process in running:
            os.killpg(process.pid, signal.SIGCONT)
            try:
                check_end(process, seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGSTOP)


def check_end(process: Process, seconds: float | None = None) -> None:
    """Wait for the end of a process.

    Raises:
        TimeoutExpired: the process runs for longer.
        CalledProcessError: the process failed.
    """
    if process.wait(seconds):
        raise subprocess.CalledProcessError(process.returncode, process.args)


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
