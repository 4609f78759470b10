"""Group commit: many requests, few transactions, and a confirmed request is certainly stored."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone, Published, TextChanged
from fairwarning.core.commands import ApplyInventory, Approve, CreateSet, RecordInventory, Schedule
from fairwarning.core.errors import OlderInventoryError, UnfinishedMigrationError, UnknownEventError
from fairwarning.core.history import CommandRefused
from fairwarning.core.inventory import InventoryVersion
from fairwarning.core.model import OPERATOR, PLATFORM, EventId, Machine, MachineRef, ScopeId, VmName
from fairwarning.core.policy import Policy
from fairwarning.core.stored.gate import SINCE
from fairwarning.core.stored.kinds import INVENTORY
from fairwarning.core.stored.releases import NEWEST, OLDEST
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Aggregate, AggregateKind, Batch, Entry, StaleBatchError, Store
from fairwarning.engine.requests import Caller, Plan, View
from fairwarning.store.memory import MemoryStore
from tests.conftest import NOON
from tests.store.gate import Gate, turns
from tests.store.stores import STORES, opened, text_key

WEB = ScopeId("web")
E1, E2, E3 = EventId("E1"), EventId("E2"), EventId("E3")
WORKS, FAILS_BEFORE, FAILS_AFTER = "works", "fails before", "fails after"


class Unreliable(MemoryStore):
    """A store that fails as planned, before or after it has written, and works from then on."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: list[str] = []

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        await asyncio.sleep(0)
        fate = self.plan.pop() if self.plan else WORKS
        if fate == FAILS_BEFORE:
            raise OSError("disk full")
        entries = await super().commit(batch)
        if fate == FAILS_AFTER:
            raise OSError("no answer")
        return entries


async def started(gate: Store, *events: EventId) -> Engine:
    """Return an engine with a set of machines, and an event on each of the first machines."""
    engine = Engine(gate, ManualClock(NOON), SimulatedDriver(), Policy(start_enabled=True))
    await engine.open()
    await engine.handle(CreateSet(seed="seed", blueprint=Blueprint(name="web", count=max(len(events), 1))))
    machines = [machine.ref for machine in engine.scope(WEB).machines.values()]
    for event, machine in zip(events, machines, strict=False):
        await engine.handle(restart(event, machine))
    return engine


def restart(event: EventId, machine: MachineRef) -> Schedule:
    return Schedule(id=event, cause="restart", machines=(machine,))


def approve(*events: EventId, by: str = "operator") -> Approve:
    return Approve(scope=WEB, ids=events, by=by)


async def approved_by(store: Store, event: EventId) -> list[str]:
    """Return who approved an event, as far as the store knows."""
    changes = [entry.change for entry in await store.journal(event=event)]
    return [
        one.by for one in changes if isinstance(one, EventChanged) and one.what is EventMilestone.APPROVED
    ]


def requests(gate: Gate) -> list[int]:
    """Return the number of requests in each batch."""
    return [len(batch.parts) for batch in gate.batches]


def test_while_one_batch_is_written_the_next_one_gathers() -> None:
    async def story() -> list[int]:
        gate = Gate(MemoryStore())
        engine = await started(gate, E1, E2, E3)
        gate.open = False
        gate.batches.clear()
        first = asyncio.create_task(engine.handle(approve(E1)))
        await turns()
        others = [asyncio.create_task(engine.handle(approve(one))) for one in (E2, E3)]
        await turns()
        assert not first.done()
        await gate.let_through()
        await first
        assert not any(one.done() for one in others)
        await gate.let_through()
        await asyncio.gather(*others)
        return requests(gate)

    assert asyncio.run(story()) == [1, 2]


def test_a_batch_that_fails_does_not_harm_what_gathered_meanwhile() -> None:
    async def story() -> tuple[str, list[str], list[str]]:
        gate = Gate(MemoryStore())
        engine = await started(gate, E1, E2)
        gate.open = False
        first = asyncio.create_task(engine.handle(approve(E1)))
        await turns()
        second = asyncio.create_task(engine.handle(approve(E2)))
        await turns()
        await gate.turn_away(OSError("disk full"))
        gate.open = True
        (problem, _) = await asyncio.gather(first, second, return_exceptions=True)
        return str(problem), await approved_by(gate, E1), await approved_by(gate, E2)

    assert asyncio.run(story()) == ("disk full", [], ["operator"])


