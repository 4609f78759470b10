"""Commands: requests to change the fleet, from an operator, a guest, a driver or the engine.

``control`` makes those that callers ask for: it resolves names, makes ids and names the caller (``by``).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, assert_never

from fairwarning.core.blueprint import Blueprint, scope_ids
from fairwarning.core.fleet import Observation
from fairwarning.core.inventory import InventoryScope, InventoryVersion
from fairwarning.core.maintenance.values import Hold, HostLabels, MaintenanceBudget, OnSilence
from fairwarning.core.model import (
    ApprovalSettings,
    BarrierId,
    EventId,
    EventType,
    EvictionPolicy,
    HostId,
    MachineRef,
    PowerState,
    ScopeId,
    VmName,
    in_group,
)

#: Who reports what a driver has observed.
DRIVER = "driver"


class CreateSet(NamedTuple):
    """Create a set of machines."""

    seed: str
    blueprint: Blueprint
    by: str = "operator"


class AddMachines(NamedTuple):
    """Add machines to a scope; a setting that is None is taken from the machines of the scope."""

    seed: str
    scope: ScopeId
    number: int = 1
    names: tuple[str, ...] = ()
    spot: bool | None = None
    eviction: EvictionPolicy | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    by: str = "operator"


class RecordInventory(NamedTuple):
    """Store the version of the inventory that is applied next, unless the fleet has a newer one (F-03)."""

    version: InventoryVersion
    #: The version that this one replaces although it is older.
    replaces: str = ""
    budgets: tuple[MaintenanceBudget, ...] = ()
    labels: HostLabels = MappingProxyType({})
    #: The scopes with events, whose machines have places in the budgets.
    scopes: tuple[ScopeId, ...] = ()


class ApplyInventory(NamedTuple):
    """Bring scopes in step with the fleet's inventory, and remove scopes that it does not have."""

    version: InventoryVersion
    scopes: tuple[InventoryScope, ...] = ()
    gone: tuple[ScopeId, ...] = ()


class DeleteScopes(NamedTuple):
    """Delete all machines of some scopes, with their notice, and then the scopes (T-09)."""

    id: EventId
    scopes: tuple[ScopeId, ...]
    force: bool = False
    by: str = "operator"


class Schedule(NamedTuple):
    """Trigger an event on one or more machines; ``host`` if they were named by their host."""

    id: EventId
    cause: str
    machines: tuple[MachineRef, ...]
    host: HostId | None = None
    notice: timedelta | None = None
    kind: EventType | None = None
    force: bool = False
    by: str = "operator"


class Maintain(NamedTuple):
    """Announce a maintenance of a host, or of a batch of machines (M-01)."""

    id: BarrierId
    cause: str
    machines: tuple[MachineRef, ...]
    host: HostId | None = None
    notice: timedelta | None = None
    opens: datetime | None = None
    closes: datetime | None = None
    on_silence: OnSilence = OnSilence.PROCEED
    over_budget: bool = False
    by: str = "operator"


class Postpone(NamedTuple):
    """Move the NotBefore of what waits behind a barrier to a later instant (M-10)."""

    barrier: BarrierId
    scopes: tuple[ScopeId, ...]
    until: datetime
    by: str = "operator"


class ForgetMaintenances(NamedTuple):
    """Remove maintenances that were over before an instant; with them, their keys are unknown (M-11)."""

    ids: tuple[BarrierId, ...]
    before: datetime


class SetHold(NamedTuple):
    """Hold the fleet or one host, so that nothing of the platform starts there; None ends the hold (M-08)."""

    hold: Hold | None
    host: HostId | None = None


class Approve(NamedTuple):
    """Approve events, all of them or none (R-16)."""

    scope: ScopeId
    ids: tuple[EventId, ...]
    machine: VmName | None = None
    by: str = "operator"


class Cancel(NamedTuple):
    """Cancel an event that has not started."""

    scope: ScopeId
    id: EventId
    by: str = "operator"


class Poll(NamedTuple):
    """A guest polled its document."""

    machine: MachineRef


class Tick(NamedTuple):
    """Time has passed; ``polled`` holds the last poll of each scope, which may not be stored yet."""

    scopes: tuple[ScopeId, ...]
    polled: Mapping[ScopeId, datetime] = MappingProxyType({})


class ReportOutcomes(NamedTuple):
    """A driver, or an operator in its place, reports what became of impacts in one scope."""

    scope: ScopeId
    observations: tuple[Observation, ...]
    by: str = DRIVER


class SetPower(NamedTuple):
    """Start or stop a machine; neither is announced (L-14).

    A machine that is stopped is deallocated, unless it stays ``allocated``.
    """

    machine: MachineRef
    power: PowerState
    allocated: bool = False
    by: str = "operator"


