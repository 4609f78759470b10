"""The nouns of the domain: immutable values that every package uses.

Machines, events and scope properties are stored as JSON with these field names, so a field must not be
renamed, and a new field needs a default.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, NewType

if TYPE_CHECKING:
    from dataclasses import replace as replace

    from fairwarning.core.machine_table import MachineTable
else:
    # ``dataclasses.replace`` passes every field through ``__init__``, which makes a call for each field of a
    # frozen value. All values of the core have slots and no ``__post_init__``, so a copy is made as an object
    # of a class that has the same slots and is not frozen; then it becomes one of the right class.
    @cache
    def _copier(kind):
        """Return a function that copies the slots of a value, one assignment each."""
        names = {"Draft": type(f"Draft{kind.__name__}", (), {"__slots__": kind.__slots__})}
        lines = [f"copy.{name} = value.{name}" for name in kind.__slots__]
        exec("\n    ".join(("def copy(value):", "copy = Draft()", *lines, "return copy")), names)
        return names["copy"]

    def replace(value, /, **changes):
        """Return a copy of a value with some fields changed."""
        copy = _copier(type(value))(value)
        for name, change in changes.items():
            setattr(copy, name, change)
        copy.__class__ = type(value)
        return copy


EventId = NewType("EventId", str)
ScopeId = NewType("ScopeId", str)
VmName = NewType("VmName", str)
HostId = NewType("HostId", str)
BarrierId = NewType("BarrierId", str)

#: The scope of a journal line that concerns no single scope.
NO_SCOPE = ScopeId("")

#: The host of what has none.
NO_HOST = HostId("")

#: The name that stands for every set that is not stored: a restored fleet has their last incarnation here.
ANY_SET = ""

#: The resource group that Azure's tools see for machines without a group.
HOME_GROUP = "fairwarning"


class MachineRef(NamedTuple):
    """The name of a machine in the whole fleet; ``name`` alone is unique only inside its scope (S-07)."""

    scope: ScopeId
    name: VmName

    @property
    def full(self) -> str:
        """The name with its scope, as it is shown."""
        return f"{self.scope}/{self.name}"


class EventType(StrEnum):
    """The impact an event will have on a machine."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"
    REBALANCE = "SpotRebalanceRecommendation"


class EventStatus(StrEnum):
    """The status of an event; guests see only the first two (L-01)."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"
    GONE = "Gone"


#: The members under names of their own, for loops over many events: looking a member up in its enum is slow.
SCHEDULED, STARTED, GONE = EventStatus


class EventSource(StrEnum):
    """Who caused an event (L-09)."""

    PLATFORM = "Platform"
    USER = "User"


class ScopeKind(StrEnum):
    """What the machines of a scope have in common (S-01)."""

    STANDALONE = "standalone"
    AVAILABILITY_SET = "availability-set"
    SCALE_SET = "scale-set"
    FLEXIBLE_SET = "flexible-scale-set"
    CLOUD_SERVICE = "cloud-service"

    @property
    def scales(self) -> bool:
        """Whether the scope belongs to a scale set, uniform or flexible."""
        return self in (ScopeKind.SCALE_SET, ScopeKind.FLEXIBLE_SET)


class PowerState(StrEnum):
    """Whether a machine is running."""

    RUNNING = "running"
    STOPPED = "stopped"


class EvictionPolicy(StrEnum):
    """What an eviction does to a Spot machine."""

    DEALLOCATE = "Deallocate"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineModel:
    """The settings that a scale set gives its instances; each instance keeps its model (T-06)."""

    number: int = 1
    terminate_notice: timedelta | None = None
    image_notice: bool = False
    #: The tags of the set as of this model, None if they are not known: instances get changes when they
    #: restart (I-11).
    tags: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """Which events a scope approves by itself (L-17, T-21)."""

    user_reboot: bool = False
    user_redeploy: bool = False
    all_instances_down: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A virtual machine."""

    scope: ScopeId
    name: VmName
    vm_id: str
    instance: str = "0"
    update_domain: int = 0
    fault_domain: int = 0
    host: HostId
    spot: bool = False
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    power: PowerState = PowerState.RUNNING
    model: MachineModel = MachineModel()
    protected: bool = False
    tags: tuple[tuple[str, str], ...] = ()
    #: What an inventory says; empty if the management API or a default says it.
    size: str = ""
    location: str = ""
    #: Whether it keeps its place on the host although it is stopped: it was switched off, not deallocated.
    allocated: bool = False
    #: The host that the inventory names, if the machine is elsewhere (F-08), or there while the rest of its
    #: line waits (F-09); empty if the machine is as its line says, or has no line.
    listed_host: HostId = NO_HOST

    @property
    def ref(self) -> MachineRef:
        """The machine's name in the whole fleet."""
        return MachineRef(self.scope, self.name)


