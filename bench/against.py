"""Measures this checkout and another one in alternating rounds, and compares them."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.measure import ratios, spread
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

#: One value per round, by suite, name, reference or unit, and goal.
Medians = dict[tuple[str, str, str, str], list[float]]


def compare(suites: Sequence[str], other: Path, rounds: int) -> str:
    """Return a table of everything that both checkouts measured, with the ratio of each round."""
    before: Medians = {}
    after: Medians = {}
    for number in range(rounds):
        for suite in suites:
            turns = ((other, before), (ROOT, after))
            for checkout, medians in turns if number % 2 else turns[::-1]:
                print(f"bench: round {number + 1} of {rounds}, {suite} of {checkout} …", file=sys.stderr)
                for key, value in _measured(suite, _once(suite, checkout)):
                    medians.setdefault(key, []).append(value)
    header = ("suite", "what", "against or unit", "goal", "before", "after", "after ÷ before")
    return table(header, rows(before, after))


def _once(suite: str, checkout: Path) -> Mapping[str, list[Mapping[str, object]]]:
    """Run a suite with the code of a checkout, and with its bench if that has the suite."""
    bench = checkout if (checkout / "bench" / f"{suite}.py").exists() else ROOT
    path = os.pathsep.join(map(str, (checkout / "src", bench)))
    with tempfile.TemporaryDirectory() as folder:
        script, results = Path(folder, "once.py"), Path(folder, "results.json")
        script.write_text(_ONCE)
        subprocess.run(
            [sys.executable, script, suite, results],
            cwd=bench,  # the suite starts modules of its own from here
            env={**os.environ, "PYTHONPATH": path},
            check=True,
        )
        section: Mapping[str, list[Mapping[str, object]]] = json.loads(results.read_text())["suites"][0]
    return section


def _measured(
    suite: str, section: Mapping[str, list[Mapping[str, object]]]
) -> Iterator[tuple[tuple[str, str, str, str], float]]:
    for kind, scale in (("claims", "against"), ("figures", "unit")):
        for result in section[kind]:
            median = result["median"]
            assert isinstance(median, float)
            yield (suite, str(result["name"]), str(result[scale]), str(result["goal"])), median


def rows(before: Medians, after: Medians) -> Iterator[tuple[str, ...]]:
    """Yield a row for each measurement of both checkouts."""
    for (suite, name, scale, goal), values in after.items():
        old = before.get((suite, name, scale, goal))
        if old is not None and all(old):
            change = show(spread(ratios(values, old)))
            yield suite, name, scale, goal, show(spread(old)), show(spread(values)), f"**{change}**"
