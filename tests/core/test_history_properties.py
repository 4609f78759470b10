"""Properties of every history: any commands, at any time, with any number of restarts."""

from random import Random
from typing import ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.histories.actions import ACTIONS, Action, make, possible
from tests.histories.checks import Checks
from tests.histories.explore import act, fleet

# Explaining a failure line by line takes minutes here.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
CHANCE = st.randoms(use_true_random=False)


class Histories(RuleBasedStateMachine):
    """Sends random commands to a fleet and checks its invariants after each."""

    durable: ClassVar = False

    def __init__(self) -> None:
        super().__init__()
        self._fleet = fleet(durable=self.durable)
        self.world = self._fleet.__enter__()
        self.checks = Checks(self.world)

    def teardown(self) -> None:
        self._fleet.__exit__(None, None, None)

    @initialize(chance=CHANCE)
    def bring_up(self, chance: Random) -> None:
        for _ in range(3):
            act(self.world, make, chance)

    @precondition(lambda self: self.world.machines())
    @rule(action=st.sampled_from(tuple(ACTIONS)), chance=CHANCE)
    def something_happens(self, action: Action, chance: Random) -> None:
        if possible(action, self.world):
            act(self.world, action, chance)

    @rule(chance=CHANCE)
    def something_is_made(self, chance: Random) -> None:
        act(self.world, make, chance)

    @invariant()
    def every_promise_is_kept(self) -> None:
        self.checks.check()


class DurableHistories(Histories):
    """The same with a store on disk that is closed and opened again."""

    durable = True


TestHistories = pytest.mark.rule(
    "L-02", "L-11", "L-18", "R-16", "R-18", "S-01", "S-03", "S-04", "T-13", "T-24"
)(Histories.TestCase)
TestHistories.settings = settings(max_examples=25, stateful_step_count=40, phases=PHASES)

TestDurableHistories = DurableHistories.TestCase
TestDurableHistories.settings = settings(max_examples=6, stateful_step_count=30, phases=PHASES)
