"""The cost of durability: approvals per second that reach the disk, and the waits of callers."""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.measure import percentile
from bench.report import Figure, Section, claim
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, CreateSet, Schedule
from fairwarning.core.model import Machine
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Store
from fairwarning.store.sqlite import SqliteStore

CALLERS = 32
MACHINES = 10  # of a set
PAGE = b"\0" * 4096

_READING = (
    "Rate: ours ÷ the other's, CPU: the other's ÷ ours; more is better. Waiting: ours ÷ the median fdatasync "
    "of a 4 KB page in the same directory; less is better."
)
_NOTES = (
    f"An approval is a command to the engine, answered once it is on disk; sets of {MACHINES} machines.",
    "One by one: the callers take turns, so that each approval is decided and stored before the next.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of rounds, of approvals per trial, and of syncs."""

    rounds: int
    alone: int
    one_by_one: int
    together: int
    syncs: int


QUICK, USUAL = Effort(3, 100, 200, 1000, 50), Effort(5, 500, 800, 4000, 200)


@dataclass(frozen=True, slots=True)
class Trial:
    """The time, CPU and waits of callers that approve one event after the other."""

    seconds: float
    cpu: float
    waits: list[float]

    @property
    def rate(self) -> float:
        """Approvals per second."""
        return len(self.waits) / self.seconds

    @property
    def cost(self) -> float:
        """CPU seconds per approval."""
        return self.cpu / len(self.waits)


@dataclass(frozen=True, slots=True)
class Round:
    """The measurements of one round."""

    sync: float
    alone: Trial
    one_by_one: Trial
    together: Trial


def suite(effort: Effort, folder: Path) -> Section:
    """Measure rounds in new databases below ``folder``, which should be on a real disk."""
    folder.mkdir(exist_ok=True)
    rounds = []
    for _ in range(effort.rounds):
        with tempfile.TemporaryDirectory(dir=folder, prefix="store-") as fresh:
            rounds.append(asyncio.run(_round(Path(fresh), effort)))
    return section(rounds)


def section(rounds: Sequence[Round]) -> Section:
    """Return the section of the report."""
    sync = _figure("fdatasync, median", "ms", (result.sync * 1e3 for result in rounds))
    single = _figure("1 caller", "approvals/s", (result.alone.rate for result in rounds))
    split = _figure(
        f"{CALLERS} callers, one by one", "approvals/s", (result.one_by_one.rate for result in rounds)
    )
    grouped = _figure(f"{CALLERS} callers", "approvals/s", (result.together.rate for result in rounds))
    single_cpu = _figure(single.name, "µs CPU per approval", (result.alone.cost * 1e6 for result in rounds))
    split_cpu = _figure(
        split.name, "µs CPU per approval", (result.one_by_one.cost * 1e6 for result in rounds)
    )
    grouped_cpu = _figure(
        grouped.name, "µs CPU per approval", (result.together.cost * 1e6 for result in rounds)
    )
    claims = [
        claim(f"rate, {CALLERS} callers", "one by one", grouped, split, reference=split, goal="G14a"),
        claim(f"rate, {CALLERS} callers", "1 caller", above=grouped, below=single, reference=single),
        claim(f"CPU, {CALLERS} callers", "one by one", split_cpu, grouped_cpu, split_cpu, goal="G14c"),
    ]
    figures = [sync, single, split, grouped, single_cpu, split_cpu, grouped_cpu]
    for name, trials, goals in (
        ("1 caller", [result.alone for result in rounds], ("", "")),
        (f"{CALLERS} callers", [result.together for result in rounds], ("", "G14b")),
    ):
        for share, goal in zip((0.50, 0.99), goals, strict=True):
            what = f"{name}, waiting p{share:.0%}".rstrip("%")
            waits = _figure(what, "ms", (percentile(trial.waits, share) * 1e3 for trial in trials))
            figures.append(waits)
            claims.append(claim(what, "fdatasync", above=waits, below=sync, reference=sync, goal=goal))
    return Section(
        title="store: durable approvals",
        reading=_READING,
        claims=tuple(claims),
        figures=tuple(figures),
        notes=_NOTES,
    )


def _figure(name: str, unit: str, values: Iterator[float]) -> Figure:
    return Figure(name=name, unit=unit, values=tuple(values))


async def _round(folder: Path, effort: Effort) -> Round:
    store = await SqliteStore.open(folder)
    try:
        wanted = effort.alone + effort.one_by_one + effort.together
        approvals = iter(await prepare(store, wanted))
        return Round(
            _median_sync(folder, effort.syncs),
            await trial(store, 1, list(islice(approvals, effort.alone))),
            await trial(store, CALLERS, list(islice(approvals, effort.one_by_one)), at_once=1),
            await trial(store, CALLERS, list(islice(approvals, effort.together))),
        )
    finally:
        await store.close()


async def prepare(store: Store, wanted: int) -> list[Approve]:
    """Schedule an event for each approval; return the approvals."""
    engine = await open_engine(store)
    sets = [Blueprint(name=f"set{number}", count=MACHINES) for number in range(-(-wanted // MACHINES))]
    await asyncio.gather(*(engine.handle(CreateSet(seed="bench", blueprint=blueprint)) for blueprint in sets))
    machines = [machine for scope in engine.scopes().values() for machine in scope.machines.values()]
    approvals = await asyncio.gather(*(_schedule(engine, machine) for machine in machines[:wanted]))
    await engine.close()
    return approvals


async def _schedule(engine: Engine, machine: Machine) -> Approve:
    event = new_event_id()
    await engine.handle(Schedule(id=event, cause="restart", machines=(machine.ref,)))
    return Approve(scope=machine.scope, ids=(event,), machine=machine.name, by=machine.name)


async def open_engine(store: Store) -> Engine:
    """Return an open engine on a store."""
    engine = Engine(store, SystemClock(), SimulatedDriver(), Policy(start_enabled=True))
    await engine.open()
    return engine


async def trial(store: Store, callers: int, approvals: Sequence[Approve], at_once: int = CALLERS) -> Trial:
    """Let callers approve one event after the other, only so many of them at once."""
    engine, turns = await open_engine(store), asyncio.Semaphore(at_once)
    gc.freeze()  # as a server does with its loaded fleet
    left = iter(approvals)
    waits: list[float] = []

    async def call() -> None:
        for approve in left:
            asked = time.perf_counter()
            async with turns:
                await engine.handle(approve)
            waits.append(time.perf_counter() - asked)

    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(call() for _ in range(callers)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    await engine.close()
    gc.unfreeze()
    return Trial(seconds, cpu, waits)


def _median_sync(folder: Path, times: int) -> float:
    waits = []
    file = os.open(folder / "sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(times):
            os.write(file, PAGE)
            asked = time.perf_counter()
            os.fdatasync(file)
            waits.append(time.perf_counter() - asked)
    finally:
        os.close(file)
    return percentile(waits, 0.50)
