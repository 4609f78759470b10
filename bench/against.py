"""Measures another checkout beside this one, in rounds that take turns, and sets both against each other."""

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

#: Runs one suite in a fresh process and writes what it found.
_ONCE = """\
import json, sys
from datetime import UTC, datetime
from bench import report, run
if __name__ == "__main__":
    json.dump(report.data([run.SUITES[sys.argv[1]](True)], {}, datetime.now(UTC)), open(sys.argv[2], "w"))
"""

#: What was measured, by suite, name, what it was set against or its unit, and goal; one value per round.
Found = dict[tuple[str, str, str, str], list[float]]


def compare(suites: Sequence[str], other: Path, rounds: int) -> str:
    """Return a table of everything that both checkouts have, each round's ratio taken by itself."""
    before: Found = {}
    after: Found = {}
    for number in range(rounds):
        for suite in suites:
            turns = ((other, before), (ROOT, after))
            for checkout, found in turns if number % 2 else turns[::-1]:
                print(f"bench: round {number + 1} of {rounds}, {suite} of {checkout} …", file=sys.stderr)
                for key, value in _measured(suite, _once(suite, checkout)):
                    found.setdefault(key, []).append(value)
    header = ("suite", "what", "against or unit", "goal", "before", "after", "after ÷ before")
    return table(header, rows(before, after))


def _once(suite: str, checkout: Path) -> Mapping[str, list[Mapping[str, object]]]:
    """Run a suite with a checkout's code, and with its bench too if that has the suite."""
    bench = checkout if (checkout / "bench" / f"{suite}.py").exists() else ROOT
    path = os.pathsep.join(map(str, (checkout / "src", bench)))
    with tempfile.TemporaryDirectory() as folder:
        script, found = Path(folder, "once.py"), Path(folder, "found.json")
        script.write_text(_ONCE)
        subprocess.run(
            [sys.executable, script, suite, found],
            cwd=bench,  # from where the suite starts modules of its own
            env={**os.environ, "PYTHONPATH": path},
            check=True,
        )
        section: Mapping[str, list[Mapping[str, object]]] = json.loads(found.read_text())["suites"][0]
    return section


def _measured(
    suite: str, section: Mapping[str, list[Mapping[str, object]]]
) -> Iterator[tuple[tuple[str, str, str, str], float]]:
    for kind, scale in (("claims", "against"), ("figures", "unit")):
        for one in section[kind]:
            median = one["median"]
            assert isinstance(median, float)
            yield (suite, str(one["name"]), str(one[scale]), str(one["goal"])), median


def rows(before: Found, after: Found) -> Iterator[tuple[str, ...]]:
    """Yield what both have, with the ratio of each round."""
    for (suite, name, scale, goal), values in after.items():
        old = before.get((suite, name, scale, goal))
        if old is not None and all(old):
            found = show(spread(ratios(values, old)))
            yield suite, name, scale, goal, show(spread(old)), show(spread(values)), f"**{found}**"
