"""What happens between the start and the end of an event, including failures."""

from dataclasses import replace
from itertools import pairwise, product
from types import MappingProxyType

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import ReportOutcomes
from fairwarning.core.decide import decide
from fairwarning.core.fleet import FleetState, Observation, Progress, outstanding_impacts
from fairwarning.core.impact import OUTCOMES
from fairwarning.core.model import (
    EventId,
    EventStatus,
    EventType,
    HostId,
    PowerState,
    ScopeId,
    ScopeKind,
    VmName,
)
from fairwarning.core.policy import Policy
from fairwarning.drivers.external import ExternalDriver
from fairwarning.drivers.simulated import Mishap
from tests.fleet_harness import NOON, FleetHarness, span

WEB = Blueprint(name="web", count=3)
PAIR = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2, update_domains=1, fault_domains=1)


@pytest.mark.rule("L-04")
def test_an_event_stays_started_until_every_machine_has_had_its_impact() -> None:
    stage = FleetHarness(PAIR)
    stage.break_machine("app-1", Mishap.FAILS)
    (event,) = stage.cause("host-update", "app-0", "app-1")
    stage.approve(event, by="app-0")

    stage.advance("30s")

    assert stage.status(event) is EventStatus.STARTED
    assert stage.event(event).done == ("app-0",)

    stage.advance("35s")

    assert stage.status(event) is EventStatus.GONE


@pytest.mark.rule("L-04")
def test_after_removal_nothing_more_happens() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("redeploy", "web_0")
    stage.advance("11m")
    moved_to = stage.machine("web_0").host

    stage.advance("23h")

    assert stage.story(event) == ["scheduled", "started", "finished"]
    assert stage.machine("web_0").host == moved_to


@pytest.mark.rule("L-04")
def test_a_redeployed_machine_is_on_another_host() -> None:
    stage = FleetHarness(WEB)
    host = stage.machine("web_0").host
    (event,) = stage.cause("redeploy", "web_0")

    stage.approve(event, by="web_0")
    stage.advance("5s")

    assert stage.machine("web_0").host not in (host, stage.machine("web_1").host)


@pytest.mark.parametrize("mishap", [Mishap.FAILS, Mishap.LIES, Mishap.HANGS])
def test_an_impact_that_goes_wrong_is_noted_and_tried_again_until_it_is_true(mishap: Mishap) -> None:
    stage = FleetHarness(WEB)
    stage.break_machine("web_0", mishap, attempts=3)
    (event,) = stage.cause("restart", "web_0")
    stage.approve(event, by="web_0")
    started = stage.incarnation("web")

    while stage.event(event).attempt < 3:
        stage.wait_until(stage.engine.next_deadline() or NOON)

        assert stage.status(event) is EventStatus.STARTED
        assert stage.incarnation("web") == started

    stage.advance("1h")

    story = stage.story(event)
    assert story == ["scheduled", "approved", "started", "failed", "failed", "failed", "finished"]
    assert all("web_0: " in line.reason for line in stage.history(event) if line.kind == "failed")


def test_retries_rest_longer_each_time() -> None:
    stage = FleetHarness(WEB)
    stage.break_machine("web_0", Mishap.FAILS, attempts=5)
    (event,) = stage.cause("restart", "web_0")

    stage.advance("2h")

    failures = [line.at for line in stage.history(event) if line.kind == "failed"]
    rests = [later - earlier for earlier, later in pairwise(failures)]
    assert rests == [span("10s"), span("15s"), span("25s"), span("45s")]


def test_an_impact_that_never_succeeds_never_completes() -> None:
    stage = FleetHarness(WEB, policy=Policy(disable_after=None))
    stage.break_machine("web_0", Mishap.LIES, attempts=1_000_000)
    (event,) = stage.cause("restart", "web_0")

    stage.advance("1d")

    assert stage.status(event) is EventStatus.STARTED
    assert stage.event(event).attempt > 100


def test_a_machine_deleted_under_a_pending_event_takes_the_event_with_it() -> None:
    stage = FleetHarness(WEB)
    (restart,) = stage.cause("restart", "web_0")

    stage.cause("delete", "web_0")
    stage.advance("5s")

    assert stage.machines("web") == ["web_1", "web_2"]
    assert stage.story(restart) == ["scheduled", "cancelled"]


