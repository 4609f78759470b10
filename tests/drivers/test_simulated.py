"""The simulated driver: how long an impact takes, and the ways in which it goes wrong."""

from datetime import datetime, timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.causes import CAUSES
from fairwarning.core.fleet import Impact, Observation, Progress
from fairwarning.core.model import EventStatus, HostId
from fairwarning.drivers.simulated import TIMEOUT, InjectedMishap, Mishap, SimulatedDriver
from tests.drivers.impacts import WEB_0, impact
from tests.fleet_harness import NOON, FleetHarness, run, span


def observe(driver: SimulatedDriver, seen: Impact, at: datetime) -> Observation:
    (observation,) = run(driver.observe([seen], at))
    return observation


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
    assert observe(SimulatedDriver(), impact(cause), NOON).again_at == NOON + span(lasts)


@pytest.mark.rule("L-07")
@pytest.mark.parametrize("cause", [cause for cause in CAUSES if CAUSES[cause].lasts])
def test_with_azures_timings_an_impact_takes_as_long_as_on_azure(cause: str) -> None:
    driver = SimulatedDriver(azure_timings=True)

    assert observe(driver, impact(cause), NOON).again_at == NOON + CAUSES[cause].lasts


@pytest.mark.rule("T-28")
@pytest.mark.parametrize(
    ("cause", "seen", "progress"),
    [
        pytest.param("delete", False, Progress.DONE, id="a delete without a warning takes no time"),
        pytest.param("delete", True, Progress.ACTING, id="a delete with a warning takes its time"),
        pytest.param("restart", False, Progress.ACTING, id="so does a restart"),
    ],
)
def test_a_delete_that_warns_no_machine_need_not_wait(cause: str, seen: bool, progress: Progress) -> None:
    unannounced = impact(cause)._replace(seen=seen)

    assert observe(SimulatedDriver(unseen_deletes_wait=False), unannounced, NOON).progress is progress
    assert observe(SimulatedDriver(), unannounced, NOON).progress is Progress.ACTING


@pytest.mark.rule("T-28")
def test_a_forced_delete_need_not_wait_unless_its_machine_was_warned() -> None:
    web = Blueprint(name="web", count=3, terminate_notice=span("10m"))
    fleet = FleetHarness(web, driver=SimulatedDriver(unseen_deletes_wait=False))

    (announced,) = fleet.cause("delete", "web_0")
    fleet.cause("delete", "web_1", force=True)
    at_once = fleet.machines("web"), fleet.status(announced)
    fleet.cause("delete", "web_0", force=True)
    forced = fleet.machines("web"), fleet.status(announced)
    fleet.advance("5s")

    assert at_once == (["web_0", "web_2"], EventStatus.SCHEDULED)
    assert forced == (["web_0", "web_2"], EventStatus.STARTED)
    assert fleet.machines("web") == ["web_2"]


def test_speed_shortens_an_impact() -> None:
    fast = impact("host-update", speed=60)

    assert observe(SimulatedDriver(), fast, NOON).again_at == NOON + timedelta(seconds=0.5)


def test_an_impact_is_in_progress_until_it_is_over() -> None:
    driver = SimulatedDriver()

    assert observe(driver, impact("restart"), NOON + span("4s")).progress is Progress.ACTING

    ended = observe(driver, impact("restart"), NOON + span("5s"))

    assert (ended.event, ended.machine, ended.progress) == ("E", "web_0", Progress.DONE)
    assert (ended.problem, ended.again_at) == (None, None)


def test_two_moves_that_end_together_are_two_moves() -> None:
    moves = [impact("redeploy", event="E1"), impact("platform-redeploy", event="E2")]

    observations = run(SimulatedDriver().observe(moves, NOON + span("1m")))

    assert [seen.host for seen in observations] == ["h-1~2", "h-1~3"]


def test_a_machine_that_has_moved_before_moves_on() -> None:
    moved = observe(SimulatedDriver(), impact("redeploy", host=HostId("h-1~2")), NOON + span("1m"))

    assert moved.host == "h-1~3"


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

    assert observe(driver, broken, NOON + ends - span("1ms")).progress is Progress.ACTING

    failed = observe(driver, broken, NOON + ends)

    assert failed.progress is Progress.FAILED
    assert problem in (failed.problem or "")


def test_a_fault_is_over_after_its_attempts() -> None:
    driver = SimulatedDriver()
    driver.mishaps[WEB_0] = InjectedMishap(Mishap.FAILS, attempts=2)

    assert observe(driver, impact("restart", attempt=2), NOON + span("5s")).progress is Progress.DONE
