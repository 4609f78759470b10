"""The reconciler: impacts are begun and looked at, whatever the driver does, and one moment is one commit."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import AddMachines, CreateSet, ReportOutcomes, Schedule
from fairwarning.core.fleet import Impact, Observation, Progress
from fairwarning.core.model import HostId, MachineRef, ScopeId, ScopeKind, VmName, derive_id
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Driver, Lease, Store
from fairwarning.engine.reconciler import DRIVER_CALLS, DRIVER_TIMEOUT, LOOK_AGAIN_AFTER
from fairwarning.store.memory import MemoryStore
from tests.engine.disk import FULL, Disk
from tests.fleet_harness import NOON, FleetHarness, run, span
from tests.virtual_time import WallClock, run_leaping

WEB = Blueprint(name="web", count=2)
PAIR = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2, update_domains=1, fault_domains=1)


class ScriptedDriver:
    """A driver that begins impacts when told to, ends them when a test says so, and can be broken."""

    name = "scripted"

    def __init__(self) -> None:
        self.begun: Counter[tuple[str, str, int]] = Counter()
        self.ended: set[VmName] = set()
        #: The number of attempts that fail, by machine.
        self.failing: dict[VmName, int] = {}
        self.looks: list[tuple[datetime, tuple[VmName, ...]]] = []
        self.unreachable: set[HostId] = set()
        self.hints: asyncio.Queue[MachineRef] = asyncio.Queue()
        #: Runs before each call, and may raise or never return.
        self.trouble: Callable[[Sequence[Impact]], Coroutine[None, None, None]] | None = None

    def reaches(self, host: HostId) -> bool:
        return host not in self.unreachable

    async def observe(self, impacts: Sequence[Impact], now: datetime) -> Sequence[Observation]:
        self.looks.append((now, tuple(impact.machine.name for impact in impacts)))
        if self.trouble is not None:
            await self.trouble(impacts)
        return [self._observe(impact) for impact in impacts]

    async def apply(self, impacts: Sequence[Impact], lease: Lease) -> None:
        self.begun.update((impact.event, impact.machine.name, impact.attempt) for impact in impacts)

    async def watch(self) -> AsyncIterator[MachineRef]:
        while True:
            yield await self.hints.get()

    def _observe(self, impact: Impact) -> Observation:
        if (impact.event, impact.machine.name, impact.attempt) not in self.begun:
            return impact.observed(Progress.NOT_BEGUN)
        if impact.attempt < self.failing.get(impact.machine.name, 0):
            return impact.observed(Progress.FAILED, problem="no power")
        ended = impact.machine.name in self.ended
        return impact.observed(Progress.DONE if ended else Progress.ACTING)


class Scene:
    """An engine in real time, its driver and its timer."""

    def __init__(self, driver: Driver, store: Store) -> None:
        self.clock = WallClock(asyncio.get_running_loop())
        self.engine = Engine(store, self.clock, driver, Policy(start_enabled=True))

    async def make(self, *names: str) -> None:
        for name in names:
            blueprint = Blueprint(name=name, kind=ScopeKind.STANDALONE)
            await self.engine.handle(CreateSet(seed=name, blueprint=blueprint))

    async def restart(self, *names: str, notice: str = "0s") -> None:
        for name in names:
            ref = MachineRef(ScopeId(name), VmName(name))
            event, length = derive_id("restart", name), span(notice)
            command = Schedule(id=event, cause="restart", machines=(ref,), notice=length)
            await self.engine.handle(command)

    async def ends(self) -> dict[str, timedelta]:
        """Return when the event of each machine ended, counted from noon."""
        lines = await self.engine.store.journal(limit=100_000)
        return {
            line.change.scope: line.at - NOON
            for line in lines
            if isinstance(line.change, EventChanged) and line.change.what is EventMilestone.FINISHED
        }


@asynccontextmanager
async def driven(driver: Driver, store: Store | None = None) -> AsyncIterator[Scene]:
    scene = Scene(driver, store or MemoryStore())
    await scene.engine.open()
    task = asyncio.create_task(timer.run(scene.engine, scene.clock))
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait([task])
        await scene.engine.close()


def looks_after_a_restart(driver: ScriptedDriver) -> list[timedelta]:
    """Restart a machine with ten seconds of notice; return when the driver was asked, counted from noon."""

    async def story() -> None:
        async with driven(driver) as scene:
            await scene.make("db")
            await scene.restart("db", notice="10s")
            await asyncio.sleep(60)

    run_leaping(story())
    return [at - NOON for at, _ in driver.looks]


# -- looking


def test_an_impact_is_begun_once_and_looked_at_as_soon_as_its_event_has_started() -> None:
    driver = ScriptedDriver()

    # Once to see that it has not begun, once to see that it has.
    assert looks_after_a_restart(driver) == [span("10s"), span("10s")]
    assert driver.begun == {(derive_id("restart", "db"), "db", 0): 1}


def test_a_machine_that_the_driver_points_out_is_looked_at_at_once() -> None:
    driver = ScriptedDriver()

    async def story() -> dict[str, timedelta]:
        async with driven(driver) as scene:
            await scene.make("db")
            await scene.restart("db")
            await asyncio.sleep(60)
            driver.ended.add(VmName("db"))
            driver.hints.put_nowait(MachineRef(ScopeId("db"), VmName("db")))
            driver.hints.put_nowait(MachineRef(ScopeId("gone"), VmName("gone")))
            await asyncio.sleep(60)
            return await scene.ends()

    assert run_leaping(story()) == {"db": span("1m")}


def test_machines_that_the_driver_does_not_reach_are_left_to_others() -> None:
    driver = ScriptedDriver()

    async def story() -> None:
        async with driven(driver) as scene:
            await scene.make("db")
            driver.unreachable.add(scene.engine.scope(ScopeId("db")).machines[VmName("db")].host)
            await scene.restart("db")
            await asyncio.sleep(60)

    run_leaping(story())

    assert driver.looks == []


def test_a_commit_that_begins_no_impact_makes_nobody_look_again() -> None:
    driver = ScriptedDriver()
    stage = FleetHarness(WEB, driver=driver)
    stage.cause("restart", "web_0", notice="0s")
    looked = len(driver.looks)

    stage.cause("restart", "web_1")
    stage.stop("web_1")

    assert len(driver.looks) == looked


# -- impacts that fail


def test_a_failed_impact_is_left_alone_until_its_retry() -> None:
    driver = ScriptedDriver()
    driver.failing[VmName("web_0")] = 3
    stage = FleetHarness(WEB, driver=driver)
    (event,) = stage.cause("restart", "web_0", notice="0s")

    stage.advance("1h")

    instants = dict.fromkeys(at - NOON for at, _ in driver.looks)
    assert list(instants) == [span("0s"), span("5s"), span("15s"), span("35s")]
    assert driver.begun == {(event, "web_0", attempt): 1 for attempt in range(4)}


def test_a_retry_is_due_at_its_instant_after_a_restart_of_the_server() -> None:
    driver = ScriptedDriver()
    driver.failing[VmName("web_0")] = 1
    stage = FleetHarness(WEB, driver=driver)
    stage.cause("restart", "web_0", notice="0s")
    driver.looks.clear()

    stage.restart()

    assert driver.looks == []
    assert stage.engine.next_deadline() == NOON + span("5s")


def test_only_the_machine_that_failed_is_acted_on_again() -> None:
    driver = ScriptedDriver()
    driver.failing[VmName("app-0")] = 2
    stage = FleetHarness(PAIR, driver=driver)
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")

    stage.advance("1h")

    retried = {(event, "app-0", attempt): 1 for attempt in range(3)}
    assert driver.begun == retried | {(event, "app-1", 0): 1}


# -- drivers that misbehave


async def hang(impacts: Sequence[Impact]) -> None:
    if impacts[0].machine.name == "a":
        await asyncio.Event().wait()


async def explode(impacts: Sequence[Impact]) -> None:
    if impacts[0].machine.name == "a":
        raise RuntimeError("the hypervisor is on fire")


@pytest.mark.parametrize("trouble", [hang, explode])
def test_a_driver_that_hangs_or_fails_delays_nobody_else_and_is_asked_again_later(
    trouble: Callable[[Sequence[Impact]], Coroutine[None, None, None]], caplog: pytest.LogCaptureFixture
) -> None:
    driver = ScriptedDriver()
    driver.trouble = trouble
    driver.ended |= {VmName("a"), VmName("b")}

    async def story() -> dict[str, timedelta]:
        async with driven(driver) as scene:
            await scene.make("a", "b", "c")
            await scene.restart("a")
            await scene.restart("b", "c", notice="1s")
            await asyncio.sleep(5)
            driver.trouble = None
            await asyncio.sleep(300)
            return await scene.ends()

    ends = run_leaping(story())

    assert ends["b"] == span("1s")
    assert LOOK_AGAIN_AFTER <= ends["a"] <= LOOK_AGAIN_AFTER + timedelta(seconds=DRIVER_TIMEOUT)
    assert "c" not in ends
    assert any("driver_failed driver=scripted scope=a" in record.message for record in caplog.records)


def test_however_many_calls_hang_deadlines_are_kept() -> None:
    driver = ScriptedDriver()

    async def hang_always(impacts: Sequence[Impact]) -> None:
        await asyncio.Event().wait()

    async def story() -> datetime | None:
        async with driven(driver) as scene:
            names = [f"vm{number}" for number in range(DRIVER_CALLS + 50)]
            driver.trouble = hang_always
            await scene.make("db", *names)
            await scene.restart(*names)
            await scene.restart("db", notice="3s")
            await asyncio.sleep(4)
            (event,) = scene.engine.scope(ScopeId("db")).events.values()
            return event.started_at

    assert run_leaping(story()) == NOON + span("3s")


def test_calls_that_found_no_place_are_made_once_there_is_one() -> None:
    driver = ScriptedDriver()
    release = asyncio.Event()

    async def hold(impacts: Sequence[Impact]) -> None:
        await release.wait()

    async def story() -> int:
        async with driven(driver) as scene:
            names = [f"vm{number}" for number in range(DRIVER_CALLS + 50)]
            driver.trouble, driver.ended = hold, set(map(VmName, names))
            await scene.make(*names)
            await scene.restart(*names)
            await asyncio.sleep(1)
            release.set()
            await asyncio.sleep(1)
            return len(await scene.ends())

    assert run_leaping(story()) == DRIVER_CALLS + 50


def test_a_scope_that_waits_for_a_call_costs_nothing_until_it_is_its_turn() -> None:
    class Asked(ScriptedDriver):
        asked = 0

        def reaches(self, host: HostId) -> bool:
            self.asked += 1
            return super().reaches(host)

    async def take_a_while(impacts: Sequence[Impact]) -> None:
        await asyncio.sleep(0.02)

    async def questions_per_scope(scopes: int) -> float:
        driver = Asked()
        names = [f"vm{number}" for number in range(scopes)]
        driver.trouble, driver.ended = take_a_while, set(map(VmName, names))
        async with driven(driver) as scene:
            await scene.make(*names)
            await scene.restart(*names)
            await asyncio.sleep(5)
            assert len(await scene.ends()) == scopes
        return driver.asked / scopes

    few, many = (run_leaping(questions_per_scope(calls * DRIVER_CALLS)) for calls in (1, 6))

    assert many <= few + 1


class Cancelling(ScriptedDriver):
    """A driver whose watch is cancelled from inside."""

    async def watch(self) -> AsyncIterator[MachineRef]:
        connection = asyncio.create_task(asyncio.sleep(100))
        asyncio.get_running_loop().call_later(1, connection.cancel)
        await connection
        yield await self.hints.get()


class FailingToEnd(ScriptedDriver):
    """A driver whose watch fails when it is cancelled."""

    async def watch(self) -> AsyncIterator[MachineRef]:
        try:
            yield await self.hints.get()
        finally:
            raise ConnectionResetError("closed twice")


class EndingQuietly(ScriptedDriver):
    """A driver whose watch does not let a cancellation out."""

    async def watch(self) -> AsyncIterator[MachineRef]:
        try:
            yield await self.hints.get()
        except asyncio.CancelledError:
            return


def test_a_watch_that_is_cancelled_from_inside_leaves_the_deadlines_alone() -> None:
    assert looks_after_a_restart(Cancelling()) == [span("10s"), span("10s")]


@pytest.mark.parametrize("driver", [FailingToEnd, EndingQuietly])
def test_a_timer_that_is_cancelled_ends_whatever_the_watch_does(driver: type[ScriptedDriver]) -> None:
    async def story() -> bool:
        scene = Scene(driver(), MemoryStore())
        await scene.engine.open()
        task = asyncio.create_task(timer.run(scene.engine, scene.clock))
        await asyncio.sleep(1)
        task.cancel()
        ended, _ = await asyncio.wait([task], timeout=3600)
        task.cancel()
        await scene.engine.close()
        return bool(ended)

    assert run_leaping(story())


def test_a_watch_that_fails_leaves_the_deadlines_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Blind(SimulatedDriver):
        async def watch(self) -> AsyncIterator[MachineRef]:
            raise RuntimeError("no such socket")
            yield

    async def story() -> dict[str, timedelta]:
        async with driven(Blind()) as scene:
            await scene.make("db")
            await scene.restart("db")
            await asyncio.sleep(60)
            return await scene.ends()

    assert run_leaping(story()) == {"db": span("5s")}
    assert any("driver_watch_failed" in record.message for record in caplog.records)


def test_a_look_that_comes_too_late_for_its_event_is_forgotten() -> None:
    driver = ScriptedDriver()
    stage = FleetHarness(WEB, driver=driver)
    (event,) = stage.cause("restart", "web_0", notice="0s")
    at_rest = stage.engine.next_deadline()

    async def end_elsewhere(impacts: Sequence[Impact]) -> None:
        done = Observation(event=event, machine=VmName("web_0"), progress=Progress.DONE)
        await stage.engine.handle(ReportOutcomes(scope=ScopeId("web"), observations=(done,)))
        raise RuntimeError("the hypervisor is on fire")

    driver.trouble = end_elsewhere
    stage.engine.reconciler.look(ScopeId("web"))
    run(stage.engine.tick())

    assert stage.story(event) == ["scheduled", "started", "finished"]
    assert stage.engine.next_deadline() == at_rest


def test_a_first_look_that_the_store_has_failed_is_repeated() -> None:
    driver = ScriptedDriver()

    async def fail(impacts: Sequence[Impact]) -> None:
        raise FULL

    async def story() -> list[timedelta]:
        async with driven(driver) as scene:
            driver.trouble = fail
            await scene.make("db")
            await scene.restart("db")
            await asyncio.sleep(1.5)
            driver.trouble = None
            await asyncio.sleep(5)
            return [at - NOON for at, _ in driver.looks]

    # Three times until the store works again, and once to see that the impact has begun.
    assert run_leaping(story()) == [span("0s"), span("1s"), span("2s"), span("2s")]
    assert driver.begun == {(derive_id("restart", "db"), "db", 0): 1}


# -- requests


def test_an_observation_of_a_machine_that_was_replaced_meanwhile_says_nothing_about_the_new_one() -> None:
    driver = ScriptedDriver()
    stage = FleetHarness(PAIR, driver=driver)
    app, app_0 = ScopeId("app"), VmName("app-0")
    (event,) = stage.cause("host-reboot", "app-0", "app-1", notice="0s")
    (deleted,) = stage.cause("delete", "app-0", force=True)

    async def forget(impacts: Sequence[Impact]) -> None:
        driver.ended.clear()

    async def replace(impacts: Sequence[Impact]) -> None:
        driver.trouble = forget
        gone = Observation(event=deleted, machine=app_0, progress=Progress.DONE, exists=False)
        await stage.engine.handle(ReportOutcomes(scope=app, observations=(gone,)))
        await stage.engine.handle(AddMachines(seed="new", scope=app, names=("app-0",)))

    driver.trouble = replace
    driver.ended.add(app_0)
    stage.engine.reconciler.look(app)
    run(stage.engine.tick())

    assert stage.machines("app") == ["app-1", "app-0"]
    assert stage.event(event).done == ()


def test_what_ends_and_what_begins_in_a_scope_at_one_moment_is_one_commit() -> None:
    stage = FleetHarness(WEB)
    stage.cause("restart", "web_0", notice="0s")
    stage.cause("restart", "web_1", notice="5s")

    stage.advance("5s")

    together = [entry for entry in stage.journal() if entry.at == NOON + span("5s")]
    milestones = [entry.change.what for entry in together if isinstance(entry.change, EventChanged)]
    assert {*milestones} == {EventMilestone.PROGRESSED, EventMilestone.FINISHED, EventMilestone.STARTED}
    assert len({entry.version for entry in together}) == 1


def test_scopes_are_handled_in_the_order_of_their_names() -> None:
    names = ("c", "a", "b")
    stage = FleetHarness(*(Blueprint(name=name, count=1) for name in names))
    for name in names:
        stage.cause("restart", f"{name}_0", notice="1m")

    stage.advance("2m")

    for milestone in ("started", "finished"):
        assert [line.scope for line in stage.history() if line.kind == milestone] == ["a", "b", "c"]


def test_an_outcome_that_could_not_be_stored_is_due_still() -> None:
    disk = Disk()
    stage = FleetHarness(WEB, store=disk)
    (event,) = stage.cause("restart", "web_0", notice="0s")
    disk.wrong = FULL

    with pytest.raises(type(FULL)):
        stage.advance("5s")

    assert stage.engine.next_deadline() == NOON + span("5s")

    disk.wrong = None
    stage.advance("0s")

    assert stage.story(event) == ["scheduled", "started", "finished"]


def test_in_real_time_a_request_that_failed_is_made_again_a_second_later() -> None:
    async def story() -> tuple[int, dict[str, timedelta]]:
        disk = Disk()
        async with driven(SimulatedDriver(), disk) as scene:
            await scene.make("db")
            await scene.restart("db")
            disk.wrong, disk.tried = FULL, 0
            await asyncio.sleep(9.5)
            disk.wrong, tried = None, disk.tried
            await asyncio.sleep(5)
            return tried, await scene.ends()

    tried, ends = run_leaping(story())

    assert tried == 5
    assert span("9s") < ends["db"] <= span("11s")


def test_rest_returns_when_nothing_is_left_and_does_not_fail_with_the_store() -> None:
    disk = Disk()
    stage = FleetHarness(WEB, store=disk)
    stage.cause("restart", "web_0", notice="0s")
    stage.clock.set(NOON + span("5s"))
    disk.wrong = FULL

    run(stage.engine.rest())

    assert stage.pending("web")
    disk.wrong = None
    run(stage.engine.rest())
    assert not stage.pending("web")
