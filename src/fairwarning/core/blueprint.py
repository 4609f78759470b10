"""Builds scopes and machines from a description: names (S-06), domains, hosts, one scope per zone (R-24)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest

from fairwarning.core.changes import Change, MachineChanged, ScopeMade
from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import check_visible
from fairwarning.core.model import (
    ApprovalSettings,
    EvictionPolicy,
    HostId,
    Machine,
    MachineModel,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
    derive_id,
    in_group,
    replace,
)
from fairwarning.core.policy import Policy, check_terminate_notice

#: The default numbers of update and fault domains (S-04: flexible sets have fault domains only).
DOMAINS: Mapping[ScopeKind, tuple[int, int]] = {
    ScopeKind.STANDALONE: (1, 1),
    ScopeKind.AVAILABILITY_SET: (5, 2),
    ScopeKind.SCALE_SET: (5, 5),
    ScopeKind.FLEXIBLE_SET: (0, 3),
    ScopeKind.CLOUD_SERVICE: (5, 2),
}

MOST_MACHINES = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_GROUP_NAME = re.compile(r"[A-Za-z0-9._()-]{0,89}[A-Za-z0-9_()-]", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """A description of a standalone machine or of a set of similar machines."""

    name: str
    group: str = ""
    kind: ScopeKind = ScopeKind.SCALE_SET
    count: int = 1
    zones: tuple[str, ...] = ()
    roles: tuple[tuple[str, int], ...] = ()
    names: tuple[str, ...] = ()
    update_domains: int | None = None
    fault_domains: int | None = None
    broadcast: bool = True
    spot: bool = False
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    terminate_notice: timedelta | None = None
    image_notice: bool = False
    upgrades_itself: bool = False
    approvals: ApprovalSettings = ApprovalSettings()
    host: HostId | None = None
    tags: tuple[tuple[str, str], ...] = ()
    incarnation: int = 1


def scope_ids(blueprint: Blueprint) -> tuple[ScopeId, ...]:
    """Return the ids of the scopes that a blueprint describes: one, or one per zone (R-24)."""
    name = in_group(blueprint.group, blueprint.name)
    if not blueprint.zones:
        return (ScopeId(name),)
    return tuple(ScopeId(f"{name}.zone{zone}") for zone in blueprint.zones)


def build(blueprint: Blueprint, seed: str, policy: Policy, now: datetime, by: str) -> list[Change]:
    """Return the changes that create the scopes and machines of a blueprint."""
    _check_blueprint(blueprint)
    changes: list[Change] = []
    scopes = scope_ids(blueprint)
    for index, scope_id in enumerate(scopes):
        properties = _scope_properties(blueprint, scope_id, index, policy, now)
        machines = list(_machines(blueprint, properties, index, len(scopes), seed))
        properties = replace(properties, next_instance=index + len(machines) * len(scopes))
        changes.append(ScopeMade(scope=scope_id, facts=properties, incarnation=blueprint.incarnation, by=by))
        changes.extend(MachineChanged(scope=scope_id, machine=machine, by=by) for machine in machines)
    return changes


def grow(properties: ScopeProperties, like: Machine | None, count: int, seed: str) -> Iterator[Machine]:
    """Yield ``count`` more machines of a set, similar to the machine ``like``."""
    for number in range(count):
        index = properties.next_instance + number * properties.instance_step
        machine = Machine(
            scope=properties.id,
            name=machine_name(properties, index, seed),
            vm_id=_vm_id(seed, properties.id, index),
            instance=_instance(properties, index, seed),
            host=HostId(""),
        )
        if like is not None:
            machine = replace(machine, spot=like.spot, eviction=like.eviction, tags=like.tags)
        # Instances of a zone are numbered in steps; the division gives consecutive positions in the zone.
        yield place(properties, with_model(machine, properties.model), index // properties.instance_step)


def with_model(machine: Machine, model: MachineModel) -> Machine:
    """Return the machine with the model of its set; Spot machines get no terminate notice (T-05)."""
    return replace(machine, model=replace(model, terminate_notice=None) if machine.spot else model)


def place(properties: ScopeProperties, machine: Machine, index: int, host: HostId | None = None) -> Machine:
    """Return the ``index``-th machine of a scope with its domains and its host.

    Machines with the same update and fault domain share a host, so that no host spans two update domains.
    """
    update = index % properties.update_domains if properties.update_domains else 0
    fault = index % properties.fault_domains
    host = host or HostId(f"host-{properties.id}-{update}-{fault}")
    return replace(machine, update_domain=update, fault_domain=fault, host=host)


def domain(properties: ScopeProperties, machine: Machine) -> int:
    """Return the domain that a rollout respects: the update domain, or the fault domain if there is none."""
    return machine.update_domain if properties.update_domains else machine.fault_domain


def machine_name(properties: ScopeProperties, index: int, seed: str) -> VmName:
    """Return the name of the ``index``-th machine of a set, as its guest sees it (S-06)."""
    match properties.kind:
        case ScopeKind.STANDALONE:
            return VmName(properties.set_name)
        case ScopeKind.AVAILABILITY_SET:
            return VmName(f"{properties.set_name}-{index}")
        case ScopeKind.CLOUD_SERVICE:
            return VmName(f"{properties.set_name}_IN_{index}")
        case ScopeKind.SCALE_SET | ScopeKind.FLEXIBLE_SET:
            return instance_name(properties, _instance(properties, index, seed))


def instance_name(properties: ScopeProperties, instance: str) -> VmName:
    """Return the name of an instance of a scale set (S-06)."""
    return VmName(f"{properties.set_name}_{instance}")


def instance_of(name: VmName) -> str:
    """Return the instance id in the name of a scale set's machine."""
    return name.rpartition("_")[2]


