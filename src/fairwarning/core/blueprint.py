"""How scopes and machines come to be: names (S-06), domains, hosts, one scope per zone (R-24)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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
)
from fairwarning.core.policy import Policy, terminate_notice

#: Update and fault domains a scope has unless told otherwise (S-04: flexible sets have fault domains only).
DOMAINS: Mapping[ScopeKind, tuple[int, int]] = {
    ScopeKind.STANDALONE: (1, 1),
    ScopeKind.AVAILABILITY_SET: (5, 2),
    ScopeKind.SCALE_SET: (5, 5),
    ScopeKind.FLEXIBLE_SET: (0, 3),
    ScopeKind.CLOUD_SERVICE: (5, 2),
}

MOST_MACHINES = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What to build: a machine, or a set of like machines."""

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
    """Return the scopes a blueprint leads to: one, or one per zone (R-24)."""
    name = in_group(blueprint.group, blueprint.name)
    if not blueprint.zones:
        return (ScopeId(name),)
    return tuple(ScopeId(f"{name}.zone{zone}") for zone in blueprint.zones)


def build(blueprint: Blueprint, seed: str, policy: Policy, now: datetime, by: str) -> list[Change]:
    """Return the changes that bring a blueprint into being."""
    _check(blueprint)
    changes: list[Change] = []
    scopes = scope_ids(blueprint)
    for index, scope_id in enumerate(scopes):
        facts = _facts(blueprint, scope_id, index, policy, now)
        machines = list(_machines(blueprint, facts, index, len(scopes), seed))
        facts = replace(facts, next_instance=index + len(machines) * len(scopes))
        changes.append(ScopeMade(scope=scope_id, facts=facts, incarnation=blueprint.incarnation, by=by))
        changes.extend(MachineChanged(scope=scope_id, machine=one, by=by) for one in machines)
    return changes


