"""What every driver keeps to, whatever its machines are."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from fairwarning.core.causes import CAUSES
from fairwarning.core.fleet import Progress
from fairwarning.drivers.external import ExternalDriver
from fairwarning.drivers.simulated import InjectedMishap, Mishap, SimulatedDriver
from fairwarning.engine.ports import Driver, Lease
from tests.drivers.impacts import HOST, WEB_0, impact
from tests.fleet_harness import NOON, run, span

LEASE = Lease(key="driver", owner="here", fence=1, until=NOON + span("1m"))
INSTANTS = [NOON + offset for offset in (timedelta(0), span("5s"), span("59m"), span("1h"), span("2h"))]


def faulty() -> SimulatedDriver:
    driver = SimulatedDriver()
    driver.mishaps[WEB_0] = InjectedMishap(Mishap.HANGS, attempts=3)
    return driver


MakeDriver = Callable[[], Driver]

every_driver = pytest.mark.parametrize(
    "make",
    [
        pytest.param(SimulatedDriver, id="simulated"),
        pytest.param(lambda: SimulatedDriver(azure_timings=True), id="simulated with Azure's timings"),
        pytest.param(faulty, id="simulated with a machine that hangs"),
        pytest.param(ExternalDriver, id="external"),
    ],
)


@every_driver
def test_a_driver_has_a_name(make: MakeDriver) -> None:
    assert make().name in ("simulated", "external")


@every_driver
def test_there_is_one_observation_per_impact_in_the_order_of_the_impacts(make: MakeDriver) -> None:
    impacts = [impact(cause, event=cause, attempt=number) for number, cause in enumerate(CAUSES)]

    observations = run(make().observe(impacts, NOON + span("1m")))

    assert [(seen.event, seen.machine, seen.attempt) for seen in observations] == [
        (wanted.event, wanted.machine.name, wanted.attempt) for wanted in impacts
    ]


@every_driver
def test_nothing_to_do_is_nothing_to_see(make: MakeDriver) -> None:
    assert list(run(make().observe([], NOON))) == []


@every_driver
@pytest.mark.parametrize("now", INSTANTS)
def test_a_driver_looks_again_later_and_never_at_once(make: MakeDriver, now: datetime) -> None:
    observations = run(make().observe([impact(cause) for cause in CAUSES], now))

    assert all(seen.again_at is None or seen.again_at > now for seen in observations)


@every_driver
@pytest.mark.parametrize("now", INSTANTS)
def test_a_failure_says_why_and_what_has_ended_is_not_looked_at_again(
    make: MakeDriver, now: datetime
) -> None:
    for seen in run(make().observe([impact(cause) for cause in CAUSES], now)):
        ended = seen.progress in (Progress.DONE, Progress.FAILED)
        assert not ended or seen.again_at is None
        assert seen.progress is not Progress.FAILED or seen.problem


@every_driver
@pytest.mark.parametrize("now", INSTANTS)
def test_the_same_question_has_the_same_answer_also_after_a_restart(make: MakeDriver, now: datetime) -> None:
    driver, impacts = make(), [impact(cause) for cause in CAUSES]

    first = run(driver.observe(impacts, now))

    assert run(driver.observe(impacts, now)) == first
    assert run(make().observe(impacts, now)) == first


@every_driver
def test_a_repeated_beginning_changes_nothing(make: MakeDriver) -> None:
    driver, impacts = make(), [impact("restart")]
    run(driver.apply(impacts, LEASE))
    begun = run(driver.observe(impacts, NOON))

    run(driver.apply(impacts, LEASE))

    assert run(driver.observe(impacts, NOON)) == begun


@every_driver
def test_what_was_begun_has_begun(make: MakeDriver) -> None:
    driver, impacts = make(), [impact("restart")]

    run(driver.apply(impacts, LEASE))

    assert all(seen.progress is not Progress.NOT_BEGUN for seen in run(driver.observe(impacts, NOON)))


@every_driver
def test_a_driver_without_news_ends_its_watch_or_stays_silent(make: MakeDriver) -> None:
    async def news() -> list[object]:
        return [machine async for machine in make().watch()]

    assert run(news()) == []


@every_driver
def test_all_hosts_are_reached(make: MakeDriver) -> None:
    assert make().reaches(HOST)