def role_of(name: VmName) -> str:
    """Return the role in the name of a cloud service's machine."""
    return name.rpartition("_IN_")[0]


def _instance(properties: ScopeProperties, index: int, seed: str) -> str:
    if properties.kind is ScopeKind.FLEXIBLE_SET:
        return derive_id(seed, properties.id, str(index))[:8].lower()
    return str(index)


def _vm_id(seed: str, scope: ScopeId, index: int) -> str:
    return derive_id("vm", seed, scope, str(index)).lower()


def _scope_properties(
    blueprint: Blueprint, scope_id: ScopeId, index: int, policy: Policy, now: datetime
) -> ScopeProperties:
    update, fault = DOMAINS[blueprint.kind]
    return ScopeProperties(
        id=scope_id,
        kind=blueprint.kind,
        set_name=blueprint.name,
        group=blueprint.group,
        zone=blueprint.zones[index] if blueprint.zones else "",
        update_domains=update if blueprint.update_domains is None else blueprint.update_domains,
        fault_domains=fault if blueprint.fault_domains is None else blueprint.fault_domains,
        broadcast=blueprint.broadcast,
        model=MachineModel(
            terminate_notice=blueprint.terminate_notice,
            image_notice=blueprint.image_notice,
            tags=blueprint.tags if blueprint.kind.scales else None,
        ),
        upgrades_itself=blueprint.upgrades_itself,
        approvals=blueprint.approvals,
        enabled_at=now if policy.start_enabled else None,
        polled_at=now if policy.start_enabled else None,
        next_instance=index,
        instance_step=max(1, len(blueprint.zones)),
        created_at=now,
    )


def _machines(
    blueprint: Blueprint, properties: ScopeProperties, zone: int, zones: int, seed: str
) -> Iterator[Machine]:
    like = Machine(
        scope=properties.id,
        name=VmName(""),
        vm_id="",
        host=HostId(""),
        spot=blueprint.spot,
        eviction=blueprint.eviction,
        tags=blueprint.tags,
    )
    if blueprint.roles:
        for role, count in blueprint.roles:
            for machine in grow(replace(properties, set_name=role), like, count, f"{seed}{role}"):
                yield replace(machine, host=blueprint.host or machine.host)
        return
    count = len(range(zone, blueprint.count, zones))
    for machine, name in zip_longest(grow(properties, like, count, seed), blueprint.names):
        yield replace(machine, name=name or machine.name, host=blueprint.host or machine.host)


def check_name(name: str) -> None:
    """Refuse a text that cannot be the name of a machine or a set."""
    check_visible(name, "name")
    if not _NAME.fullmatch(name):
        raise InvalidError("name", f"{name!r} must be letters, digits, dot, dash or underscore")


def check_group_name(name: str) -> None:
    """Refuse a text that cannot be the name of a resource group; no name is the home group."""
    check_visible(name, "group")
    if name and not _GROUP_NAME.fullmatch(name):
        problem = "at most 90 letters, digits, '-', '.', '(', ')' or '_', and must not end with a dot"
        raise InvalidError("group", f"{name!r} must be {problem}")


def _check_blueprint(blueprint: Blueprint) -> None:
    for name in (blueprint.name, *blueprint.names, *(role for role, _ in blueprint.roles)):
        check_name(name)
    check_group_name(blueprint.group)
    if blueprint.roles and blueprint.kind is not ScopeKind.CLOUD_SERVICE:
        raise InvalidError("roles", f"a {blueprint.kind} has no roles")
    if len({role for role, _ in blueprint.roles}) != len(blueprint.roles):
        raise InvalidError("roles", "a role is named twice")
    counts = [count for _, count in blueprint.roles] or [blueprint.count]
    if not all(0 <= count <= MOST_MACHINES for count in counts):
        raise InvalidError("count", f"a set has between 0 and {MOST_MACHINES} machines")
    if blueprint.kind is ScopeKind.STANDALONE and blueprint.count != 1:
        raise InvalidError("count", "must be 1 for a standalone machine")
    if blueprint.names and blueprint.kind is not ScopeKind.AVAILABILITY_SET:
        raise InvalidError("names", f"the machines of a {blueprint.kind} are named after it")
    if blueprint.names and len(set(blueprint.names)) != blueprint.count:
        raise InvalidError("names", "must be one different name per machine")
    if blueprint.zones and not blueprint.kind.scales:
        raise InvalidError("zones", f"a {blueprint.kind} has no zones")
    if len(set(blueprint.zones)) != len(blueprint.zones):
        raise InvalidError("zones", "a zone is named twice")
    if not all(zone.isalnum() for zone in blueprint.zones):
        raise InvalidError("zones", "must be letters and digits")
    if blueprint.fault_domains is not None and blueprint.fault_domains < 1:
        raise InvalidError("fault_domains", "must be at least 1")
    if blueprint.update_domains is not None and blueprint.update_domains < 0:
        raise InvalidError("update_domains", "must not be negative")
    if blueprint.terminate_notice is not None:
        check_terminate_notice(blueprint.terminate_notice, spot=blueprint.spot)