def test_a_request_is_stored_even_if_its_caller_gives_up() -> None:
    async def story() -> list[str]:
        gate = Gate(MemoryStore())
        engine = await started(gate, E1)
        gate.open = False
        waiting = asyncio.create_task(engine.handle(approve(E1)))
        await turns()
        waiting.cancel()
        await turns()
        await gate.let_through()
        await engine.close()
        return await approved_by(gate, E1)

    assert asyncio.run(story()) == ["operator"]


def test_a_defect_in_one_request_fails_that_request_alone() -> None:
    def broken(view: View) -> Plan:
        raise RuntimeError("a defect")

    async def story() -> tuple[object, list[str]]:
        store = MemoryStore()
        engine = await started(store, E1)
        caller = Caller(OPERATOR, "a request")
        problem, _ = await asyncio.gather(
            engine.submit(caller, broken), engine.handle(approve(E1)), return_exceptions=True
        )
        return str(problem), await approved_by(store, E1)

    assert asyncio.run(story()) == ("a defect", ["operator"])


@pytest.mark.parametrize("kind", STORES)
def test_commands_of_many_clients_share_transactions(kind: str, tmp_path: Path) -> None:
    events = [EventId(f"E{number}") for number in range(200)]

    async def story() -> tuple[int, list[list[str]]]:
        async with opened(kind, tmp_path) as store:
            gate = Gate(store)
            engine = await started(gate, *events)
            gate.batches.clear()
            await asyncio.gather(*(engine.handle(approve(one, by=one)) for one in events))
            return len(gate.batches), [await approved_by(store, one) for one in events]

    batches, approvals = asyncio.run(story())

    assert batches <= 3
    assert approvals == [[one] for one in events]


@pytest.mark.rule("R-17")
@pytest.mark.parametrize("kind", STORES)
def test_an_approval_that_rests_on_a_lost_one_is_not_answered_as_if_kept(kind: str, tmp_path: Path) -> None:
    async def story() -> tuple[list[object], list[str], list[str]]:
        async with opened(kind, tmp_path) as store:
            gate = Gate(store)
            engine = await started(gate, E1)
            gate.open = False
            both = [asyncio.create_task(engine.handle(approve(E1, by=one))) for one in ("a", "b")]
            await turns()
            await gate.turn_away(OSError("disk full"))
            answers: list[object] = list(await asyncio.gather(*both, return_exceptions=True))
            lost = await approved_by(store, E1)
            gate.open = True
            await engine.handle(approve(E1, by="c"))
            return answers, lost, await approved_by(store, E1)

    answers, lost, kept = asyncio.run(story())

    assert list(map(str, answers)) == ["disk full", "disk full"]
    assert (lost, kept) == ([], ["c"])


def test_an_answer_waits_for_what_it_rests_on_and_for_nothing_much_later() -> None:
    async def story() -> tuple[bool, bool]:
        gate = Gate(MemoryStore())
        engine = await started(gate, E1, E2, E3)
        gate.open = False
        first = asyncio.create_task(engine.handle(approve(E1)))
        await turns()
        again = asyncio.create_task(engine.handle(approve(E1)))
        second = asyncio.create_task(engine.handle(approve(E2)))
        await turns()
        early = again.done()
        await gate.let_through()
        await first
        third = asyncio.create_task(engine.handle(approve(E3)))
        await turns()
        await gate.let_through()
        await second
        await turns()
        late = again.done()
        await gate.let_through()
        await asyncio.gather(again, third)
        return early, late

    assert asyncio.run(story()) == (False, True)


def test_a_refusal_that_another_batch_got_ahead_of_is_decided_again() -> None:
    async def story() -> list[type]:
        gate = Gate(MemoryStore())
        engine = await started(gate, E1)
        gate.open = False
        refusal = asyncio.create_task(Control(engine).approve(OPERATOR, E2))
        await turns()
        await gate.turn_away(StaleBatchError({}, await gate.last()))
        gate.open = True
        with pytest.raises(UnknownEventError):
            await refusal
        return [type(entry.change) for entry in await gate.journal(event=E2)]

    assert asyncio.run(story()) == [CommandRefused]


