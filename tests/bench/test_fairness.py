"""The bench of abuse, and the comparison of two checkouts."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from bench import against, fairness
from bench.abuse import ABUSES
from bench.fairness import QUIET, Waits
from bench.goals import GOALS


def waits(milliseconds: float) -> Waits:
    return Waits([milliseconds] * 3, [milliseconds] * 3, [milliseconds] * 3, [milliseconds] * 3, 10.0)


def test_waits_during_abuse_are_compared_with_the_same_round_without() -> None:
    rounds = [
        {QUIET: waits(2.0), **{name: waits(4.0) for name in ABUSES}},
        {QUIET: waits(1.0), **{name: waits(3.0) for name in ABUSES}},
    ]

    section = fairness.section(rounds)

    assert {claim.values for claim in section.claims} == {(2.0, 3.0)}
    judged = {claim.goal for claim in section.measured if claim.goal}
    assert judged == {name for name in GOALS if name.startswith(("G22", "G23"))}


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param([2.0, 4.0], ["**1.50 [1.00..2.00]**"], id="the same round of both is compared"),
        pytest.param(None, [], id="what only one of them has is left out"),
    ],
)
def test_two_checkouts_are_compared_round_by_round(before: list[float] | None, expected: list[str]) -> None:
    key = ("poll", "keep-alive", "µs", "")

    rows = against.rows({} if before is None else {key: before}, {key: [4.0, 4.0]})

    assert [row[-1] for row in rows] == expected


#: Starts a child that writes a letter a hundred times, at least a millisecond apart.
WRITER = """
import subprocess, sys
child = '''
import sys, time
with open(sys.argv[1], "a", buffering=1) as file:
    for _ in range(100):
        print(sys.argv[2], file=file)
        time.sleep(0.001)
'''
subprocess.run([sys.executable, "-c", child, *sys.argv[1:]], check=True)
"""


def test_processes_that_take_turns_are_stopped_with_their_children(tmp_path: Path) -> None:
    file = tmp_path / "letters"
    writers = [against.started_group([sys.executable, "-c", WRITER, str(file), letter]) for letter in "ab"]

    with writers[0] as first, writers[1] as second:
        against.take_turns([first, second], 0.05)

    letters = file.read_text().split()
    turns = 1 + sum(before != after for before, after in pairwise(letters))
    assert (first.returncode, second.returncode) == (0, 0)
    assert sorted(letters) == ["a"] * 100 + ["b"] * 100
    # Side by side, the letters would alternate about a hundred times.
    assert turns < 40


def test_a_process_that_fails_ends_the_turns_and_none_stays_stopped() -> None:
    waits = against.started_group([sys.executable, "-c", "import signal; signal.pause()"])
    fails = against.started_group([sys.executable, "-c", "raise SystemExit(3)"])

    with pytest.raises(subprocess.CalledProcessError), waits as waiting, fails as failing:
        against.take_turns([waiting, failing], 0.01)

    assert failing.returncode == 3
    assert waiting.returncode is not None
