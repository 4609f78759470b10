"""After any history, rows, journal and memory agree, in every store."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.causes import CAUSES
from fairwarning.core.changes import Scopes
from fairwarning.core.commands import (
    AddMachines,
    Approve,
    Cancel,
    ChangeModel,
    Command,
    CreateSet,
    DeleteScopes,
    Poll,
    Schedule,
    SetPower,
    StartRollout,
    StopRollout,
    Upgrade,
)
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import (
    Event,
    EventId,
    MachineRef,
    PowerState,
    Scope,
    ScopeId,
    ScopeKind,
    VmName,
    derive_id,
)
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import InjectedMishap, Mishap, SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Entry, Store
from fairwarning.engine.time_control import advance_to
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.store.stores import changes_in, replayed, told

MINUTES = timedelta(minutes=5)
BLUEPRINTS = (
    Blueprint(name="web", count=4, zones=("1", "2"), terminate_notice=MINUTES),
    Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=3, update_domains=2),
    Blueprint(name="db", kind=ScopeKind.STANDALONE),
    Blueprint(name="batch", count=2, spot=True),
)
LEAPS = (timedelta(seconds=3), timedelta(seconds=40), timedelta(minutes=6), timedelta(hours=25))
FAULTY = {VmName("web_0"): InjectedMishap(Mishap.FAILS), VmName("app-1"): InjectedMishap(Mishap.HANGS)}


class Step(NamedTuple):
    """An action, and two numbers that select its targets."""

    action: str
    one: int
    other: int


class Stage:
    """The fleet before a step."""

    def __init__(self, scopes: Mapping[ScopeId, Scope], number: str, step: Step) -> None:
        self.scopes = sorted(scopes)
        self.machines = sorted(m.ref for scope in scopes.values() for m in scope.machines.values())
        self.events = [e for scope_id in self.scopes for e in scopes[scope_id].events.values()]
        self.id = derive_id("step", number)
        self.one, self.other = step.one, step.other

    def scope(self) -> ScopeId:
        return self.scopes[self.one % len(self.scopes)] if self.scopes else ScopeId("nowhere")

    def machine(self, number: int) -> MachineRef:
        return self.machines[number % len(self.machines)]

    def event(self) -> Event:
        return self.events[self.one % len(self.events)]

    def cause(self) -> str:
        return sorted(CAUSES)[self.other % len(CAUSES)]


def make(stage: Stage) -> Command:
    return CreateSet(seed=stage.id, blueprint=BLUEPRINTS[stage.one % len(BLUEPRINTS)])


def schedule(stage: Stage) -> Command | None:
    if not stage.machines:
        return None
    machines = tuple(dict.fromkeys((stage.machine(stage.one), stage.machine(stage.other // len(CAUSES)))))
    return Schedule(id=stage.id, cause=stage.cause(), machines=machines, force=stage.other % 7 == 0)


def approve(stage: Stage) -> Command | None:
    if not stage.events:
        return None
    event = stage.event()
    return Approve(scope=event.scope, ids=(event.id,), machine=event.resources[0], by=event.resources[0])


def approve_nothing(stage: Stage) -> Command | None:
    return Approve(scope=stage.scope(), ids=(EventId("NONE"),)) if stage.scopes else None


def cancel(stage: Stage) -> Command | None:
    return Cancel(scope=stage.event().scope, id=stage.event().id) if stage.events else None


def poll(stage: Stage) -> Command | None:
    return Poll(machine=stage.machine(stage.one)) if stage.machines else None


def power(stage: Stage) -> Command | None:
    state = (PowerState.RUNNING, PowerState.STOPPED)[stage.other % 2]
    return SetPower(machine=stage.machine(stage.one), power=state) if stage.machines else None


def upgrade(stage: Stage) -> Command | None:
    return Upgrade(machines=(stage.machine(stage.one),)) if stage.machines else None


ACTIONS: Mapping[str, Callable[[Stage], Command | None]] = {
    "make": make,
    "schedule": schedule,
    "approve": approve,
    "approve nothing": approve_nothing,
    "cancel": cancel,
    "poll": poll,
    "power": power,
    "upgrade": upgrade,
    "add": lambda stage: AddMachines(seed=stage.id, scope=stage.scope(), number=1 + stage.other % 2),
    "remove": lambda stage: DeleteScopes(id=stage.id, scopes=(stage.scope(),), force=stage.other % 2 == 0),
    "model": lambda stage: ChangeModel(scopes=(stage.scope(),), terminate_notice=2 * MINUTES),
    "walk": lambda stage: StartRollout(id=stage.id, scope=stage.scope()),
    "stop": lambda stage: StopRollout(scope=stage.scope()),
}
#: Actions on machines, events and time are twice as likely.
CHOICES = (
    *ACTIONS,
    "make",
    "schedule",
    "schedule",
    "approve",
    "poll",
    "leap",
    "leap",
    "crowd",
    "reopen",
    "away",
)
CROWD = ("schedule", "approve", "poll", "power", "approve nothing")
NUMBERS = st.integers(0, 199)
STEPS = st.builds(Step, st.sampled_from(CHOICES), NUMBERS, NUMBERS)
#: The first machines are polled; without a poll nothing would be announced.
PROLOGUE = (
    *(Step("make", number, 0) for number in range(3)),
    *(Step("poll", number, 0) for number in range(9)),
)
HISTORIES = st.lists(STEPS, min_size=5, max_size=30).map(lambda steps: (*PROLOGUE, *steps))


class Outcome(NamedTuple):
    """The state after a history."""

    kept: Scopes
    seen: Scopes
    lines: Sequence[Entry]


class Player:
    """Runs a history on one kind of store; ids differ between names."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]], name: str = "") -> None:
        self._open_store = open_store
        self._name = name
        self._clock = ManualClock(NOON)

    async def play(self, history: Sequence[Step]) -> Outcome:
        engine = await self._start()
        for number, step in enumerate(history):
            if step.action == "leap":
                await advance_to(engine, self._clock, self._clock.now() + LEAPS[step.one % len(LEAPS)])
            elif step.action in ("reopen", "away"):
                await self._stop(engine)
                if step.action == "away":
                    self._clock.set(self._clock.now() + LEAPS[step.one % len(LEAPS)])
                engine = await self._start()
            elif step.action == "crowd":
                crowd = enumerate(step._replace(action=action) for action in CROWD)
                steps = (act(engine, f"{self._name}{number}.{place}", one) for place, one in crowd)
                await asyncio.gather(*steps)
            else:
                await act(engine, f"{self._name}{number}", step)
        await engine.close()
        outcome = Outcome(
            (await engine.store.snapshot()).scopes,
            engine.scopes(),
            await engine.store.journal(limit=100_000),
        )
        await engine.store.close()
        return outcome

    async def _start(self) -> Engine:
        driver = SimulatedDriver()
        driver.mishaps.update(FAULTY)
        engine = Engine(await self._open_store(), self._clock, driver, Policy())
        await engine.open()
        return engine

    async def _stop(self, engine: Engine) -> None:
        await engine.close()
        await engine.store.close()


