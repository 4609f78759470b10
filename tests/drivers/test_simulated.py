"""The simulated driver: how long an impact takes, and the ways in which it goes wrong."""

from datetime import timedelta

import pytest

from fairwarning.core.causes import CAUSES
from fairwarning.core.fleet import Impact
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import TIMEOUT, InjectedMishap, Mishap, SimulatedDriver
from tests.fleet_harness import NOON, span

WEB_0 = VmName("web_0")


def impact(cause: str, *, attempt: int = 0) -> Impact:
    return Impact(
        event=EventId("E"),
        machine=MachineRef(ScopeId("web"), WEB_0),
        kind=CAUSES[cause].kind,
        cause=cause,
        duration=CAUSES[cause].duration,
        since=NOON,
        attempt=attempt,
    )


@pytest.mark.parametrize(
    ("cause", "lasts"),
    [
        pytest.param("live-migrate", "5s", id="a live migration pauses for five seconds"),
        pytest.param("freeze", "9s", id="agent maintenance pauses for nine"),
        pytest.param("host-update", "30s", id="a host update pauses for thirty"),
        pytest.param("restart", "5s", id="a restart is brief"),
        pytest.param("delete", "5s", id="a delete is brief"),
    ],
)
def test_an_impact_is_brief_and_a_freeze_as_long_as_announced(cause: str, lasts: str) -> None:
    driver = SimulatedDriver()

    assert driver.due([impact(cause)], Policy()) == NOON + span(lasts)


@pytest.mark.rule("L-07")
@pytest.mark.parametrize("cause", CAUSES)
def test_with_azures_timings_an_impact_takes_as_long_as_on_azure(cause: str) -> None:
    driver = SimulatedDriver(azure_timings=True)

    assert driver.due([impact(cause)], Policy()) == NOON + CAUSES[cause].lasts


def test_speed_shortens_an_impact() -> None:
    driver = SimulatedDriver()

    assert driver.due([impact("host-update")], Policy(speed=60)) == NOON + timedelta(seconds=0.5)


def test_nothing_is_observed_before_it_is_over() -> None:
    driver = SimulatedDriver()

    assert driver.observe([impact("restart")], Policy(), NOON + span("4s")) == []

    (outcome,) = driver.observe([impact("restart")], Policy(), NOON + span("5s"))

    assert (outcome.event, outcome.machine, outcome.problem) == ("E", "web_0", None)


def test_a_driver_returns_the_same_outcome_again() -> None:
    driver = SimulatedDriver()
    asked = [impact("restart")], Policy(), NOON + span("1m")

    assert driver.observe(*asked) == driver.observe(*asked) == SimulatedDriver().observe(*asked)


def test_a_driver_with_nothing_to_do_is_never_due() -> None:
    assert SimulatedDriver().due([], Policy()) is None


@pytest.mark.parametrize(
    ("mishap", "ends", "problem"),
    [
        pytest.param(Mishap.FAILS, span("5s"), "failed", id="it fails"),
        pytest.param(Mishap.LIES, span("5s"), "no sign of it", id="it says it is done and is not"),
        pytest.param(Mishap.HANGS, TIMEOUT, "no answer", id="it never answers"),
    ],
)
def test_an_impact_on_a_broken_machine_is_never_reported_as_done(
    mishap: Mishap, ends: timedelta, problem: str
) -> None:
    driver = SimulatedDriver()
    driver.mishaps[WEB_0] = InjectedMishap(mishap, attempts=2)
    broken = impact("restart", attempt=1)

    assert driver.observe([broken], Policy(), NOON + ends - span("1ms")) == []

    (outcome,) = driver.observe([broken], Policy(), NOON + ends)

    assert problem in (outcome.problem or "")


def test_a_fault_is_over_after_its_attempts() -> None:
    driver = SimulatedDriver()
    driver.mishaps[WEB_0] = InjectedMishap(Mishap.FAILS, attempts=2)

    (outcome,) = driver.observe([impact("restart", attempt=2)], Policy(), NOON + span("5s"))

    assert outcome.problem is None