class Failure(NamedTuple):
    """The last failure of an event's impact on one machine, and the attempt that follows it."""

    machine: VmName
    attempt: int
    retry_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An announced impact on one or more machines of a scope."""

    id: EventId
    scope: ScopeId
    cause: str
    kind: EventType
    source: EventSource
    resources: tuple[VmName, ...]
    description: str
    duration: int
    created_at: datetime
    not_before: datetime
    barrier: BarrierId
    status: EventStatus = SCHEDULED
    seen: bool = True
    approved_by: str | None = None
    started_at: datetime | None = None
    withdraw_at: datetime | None = None
    walk: str | None = None
    done: tuple[VmName, ...] = ()
    #: The highest attempt on any machine, and when the machines that failed last are tried again.
    attempt: int = 0
    retry_at: datetime | None = None
    #: Whether an attempt takes longer than its driver allows.
    overdue: bool = False
    #: At most one per machine; events that earlier versions stored have none.
    failures: tuple[Failure, ...] = ()
    #: When the window of its maintenance opens; None if it has opened, or if there is none (M-03).
    opens: datetime | None = None
    #: Whether silence is no consent: without an approval it does not start at its NotBefore (M-13).
    consent: bool = False
    #: Whether it is due, and something keeps it from starting (M-09).
    blocked: bool = False

    @property
    def waiting(self) -> bool:
        """Whether the event is announced and has not started."""
        return self.status is SCHEDULED

    @property
    def undone(self) -> tuple[VmName, ...]:
        """The machines that have not had the event's impact."""
        if not self.done:
            return self.resources
        done = set(self.done)
        return tuple(name for name in self.resources if name not in done)


#: The events of all scopes that have none: most have none, and a mapping for each would take memory.
NO_EVENTS: MappingProxyType[EventId, Event] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Maintenance of a scope, one domain after another (S-04, S-05)."""

    id: str
    cause: str
    domains: tuple[int, ...]
    current: int | None = None
    notice: timedelta | None = None
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeProperties:
    """The settings of a scope, apart from its machines and events."""

    id: ScopeId
    kind: ScopeKind
    set_name: str
    group: str = ""
    zone: str = ""
    update_domains: int = 1
    fault_domains: int = 1
    broadcast: bool = True
    model: MachineModel = MachineModel()
    upgrades_itself: bool = False
    approvals: ApprovalSettings = ApprovalSettings()
    enabled_at: datetime | None = None
    polled_at: datetime | None = None
    next_instance: int = 0
    instance_step: int = 1
    deleting: bool = False
    walk: Rollout | None = None
    #: None for scopes that an earlier release created.
    created_at: datetime | None = None

    @property
    def set_id(self) -> str:
        """The set's name in the whole fleet; several groups may have a set of the same name."""
        return in_group(self.group, self.set_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The machines that share one document, with their pending events in order of creation."""

    facts: ScopeProperties
    version: int = 0
    incarnation: int = 1
    machines: "MachineTable"
    events: MappingProxyType[EventId, Event] = field(default_factory=lambda: NO_EVENTS)

    @property
    def id(self) -> ScopeId:
        """The scope's name in the fleet."""
        return self.facts.id

    def refs(self) -> Iterator[MachineRef]:
        """Yield the full names of all machines."""
        scope_id = self.id
        return (MachineRef(scope_id, name) for name in self.machines)

    @property
    def enabled(self) -> bool:
        """Whether a guest of the scope has polled in the last 24 hours (R-21, R-22)."""
        return self.facts.enabled_at is not None


def in_group(group: str, name: str) -> str:
    """Return a name that is unique in the whole fleet."""
    return f"{group}/{name}" if group else name


def derive_id(*parts: str) -> EventId:
    """Return an id in the format of an event id, always the same for the same parts."""
    digits = digest(*parts).upper()
    return EventId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))


def digest(*parts: str) -> str:
    """Return 32 hexadecimal digits, always the same for the same parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


class PrincipalKind(StrEnum):
    """The kinds of callers."""

    GUEST = "guest"
    OPERATOR = "operator"
    MANAGEMENT = "management"
    PLATFORM = "platform"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks for something: the kind of caller, and its name among the callers of this kind.

    The API that authenticated the caller makes the principal. ``by`` in the history is ``str(principal)``,
    never a text that the caller chose.
    """

    kind: PrincipalKind
    name: str = ""
    #: The machine that a guest runs on.
    machine: MachineRef | None = None

    def __str__(self) -> str:
        """Return the principal as the history shows it; a machine's name has no colon in it."""
        if self.machine is not None:
            return self.machine.name
        return f"{self.kind}:{self.name}" if self.name else self.kind.value


#: The service itself: deadlines, barriers, drivers.
PLATFORM = Principal(PrincipalKind.PLATFORM)

#: An operator without a name.
OPERATOR = Principal(PrincipalKind.OPERATOR)


def guest(machine: MachineRef) -> Principal:
    """Return the principal of whatever runs on a machine."""
    return Principal(PrincipalKind.GUEST, machine=machine)