async def act(engine: Engine, number: str, step: Step) -> None:
    command = ACTIONS[step.action](Stage(engine.scopes(), number, step))
    if command is not None:
        with suppress(FairWarningError):
            await engine.handle(command)


def run_on_all_stores(history: Sequence[Step]) -> Mapping[str, Outcome]:
    """Return the state of each store after a history."""

    async def remembered() -> Store:
        return memory

    memory = MemoryStore()
    with TemporaryDirectory() as directory:
        return {
            "memory": asyncio.run(Player(remembered).play(history)),
            "sqlite": asyncio.run(Player(lambda: SqliteStore.open(Path(directory))).play(history)),
        }


def in_order(scopes: Scopes) -> list[tuple[Scope, list[str], list[str]]]:
    return [(one, list(one.machines), list(one.events)) for one in scopes.values()]


def from_journal(lines: Sequence[Entry]) -> Scopes:
    """Return the scopes that the journal leads to; the last line of a scope has its version."""
    versions = {change.scope: line.version for line in lines for change in changes_in([line.change])}
    return {one: replace(scope, version=versions[one]) for one, scope in replayed(lines).items()}


@settings(max_examples=10)
@given(HISTORIES)
def test_replaying_the_journal_gives_what_is_stored_and_every_store_agrees(history: Sequence[Step]) -> None:
    check_agreement(history)


@pytest.mark.slow
@settings(max_examples=300)
@given(HISTORIES)
def test_replaying_the_journals_of_many_histories_gives_what_is_stored(history: Sequence[Step]) -> None:
    check_agreement(history)


def check_agreement(history: Sequence[Step]) -> None:
    """Check that rows, journal and memory agree after a history, in every store."""
    outcomes = run_on_all_stores(history)

    for outcome in outcomes.values():
        assert sorted(in_order(outcome.kept), key=str) == sorted(
            in_order(from_journal(outcome.lines)), key=str
        )
        assert in_order(outcome.kept) == in_order(outcome.seen)
    assert in_order(outcomes["sqlite"].kept) == in_order(outcomes["memory"].kept)
    assert told(outcomes["sqlite"].lines) == told(outcomes["memory"].lines)