def test_a_machine_deleted_under_a_shared_event_leaves_the_event_to_the_others() -> None:
    stage = FleetHarness(PAIR)
    stage.break_machine("app-1", Mishap.HANGS)
    (event,) = stage.cause("host-update", "app-0", "app-1")
    stage.approve(event, by="app-1")

    stage.cause("delete", "app-0")
    stage.advance("1m")

    assert stage.machines("app") == ["app-1"]
    assert stage.status(event) is EventStatus.STARTED

    stage.advance("10m")

    assert stage.story(event) == ["scheduled", "approved", "started", "failed", "finished"]


# -- observations


def report(stage: FleetHarness, *observations: Observation) -> None:
    """Report observations in the scope app."""
    stage.do(ReportOutcomes(scope=ScopeId("app"), observations=observations))


def failure(event: EventId, attempt: int, machine: str = "app-0") -> Observation:
    """Return an observation that an attempt on a machine has failed."""
    return Observation(
        event=event,
        machine=VmName(machine),
        attempt=attempt,
        progress=Progress.FAILED,
        problem="no answer",
    )


def test_every_observation_of_every_type_of_event_means_something() -> None:
    assert OUTCOMES.keys() == set(product(EventType, Progress))


def test_a_machine_is_afterwards_what_was_observed() -> None:
    stage = FleetHarness(PAIR)
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")
    done, app_0, app_1 = Progress.DONE, VmName("app-0"), VmName("app-1")
    moved = Observation(event=event, machine=app_0, progress=done, host=HostId("elsewhere"))
    stopped = Observation(event=event, machine=app_1, progress=done, power=PowerState.STOPPED)
    before = stage.machine("app-1")

    report(stage, moved, stopped)

    assert (stage.machine("app-0").host, stage.machine("app-0").power) == ("elsewhere", PowerState.RUNNING)
    assert (stage.machine("app-1").host, stage.machine("app-1").power) == (before.host, PowerState.STOPPED)


@pytest.mark.parametrize("progress", Progress)
def test_a_machine_that_is_gone_has_had_every_impact(progress: Progress) -> None:
    stage = FleetHarness(PAIR)
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")

    report(stage, Observation(event=event, machine=VmName("app-0"), progress=progress, exists=False))

    assert stage.machines("app") == ["app-1"]
    assert stage.event(event).done == ("app-0",)


def test_a_failure_of_an_earlier_attempt_is_not_counted_again() -> None:
    stage = FleetHarness(PAIR)
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")

    report(stage, failure(event, attempt=0))
    report(stage, failure(event, attempt=0))

    assert stage.event(event).attempt == 1

    report(stage, failure(event, attempt=1))

    assert stage.event(event).attempt == 2


def test_each_machine_has_attempts_of_its_own() -> None:
    stage = FleetHarness(PAIR, driver=ExternalDriver())
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")
    report(stage, failure(event, attempt=0))
    report(stage, failure(event, attempt=1))
    stage.advance("1m")

    report(stage, failure(event, attempt=0, machine="app-1"))

    assert [
        (impact.machine.name, impact.attempt, impact.since)
        for impact in outstanding_impacts(stage.scope("app"), Policy())
    ] == [("app-0", 2, NOON + span("10s")), ("app-1", 1, NOON + span("1m5s"))]
    assert (stage.event(event).attempt, stage.event(event).retry_at) == (2, NOON + span("1m5s"))


def test_an_event_of_an_earlier_version_goes_on_with_the_attempt_that_all_its_machines_shared() -> None:
    stage = FleetHarness(PAIR, driver=ExternalDriver())
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")
    scope, retry_at = stage.scope("app"), NOON + span("10s")
    old = replace(stage.event(event), attempt=2, retry_at=retry_at)
    scopes = {scope.id: replace(scope, events=MappingProxyType({event: old}))}
    command = ReportOutcomes(scope=scope.id, observations=(failure(event, attempt=2),))

    after = decide(FleetState(scopes), (command,), NOON + span("10s")).after[scope.id]

    assert after is not None
    impacts = outstanding_impacts(after, Policy())
    assert [(impact.attempt, impact.since) for impact in impacts] == [
        (3, NOON + span("30s")),
        (2, retry_at),
    ]


def test_what_an_earlier_attempt_achieved_counts() -> None:
    stage = FleetHarness(PAIR)
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")
    report(stage, failure(event, attempt=0))

    report(stage, Observation(event=event, machine=VmName("app-1"), progress=Progress.DONE, attempt=0))

    assert stage.event(event).done == ("app-1",)


def test_an_impact_in_progress_changes_nothing() -> None:
    stage = FleetHarness(PAIR)
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")
    written = stage.journal()

    for progress in (Progress.NOT_BEGUN, Progress.ACTING):
        report(stage, Observation(event=event, machine=VmName("app-0"), progress=progress))

    assert stage.journal() == written
