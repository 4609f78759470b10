"""What somebody asks for. Ids, names and who is asking are added at the edge; nothing is looked up here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import assert_never

from fairwarning.core.blueprint import Blueprint, scope_ids
from fairwarning.core.model import (
    ApprovalSettings,
    EventId,
    EventType,
    EvictionPolicy,
    MachineRef,
    PowerState,
    ScopeId,
    VmName,
    in_group,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSet:
    """Bring up a set of machines."""

    seed: str
    blueprint: Blueprint
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMachines:
    """Bring up more machines in a scope that exists; what is not said is as with those that are there."""

    seed: str
    scope: ScopeId
    count: int = 1
    names: tuple[str, ...] = ()
    spot: bool | None = None
    eviction: EvictionPolicy | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScopes:
    """Delete all machines of some scopes, with their warnings, and then the scopes (T-09)."""

    id: EventId
    scopes: tuple[ScopeId, ...]
    force: bool = False
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Do something to machines, with the warning it calls for."""

    id: EventId
    cause: str
    machines: tuple[MachineRef, ...]
    notice: timedelta | None = None
    kind: EventType | None = None
    force: bool = False
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """Say that these events need not wait any longer; all of them or none (R-16)."""

    scope: ScopeId
    ids: tuple[EventId, ...]
    machine: VmName | None = None
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Withdraw an event that has not started."""

    scope: ScopeId
    id: EventId
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """A guest asked for its document."""

    machine: MachineRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed; ``polled`` tells when each scope was last asked about, as far as memory knows."""

    scopes: tuple[ScopeId, ...]
    polled: Mapping[ScopeId, datetime] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactOutcome:
    """What a driver observed about one impact; a problem means it has to be tried again."""

    event: EventId
    machine: VmName
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutcomes:
    """A driver tells what it has observed in one scope."""

    scope: ScopeId
    outcomes: tuple[ImpactOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPower:
    """A user starts or stops a machine; neither is announced (L-14)."""

    machine: MachineRef
    power: PowerState
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeModel:
    """Change what a scale set wants of its instances; they keep theirs until upgraded (T-06)."""

    scopes: tuple[ScopeId, ...]
    terminate_notice: timedelta | None
    image_notice: bool = False
    upgrades_itself: bool | None = None
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """Bring instances to the latest model of their set."""

    machines: tuple[MachineRef, ...]
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protect:
    """Keep an instance out of scale-ins, or let it take part again."""

    machine: MachineRef
    protected: bool
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetApprovals:
    """Change what a scope approves by itself."""

    scope: ScopeId
    approvals: ApprovalSettings
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRollout:
    """Take a maintenance through a scope, one domain at a time (S-04, S-05)."""

    id: str
    scope: ScopeId
    cause: str = "host-update"
    notice: timedelta | None = None
    by: str = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRollout:
    """End a walk; what it has announced and not started is withdrawn."""

    scope: ScopeId
    by: str = "operator"


Command = (
    CreateSet
    | AddMachines
    | DeleteScopes
    | Schedule
    | Approve
    | Cancel
    | Poll
    | Tick
    | ReportOutcomes
    | SetPower
    | ChangeModel
    | Upgrade
    | Protect
    | SetApprovals
    | StartRollout
    | StopRollout
)


def concerns(command: Command) -> frozenset[ScopeId]:
    """Return the scopes a command speaks of; the engine loads these and whoever shares a barrier."""
    match command:
        case CreateSet(blueprint=blueprint):
            return frozenset((ScopeId(in_group(blueprint.group, blueprint.name)), *scope_ids(blueprint)))
        case DeleteScopes(scopes=scopes) | Tick(scopes=scopes) | ChangeModel(scopes=scopes):
            return frozenset(scopes)
        case Schedule(machines=machines) | Upgrade(machines=machines):
            return frozenset(machine.scope for machine in machines)
        case Poll(machine=machine) | SetPower(machine=machine) | Protect(machine=machine):
            return frozenset({machine.scope})
        case (
            AddMachines(scope=scope)
            | Approve(scope=scope)
            | Cancel(scope=scope)
            | ReportOutcomes(scope=scope)
            | SetApprovals(scope=scope)
            | StartRollout(scope=scope)
            | StopRollout(scope=scope)
        ):
            return frozenset({scope})
        case _:
            assert_never(command)
