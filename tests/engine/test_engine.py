"""Load, decide, commit, publish: in that order, also if the store fails or another process writes."""

import asyncio
from collections.abc import Sequence

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, CreateSet, Schedule
from fairwarning.core.errors import NameTakenError, UnknownEventError, UnknownMachineError, UnknownScopeError
from fairwarning.core.model import EventId, EventStatus, MachineRef, ScopeId, ScopeKind, VmName
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock, SystemClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Batch, Entry
from fairwarning.engine.reconciler import MOST_AT_ONCE
from fairwarning.engine.timer import run as run_timer
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import NOON, FleetHarness, run, span

WEB, APP = Blueprint(name="web", count=3), Blueprint(name="app", count=3)
SCOPE = ScopeId("web")
WEB_0 = MachineRef(SCOPE, VmName("web_0"))
APP_0 = MachineRef(ScopeId("app"), VmName("app_0"))
RESTART = EventId("3F1C0A52-7B7E-4C55-9E0B-0C6A4B1D2E01")


class BadDisk(MemoryStore):
    """A store that fails or is slow on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.batches: list[int] = []
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        await self.may_write.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        self.batches.append(len(batch.parts))
        return await super().commit(batch)


def restart(ref: MachineRef = WEB_0, event: EventId = RESTART) -> Schedule:
    return Schedule(id=event, cause="restart", machines=(ref,))


async def turn(times: int = 20) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


# -- a store that fails


def test_what_could_not_be_kept_has_not_happened() -> None:
    disk = BadDisk()
    stage = FleetHarness(WEB, store=disk)
    before = stage.scope("web")
    disk.failures = 1

    with pytest.raises(OSError, match="disk full"):
        stage.do(restart())

    assert stage.scope("web") == before
    assert stage.story(RESTART) == []

    with pytest.raises(UnknownEventError):
        stage.approve(RESTART, by="web_0")
    stage.do(restart())

    assert stage.status(RESTART) is EventStatus.SCHEDULED


def test_an_approval_that_was_lost_is_not_taken_for_granted() -> None:
    disk = BadDisk()
    stage = FleetHarness(WEB, store=disk)
    stage.do(restart())
    disk.failures = 1

    with pytest.raises(OSError, match="disk full"):
        stage.approve(RESTART, by="web_0")
    stage.approve(RESTART, by="web_1")

    assert stage.event(RESTART).approved_by == "web_1"
    assert stage.story(RESTART) == ["scheduled", "approved", "started"]


def test_a_deadline_that_could_not_be_kept_is_due_still() -> None:
    disk = BadDisk()
    stage = FleetHarness(WEB, store=disk)
    stage.do(restart())
    disk.failures = 1

    with pytest.raises(OSError, match="disk full"):
        stage.advance("15m")

    assert stage.engine.next_deadline() == NOON + span("15m")

    stage.advance("1h")

    assert stage.story(RESTART) == ["scheduled", "started", "finished"]


def test_what_was_lost_leaves_no_trace_in_what_is_decided_next() -> None:
    disk = BadDisk()
    stage = FleetHarness(WEB, store=disk)
    disk.failures = 3

    for _ in range(3):
        with pytest.raises(OSError, match="disk full"):
            stage.do(restart())
    stage.do(restart())

    assert [entry.version for entry in stage.journal()][-1] == stage.scope("web").version
    assert stage.story(RESTART) == ["scheduled"]
    assert stage.incarnation("web") == 2


# -- order and batches


def test_no_reader_sees_a_change_before_it_is_committed() -> None:
    async def story() -> tuple[int, int, int]:
        disk = BadDisk()
        engine = Engine(disk, ManualClock(NOON), SimulatedDriver(), Policy(start_enabled=True))
        await engine.open()
        await engine.handle(CreateSet(seed="seed", blueprint=WEB))
        disk.may_write.clear()
        with engine.feed.subscribe() as listener:
            task = asyncio.create_task(engine.handle(restart()))
            await turn()
            early = engine.scope(SCOPE).incarnation
            disk.may_write.set()
            await task
            entry = await listener.next()
        return early, engine.scope(SCOPE).incarnation, entry.seq

    early, late, seq = run(story())

    assert (early, late) == (1, 2)
    assert seq > 0


def test_an_answer_that_rests_on_an_unkept_decision_waits_for_it() -> None:
    async def story() -> bool:
        disk = BadDisk()
        engine = Engine(disk, ManualClock(NOON), SimulatedDriver(), Policy(start_enabled=True))
        await engine.open()
        await engine.handle(CreateSet(seed="seed", blueprint=WEB))
        await engine.handle(restart())
        approve = Approve(scope=SCOPE, ids=(RESTART,))
        disk.may_write.clear()
        first = asyncio.create_task(engine.handle(approve))
        second = asyncio.create_task(engine.handle(approve))
        await turn()
        answered = second.done()
        disk.may_write.set()
        await asyncio.gather(first, second)
        return answered

    assert not run(story())


def test_what_is_decided_while_the_store_writes_is_written_together() -> None:
    async def story() -> list[int]:
        disk = BadDisk()
        engine = Engine(disk, ManualClock(NOON), SimulatedDriver(), Policy(start_enabled=True))
        await engine.open()
        await engine.handle(CreateSet(seed="seed", blueprint=Blueprint(name="web", count=50)))
        disk.batches.clear()
        machines = engine.scope(SCOPE).machines.values()
        await asyncio.gather(*(engine.handle(restart(m.ref, EventId(m.name.upper()))) for m in machines))
        assert engine.scope(SCOPE).incarnation == 51
        return disk.batches

    batches = run(story())

    assert sum(batches) == 50
    assert len(batches) <= 3


def test_more_scopes_than_are_attended_to_at_once_are_all_attended_to() -> None:
    stage = FleetHarness(policy=Policy(start_enabled=True))
    count = MOST_AT_ONCE + 10
    for number in range(count):
        stage.make(Blueprint(name=f"vm{number}", kind=ScopeKind.STANDALONE), watched=False)
        stage.cause("restart", f"vm{number}")

    stage.advance("15m5s")

    assert sum(line.kind == "finished" for line in stage.history()) == count


# -- another writer


def test_a_command_decided_on_old_news_is_decided_again() -> None:
    store = MemoryStore()
    here = FleetHarness(WEB, store=store)
    there = FleetHarness(store=store)

    there.do(restart())
    here.do(restart(MachineRef(SCOPE, VmName("web_1")), EventId("OTHER")))

    assert [event.id for event in here.pending("web")] == [RESTART, "OTHER"]
    assert here.incarnation("web") == 3


def test_a_command_that_another_writers_change_forbids_is_refused() -> None:
    store = MemoryStore()
    here, there = FleetHarness(store=store), FleetHarness(store=store)
    there.make(WEB)

    with pytest.raises(NameTakenError):
        here.make(WEB)


# -- the rest


@pytest.mark.rule("L-11")
def test_a_command_that_changes_nothing_writes_nothing() -> None:
    stage = FleetHarness(WEB)
    stage.do(restart())
    stage.approve(RESTART, by="web_0")
    written = stage.journal()

    stage.approve(RESTART, by="web_1")
    run(stage.engine.tick())

    assert stage.journal() == written


@pytest.mark.rule("L-05")
def test_a_change_of_speed_moves_what_is_under_way_and_no_promise() -> None:
    stage = FleetHarness(WEB, azure_timings=True)
    stage.do(restart())
    promised = stage.event(RESTART).not_before

    stage.engine.set_speed(60)
    stage.wait_until(promised)

    assert stage.event(RESTART).started_at == promised

    stage.advance("10s")

    assert stage.status(RESTART) is EventStatus.GONE


def test_what_does_not_exist_is_unknown() -> None:
    stage = FleetHarness(WEB)

    with pytest.raises(UnknownScopeError):
        stage.scope("nothing")
    with pytest.raises(UnknownMachineError):
        stage.engine.machine(MachineRef(SCOPE, VmName("web_9")))
    with pytest.raises(UnknownMachineError):
        run(stage.engine.poll(MachineRef(SCOPE, VmName("web_9"))))


@pytest.mark.rule("L-02")
def test_in_real_time_a_timer_keeps_every_deadline() -> None:
    async def story() -> list[str]:
        clock = SystemClock()
        engine = Engine(MemoryStore(), clock, SimulatedDriver(), Policy(start_enabled=True, speed=100_000))
        await engine.open()
        timer = asyncio.create_task(run_timer(engine, clock))
        await engine.handle(CreateSet(seed="seed", blueprint=WEB))
        await engine.handle(Schedule(id=RESTART, cause="hardware-failure", machines=(WEB_0,)))
        while engine.scope(SCOPE).events:
            await engine.feed.document_change(SCOPE)
        timer.cancel()
        await asyncio.wait([timer])
        return [type(entry.change).__name__ for entry in await engine.store.journal(event=RESTART)]

    assert run(story()) == ["EventChanged"] * 3
