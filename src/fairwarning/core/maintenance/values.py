"""What is stored about maintenance: maintenances, holds, budgets and the places in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from fairwarning.core.model import BarrierId, EventId, HostId


class MaintenancePhase(StrEnum):
    """How far a maintenance is."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    DONE = "done"
    WITHDRAWN = "withdrawn"

    @property
    def over(self) -> bool:
        """Whether nothing more comes of the maintenance."""
        return self in (MaintenancePhase.DONE, MaintenancePhase.WITHDRAWN)


class OnSilence(StrEnum):
    """What becomes of a maintenance if a machine has not answered at NotBefore (M-13)."""

    PROCEED = "proceed"
    SKIP = "skip"
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What happens once to one host, or to one batch of machines; its events share a barrier (M-01)."""

    id: BarrierId
    #: None for a batch of machines.
    host: HostId | None
    cause: str
    by: str
    created_at: datetime
    not_before: datetime
    opens: datetime | None = None
    closes: datetime | None = None
    on_silence: OnSilence = OnSilence.PROCEED
    over_budget: bool = False
    phase: MaintenancePhase = MaintenancePhase.SCHEDULED
    #: Why it was withdrawn.
    reason: str = ""
    ended_at: datetime | None = None
    #: The full names of the machines that were warned.
    machines: tuple[str, ...] = ()

    @property
    def dated(self) -> bool:
        """Whether it has a window."""
        return self.opens is not None or self.closes is not None

    @property
    def subject(self) -> str:
        """What is maintained, as sentences name it."""
        return f"{len(self.machines)} machines" if self.host is None else f"host {self.host}"


#: The labels of hosts that the inventory lists, such as the rack.
HostLabels = Mapping[HostId, Mapping[str, str]]

#: The maintenances that are not over, by host.
PendingMaintenances = Mapping[HostId, tuple[BarrierId, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nothing of the platform starts: in the whole fleet, or on one host (M-08)."""

    reason: str
    by: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceBudget:
    """At most ``most`` machines of each group are down at once (M-05).

    A group is a scope, or all machines with the same value of a tag.
    """

    #: ``scope``, or the name of a tag.
    each: str
    most: int
    #: The group that the budget is for; None for every group without a budget of its own.
    group: str | None = None


class QueuedBarrier(NamedTuple):
    """A barrier that is ready and waits for places; the earliest comes first (M-06)."""

    not_before: datetime
    barrier: BarrierId


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Who has the places of a group, and who waits for one."""

    #: The full names of the machines that are down, by the event that has them down.
    taken: Mapping[EventId, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    #: In the order in which they get places.
    queue: tuple[QueuedBarrier, ...] = ()

    def down(self) -> frozenset[str]:
        """Return the machines that are down."""
        return frozenset(machine for machines in self.taken.values() for machine in machines)
