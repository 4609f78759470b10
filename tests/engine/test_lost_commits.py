"""A decision that could not be stored has no effect: the engine continues from the stored state."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import ScopeId
from tests.fleet_harness import FleetHarness, run
from tests.histories.actions import FailingStore


def test_the_end_of_a_scope_that_could_not_be_kept_is_tried_again_by_the_next_tick() -> None:
    store = FailingStore()
    stage = FleetHarness(Blueprint(name="web", count=1), store=store)
    stage.remove("web", force=True)
    deadline = stage.engine.next_deadline()
    assert deadline is not None
    stage.clock.set(deadline)
    store.failures = 1
    with pytest.raises(OSError, match="disk full"):
        run(stage.engine.tick())

    run(stage.engine.tick())

    assert ScopeId("web") not in stage.engine.scopes()
    assert stage.engine.next_deadline() is None
