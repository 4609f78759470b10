"""The timer, tested without waiting: a loop that skips its sleeps, and a wall clock that can be set."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, Schedule
from fairwarning.core.model import Event, EventId, EventStatus, MachineRef, ScopeId, VmName
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.store.memory import MemoryStore
from tests.engine.disk import FULL, Disk
from tests.fleet_harness import NOON, span
from tests.virtual_time import LeapingLoop, WallClock, run_leaping

WEB = ScopeId("web")
RESTART = EventId("3F1C0A52-7B7E-4C55-9E0B-0C6A4B1D2E01")


class Scene:
    """A machine, an engine in real time and the timer that drives it."""

    def __init__(self, policy: Policy) -> None:
        self.clock = WallClock(asyncio.get_running_loop())
        self.engine = Engine(MemoryStore(), self.clock, SimulatedDriver(), policy)

    async def cause(self, notice: str) -> None:
        machines = (MachineRef(WEB, VmName("web_0")),)
        command = Schedule(id=RESTART, cause="restart", machines=machines, notice=span(notice))
        await self.engine.handle(command)

    @property
    def event(self) -> Event:
        return self.engine.scope(WEB).events[RESTART]


def play(story: Callable[[Scene], Coroutine[None, None, None]], policy: Policy) -> None:
    async def scene() -> None:
        stage = Scene(policy)
        await stage.engine.open()
        await stage.engine.handle(CreateSet(seed="seed", blueprint=Blueprint(name="web", count=1)))
        task = asyncio.create_task(timer.run(stage.engine, stage.clock))
        try:
            await story(stage)
        finally:
            task.cancel()
            await asyncio.wait([task])
            await stage.engine.close()

    with closing(LeapingLoop()) as loop:
        loop.run_until_complete(scene())


@pytest.mark.rule("L-02", "T-13")
def test_a_wall_clock_set_forward_starts_what_is_due_by_it_within_two_seconds() -> None:
    async def story(stage: Scene) -> None:
        await stage.cause("25s")
        await asyncio.sleep(1)

        stage.clock.set_by = span("30m")
        await asyncio.sleep(2)

        assert stage.event.status is EventStatus.STARTED

    play(story, Policy(start_enabled=True))


@pytest.mark.rule("L-02")
def test_a_wall_clock_set_back_starts_nothing_early() -> None:
    async def story(stage: Scene) -> None:
        await stage.cause("25s")
        not_before = stage.event.not_before
        await asyncio.sleep(20)

        stage.clock.set_by = -span("30m")
        await asyncio.sleep(1800)

        assert stage.event.status is EventStatus.SCHEDULED

        await asyncio.sleep(7)

        started = stage.event.started_at
        assert started is not None
        assert not_before <= started <= not_before + span("2s")

    play(story, Policy(start_enabled=True))


@pytest.mark.rule("L-02")
def test_with_a_steady_wall_clock_everything_starts_on_time() -> None:
    async def story(stage: Scene) -> None:
        await stage.cause("25s")
        not_before = stage.event.not_before

        await asyncio.sleep(26)

        started = stage.event.started_at
        assert started is not None
        assert not_before <= started <= not_before + span("100ms")

    play(story, Policy(start_enabled=True))


@pytest.mark.parametrize(
    ("policy", "most"),
    [
        pytest.param(Policy(disable_after=None), 0, id="nothing is due: it sleeps"),
        pytest.param(Policy(start_enabled=True), 3700, id="something is due: it looks once a second"),
    ],
)
def test_the_timer_wakes_no_more_often_than_it_must(policy: Policy, most: int) -> None:
    async def story(stage: Scene) -> None:
        await asyncio.sleep(1)
        stage.clock.looks = 0

        await asyncio.sleep(3600)

        assert stage.clock.looks <= most

    play(story, policy)


def test_on_a_manual_clock_too_a_request_that_failed_is_made_again() -> None:
    async def story() -> EventStatus:
        clock, disk = ManualClock(NOON), Disk()
        engine = Engine(disk, clock, SimulatedDriver(), Policy(start_enabled=True))
        await engine.open()
        await engine.handle(CreateSet(seed="seed", blueprint=Blueprint(name="web", count=1)))
        machines = (MachineRef(WEB, VmName("web_0")),)
        await engine.handle(Schedule(id=RESTART, cause="restart", machines=machines, notice=span("1m")))
        clock.set(NOON + span("1m"))
        disk.wrong = FULL
        task = asyncio.create_task(timer.run(engine, clock))
        await asyncio.sleep(3)

        disk.wrong = None
        await asyncio.sleep(3)

        task.cancel()
        await asyncio.wait([task])
        return engine.scope(WEB).events[RESTART].status

    assert run_leaping(story()) is EventStatus.STARTED
