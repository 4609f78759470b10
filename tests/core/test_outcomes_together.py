"""Several impacts of one machine that end together: each is applied to the result of the one before."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import MachineChanged, MachineRemoved, apply
from fairwarning.core.commands import ReportOutcomes
from fairwarning.core.decide import decide
from fairwarning.core.errors import UnknownScopeError
from fairwarning.core.fleet import FleetState, Observation, Progress
from fairwarning.core.model import EventStatus, EvictionPolicy, HostId, PowerState, ScopeId, ScopeKind, VmName
from fairwarning.drivers.simulated import Mishap
from fairwarning.store.sqlite import SqliteStore
from tests.fleet_harness import NOON, FleetHarness, run, span

WEB = Blueprint(name="web", count=2, terminate_notice=span("5m"))
PAIR = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2, update_domains=1, fault_domains=1)
SPOT = Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True)
SPOT_DELETE = replace(SPOT, eviction=EvictionPolicy.DELETE)


@pytest.mark.rule("T-13", "T-16")
@pytest.mark.parametrize("failure_first", [True, False])
def test_a_forced_delete_holds_although_the_host_fails_at_the_same_time(failure_first: bool) -> None:
    stage = FleetHarness(WEB)
    asked = [("delete", True), ("hardware-failure", False)]

    for cause, force in reversed(asked) if failure_first else asked:
        stage.cause(cause, "web_0", force=force)
    stage.advance("5s")

    assert stage.machines("web") == ["web_1"]
    assert stage.pending("web") == ()


@pytest.mark.rule("T-24", "L-13")
@pytest.mark.parametrize("order", [("evict", "redeploy"), ("redeploy", "evict")])
def test_an_evicted_machine_stays_stopped_when_a_redeploy_has_the_same_not_before(
    order: tuple[str, str],
) -> None:
    stage = FleetHarness(SPOT)
    host = stage.machine("batch").host

    for cause in order:
        stage.cause(cause, "batch", notice="30s")
    stage.advance("35s")

    assert stage.machine("batch").power is PowerState.STOPPED
    assert stage.machine("batch").host != host
    assert stage.pending("batch") == ()


@pytest.mark.rule("T-24")
@pytest.mark.parametrize("order", [("evict", "redeploy"), ("redeploy", "evict")])
def test_a_machine_that_its_eviction_deletes_is_not_brought_back_by_a_redeploy(
    order: tuple[str, str],
) -> None:
    stage = FleetHarness(SPOT_DELETE)

    for cause in order:
        stage.cause(cause, "batch", notice="30s")
    stage.advance("35s")

    assert stage.engine.scopes() == {}


@pytest.mark.rule("S-01")
@pytest.mark.parametrize("cause", ["evict", "delete"])
def test_a_standalone_machine_that_is_gone_leaves_no_scope_that_holds_its_name(cause: str) -> None:
    stage = FleetHarness(SPOT_DELETE)

    stage.cause(cause, "batch", notice="0s")
    stage.advance("5s")

    assert stage.engine.scopes() == {}

    stage.make(SPOT_DELETE)

    assert stage.machines("batch") == ["batch"]


@pytest.mark.rule("T-13")
def test_a_delete_and_a_redeploy_by_the_platform_asked_in_the_same_second_leave_nothing() -> None:
    stage = FleetHarness(WEB)
    stage.advance("100ms")
    stage.cause("delete", "web_0")
    stage.advance("300ms")
    stage.cause("platform-redeploy", "web_0", notice="5m")

    stage.advance("5m10s")

    assert stage.machines("web") == ["web_1"]


@pytest.mark.rule("T-13", "L-04")
def test_impacts_that_end_while_the_server_is_down_are_reported_one_after_another(tmp_path: Path) -> None:
    stage = FleetHarness(WEB, SPOT, store=run(SqliteStore.open(tmp_path)))
    try:
        stage.cause("delete", "web_0", force=True)
        stage.cause("evict", "batch", notice="0s")
        stage.advance("2s")
        stage.cause("hardware-failure", "web_0")
        stage.cause("hardware-failure", "batch")

        run(stage.engine.close())
        run(stage.store.close())
        stage.store = run(SqliteStore.open(tmp_path))
        stage.clock.set(NOON + span("1m"))
        stage.restart()

        assert stage.machines("web") == ["web_1"]
        assert stage.machine("batch").power is PowerState.STOPPED
        assert stage.pending("web") == stage.pending("batch") == ()
        assert run(stage.store.snapshot()).scopes == stage.engine.scopes()
    finally:
        run(stage.store.close())


@pytest.mark.rule("T-16")
def test_a_set_that_is_deleted_goes_although_hosts_of_its_machines_fail() -> None:
    stage = FleetHarness(WEB)

    stage.remove("web", force=True)
    stage.cause("hardware-failure", "web_0", "web_1")
    stage.advance("5s")

    with pytest.raises(UnknownScopeError):
        stage.scope("web")


def test_two_moves_that_end_together_are_two_moves() -> None:
    stage = FleetHarness(WEB)
    host = stage.machine("web_0").host

    stage.cause("redeploy", "web_0", notice="1m")
    stage.cause("platform-redeploy", "web_0", notice="1m")
    stage.advance("65s")

    assert stage.machine("web_0").host == f"{host}~3"


def test_two_causes_of_removal_remove_a_machine_once() -> None:
    stage = FleetHarness(SPOT_DELETE)

    stage.cause("evict", "batch", notice="0s")
    stage.cause("delete", "batch", force=True)
    stage.advance("5s")

    removed = [entry for entry in stage.journal() if isinstance(entry.change, MachineRemoved)]
    assert len(removed) == 1


def test_an_impact_that_failed_on_a_machine_that_is_no_more_is_not_tried_again() -> None:
    stage = FleetHarness(PAIR)
    stage.break_machine("app-0", Mishap.FAILS)
    (both,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")
    (deleted,) = stage.cause("delete", "app-0", force=True)
    app_0 = VmName("app-0")
    problem = Observation(event=both, machine=app_0, progress=Progress.FAILED, problem="no answer")
    gone = Observation(event=deleted, machine=app_0, progress=Progress.DONE, exists=False)

    stage.do(ReportOutcomes(scope=ScopeId("app"), observations=(gone,)))
    stage.do(ReportOutcomes(scope=ScopeId("app"), observations=(problem,)))

    assert stage.machines("app") == ["app-1"]
    assert stage.event(both).attempt == 0
    assert stage.status(both) is EventStatus.STARTED


def test_an_outcome_that_is_reported_twice_counts_once() -> None:
    stage = FleetHarness(WEB)
    host = stage.machine("web_0").host
    (event,) = stage.cause("hardware-failure", "web_0")
    moved_to = HostId(f"{host}~2")
    ended = Observation(event=event, machine=VmName("web_0"), progress=Progress.DONE, host=moved_to)

    stage.do(ReportOutcomes(scope=ScopeId("web"), observations=(ended, ended)))

    assert stage.machine("web_0").host == f"{host}~2"


def test_outcomes_of_no_scope_change_nothing() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("hardware-failure", "web_0")
    seen = Observation(event=event, machine=VmName("web_0"), progress=Progress.DONE)

    report = ReportOutcomes(scope=ScopeId("web"), observations=(seen,))
    assert decide(FleetState({}), (report,), NOON).changes == ()


def test_changes_cannot_bring_back_a_machine_that_they_removed() -> None:
    stage = FleetHarness(WEB)
    machine = stage.machine("web_0")
    removed = MachineRemoved(scope=machine.scope, name=machine.name)
    changed = MachineChanged(scope=machine.scope, machine=machine)
    made_again = MachineChanged(scope=machine.scope, machine=replace(machine, vm_id="another"))

    with pytest.raises(LookupError, match="web/web_0, which was removed"):
        apply(stage.engine.scopes(), [removed, changed])
    after = apply(stage.engine.scopes(), [removed, made_again])

    assert list(after[machine.scope].machines) == ["web_1", "web_0"]