def grow(facts: ScopeProperties, like: Machine | None, count: int, seed: str) -> Iterator[Machine]:
    """Yield ``count`` more machines of a set, like the one given."""
    for number in range(count):
        index = facts.next_instance + number * facts.instance_step
        machine = Machine(
            scope=facts.id,
            name=machine_name(facts, index, seed),
            vm_id=_vm_id(seed, facts.id, index),
            instance=_instance(facts, index, seed),
            host=HostId(""),
        )
        if like is not None:
            machine = replace(machine, spot=like.spot, eviction=like.eviction, tags=like.tags)
        # A zone counts in steps of the number of zones; its machines spread as if it stood alone.
        yield place(facts, with_model(machine, facts.model), index // facts.instance_step)


def with_model(machine: Machine, model: MachineModel) -> Machine:
    """Give a machine the model of its set; Spot machines get no notice of their deletion (T-05)."""
    return replace(machine, model=replace(model, terminate_notice=None) if machine.spot else model)


def place(facts: ScopeProperties, machine: Machine, index: int, host: HostId | None = None) -> Machine:
    """Give the ``index``-th machine of a scope its domains and its host.

    Machines that share both domains share a host, so that one host never spans two update domains.
    """
    update = index % facts.update_domains if facts.update_domains else 0
    fault = index % facts.fault_domains
    host = host or HostId(f"host-{facts.id}-{update}-{fault}")
    return replace(machine, update_domain=update, fault_domain=fault, host=host)


def domain(facts: ScopeProperties, machine: Machine) -> int:
    """Return the domain that maintenance respects: update domain, or fault domain where there is none."""
    return machine.update_domain if facts.update_domains else machine.fault_domain


def machine_name(facts: ScopeProperties, index: int, seed: str) -> VmName:
    """Return the name guests see for the ``index``-th machine of a set (S-06)."""
    match facts.kind:
        case ScopeKind.STANDALONE:
            return VmName(facts.set_name)
        case ScopeKind.AVAILABILITY_SET:
            return VmName(f"{facts.set_name}-{index}")
        case ScopeKind.CLOUD_SERVICE:
            return VmName(f"{facts.set_name}_IN_{index}")
        case ScopeKind.SCALE_SET | ScopeKind.FLEXIBLE_SET:
            return instance_name(facts, _instance(facts, index, seed))


def instance_name(facts: ScopeProperties, instance: str) -> VmName:
    """Return what an instance of a scale set is called (S-06)."""
    return VmName(f"{facts.set_name}_{instance}")


def instance_of(name: VmName) -> str:
    """Return which instance of its scale set a machine is by its name."""
    return name.rpartition("_")[2]


def role_of(name: VmName) -> str:
    """Return the role of a cloud service that a machine has by its name."""
    return name.rpartition("_IN_")[0]


def _instance(facts: ScopeProperties, index: int, seed: str) -> str:
    if facts.kind is ScopeKind.FLEXIBLE_SET:
        return derive_id(seed, facts.id, str(index))[:8].lower()
    return str(index)


def _vm_id(seed: str, scope: ScopeId, index: int) -> str:
    return derive_id("vm", seed, scope, str(index)).lower()


def _facts(
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
        model=MachineModel(terminate_notice=blueprint.terminate_notice, image_notice=blueprint.image_notice),
        upgrades_itself=blueprint.upgrades_itself,
        approvals=blueprint.approvals,
        enabled_at=now if policy.start_enabled else None,
        polled_at=now if policy.start_enabled else None,
        next_instance=index,
        instance_step=max(1, len(blueprint.zones)),
    )


def _machines(
    blueprint: Blueprint, facts: ScopeProperties, zone: int, zones: int, seed: str
) -> Iterator[Machine]:
    like = Machine(
        scope=facts.id,
        name=VmName(""),
        vm_id="",
        host=HostId(""),
        spot=blueprint.spot,
        eviction=blueprint.eviction,
        tags=blueprint.tags,
    )
    if blueprint.roles:
        for role, count in blueprint.roles:
            for machine in grow(replace(facts, set_name=role), like, count, f"{seed}{role}"):
                yield replace(machine, host=blueprint.host or machine.host)
        return
    count = len(range(zone, blueprint.count, zones))
    for machine, name in zip_longest(grow(facts, like, count, seed), blueprint.names):
        yield replace(machine, name=name or machine.name, host=blueprint.host or machine.host)


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a machine or a set."""
    check_visible(name, "name")
    if not _NAME.fullmatch(name):
        raise InvalidError("name", f"{name!r} must be letters, digits, dot, dash or underscore")


def _check(blueprint: Blueprint) -> None:
    for name in (
        blueprint.name,
        blueprint.group or "none",
        *blueprint.names,
        *(role for role, _ in blueprint.roles),
    ):
        check_name(name)
    if blueprint.roles and blueprint.kind is not ScopeKind.CLOUD_SERVICE:
        raise InvalidError("roles", f"a {blueprint.kind} has no roles")
    if len({role for role, _ in blueprint.roles}) != len(blueprint.roles):
        raise InvalidError("roles", "a role is named twice")
    counts = [count for _, count in blueprint.roles] or [blueprint.count]
    if not all(0 <= count <= MOST_MACHINES for count in counts):
        raise InvalidError("count", f"a set has between 0 and {MOST_MACHINES} machines")
    if blueprint.kind is ScopeKind.STANDALONE and blueprint.count != 1:
        raise InvalidError("count", "a standalone machine is one machine")
    if blueprint.names and blueprint.kind is not ScopeKind.AVAILABILITY_SET:
        raise InvalidError("names", f"the machines of a {blueprint.kind} are named after it")
    if blueprint.names and len(set(blueprint.names)) != blueprint.count:
        raise InvalidError("names", "must be as many as there are machines, each different")
    if blueprint.zones and not blueprint.kind.scales:
        raise InvalidError("zones", f"a {blueprint.kind} has no zones of its own")
    if len(set(blueprint.zones)) != len(blueprint.zones):
        raise InvalidError("zones", "a zone is named twice")
    if not all(zone.isalnum() for zone in blueprint.zones):
        raise InvalidError("zones", "a zone is named by letters and digits")
    if blueprint.fault_domains is not None and blueprint.fault_domains < 1:
        raise InvalidError("fault_domains", "there is at least one")
    if blueprint.update_domains is not None and blueprint.update_domains < 0:
        raise InvalidError("update_domains", "must not be negative")
    if blueprint.terminate_notice is not None:
        terminate_notice(blueprint.terminate_notice, spot=blueprint.spot)
