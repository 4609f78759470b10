"""Random histories of maintenance.

A history is a list of numbers, one per step, and each number alone decides what its step does. So a history
that breaks a rule can be shortened by leaving out steps.
"""

import random
from collections import Counter
from collections.abc import Iterable
from random import Random

from tests.histories.explore import History, Violation, shortened
from tests.maintenance.actions import ACTIONS, behave, possible
from tests.maintenance.checks import Checks
from tests.maintenance.world import World

#: The number of steps of a history.
LENGTH = 40


def explore(seeds: Iterable[int]) -> Counter[str]:
    """Play the histories of some seeds to their ends, and return what happened in them.

    Raises:
        Violation: a rule was broken; the history is as short as leaving out steps makes it.
    """
    met: Counter[str] = Counter()
    for seed in seeds:
        chance = Random(f"maintenance {seed}")
        try:
            play(History(seed, False, tuple(chance.getrandbits(32) for _ in range(LENGTH))), met)
        except Violation as violation:
            raise shortened(violation, play) from violation.problem
        met["histories"] += 1
    return met


def play(history: History, met: Counter[str]) -> None:
    """Play a history, and check all rules after every step."""
    random.seed(history.seed)  # the engine's ids
    world = World(Random(history.seed))
    checks, descriptions = Checks(world), list[str]()
    try:
        checks.check()
        for number in history.steps:
            descriptions.append(str(number))
            descriptions[-1] = step(world, Random(number))
            checks.check()
        behave(world)
        checks.check()
        checks.check_nothing_is_left()
    except Exception as problem:  # any unexpected error breaks a rule
        played = History(history.seed, False, history.steps[: len(descriptions)])
        raise Violation(played, descriptions, problem) from problem
    met.update(world.met)


def step(world: World, chance: Random) -> str:
    """Carry out a random action, and return it in words."""
    for action in chance.choices(tuple(ACTIONS), tuple(ACTIONS.values()), k=8):
        if possible(action, world):
            return f"{world.fleet.now:%d %H:%M} {action(world, chance)}"
    return "nothing"
