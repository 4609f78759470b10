"""Whether an action costs more in a larger fleet.

A restart by az, an approval, a poll and a list page in a small and a large fleet; a server with up to a
million machines (``growth``); an event among many others (``pending``).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from bench import growth, pending
from bench.report import Figure, Section, claim
from fairwarning.arm.app import ROUTES
from fairwarning.arm.context import SUBSCRIPTION, ArmContext
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.routing import match
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, CreateSet
from fairwarning.core.model import EventId, MachineRef, ScopeId, VmName
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock, SystemClock
from fairwarning.engine.engine import Engine
from fairwarning.store.memory import MemoryStore

PER_SET = 100
MOMENTS_LATER = timedelta(minutes=1)
#: A poll costs so little that it is measured for as long as the rest only if it is repeated more often.
POLLS = 1000
HOME = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/fairwarning/providers/Microsoft.Compute"
RESTART, APPROVAL, POLL, PAGE = "az restart", "approval", "poll", "list page"

_READING = "Ratio = cost in the small fleet ÷ cost in the large one: 1.00 does not grow, more is better."
_NOTES = (
    f"Ratios: machines in scale sets of {PER_SET}; CPU time of this process, no sockets, no disk.",
    "A list page has the same number of machines in both fleets.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How large the fleets are, and how often each action is repeated."""

    small: int
    large: int
    rounds: int
    growth: growth.Effort
    pending: pending.Effort
    times: int = 50


QUICK = Effort(
    small=1_000,
    large=20_000,
    rounds=3,
    growth=growth.Effort(sizes=(1_000, 10_000, 100_000), rounds=3, seconds=0.2),
    pending=pending.Effort(pending=(1_000, 10_000), in_scope=(10, 100, 999), rounds=3),
)
USUAL = Effort(
    small=1_000,
    large=100_000,
    rounds=5,
    growth=growth.Effort(sizes=(1_000, 10_000, 100_000, 1_000_000), rounds=7),
    pending=pending.Effort(pending=(1_000, 10_000, 100_000), in_scope=(10, 100, 999), rounds=7),
)


class ManagedFleet:
    """A fleet of many sets, called through the management API."""

    def __init__(self, machines: int) -> None:
        self.name = f"{machines:,} machines"
        self._sets = machines // PER_SET
        self._turn = 0
        self._waiting: list[tuple[ScopeId, EventId]] = []
        self._clock = ManualClock(SystemClock().now())
        self.engine = Engine(MemoryStore(), self._clock, SimulatedDriver(), Policy(start_enabled=True))
        self._context = ArmContext(self.engine, open_endpoints=_open_nothing)

    async def open(self) -> None:
        """Build the fleet."""
        await self.engine.open()
        for number in range(self._sets):
            await self.engine.handle(
                CreateSet(seed=str(number), blueprint=Blueprint(name=f"s{number}", count=PER_SET))
            )

    async def restart(self) -> None:
        """Restart another machine, as az does."""
        instance, number = divmod(self._turn, self._sets)
        self._turn += 1
        path = f"{HOME}/virtualMachineScaleSets/s{number}/virtualMachines/{instance}/restart"
        await self._send("POST", path)
        scope = self.engine.scope(ScopeId(f"s{number}"))
        self._waiting.append((scope.id, list(scope.events)[-1]))

    async def approve(self) -> None:
        """Approve the newest restart."""
        scope, event = self._waiting.pop()
        await self.engine.handle(Approve(scope=scope, ids=(event,)))

    async def finish(self) -> None:
        """Let the approved restarts end."""
        self._clock.set(self._clock.now() + MOMENTS_LATER)
        await self.engine.tick()

    async def poll(self) -> None:
        """Poll as one machine."""
        await self.engine.poll(MachineRef(ScopeId("s0"), VmName("s0_1")))

    async def page(self) -> None:
        """List the instances of one set."""
        await self._send("GET", f"{HOME}/virtualMachineScaleSets/s0/virtualMachines")

    async def _send(self, method: str, path: str) -> ArmResponse:
        route, names = match(ROUTES, method, path)
        call = ArmRequest(method=method, path=path, query={"api-version": "2024-07-01"}, base="https://x")
        return await route.handler(self._context, replace(call, names=names))


async def _open_nothing(machines: Sequence[MachineRef]) -> None:
    """Open no endpoints: machines are not polled over sockets here."""


def suite(effort: Effort, folder: Path) -> Section:
    """Measure fleets in this process, events among others, and servers whose fleet is kept in ``folder``."""
    folder.mkdir(exist_ok=True)
    fleets = compare_fleets(effort)
    events = pending.measure(effort.pending)
    servers = growth.measure(effort.growth, folder)
    return replace(
        fleets,
        figures=(*fleets.figures, *pending.figures(events), *growth.figures(servers)),
        curves=(*growth.curves(servers), *pending.curves(events)),
        notes=(*fleets.notes, *pending.NOTES, *growth.NOTES),
    )


def compare_fleets(effort: Effort) -> Section:
    """Measure a small and a large fleet in turns."""
    return asyncio.run(_compare_fleets(effort))


async def _compare_fleets(effort: Effort) -> Section:
    fleets = [ManagedFleet(effort.small), ManagedFleet(effort.large)]
    for fleet in fleets:
        await fleet.open()
    costs: dict[tuple[str, str], list[float]] = {}
    for _ in range(effort.rounds):
        for fleet in fleets:
            for name, action in _actions(fleet).items():
                times = effort.times * (POLLS if name == POLL else 1)
                costs.setdefault((name, fleet.name), []).append(await _cost(action, times))
            await fleet.finish()
    return section(costs, *(fleet.name for fleet in fleets))


def section(costs: Mapping[tuple[str, str], Sequence[float]], small: str, large: str) -> Section:
    """Return the section of the report."""
    figures = {
        key: Figure(name=f"{key[0]}, {key[1]}", unit="µs CPU", values=tuple(cost * 1e6 for cost in values))
        for key, values in costs.items()
    }
    return Section(
        title="scale: the cost of an action in a larger fleet",
        reading=_READING,
        claims=tuple(
            claim(what, small, figures[what, small], figures[what, large], figures[what, small])
            for what in (RESTART, APPROVAL, POLL, PAGE)
        ),
        figures=tuple(figures.values()),
        notes=_NOTES,
    )


def _actions(fleet: ManagedFleet) -> Mapping[str, Callable[[], Awaitable[None]]]:
    return {RESTART: fleet.restart, APPROVAL: fleet.approve, POLL: fleet.poll, PAGE: fleet.page}


async def _cost(action: Callable[[], Awaitable[None]], times: int) -> float:
    begun = time.process_time()
    for _ in range(times):
        await action()
    return (time.process_time() - begun) / times
