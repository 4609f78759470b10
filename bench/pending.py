"""What an event costs when many others are pending: in all the fleet, and in its own scope."""

import asyncio
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from bench.faces import face
from bench.growth import exponents
from bench.guests import scheduled
from bench.load import POLL, Lines, approval
from bench.measure import cores, pinned
from bench.report import Curve, Figure
from bench.servers import sources
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, CreateSet, Schedule
from fairwarning.core.model import EventId, MachineRef, ScopeId
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock, SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.store.memory import MemoryStore

PER_SCOPE = 10
LATER, SOON = timedelta(days=7), timedelta(minutes=1)
APPROVAL, EXPIRY, REFRESH = "approval", "expiry", "approval and refresh"
PLOT = "events"

#: Each thing that is measured: the plot's unit of size, and the goal of its growth.
GROWTHS: Mapping[str, tuple[str, str]] = {
    APPROVAL: ("events pending", "G12a"),
    EXPIRY: ("events pending", "G12b"),
    REFRESH: ("events in the scope", "G13"),
}

NOTES = (
    f"Growth with pending events: scopes of {PER_SCOPE + 1} machines with {PER_SCOPE} events each; CPU time "
    "of this process, no sockets, no disk. An expiry is what a tick costs per event whose time has come.",
    "Approval and refresh: a guest's POST and the poll that follows it in scopes of 1,000 machines; server "
    "CPU, HTTP and sockets included.",
)

#: µs of CPU, by size and round.
Costs = Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How many events are pending in the fleet and in one scope, and how often each thing is done."""

    pending: tuple[int, ...]
    in_scope: tuple[int, ...]
    rounds: int
    times: int = 25


class Calendar:
    """A fleet in which every scope has as many events pending."""

    def __init__(self, pending: int) -> None:
        self._scopes = [ScopeId(f"s{number}") for number in range(pending // PER_SCOPE)]
        self._clock = ManualClock(SystemClock().now())
        self._engine = Engine(MemoryStore(), self._clock, SimulatedDriver(), Policy(start_enabled=True))
        self._turn = count()

    async def open(self) -> None:
        """Build everything."""
        await self._engine.open()
        for scope_id in self._scopes:
            blueprint = Blueprint(name=scope_id, count=PER_SCOPE + 1)
            await self._engine.handle(CreateSet(seed="bench", blueprint=blueprint))
            machines = tuple(one.ref for one in self._engine.scope(scope_id).machines.values())
            await self._schedule(machines[:PER_SCOPE], LATER)

    async def approvals(self, times: int) -> float:
        """Approve an event in each of some scopes; return the CPU seconds of one."""
        chosen = [await self._soon() for _ in range(times)]
        begun = time.process_time()
        for scope_id, event in chosen:
            await self._engine.handle(Approve(scope=scope_id, ids=(event,)))
        cost = (time.process_time() - begun) / times
        await self._rest()
        return cost

    async def expiries(self, times: int) -> float:
        """Let the time of an event come in each of some scopes; return the CPU seconds of one."""
        for _ in range(times):
            await self._soon()
        self._clock.set(self._clock.now() + SOON * 2)
        begun = time.process_time()
        await self._engine.tick()
        cost = (time.process_time() - begun) / times
        await self._rest()
        return cost

    async def _soon(self) -> tuple[ScopeId, EventId]:
        """Announce something for the machine of the next scope that has nothing pending."""
        scope_id = self._scopes[next(self._turn) % len(self._scopes)]
        *_, last = self._engine.scope(scope_id).machines.values()
        return scope_id, await self._schedule((last.ref,), SOON)

    async def _schedule(self, machines: tuple[MachineRef, ...], notice: timedelta) -> EventId:
        event = new_event_id()
        await self._engine.handle(Schedule(id=event, cause="restart", machines=machines, notice=notice))
        return event

    async def _rest(self) -> None:
        """Let what was started come to its end."""
        self._clock.set(self._clock.now() + SOON)
        await self._engine.tick()


def measure(effort: Effort) -> Mapping[str, Costs]:
    """Measure all sizes in turns."""
    found = asyncio.run(_in_fleet(effort))
    return {**found, REFRESH: _in_scope(effort)}


async def _in_fleet(effort: Effort) -> Mapping[str, Costs]:
    calendars = {pending: Calendar(pending) for pending in effort.pending}
    for calendar in calendars.values():
        await calendar.open()
    gc.freeze()  # as a server does with what it has loaded
    found: dict[str, dict[int, list[float]]] = {APPROVAL: {}, EXPIRY: {}}
    for _ in range(effort.rounds):
        for pending, calendar in calendars.items():
            for what, act in ((APPROVAL, calendar.approvals), (EXPIRY, calendar.expiries)):
                found[what].setdefault(pending, []).append(await act(effort.times) * 1e6)
    gc.unfreeze()
    return found


def _in_scope(effort: Effort) -> Costs:
    found: dict[int, list[float]] = {}
    sizes = effort.in_scope
    per_set = max(sizes) + 1
    with (
        pinned(cores()[1]),
        face(len(sizes), per_set) as server,
        Lines(server.address) as lines,
    ):
        guests = lines.welcomed(sources(number * per_set for number in range(len(sizes))))
        for number, size in enumerate(sizes):
            server.ask("announce", number, size - 1)
        for _ in range(effort.rounds):
            for size, guest in zip(sizes, guests, strict=True):
                event, *_ = scheduled(lines.answer(guest, POLL))
                before = server.meter(server.pid)
                lines.answer(guest, approval(event))
                lines.answer(guest, POLL)
                found.setdefault(size, []).append((server.meter(server.pid) - before) * 1e6)
    return found


def figures(found: Mapping[str, Costs]) -> tuple[Figure, ...]:
    """Return what each thing costs at every size, and how that grows."""
    costs = (
        Figure(name=f"{what}, {size:,} {GROWTHS[what][0]}", unit="µs CPU", values=tuple(values))
        for what, sizes in found.items()
        for size, values in sizes.items()
    )
    growths = (
        Figure(name=f"growth of {what}", unit="exponent", values=exponents(sizes), goal=GROWTHS[what][1])
        for what, sizes in found.items()
    )
    return (*costs, *growths)


def curves(found: Mapping[str, Costs]) -> tuple[Curve, ...]:
    """Return what can be drawn against events; of every size the cheapest round, for noise only adds."""
    return tuple(
        Curve(
            plot=PLOT,
            name=f"{what}, by {GROWTHS[what][0]}",
            unit="µs CPU",
            points={size: min(values) for size, values in sizes.items()},
        )
        for what, sizes in found.items()
    )
