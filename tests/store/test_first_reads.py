"""First reads are recorded in memory, stored soon afterwards, and end with their event."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import TextChanged
from fairwarning.core.commands import Approve, Cancel, Command, CreateSet, DeleteScopes, Schedule
from fairwarning.core.model import Event, EventId, MachineRef, ScopeId, VmName, derive_id
from fairwarning.core.policy import Policy
from fairwarning.core.stored.kinds import FIRST_READS
from fairwarning.core.stored.releases import NEWEST, OLDEST
from fairwarning.database.check import CheckReport
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.operations import FleetDatabase, back_up, check_database, restore
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import Clock, ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.engine.time_control import advance_to
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore
from tests.fleet_harness import NOON
from tests.store.gate import Gate, turns
from tests.store.stories import Stage
from tests.virtual_time import WallClock, run_leaping

WEB, E1 = ScopeId("web"), derive_id("first")
WEB_0, WEB_1 = VmName("web_0"), VmName("web_1")
SECOND = timedelta(seconds=1)


async def node(store: Store, clock: Clock) -> Engine:
    """Open a node on a store."""
    engine = Engine(store, clock, SimulatedDriver(), Policy(start_enabled=True))
    await engine.open()
    return engine


def past() -> ManualClock:
    """Return a clock that is behind that of every database, which refuses the future."""
    return ManualClock(datetime.now(UTC) - timedelta(days=1))


async def announce(engine: Engine, *names: VmName, event_id: EventId = E1) -> Event:
    """Announce an update of the host of the machines, and return the event."""
    machines = tuple(MachineRef(WEB, name) for name in names)
    await engine.handle(Schedule(id=event_id, cause="host-update", machines=machines))
    return engine.scope(WEB).events[event_id]


async def fleet(store: Store, clock: Clock) -> tuple[Engine, Event]:
    """Open a node whose fleet has an event of two machines."""
    engine = await node(store, clock)
    await engine.handle(CreateSet(seed="web", blueprint=Blueprint(name="web", count=2)))
    return engine, await announce(engine, WEB_0)


def stored(engine: Engine) -> list[str]:
    return [key for key in engine.texts() if FIRST_READS.has(key)]


@pytest.mark.rule("R-30")
def test_a_first_read_is_stored_and_known_after_a_restart(play: Stage) -> None:
    async def story(store: Store) -> None:
        clock = past()
        engine, event = await fleet(store, clock)
        engine.record_read(WEB_0, [event])
        await engine.flush_polls()

        restarted = await node(store, clock)

        assert restarted.first_reads(event) == engine.first_reads(event) == {WEB_0: clock.now()}
        assert stored(restarted) == [FIRST_READS.key(E1)]

    play(story)


#: What ends the event, and after how long.
ENDS: Mapping[str, tuple[Command, timedelta]] = {
    "the event is cancelled": (Cancel(scope=WEB, id=E1), timedelta(0)),
    "the event is over": (Approve(scope=WEB, ids=(E1,)), timedelta(minutes=1)),
    "the scope is deleted": (
        DeleteScopes(id=derive_id("gone"), scopes=(WEB,), force=True),
        timedelta(minutes=1),
    ),
}


@pytest.mark.rule("R-30")
@pytest.mark.parametrize("end", ENDS)
def test_first_reads_are_forgotten_with_their_event(play: Stage, end: str) -> None:
    async def story(store: Store) -> None:
        clock = past()
        engine, event = await fleet(store, clock)
        engine.record_read(WEB_0, [event])
        await engine.flush_polls()
        before = stored(engine)

        command, after = ENDS[end]
        await engine.handle(command)
        await advance_to(engine, clock, clock.now() + after)

        assert before == [FIRST_READS.key(E1)]
        assert stored(engine) == stored(await node(store, clock)) == []
        assert engine.first_reads(event) == {}

    play(story)


@pytest.mark.rule("R-30")
def test_a_read_of_an_event_that_is_gone_meanwhile_is_not_stored() -> None:
    async def story() -> None:
        gate = Gate(MemoryStore())
        engine, event = await fleet(gate, WallClock(asyncio.get_running_loop()))
        gate.open = False
        engine.record_read(WEB_0, [event])
        cancelling = asyncio.create_task(engine.handle(Cancel(scope=WEB, id=E1)))
        await turns()
        gate.open = True
        await gate.let_through()
        await cancelling
        await engine.flush_polls()

        assert stored(engine) == []
        assert engine.first_reads(event) == {}

    run_leaping(story())


@pytest.mark.rule("R-30")
def test_many_first_reads_are_stored_together_and_at_most_once_a_second() -> None:
    async def story() -> tuple[int, int]:
        store = Gate(MemoryStore())
        engine = await node(store, WallClock(asyncio.get_running_loop()))
        await engine.handle(CreateSet(seed="web", blueprint=Blueprint(name="web", count=200)))
        events = [
            await announce(engine, name, event_id=derive_id(name)) for name in engine.scope(WEB).machines
        ]
        before = len(store.batches)
        for number, event in enumerate(events):
            engine.record_read(event.resources[0], [event])
            if number % 100 == 99:
                await asyncio.sleep(0.5)
        await asyncio.sleep(2)
        return len(store.batches) - before, len(stored(engine))

    assert run_leaping(story()) == (2, 200)


@pytest.mark.rule("R-30")
def test_no_read_waits_until_it_is_stored() -> None:
    async def story() -> None:
        gate = Gate(MemoryStore())
        engine, event = await fleet(gate, ManualClock(NOON))
        gate.open = False

        engine.record_read(WEB_0, [event])
        await turns()

        assert engine.first_reads(event) == {WEB_0: NOON}
        assert stored(engine) == []

    asyncio.run(story())


@pytest.mark.rule("R-30")
def test_a_server_that_is_killed_loses_only_the_reads_that_it_has_not_stored(tmp_path: Path) -> None:
    async def story() -> None:
        clock, store = ManualClock(NOON), await SqliteStore.open(tmp_path)
        gate = Gate(store)
        engine, first = await fleet(gate, clock)
        second = await announce(engine, WEB_1, event_id=derive_id("second"))
        engine.record_read(WEB_0, [first])
        await engine.flush_polls()
        gate.open = False
        engine.record_read(WEB_1, [second])
        await turns()
        await store.close()  # the node never gets to store the second read
        clock.set(NOON + SECOND)

        reopened = await SqliteStore.open(tmp_path)
        restarted = await node(reopened, clock)
        known = [dict(restarted.first_reads(event)) for event in (first, second)]
        restarted.record_read(WEB_1, [second])
        await restarted.close()
        await reopened.close()

        assert known == [{WEB_0: NOON}, {}]
        assert restarted.first_reads(second) == {WEB_1: NOON + SECOND}

    asyncio.run(story())


@pytest.mark.rule("R-30")
@pytest.mark.rule("U-01")
def test_until_an_upgrade_is_finished_first_reads_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        store = MemoryStore()
        engine, event = await fleet(store, WallClock(asyncio.get_running_loop()))
        monkeypatch.setattr(store, "oldest_reader", OLDEST, raising=False)
        engine.record_read(WEB_0, [event])
        await asyncio.sleep(60)
        known, written = engine.first_reads(event), stored(engine)
        monkeypatch.setattr(store, "oldest_reader", NEWEST)

        await asyncio.sleep(1)

        assert (known, written) == ({WEB_0: NOON}, [])
        assert engine.first_reads(event) == {WEB_0: NOON}
        assert stored(engine) == [FIRST_READS.key(E1)]

    run_leaping(story())


@pytest.mark.rule("R-30")
def test_what_could_not_be_stored_is_stored_a_second_later() -> None:
    async def story() -> None:
        gate = Gate(MemoryStore())
        engine, event = await fleet(gate, WallClock(asyncio.get_running_loop()))
        gate.fails_after = 0
        engine.record_read(WEB_0, [event])
        await asyncio.sleep(0.5)
        written = stored(engine)

        await asyncio.sleep(1)

        assert written == []
        assert stored(engine) == [FIRST_READS.key(E1)]

    run_leaping(story())


@pytest.mark.rule("R-30")
def test_unstored_reads_of_an_event_that_is_gone_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        store = MemoryStore()
        engine, event = await fleet(store, ManualClock(NOON))
        monkeypatch.setattr(store, "oldest_reader", OLDEST, raising=False)
        engine.record_read(WEB_0, [event])
        await engine.flush_polls()

        await engine.handle(Cancel(scope=WEB, id=E1))

        assert engine.first_reads(event) == {}

    asyncio.run(story())


@pytest.mark.rule("R-30")
def test_first_reads_pass_the_check_and_are_in_a_backup(tmp_path: Path) -> None:
    def check(database: FleetDatabase) -> CheckReport:
        return check_database(database)

    async def write() -> Event:
        store = await SqliteStore.open(tmp_path / "data")
        engine, event = await fleet(store, ManualClock(NOON))
        engine.record_read(WEB_0, [event])
        await engine.close()
        await store.close()
        return event

    async def read(event: Event) -> Mapping[VmName, datetime]:
        store = await SqliteStore.open(tmp_path / "restored")
        engine = await node(store, ManualClock(NOON))
        await store.close()
        return engine.first_reads(event)

    event = asyncio.run(write())
    checked = check(DataDirectory(tmp_path / "data"))
    back_up(DataDirectory(tmp_path / "data"), tmp_path / "backup")
    restore(DataDirectory(tmp_path / "restored"), tmp_path / "backup")

    assert not checked.findings.total
    assert not check(DataDirectory(tmp_path / "restored")).findings.total
    assert asyncio.run(read(event)) == {WEB_0: NOON}


@pytest.mark.rule("R-30")
def test_storing_first_reads_changes_neither_scopes_nor_versions() -> None:
    async def story() -> None:
        store = MemoryStore()
        engine, event = await fleet(store, ManualClock(NOON))
        scope, written = engine.scope(WEB), await store.last()

        engine.record_read(WEB_0, [event])
        await engine.flush_polls()

        assert engine.scope(WEB) is scope
        assert [line.change for line in await store.journal(after=written)] == [
            TextChanged(key=FIRST_READS.key(E1), text=FIRST_READS.encode({WEB_0: NOON}))
        ]

    asyncio.run(story())
