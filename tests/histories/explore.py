"""Random histories, fast: the same actions and checks as the hypothesis machine, without its bookkeeping.

A history is a list of numbers, one per step. Each number alone decides what its step does to the fleet, so a
history that violates an invariant can be shortened by leaving out steps.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fairwarning.engine.ports import Store
from fairwarning.store.sqlite import SqliteStore
from tests.fleet_harness import run
from tests.histories.actions import ACTIONS, Action, FailingStore, World, make, possible
from tests.histories.checks import Checks

#: The number of steps of a history.
LENGTH = 80

#: One history in this many uses a store on disk, which every restart closes and opens again.
DURABLE = 40


class Violation(Exception):
    """The last step of a history violated an invariant."""

    def __init__(self, history: "History", descriptions: Sequence[str], problem: Exception) -> None:
        super().__init__(f"{type(problem).__name__}: {problem}")
        self.history = history
        self.descriptions = tuple(descriptions)
        self.problem = problem
        #: The number of steps until the violation.
        self.found_after = len(history.steps)

    def report(self) -> str:
        """Return the history in words."""
        lines = (f"  {number:3} {line}" for number, line in enumerate(self.descriptions, start=1))
        found = f"{self} (history {self.history.seed}, found after {self.found_after:,} steps)"
        return "\n".join((found, *lines))


@dataclass(frozen=True, slots=True)
class History:
    """The numbers that decide everything that happens in a history."""

    seed: int
    durable: bool
    steps: tuple[int, ...]


@dataclass(slots=True)
class Tally:
    """Counts of steps and outcomes."""

    histories: int = 0
    steps: int = 0
    met: Counter[str] = field(default_factory=Counter)


def histories(seed: int) -> Iterator[History]:
    """Return an endless series of histories."""
    number = 0
    while True:
        chance = Random(f"{seed}/{number}")
        steps = tuple(chance.getrandbits(32) for _ in range(LENGTH))
        yield History(number, number % DURABLE == DURABLE - 1, steps)
        number += 1


def explore(
    seed: int, steps: int, progress: Callable[[Tally], None] = lambda tally: None, first: int = 0
) -> Tally:
    """Run histories until so many steps were taken.

    Raises:
        Violation: an invariant was violated; the history is as short as leaving out steps makes it.
    """
    tally = Tally()
    for history in histories(seed):
        if tally.steps >= steps:
            return tally
        if history.seed < first:
            continue
        try:
            live(history, tally.met)
        except Violation as violation:
            shorter = shortened(violation, live)
            shorter.found_after = tally.steps + violation.found_after
            raise shorter from violation.problem
        tally.histories += 1
        tally.steps += len(history.steps)
        progress(tally)
    raise AssertionError("histories do not end")


def live(history: History, met: Counter[str]) -> None:
    """Run a history, checking all invariants after every step."""
    with fleet(durable=history.durable) as world:
        checks = Checks(world)
        descriptions: list[str] = []
        try:
            for number in history.steps:
                descriptions.append(str(number))
                descriptions[-1] = step(world, Random(number))
                checks.check()
        except Exception as problem:  # any unexpected error is a violation
            lived = History(history.seed, history.durable, history.steps[: len(descriptions)])
            raise Violation(lived, descriptions, problem) from problem
        met.update(world.met)


def step(world: World, chance: Random) -> str:
    """Carry out a random action, and return it in words."""
    if not world.stage.engine.scopes():
        return act(world, make, chance)
    for action in chance.choices(tuple(ACTIONS), tuple(ACTIONS.values()), k=8):
        if possible(action, world):
            return act(world, action, chance)
    return "nothing"


def act(world: World, action: Action, chance: Random) -> str:
    """Carry out one action."""
    world.forced = False
    return action(world, chance)


def shortened(violation: Violation, live: Callable[[History, Counter[str]], None]) -> Violation:
    """Return a violation of the same kind whose history needs all of its steps."""
    size = max(1, len(violation.history.steps) // 2)
    while True:
        shorter = _without(violation, size, live)
        if shorter is not None:
            violation = shorter
        elif size > 1:
            size //= 2
        else:
            return violation


def _without(
    violation: Violation, size: int, live: Callable[[History, Counter[str]], None]
) -> Violation | None:
    history = violation.history
    # The last step is the violation: it stays.
    for start in range(0, len(history.steps) - 1, size):
        kept = history.steps[:start] + history.steps[min(start + size, len(history.steps) - 1) :]
        try:
            live(History(history.seed, history.durable, kept), Counter())
        except Violation as shorter:
            if type(shorter.problem) is type(violation.problem):
                return shorter
    return None


@contextmanager
def fleet(*, durable: bool) -> Iterator[World]:
    """Give a fleet in memory, or on a disk store that every restart closes and opens again."""
    if not durable:
        store: Store = FailingStore()
        yield World(store, lambda: store)
        return
    directory = Path(tempfile.mkdtemp(prefix="fairwarning"))

    def reopen() -> Store:
        run(world.stage.store.close())
        return run(SqliteStore.open(directory))

    try:
        world = World(run(SqliteStore.open(directory)), reopen)
        try:
            yield world
        finally:
            run(world.stage.store.close())
    finally:
        shutil.rmtree(directory)
