"""A fleet of tenants on hosts, with budgets, and what its operator has promised about maintenance."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

from fairwarning.core.errors import FairWarningError
from fairwarning.core.maintenance.values import Maintenance, MaintenanceBudget, OnSilence
from fairwarning.core.model import BarrierId, Event, HostId, MachineRef
from fairwarning.engine.ports import Entry
from tests.core.maintained import MaintainedFleet
from tests.fleet_harness import run, span

#: A tag that groups machines across scopes, and its values.
TAG, GROUPS = "db", ("orders", "users", "stock")


@dataclass(frozen=True, slots=True)
class Promise:
    """What was said when a maintenance was announced."""

    host: HostId | None
    dated: bool
    opens: datetime | None
    closes: datetime | None
    on_silence: OnSilence
    over_budget: bool


class World:
    """A fleet, and what was promised about it."""

    def __init__(self, chance: Random) -> None:
        self.hosts = [f"kvm-{number}" for number in range(chance.randint(2, chance.choice((4, 6, 12))))]
        self.tags: dict[str, str] = {}
        names = [f"s{number}" for number in range(chance.randint(1, 8))]
        self.inventory = {name: self._scope(name, chance) for name in names}
        self.budgets = random_budgets(chance)
        self.fleet = MaintainedFleet(self.inventory, *self.budgets, tags=self._tags_by_machine())
        self.promises: dict[BarrierId, Promise] = {}
        #: The announcements with a key, to be repeated.
        self.keyed: list[tuple[BarrierId, Callable[[], Awaitable[object]]]] = []
        #: How often each outcome occurred.
        self.met: Counter[str] = Counter()
        self._read = 0
        self._numbers = 0
        for scope in self.inventory:
            if chance.random() < 0.7:
                self.fleet.poll(f"{scope}_0")

    def _scope(self, name: str, chance: Random) -> dict[str, str]:
        places = chance.sample(self.hosts, len(self.hosts))
        spread = chance.random() < 0.8
        machines = [f"{name}_{number}" for number in range(chance.randint(1, 6))]
        for machine in machines:
            if chance.random() < 0.6:
                self.tags[machine] = chance.choice(GROUPS)
        return {
            machine: places[number % len(places)] if spread else chance.choice(places)
            for number, machine in enumerate(machines)
        }

    def _tags_by_machine(self) -> Mapping[str, Mapping[str, str]]:
        return {machine: {TAG: group} for machine, group in self.tags.items()}

    def apply_inventory(self) -> None:
        """Apply the inventory and the budgets as they are now."""
        self.fleet.tags = dict(self._tags_by_machine())
        self.fleet.apply(self.inventory, *self.budgets)

    def read_inventory(self) -> None:
        """Bring the inventory in step with where machines are."""
        self.inventory = {
            scope.id: {name: machine.host for name, machine in scope.machines.items()}
            for scope in self.fleet.engine.scopes().values()
        }

    def new_name(self) -> str:
        """Return a name that no machine or scope has."""
        self._numbers += 1
        return f"n{self._numbers}"

    def promise(self, maintenance: Maintenance, opens: datetime | None, closes: datetime | None) -> None:
        """Note what was said about a maintenance that was announced just now."""
        self.promises.setdefault(
            maintenance.id,
            Promise(
                maintenance.host,
                opens is not None or closes is not None,
                opens,
                closes,
                maintenance.on_silence,
                maintenance.over_budget,
            ),
        )

    # -- the state

    def events(self) -> list[Event]:
        return [event for scope in self.fleet.engine.scopes().values() for event in scope.events.values()]

    def machines(self) -> list[MachineRef]:
        return list(self.fleet.engine.refs())

    def pending_hosts(self) -> list[str]:
        """Return the hosts with a maintenance that is not over."""
        pending = self.fleet.control.maintenances.pending
        return [host for host in self.hosts if pending(host)]

    def news(self) -> Sequence[Entry]:
        """Return the lines of the journal since the last call."""
        entries = run(self.fleet.store.journal(after=self._read, limit=1_000_000))
        self._read = entries[-1].seq if entries else self._read
        return entries

    # -- actions

    def ask(self, asked: Awaitable[object]) -> str:
        """Carry out a request, which may be refused, and return the outcome in words."""

        async def answer() -> object:
            return await asked

        try:
            run(answer())
        except FairWarningError as refusal:
            self.met["refused"] += 1
            return f" (refused: {refusal})"
        finally:
            run(self.fleet.engine.tick())
        return ""


def random_budgets(chance: Random) -> tuple[MaintenanceBudget, ...]:
    """Return budgets by chance."""
    budgets: list[MaintenanceBudget] = []
    if chance.random() < 0.8:
        budgets.append(MaintenanceBudget(each="scope", most=chance.choice((1, 1, 2, 3))))
    if chance.random() < 0.7:
        budgets.append(MaintenanceBudget(each=TAG, most=chance.choice((1, 2, 3))))
    if chance.random() < 0.3:
        budgets.append(MaintenanceBudget(each="scope", group="s0", most=2))
    return tuple(budgets)


def minutes(number: int) -> str:
    """Return a duration of some minutes."""
    return f"{number}m"


def later(world: World, least: int, most: int, chance: Random) -> datetime:
    """Return an instant between so many minutes from now."""
    return world.fleet.now + span(minutes(chance.randint(least, most)))
