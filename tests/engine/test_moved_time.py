"""Moved time gives the same history, line for line and instant for instant, as waited time."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import (
    Approve,
    Cancel,
    Command,
    CreateSet,
    DeleteScopes,
    Poll,
    Schedule,
    StartRollout,
)
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventStatus, HostId, MachineRef, ScopeKind, VmName, derive_id
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import InjectedMishap, Mishap, SimulatedDriver
from fairwarning.engine import timer
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Entry
from fairwarning.engine.time_control import advance_to
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import NOON, run, span
from tests.store.stores import told
from tests.virtual_time import WallClock, run_leaping

FLEET = (
    Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=3, update_domains=2, fault_domains=1),
    Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True),
    Blueprint(name="web", count=4, zones=("1", "2"), terminate_notice=span("5m")),
    Blueprint(name="db", kind=ScopeKind.STANDALONE, host=HostId("h-1")),
    Blueprint(name="queue", kind=ScopeKind.STANDALONE, host=HostId("h-1")),
)
FAULTY = {
    VmName("app-1"): InjectedMishap(Mishap.FAILS, attempts=2),
    VmName("web_1"): InjectedMishap(Mishap.HANGS, attempts=1),
    VmName("db"): InjectedMishap(Mishap.LIES, attempts=1),
}
#: Short enough that scopes are disabled on the way.
POLICY = Policy(start_enabled=True, disable_after=span("12m"))
CAUSES = ("restart", "redeploy", "delete", "freeze", "host-reboot", "evict", "hardware-failure")
ACTIONS = (*CAUSES, *CAUSES, "approve", "approve", "cancel", "poll", "rollout", "delete-set")


class Step(NamedTuple):
    """Something that is asked for some time after the step before."""

    after: timedelta
    action: str
    choice: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([span(text) for text in ("0s", "1s", "5s", "31s", "2m", "5m", "11m")]),
        st.sampled_from(ACTIONS),
        st.integers(0, 1000),
    ),
    max_size=12,
)


def instants(steps: Sequence[Step]) -> list[datetime]:
    """Return when each step happens; its milliseconds are its own, so that nothing else is due then."""
    reached, result = NOON, []
    for number, step in enumerate(steps, 1):
        reached += step.after
        result.append(reached + timedelta(milliseconds=number))
    return result


def command(engine: Engine, number: int, step: Step) -> Command | None:
    """Return what a step asks for; the same state leads to the same command."""
    refs = list(engine.refs())
    scopes = list(engine.scopes())
    events = [event for scope in engine.scopes().values() for event in scope.events.values()]
    waiting = [event for event in events if event.status is EventStatus.SCHEDULED]
    if not refs:
        return None
    ref, scope = refs[step.choice % len(refs)], scopes[step.choice % len(scopes)]
    new_id = derive_id("moved", str(number))
    match step.action:
        case "poll":
            return Poll(machine=ref)
        case "rollout":
            return StartRollout(id=new_id, scope=scope, notice=span("1m"))
        case "delete-set":
            return DeleteScopes(id=new_id, scopes=(scope,), force=step.choice % 2 == 0)
        case "approve" | "cancel" if not waiting:
            return None
        case "approve":
            event = waiting[step.choice % len(waiting)]
            return Approve(scope=event.scope, ids=(event.id,))
        case "cancel":
            event = waiting[step.choice % len(waiting)]
            return Cancel(scope=event.scope, id=event.id)
        case cause:
            return Schedule(id=new_id, cause=cause, machines=_struck(engine, cause, ref))


def _struck(engine: Engine, cause: str, ref: MachineRef) -> tuple[MachineRef, ...]:
    if cause != "host-reboot":
        return (ref,)
    return engine.directory.machines_on_host(engine.machine(ref).host)


async def act(engine: Engine, number: int, step: Step) -> None:
    """Ask for what a step says."""
    wanted = command(engine, number, step)
    if wanted is not None:
        with suppress(FairWarningError):
            await engine.handle(wanted)


def simulated() -> SimulatedDriver:
    driver = SimulatedDriver()
    driver.mishaps.update(FAULTY)
    return driver


async def populate(engine: Engine) -> None:
    await engine.open()
    for blueprint in FLEET:
        await engine.handle(CreateSet(seed=blueprint.name, blueprint=blueprint))


async def moved(steps: Sequence[Step], end: datetime) -> Sequence[Entry]:
    """Return the journal of a fleet whose clock is moved."""
    clock = ManualClock(NOON)
    engine = Engine(MemoryStore(), clock, simulated(), POLICY)
    await populate(engine)
    for number, (at, step) in enumerate(zip(instants(steps), steps, strict=True)):
        await advance_to(engine, clock, at)
        await act(engine, number, step)
    await advance_to(engine, clock, end)
    return await engine.store.journal(limit=100_000)


async def waited(steps: Sequence[Step], end: datetime) -> Sequence[Entry]:
    """Return the journal of a fleet whose clock runs."""
    clock = WallClock(asyncio.get_running_loop())
    engine = Engine(MemoryStore(), clock, simulated(), POLICY)
    await populate(engine)
    driving = asyncio.create_task(timer.run(engine, clock))
    for number, (at, step) in enumerate(zip(instants(steps), steps, strict=True)):
        await asyncio.sleep((at - clock.now()).total_seconds())
        await act(engine, number, step)
    await asyncio.sleep((end - clock.now()).total_seconds())
    driving.cancel()
    await asyncio.wait([driving])
    await engine.close()
    return await engine.store.journal(limit=100_000)


@pytest.mark.rule("L-02")
@settings(max_examples=12)
@given(STEPS)
def test_moving_the_clock_gives_the_same_journal_as_waiting(steps: Sequence[Step]) -> None:
    check_both_ways(steps)


@pytest.mark.rule("L-02")
@pytest.mark.slow
@settings(max_examples=300)
@given(STEPS)
def test_moving_the_clock_gives_the_same_journal_as_waiting_in_many_histories(steps: Sequence[Step]) -> None:
    check_both_ways(steps)


def check_both_ways(steps: Sequence[Step]) -> None:
    """Check that moving the clock gives the same journal as waiting."""
    end = (instants(steps) or [NOON])[-1] + span("13m")

    assert told(run(moved(steps, end))) == told(run_leaping(waited(steps, end)))


def test_the_histories_that_are_compared_are_eventful() -> None:
    actions = ["restart", "host-reboot", "evict", "rollout", "approve", "delete-set", "hardware-failure"]
    steps = [Step(span("31s"), action, choice * 7) for choice, action in enumerate(actions)]

    lines = run(moved(steps, NOON + span("30m")))

    assert len({line.at for line in lines}) > 15
    assert {"finished", "failed"} <= {getattr(line.change, "what", "") for line in lines}
