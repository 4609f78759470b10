"""Many more steps of each state machine than in every build."""

import pytest
from hypothesis import settings

from tests.agent.test_crashes import World
from tests.core.test_history_properties import DurableHistories, Histories

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


class LongHistories(Histories):
    """Fleets in memory."""


class LongDurableHistories(DurableHistories):
    """Fleets in a file."""


class LongCrashes(World):
    """An agent and its server."""


TestLongHistories = LongHistories.TestCase
TestLongHistories.settings = settings(max_examples=2500, stateful_step_count=40)

TestLongDurableHistories = LongDurableHistories.TestCase
TestLongDurableHistories.settings = settings(max_examples=500, stateful_step_count=40)

TestLongCrashes = LongCrashes.TestCase
TestLongCrashes.settings = settings(max_examples=2500, stateful_step_count=40)
