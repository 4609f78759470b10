"""The cost of maintaining all hosts of a fleet, one after the other and several at once."""

import asyncio
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from unittest import mock

from bench.growth import exponents
from bench.report import Figure, Section
from fairwarning.control.control import Control
from fairwarning.core.commands import Command
from fairwarning.core.decide import Decision, decide
from fairwarning.core.fleet import FleetState
from fairwarning.core.inventory import InventoryScope, InventoryVersion
from fairwarning.core.maintenance.values import MaintenanceBudget, MaintenancePhase
from fairwarning.core.model import (
    OPERATOR,
    PLATFORM,
    HostId,
    Machine,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
)
from fairwarning.core.policy import Policy
from fairwarning.drivers.external import ExternalDriver
from fairwarning.engine import decider
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.store.memory import MemoryStore

PER_SCOPE, PER_HOST, PER_TENANT = 5, 14, 20
TAG = "tenant"
BUDGETS = (MaintenanceBudget(each="scope", most=1), MaintenanceBudget(each=TAG, most=4))

_READING = "A maintenance should cost the same in a fleet of any size: an exponent of 0."
_NOTES = (
    f"Scopes of {PER_SCOPE} machines on {PER_SCOPE} hosts, {PER_HOST} machines a host, tenants of "
    f"{PER_TENANT} machines; one machine of a scope and four of a tenant may be down.",
    "Each host is announced, approved by each of its scopes, and reported as done. CPU time of this process "
    "per machine; a store in memory, no sockets.",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How large the fleets are, how many hosts are announced at once, and how many are maintained."""

    sizes: tuple[int, ...]
    at_once: tuple[int, ...]
    rounds: int
    #: None for all.
    hosts: int | None = None


USUAL = Effort(sizes=(1_000, 10_000), at_once=(1, 2, 14), rounds=3)
QUICK = Effort(sizes=(1_000, 10_000), at_once=(1, 14), rounds=1, hosts=30)


@dataclass(slots=True)
class Work:
    """What the maintenance of some hosts took."""

    machines: int = 0
    seconds: float = 0.0
    decisions: int = 0
    scopes_read: int = 0


class HostedFleet:
    """A fleet of tenants on hosts, whose hosts are maintained one after the other."""

    def __init__(self, machines: int) -> None:
        chance = Random(machines)
        self.hosts = [f"kvm-{number:04}" for number in range(machines // PER_HOST)]
        self._scopes = [self._scope(number, chance) for number in range(machines // PER_SCOPE)]
        clock = ManualClock(datetime(2026, 11, 16, 12, tzinfo=UTC))
        policy = Policy(emulator=False)
        self._engine = Engine(MemoryStore(), clock, ExternalDriver(), policy)
        self._control = Control(self._engine)

    def _scope(self, number: int, chance: Random) -> InventoryScope:
        name = ScopeId(f"scope{number:04}")
        facts = ScopeProperties(id=name, kind=ScopeKind.AVAILABILITY_SET, set_name=name, update_domains=0)
        tags = ((TAG, str(number * PER_SCOPE // PER_TENANT)),)
        hosts = chance.sample(self.hosts, PER_SCOPE)
        names = [VmName(f"{name}_{machine}") for machine in range(PER_SCOPE)]
        machines = (
            Machine(scope=name, name=machine, vm_id=machine, host=HostId(host), tags=tags)
            for machine, host in zip(names, hosts, strict=True)
        )
        return InventoryScope(facts, tuple(machines))

    async def open(self) -> None:
        """Build the fleet."""
        await self._engine.open()
        version = InventoryVersion(digest="bench")
        await self._control.apply_inventory(PLATFORM, self._scopes, version, budgets=BUDGETS)

    async def maintain(self, hosts: Sequence[str], at_once: int, key: str) -> Work:
        """Maintain hosts, so many announced at once, and return what it took."""
        work, pending = Work(), list[str]()
        with _counted(work):
            begun = time.process_time()
            for host in hosts:
                work.machines += await self._announce(host, key)
                pending.append(host)
                if len(pending) == at_once:
                    await self._finish_one(pending)
            while pending:
                await self._finish_one(pending)
            work.seconds = time.process_time() - begun
        return work

    async def _announce(self, host: str, key: str) -> int:
        """Announce the maintenance of a host and approve it; return the number of its machines."""
        control = self._control
        announced = await control.maintenances.announce(OPERATOR, "host-reboot", host=host, key=key)
        for event in announced.events:
            await control.approve(OPERATOR, event.id)
        await self._engine.tick()
        return len(announced.maintenance.machines)

    async def _finish_one(self, pending: list[str]) -> None:
        """Report the first host as done whose maintenance has started."""
        maintenances = self._control.maintenances
        host = next(
            host for host in pending if maintenances.pending(host)[0].phase is MaintenancePhase.STARTED
        )
        await maintenances.complete(OPERATOR, host)
        await self._engine.tick()
        pending.remove(host)


@contextmanager
def _counted(work: Work) -> Iterator[None]:
    """Count decisions, and the scopes that they read."""

    def counted(fleet: FleetState, commands: Sequence[Command], now: datetime) -> Decision:
        work.decisions += 1
        work.scopes_read += len(fleet.scopes)
        return decide(fleet, commands, now)

    with mock.patch.object(decider, "decide", counted):
        yield


@dataclass(slots=True)
class Costs:
    """µs of CPU per machine, and scopes read per decision, by size and round."""

    cpu: dict[int, list[float]] = field(default_factory=dict)
    scopes: dict[int, list[float]] = field(default_factory=dict)


def suite(effort: Effort) -> Section:
    """Measure all fleets in turns."""
    return section(asyncio.run(_measure(effort)))


async def _measure(effort: Effort) -> Mapping[int, Costs]:
    costs = {at_once: Costs() for at_once in effort.at_once}
    for turn in range(effort.rounds):
        for size in effort.sizes:
            for at_once in effort.at_once:
                fleet = HostedFleet(size)
                await fleet.open()
                gc.collect()
                gc.freeze()  # as a server does with its loaded fleet
                work = await fleet.maintain(fleet.hosts[: effort.hosts], at_once, f"round {turn}")
                gc.unfreeze()
                costs[at_once].cpu.setdefault(size, []).append(work.seconds / work.machines * 1e6)
                costs[at_once].scopes.setdefault(size, []).append(work.scopes_read / work.decisions)
    return costs


def section(costs: Mapping[int, Costs]) -> Section:
    """Return the section of the report."""
    figures: list[Figure] = []
    for at_once, each in costs.items():
        for size, cpu in each.cpu.items():
            name = f"{size:,} machines, {at_once} at once"
            scopes = tuple(each.scopes[size])
            figures.append(Figure(name=name, unit="µs CPU per machine", values=tuple(cpu)))
            figures.append(Figure(name=name, unit="scopes read per decision", values=scopes))
        growth = exponents(each.cpu)
        figures.append(Figure(name=f"growth per machine, {at_once} at once", unit="exponent", values=growth))
    return Section(
        title="maintenance: what the maintenance of all hosts costs",
        reading=_READING,
        claims=(),
        figures=tuple(figures),
        notes=_NOTES,
    )