PLANS = st.lists(st.sampled_from([WORKS, FAILS_BEFORE, FAILS_AFTER]), max_size=40)


@settings(max_examples=25)
@given(PLANS)
def test_whatever_fails_an_approval_that_was_answered_is_there(plan: list[str]) -> None:
    check_approvals(plan)


@pytest.mark.slow
@settings(max_examples=100)
@given(PLANS)
def test_after_many_failures_an_approval_that_was_answered_is_there(plan: list[str]) -> None:
    check_approvals(plan)


def check_approvals(plan: list[str]) -> None:
    """Check that approvals that were answered are kept by a store that fails as planned."""
    events = [EventId(f"E{number}") for number in range(12)]

    async def client(engine: Engine, number: int) -> set[EventId]:
        answered = set()
        for event in events:
            with suppress(OSError):
                await engine.handle(approve(event, by=str(number)))
                answered.add(event)
        return answered

    async def story() -> tuple[set[EventId], set[EventId], bool]:
        store = Unreliable()
        engine = await started(store, *events)
        store.plan = plan.copy()
        answered = await asyncio.gather(*(client(engine, number) for number in range(6)))
        kept = {one for one in events if await approved_by(store, one)}
        store.plan.clear()
        await engine.handle(approve(*events))
        return set().union(*answered), kept, (await store.snapshot()).scopes == engine.scopes()

    answered, kept, agree = asyncio.run(story())

    assert answered <= kept
    assert agree


@pytest.mark.rule("U-01")
def test_what_an_earlier_release_cannot_read_is_refused_until_the_migration_is_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SINCE, (Machine, "protected"), NEWEST)

    async def story() -> None:
        store = MemoryStore()
        engine = await started(store, E1)
        control = Control(engine)
        web_0 = MachineRef(WEB, VmName("web_0"))
        monkeypatch.setattr(store, "oldest_reader", OLDEST, raising=False)

        with pytest.raises(UnfinishedMigrationError):
            await control.carry_out(OPERATOR, lambda draft: draft.protect(web_0, protected=True))
        refused = (await store.journal())[-1].change
        await control.carry_out(OPERATOR, lambda draft: draft.approve(WEB, E1))
        before = engine.machine(web_0).protected
        monkeypatch.setattr(store, "oldest_reader", NEWEST)
        await control.carry_out(OPERATOR, lambda draft: draft.protect(web_0, protected=True))

        assert isinstance(refused, CommandRefused)
        assert "run fairwarning db migrate --finish first" in refused.reason
        assert (before, engine.machine(web_0).protected) == (False, True)

    asyncio.run(story())


def test_a_rule_over_scopes_and_a_stored_value_is_one_decision_on_exact_keys() -> None:
    async def story() -> None:
        gate = Gate(MemoryStore())
        engine = await started(gate)
        version = InventoryVersion(digest="a")
        await engine.handle(RecordInventory(version))
        gate.batches.clear()

        await engine.handle(ApplyInventory(version, gone=(WEB,)))

        (batch,) = gate.batches
        assert batch.expected.keys() >= {Aggregate(AggregateKind.SCOPE, WEB), text_key(INVENTORY.key())}
        assert (batch.position, batch.history) == (None, None)  # no question that no stamp covers
        assert WEB not in engine.scopes()
        with pytest.raises(OlderInventoryError):
            await engine.handle(ApplyInventory(InventoryVersion(digest="b")))

    asyncio.run(story())


def test_a_value_that_a_command_changes_is_stored_with_its_other_changes() -> None:
    async def story() -> None:
        store = MemoryStore()
        engine = await started(store, E1)
        version = InventoryVersion(digest="a")

        await engine.submit(
            Caller(PLATFORM, "r1"),
            lambda view: Plan((RecordInventory(version), Approve(scope=WEB, ids=(E1,)))),
        )

        record = INVENTORY.find(engine.texts().get)
        assert record is not None
        assert record.version == version
        lines = [type(line.change) for line in await store.journal() if line.request == "r1"]
        assert lines == [EventChanged, EventChanged, Published, TextChanged]

    asyncio.run(story())
