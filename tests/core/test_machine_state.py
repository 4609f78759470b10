"""The state of a machine in one word."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.fleet import IMPACTS, MachineState, machine_state, machine_states
from fairwarning.core.model import EventType, ScopeKind
from tests.fleet_harness import FleetHarness

WEB = Blueprint(name="web", count=2)
BATCH = Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True)


def of(stage: FleetHarness, name: str) -> MachineState:
    """Return a machine's state, after checking that both functions agree on it."""
    ref = stage.ref(name)
    scope = stage.scope(ref.scope)
    alone = machine_state(scope, stage.machine(name))
    assert machine_states(scope)[ref.name] is alone
    return alone


@pytest.mark.parametrize(
    ("cause", "kind", "name"),
    [
        ("restart", EventType.REBOOT, "web_0"),
        ("redeploy", EventType.REDEPLOY, "web_0"),
        ("freeze", EventType.FREEZE, "web_0"),
        ("evict", EventType.PREEMPT, "batch"),
    ],
)
def test_a_machine_is_running_then_warned_then_acted_upon(cause: str, kind: EventType, name: str) -> None:
    stage = FleetHarness(WEB, BATCH)
    found = [of(stage, name)]

    events = stage.cause(cause, name)
    found.append(of(stage, name))
    stage.approve(*events)
    found.append(of(stage, name))

    assert found == [MachineState.RUNNING, MachineState.WARNED, IMPACTS[kind]]
    assert of(stage, "web_1") is MachineState.RUNNING


def test_an_unseen_event_is_no_warning() -> None:
    stage = FleetHarness(WEB, watched=False)

    stage.cause("host-update", "web_0")

    assert of(stage, "web_0") is MachineState.RUNNING


def test_of_two_impacts_the_graver_one_counts() -> None:
    stage = FleetHarness(WEB)

    stage.approve(*stage.cause("freeze", "web_0"))
    stage.approve(*stage.cause("redeploy", "web_0"))

    assert of(stage, "web_0") is MachineState.MOVING


def test_a_machine_that_an_event_is_done_with_is_running_again() -> None:
    stage = FleetHarness(WEB)
    stage.approve(*stage.cause("restart", "web_0"))

    stage.advance("1m")

    assert of(stage, "web_0") is MachineState.RUNNING


def test_a_stopped_machine_is_stopped_whatever_is_announced() -> None:
    stage = FleetHarness(WEB)
    stage.cause("freeze", "web_0")

    stage.stop("web_0")

    assert of(stage, "web_0") is MachineState.STOPPED


def test_every_kind_but_advice_does_something_to_a_machine() -> None:
    assert set(EventType) - IMPACTS.keys() == {EventType.REBALANCE}
