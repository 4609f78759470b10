"""Group commit: many decisions, few transactions, and a confirmed commit is certainly stored."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import Approve, CreateSet, Schedule
from fairwarning.core.errors import ConflictError, UnknownEventError
from fairwarning.core.history import CommandRefused
from fairwarning.core.model import OPERATOR, EventId, MachineRef, ScopeId
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.pipeline import Pipeline
from fairwarning.engine.ports import Commit, Entry, Store
from fairwarning.store.memory import MemoryStore
from tests.conftest import NOON
from tests.store.gate import Gate, turns
from tests.store.stores import STORES, opened

WEB = ScopeId("web")
E1, E2, E3 = EventId("E1"), EventId("E2"), EventId("E3")
WORKS, FAILS_BEFORE, FAILS_AFTER = "works", "fails before", "fails after"


class Unreliable(MemoryStore):
    """A store that fails as planned, before or after it has written, and works from then on."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: list[str] = []

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        await asyncio.sleep(0)
        fate = self.plan.pop() if self.plan else WORKS
        if fate == FAILS_BEFORE:
            raise OSError("disk full")
        entries = await super().commit(commits)
        if fate == FAILS_AFTER:
            raise OSError("no answer")
        return entries


class Ledger:
    """What a pipeline reports."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.seqs: list[int] = []
        self.lost = 0

    def keep(self, commits: Sequence[Commit], kept: Sequence[Sequence[Entry]]) -> None:
        self.kept += map(name, commits)
        self.seqs += [entry.seq for entries in kept for entry in entries]

    def lose(self) -> None:
        self.lost += 1


def note(reason: str) -> Commit:
    return Commit(
        at=NOON, changes=(CommandRefused(scope=WEB, asked="restart", reason=reason, by="operator"),)
    )


def name(commit: Commit) -> str:
    (change,) = commit.changes
    assert isinstance(change, CommandRefused)
    return change.reason


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


# -- the pipeline by itself


def test_while_one_batch_is_written_the_next_one_gathers() -> None:
    async def story() -> tuple[list[list[str]], Ledger]:
        gate, ledger = Gate(MemoryStore()), Ledger()
        gate.open = False
        pipeline = Pipeline(gate, ledger.keep, ledger.lose)
        first = asyncio.create_task(pipeline.put(note("a")))
        await turns()
        others = [asyncio.create_task(pipeline.put(note(one))) for one in "bcd"]
        await turns()
        assert not first.done()
        await gate.let_through()
        await first
        assert not any(one.done() for one in others)
        await gate.let_through()
        await asyncio.gather(*others)
        return [[name(commit) for commit in batch] for batch in gate.batches], ledger

    batches, ledger = asyncio.run(story())

    assert batches == [["a"], ["b", "c", "d"]]
    assert (ledger.kept, ledger.seqs, ledger.lost) == (["a", "b", "c", "d"], [1, 2, 3, 4], 0)


def test_a_batch_that_fails_takes_with_it_what_was_decided_on_top_of_it() -> None:
    async def story() -> tuple[Ledger, list[str]]:
        gate, ledger = Gate(MemoryStore()), Ledger()
        gate.open = False
        pipeline = Pipeline(gate, ledger.keep, ledger.lose)
        first = asyncio.create_task(pipeline.put(note("a")))
        await turns()
        second = asyncio.create_task(pipeline.put(note("b")))
        await turns()
        await gate.turn_away(OSError("disk full"))
        failures = list(map(str, await asyncio.gather(first, second, return_exceptions=True)))
        gate.open = True
        await pipeline.put(note("c"))
        return ledger, failures

    ledger, failures = asyncio.run(story())

    assert (ledger.lost, ledger.kept, ledger.seqs) == (1, ["c"], [1])
    assert failures == ["disk full", "disk full"]


def test_a_commit_is_stored_even_if_its_caller_gives_up() -> None:
    async def story() -> Ledger:
        gate, ledger = Gate(MemoryStore()), Ledger()
        gate.open = False
        pipeline = Pipeline(gate, ledger.keep, ledger.lose)
        waiting = asyncio.create_task(pipeline.put(note("a")))
        await turns()
        waiting.cancel()
        await turns()
        await gate.let_through()
        await pipeline.idle()
        return ledger

    assert asyncio.run(story()).kept == ["a"]


# -- the engine on top of it


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


def test_a_refusal_based_on_a_lost_decision_is_decided_again() -> None:
    async def story() -> list[type]:
        gate = Gate(MemoryStore())
        engine = await started(gate, E1)
        gate.open = False
        refusal = asyncio.create_task(Control(engine).approve(OPERATOR, E2))
        await turns()
        await gate.turn_away(ConflictError(WEB, 1))
        gate.open = True
        with pytest.raises(UnknownEventError):
            await refusal
        return [type(entry.change) for entry in await gate.journal(event=E2)]

    assert asyncio.run(story()) == [CommandRefused]


@given(st.lists(st.sampled_from([WORKS, FAILS_BEFORE, FAILS_AFTER]), max_size=40))
def test_whatever_fails_an_approval_that_was_answered_is_there(plan: list[str]) -> None:
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
        return set().union(*answered), kept, await store.load() == engine.scopes()

    answered, kept, agree = asyncio.run(story())

    assert answered <= kept
    assert agree