class MoveMachine(NamedTuple):
    """A machine is on another host than the fleet knows (F-08)."""

    machine: MachineRef
    host: HostId
    by: str = "operator"


class ChangeModel(NamedTuple):
    """Change the model of a scale set; its instances keep their model until they are upgraded (T-06)."""

    scopes: tuple[ScopeId, ...]
    terminate_notice: timedelta | None
    image_notice: bool = False
    upgrades_itself: bool | None = None
    by: str = "operator"


class Upgrade(NamedTuple):
    """Give instances the latest model of their set."""

    machines: tuple[MachineRef, ...]
    by: str = "operator"


class Protect(NamedTuple):
    """Protect an instance from scale-in, or end its protection."""

    machine: MachineRef
    protected: bool
    by: str = "operator"


class SetTags(NamedTuple):
    """Replace the tags of a machine; its guest sees them at once (I-11).

    The tags of a ``refreshed`` machine have what has changed of those of its set.
    """

    machine: MachineRef
    tags: tuple[tuple[str, str], ...]
    refreshed: bool = False
    by: str = "operator"


class SetTagsOfSet(NamedTuple):
    """Replace the tags of a scale set; its instances have them from their next restart on (I-11)."""

    scopes: tuple[ScopeId, ...]
    tags: tuple[tuple[str, str], ...]
    by: str = "operator"


class SetApprovals(NamedTuple):
    """Change which events a scope approves by itself."""

    scope: ScopeId
    approvals: ApprovalSettings
    by: str = "operator"


class StartRollout(NamedTuple):
    """Start maintenance of a scope, one domain after another (S-04, S-05)."""

    id: str
    scope: ScopeId
    cause: str = "host-update"
    notice: timedelta | None = None
    by: str = "operator"


class StopRollout(NamedTuple):
    """End a rollout and cancel its events that have not started."""

    scope: ScopeId
    by: str = "operator"


Command = (
    CreateSet
    | AddMachines
    | RecordInventory
    | ApplyInventory
    | DeleteScopes
    | Schedule
    | Maintain
    | Postpone
    | SetHold
    | ForgetMaintenances
    | Approve
    | Cancel
    | Poll
    | Tick
    | ReportOutcomes
    | SetPower
    | MoveMachine
    | ChangeModel
    | Upgrade
    | Protect
    | SetTags
    | SetTagsOfSet
    | SetApprovals
    | StartRollout
    | StopRollout
)


def concerns(command: Command) -> frozenset[ScopeId]:
    """Return the scopes that a command names; the engine adds scopes that share a set or a barrier."""
    match command:
        case (
            Approve(scope=scope)
            | AddMachines(scope=scope)
            | Cancel(scope=scope)
            | ReportOutcomes(scope=scope)
            | SetApprovals(scope=scope)
            | StartRollout(scope=scope)
            | StopRollout(scope=scope)
        ):
            return frozenset({scope})
        case CreateSet(blueprint=blueprint):
            return frozenset((ScopeId(in_group(blueprint.group, blueprint.name)), *scope_ids(blueprint)))
        case SetHold() | ForgetMaintenances():
            return frozenset()
        case ApplyInventory(scopes=inventory, gone=gone):
            sets = (ScopeId(scope.facts.set_id) for scope in inventory)
            return frozenset((*sets, *(scope.facts.id for scope in inventory), *gone))
        case (
            DeleteScopes(scopes=scopes)
            | RecordInventory(scopes=scopes)
            | Postpone(scopes=scopes)
            | Tick(scopes=scopes)
            | ChangeModel(scopes=scopes)
            | SetTagsOfSet(scopes=scopes)
        ):
            return frozenset(scopes)
        case Schedule(machines=machines) | Maintain(machines=machines) | Upgrade(machines=machines):
            return frozenset(machine.scope for machine in machines)
        case (
            Poll(machine=machine)
            | SetPower(machine=machine)
            | MoveMachine(machine=machine)
            | Protect(machine=machine)
            | SetTags(machine=machine)
        ):
            return frozenset({machine.scope})
        case _:
            assert_never(command)


def arrival_hosts(command: Command) -> frozenset[HostId] | None:
    """Return the hosts that a command may bring machines to; None if they may be any."""
    match command:
        case CreateSet() | AddMachines():
            return None
        case MoveMachine(host=host):
            return frozenset({host})
        case ReportOutcomes(observations=observations):
            return frozenset(seen.host for seen in observations if seen.host is not None)
        case ApplyInventory(scopes=inventory):
            return frozenset(machine.host for scope in inventory for machine in scope.machines)
        case _:
            return frozenset()
