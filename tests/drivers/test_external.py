"""The external driver: it waits for reports, and says once when it has waited too long."""

import pytest

from fairwarning.core.fleet import Progress
from fairwarning.core.model import EvictionPolicy, PowerState
from fairwarning.core.policy import OverdueLimits
from fairwarning.drivers.external import ExternalDriver
from tests.drivers.impacts import impact
from tests.fleet_harness import NOON, run, span


@pytest.mark.parametrize("waited", ["0s", "59m", "1h", "30d"])
def test_an_impact_never_ends_by_itself(waited: str) -> None:
    (seen,) = run(ExternalDriver().observe([impact("restart")], NOON + span(waited)))

    assert seen.progress is Progress.ACTING


def test_an_impact_is_overdue_after_its_limit_at_the_clocks_speed() -> None:
    driver, fast = ExternalDriver(OverdueLimits(default=span("30m"))), impact("restart", speed=60)

    (seen,) = run(driver.observe([fast], NOON))

    assert (seen.problem, seen.again_at) == (None, NOON + span("30s"))

    (seen,) = run(driver.observe([fast], NOON + span("30s")))

    assert (seen.problem, seen.again_at) == ("its end was not reported within 30m", None)


def test_a_cause_can_have_a_limit_of_its_own() -> None:
    driver = ExternalDriver(OverdueLimits(by_cause={"host-reboot": span("2h")}))
    impacts = [impact("restart"), impact("host-reboot")]

    after_an_hour = run(driver.observe(impacts, NOON + span("1h")))
    after_two = run(driver.observe(impacts, NOON + span("2h")))

    assert [seen.problem for seen in after_an_hour] == ["its end was not reported within 1h", None]
    assert after_an_hour[1].again_at == NOON + span("2h")
    assert after_two[1].problem == "its end was not reported within 2h"


@pytest.mark.parametrize(
    ("cause", "eviction", "exists", "power"),
    [
        pytest.param("delete", EvictionPolicy.DEALLOCATE, False, None, id="a deleted machine is gone"),
        pytest.param("evict", EvictionPolicy.DELETE, False, None, id="so is one that its eviction deletes"),
        pytest.param(
            "evict", EvictionPolicy.DEALLOCATE, True, PowerState.STOPPED, id="an evicted machine is stopped"
        ),
        pytest.param("redeploy", EvictionPolicy.DELETE, True, None, id="a moved machine is what it was"),
        pytest.param("restart", EvictionPolicy.DELETE, True, None, id="so is a restarted one"),
        pytest.param("freeze", EvictionPolicy.DELETE, True, None, id="so is one that was paused"),
    ],
)
def test_after_a_report_a_machine_is_as_its_event_implies(
    cause: str, eviction: EvictionPolicy, exists: bool, power: PowerState | None
) -> None:
    seen = ExternalDriver().reported(impact(cause, eviction=eviction), None)

    assert (seen.progress, seen.exists, seen.power, seen.host) == (Progress.DONE, exists, power, None)


def test_a_reported_failure_leaves_the_machine_as_it_was() -> None:
    seen = ExternalDriver().reported(impact("delete", attempt=2), "the disk is full")

    assert (seen.progress, seen.exists, seen.problem) == (Progress.FAILED, True, "the disk is full")
    assert seen.attempt == 2
