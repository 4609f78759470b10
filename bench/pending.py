"""The cost of an event among many pending events, in the fleet and in its own scope."""

import asyncio
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from bench.controlled_server import controlled_server
from bench.growth import exponents
from bench.guests import scheduled
from bench.load import POLL, ClientConnections, approval
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
SCOPES = 32
LATER, SOON = timedelta(days=7), timedelta(minutes=1)
APPROVAL, EXPIRY, REFRESH = "approval", "expiry", "approval and refresh"
PLOT = "events"

#: Each measurement: the unit of size in the plot, and the goal of its growth.
GROWTHS: Mapping[str, tuple[str, str]] = {
    APPROVAL: ("events pending", "G12a"),
    EXPIRY: ("events pending", "G12b"),
    REFRESH: ("events in the scope", "G13"),
}

NOTES = (
    f"Growth with pending events: scopes of {PER_SCOPE + 1} machines with {PER_SCOPE} events each; CPU time "
    "of this process, no sockets, no disk. An expiry is the cost of a tick per event that reaches its "
    "not-before.",
    f"Approval and refresh: a guest's POST and the poll that follows it, averaged over {SCOPES} scopes with "
    "that many events; all have 1,000 machines; server CPU, HTTP and sockets included.",
)

#: µs of CPU, by size and round.
Costs = Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How many events are pending in the fleet and in one scope, and how often each action is repeated."""

    pending: tuple[int, ...]
    in_scope: tuple[int, ...]
    rounds: int
    times: int = 25


class PendingFleet:
    """A fleet in which each scope has the same number of pending events."""

    def __init__(self, pending: int) -> None:
        self._scopes = [ScopeId(f"s{number}") for number in range(pending // PER_SCOPE)]
        self._clock = ManualClock(SystemClock().now())
        self._engine = Engine(MemoryStore(), self._clock, SimulatedDriver(), Policy(start_enabled=True))
        self._turn = count()

    async def open(self) -> None:
        """Build the fleet."""
        await self._engine.open()
        for scope_id in self._scopes:
            blueprint = Blueprint(name=scope_id, count=PER_SCOPE + 1)
            await self._engine.handle(CreateSet(seed="bench", blueprint=blueprint))
            machines = tuple(machine.ref for machine in self._engine.scope(scope_id).machines.values())
            await self._schedule(machines[:PER_SCOPE], LATER)

    async def approvals(self, times: int) -> float:
        """Approve an event in each of some scopes; return the CPU seconds per approval."""
        events = [await self._schedule_soon() for _ in range(times)]
        begun = time.process_time()
        for scope_id, event in events:
            await self._engine.handle(Approve(scope=scope_id, ids=(event,)))
        cost = (time.process_time() - begun) / times
        await self._finish_events()
        return cost

    async def expiries(self, times: int) -> float:
        """Let an event in each of some scopes reach its not-before; return the CPU seconds per event."""
        for _ in range(times):
            await self._schedule_soon()
        self._clock.set(self._clock.now() + SOON * 2)
        begun = time.process_time()
        await self._engine.tick()
        cost = (time.process_time() - begun) / times
        await self._finish_events()
        return cost

    async def _schedule_soon(self) -> tuple[ScopeId, EventId]:
        """Schedule an event for the machine of the next scope that has no pending event."""
        scope_id = self._scopes[next(self._turn) % len(self._scopes)]
        *_, last = self._engine.scope(scope_id).machines.values()
        return scope_id, await self._schedule((last.ref,), SOON)

    async def _schedule(self, machines: tuple[MachineRef, ...], notice: timedelta) -> EventId:
        event = new_event_id()
        await self._engine.handle(Schedule(id=event, cause="restart", machines=machines, notice=notice))
        return event

    async def _finish_events(self) -> None:
        """Finish the started events."""
        self._clock.set(self._clock.now() + SOON)
        await self._engine.tick()


def measure(effort: Effort) -> Mapping[str, Costs]:
    """Measure all sizes in turns."""
    return {**asyncio.run(_in_fleet(effort)), REFRESH: _in_scope(effort)}


async def _in_fleet(effort: Effort) -> Mapping[str, Costs]:
    fleets = {pending: PendingFleet(pending) for pending in effort.pending}
    for fleet in fleets.values():
        await fleet.open()
    gc.freeze()  # as a server does with its loaded fleet
    costs: dict[str, dict[int, list[float]]] = {APPROVAL: {}, EXPIRY: {}}
    for _ in range(effort.rounds):
        for pending, fleet in fleets.items():
            for name, action in ((APPROVAL, fleet.approvals), (EXPIRY, fleet.expiries)):
                costs[name].setdefault(pending, []).append(await action(effort.times) * 1e6)
    gc.unfreeze()
    return costs


def _in_scope(effort: Effort) -> Costs:
    costs: dict[int, list[float]] = {}
    sizes = effort.in_scope
    numbers = {size: range(turn * SCOPES, (turn + 1) * SCOPES) for turn, size in enumerate(sizes)}
    per_set = max(sizes) + 1
    with (
        pinned(cores()[1]),
        controlled_server(len(sizes) * SCOPES, per_set) as server,
        ClientConnections(server.address) as connections,
    ):
        guests = connections.connect_all(sources(number * per_set for number in range(len(sizes) * SCOPES)))
        for size, scopes in numbers.items():
            for number in scopes:
                server.call("restart", number, size - 1)
        for _ in range(effort.rounds):
            for size, scopes in numbers.items():
                events = {number: scheduled(connections.answer(guests[number], POLL))[0] for number in scopes}
                before = server.meter(server.pid)
                for number, event in events.items():
                    connections.answer(guests[number], approval(event))
                    connections.answer(guests[number], POLL)
                costs.setdefault(size, []).append((server.meter(server.pid) - before) / SCOPES * 1e6)
    return costs


def figures(measured: Mapping[str, Costs]) -> tuple[Figure, ...]:
    """Return the cost of each measurement at each size, and its growth."""
    costs = (
        Figure(name=f"{what}, {size:,} {GROWTHS[what][0]}", unit="µs CPU", values=tuple(values))
        for what, sizes in measured.items()
        for size, values in sizes.items()
    )
    growths = (
        Figure(name=f"growth of {what}", unit="exponent", values=exponents(sizes), goal=GROWTHS[what][1])
        for what, sizes in measured.items()
    )
    return (*costs, *growths)


def curves(measured: Mapping[str, Costs]) -> tuple[Curve, ...]:
    """Return the curves against events: of each size the cheapest round, because noise only adds."""
    return tuple(
        Curve(
            plot=PLOT,
            name=f"{what}, by {GROWTHS[what][0]}",
            unit="µs CPU",
            points={size: min(values) for size, values in sizes.items()},
        )
        for what, sizes in measured.items()
    )
