"""Brings the fleet in step with an inventory: the list of machines that an operator keeps outside the fleet.

An inventory says which scopes exist, which machines each has, and where the machines are. What happened to
the machines since (their power, their events, who polled) is not its business and stays. A machine that the
inventory no longer has is removed. While a pending event lists a machine, it stays, and nothing of it changes
but its host (F-09): the rest waits for a later start.

Of the host of a machine, whoever spoke last is right: the inventory when the line of the machine names
another host than before, a driver that saw the machine, or an operator who reported it (``moved``). So a
machine that was moved remembers the host of its line, and stays where it is while its line stays (F-08).

The same inventory applied twice changes nothing the second time, so several nodes may apply it. An older
inventory would undo a newer one, so an inventory has a version, and the fleet remembers which one it has and
which ones were replaced. ``record_inventory`` says whether an inventory may follow them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from fairwarning.core.blueprint import with_model
from fairwarning.core.changes import (
    Change,
    MachineChanged,
    MachineRemoved,
    ScopeMade,
    ScopePropertiesChanged,
    ScopeRemoved,
)
from fairwarning.core.errors import InvalidError, NumberTakenError, OlderInventoryError
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import NO_HOST, HostId, Machine, Scope, ScopeId, ScopeProperties, VmName
from fairwarning.core.stored.releases import DataRelease
from fairwarning.formats.timestamps import for_people

#: The caller that the history names.
INVENTORY = "inventory"

#: The number of replaced inventories that are remembered (F-01).
MOST_REPLACED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryVersion:
    """Which inventory it is: a hash of what it lists, and a number if the operator counts."""

    digest: str
    number: int | None = None

    def __str__(self) -> str:
        return self.digest if self.number is None else str(self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedInventory:
    """An inventory that another one has replaced."""

    version: InventoryVersion
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryRecord:
    """The inventory that a fleet has, and those that were replaced, oldest first."""

    version: InventoryVersion
    since: datetime
    replaced: tuple[ReplacedInventory, ...] = ()

    def known(self) -> tuple[InventoryVersion, ...]:
        """Return the versions that the fleet has or had."""
        return (self.version, *(earlier.version for earlier in self.replaced))


def record_inventory(
    record: InventoryRecord | None, version: InventoryVersion, now: datetime, replaces: str = ""
) -> InventoryRecord:
    """Return the record of a fleet that gets an inventory; the same record if the fleet has it already.

    ``replaces`` names a newer inventory that this one replaces on purpose.

    Raises:
        OlderInventoryError: the fleet has a newer inventory.
        NumberTakenError: the number stands for another inventory.
    """
    if record is None:
        return InventoryRecord(version=version, since=now)
    if version == record.version:
        return record
    numbers = {known.number: known.digest for known in record.known() if known.number is not None}
    if version.number is not None and numbers.get(version.number, version.digest) != version.digest:
        raise NumberTakenError(version.number, max(numbers))
    if not _is_newer(record, version) and replaces != str(record.version):
        raise older_inventory(record, version)
    replaced = [earlier for earlier in record.replaced if earlier.version != version]
    replaced.append(ReplacedInventory(version=record.version, at=now))
    return InventoryRecord(version=version, since=now, replaced=tuple(replaced[-MOST_REPLACED:]))


def older_inventory(record: InventoryRecord, version: InventoryVersion) -> OlderInventoryError:
    """Return the refusal of an inventory that is older than the fleet's."""
    replaced_at = {earlier.version: earlier.at for earlier in record.replaced}
    if version in replaced_at:
        reason = f"was replaced at {for_people(replaced_at[version])}"
    elif version.number is None:
        reason = "has no number" if record.version.number is not None else "was replaced before"
    else:
        reason = "is older"
    return OlderInventoryError(str(version), reason, str(record.version), for_people(record.since))


def _is_newer(record: InventoryRecord, version: InventoryVersion) -> bool:
    """F-03: a number counts up, a hash is unknown, and no hash follows a number."""
    known = record.known()
    if version.number is None:
        return record.version.number is None and all(version.digest != other.digest for other in known)
    return all(other.number is None or version.number > other.number for other in known)


class InventoryScope(NamedTuple):
    """A scope and its machines as the inventory describes them."""

    facts: ScopeProperties
    machines: tuple[Machine, ...]
    #: The machines whose update domain the inventory gives; the others are in that of their host.
    domains_given: frozenset[VmName] = frozenset()


def apply_inventory(
    fleet: FleetState, scopes: Iterable[InventoryScope], gone: Iterable[ScopeId]
) -> Iterator[Change]:
    """Yield the changes after which these scopes are as the inventory says, and ``gone`` scopes are gone.

    Raises:
        InvalidError: a scope exists and is of another kind.
    """
    for scope in scopes:
        existing = fleet.scopes.get(scope.facts.id)
        if existing is None:
            yield from _create(fleet, scope)
        else:
            yield from _change(fleet, existing, scope)
    for scope_id in gone:
        if scope_id in fleet.scopes:
            yield from _remove(fleet.scopes[scope_id])


def busy_machines(scope: Scope) -> set[VmName]:
    """Return the machines that a pending event lists."""
    return {name for event in scope.events.values() for name in event.resources}


def moved(machine: Machine, host: HostId, *, listed: bool) -> Machine:
    """Return a machine on the host on which a driver or an operator saw it.

    If it is ``listed``, the next inventory leaves it there, unless its line names another host (F-08).
    """
    if host == machine.host or not listed:
        return replace(machine, host=host)
    line = _listed_host(machine)
    return replace(machine, host=host, listed_host=NO_HOST if host == line else line)


def _listed_host(machine: Machine) -> HostId:
    """Return the host that the line of a machine names."""
    return machine.listed_host or machine.host


def _create(fleet: FleetState, scope: InventoryScope) -> Iterator[Change]:
    # L-11: a guest that knows the last document of an earlier set of this name must notice the new one.
    incarnation = fleet.last_incarnations.get(scope.facts.set_id, 0) + 1
    yield ScopeMade(scope=scope.facts.id, facts=scope.facts, incarnation=incarnation, by=INVENTORY)
    for machine in scope.machines:
        yield _machine_changed(with_model(machine, scope.facts.model))


def check_kind(existing: Scope, wanted: InventoryScope) -> None:
    """Refuse a scope that exists and is of another kind.

    Raises:
        InvalidError: names both kinds.
    """
    if existing.facts.kind is not wanted.facts.kind:
        problem = f"{existing.id} exists as {existing.facts.kind}; the inventory says {wanted.facts.kind}"
        raise InvalidError("kind", problem)


def _change(fleet: FleetState, existing: Scope, wanted: InventoryScope) -> Iterator[Change]:
    check_kind(existing, wanted)
    properties = _changed_properties(existing.facts, wanted.facts)
    if properties != existing.facts:
        yield ScopePropertiesChanged(scope=existing.id, facts=properties, by=INVENTORY)
    busy = busy_machines(existing)
    names = {machine.name for machine in wanted.machines}
    for name in existing.machines:
        if name not in names and name not in busy:
            yield MachineRemoved(scope=existing.id, name=name)
    for machine in wanted.machines:
        before = existing.machines.get(machine.name)
        if machine.name in busy:
            after = None if before is None else _moved_while_busy(fleet, before, machine)
        else:
            after = machine if before is None else _in_step(before, machine, wanted)
            if before is None or properties.model != existing.facts.model:
                after = with_model(after, properties.model)
        if after is not None and after != before:
            yield _machine_changed(after)


def _changed_properties(before: ScopeProperties, wanted: ScopeProperties) -> ScopeProperties:
    model = before.model
    notice = wanted.model.terminate_notice
    # Without a notice in the inventory, the notice is what callers of the APIs have set.
    if notice is not None and notice != model.terminate_notice:
        model = replace(model, number=model.number + 1, terminate_notice=notice)
    return replace(
        before,
        update_domains=wanted.update_domains,
        fault_domains=wanted.fault_domains,
        broadcast=wanted.broadcast,
        next_instance=max(before.next_instance, wanted.next_instance),
        model=model,
    )


def _moved_while_busy(fleet: FleetState, before: Machine, wanted: Machine) -> Machine:
    """Return a machine with a pending event on the host of its line; the rest of the line waits (F-09)."""
    # U-01: in 0.2 the host waits, too.
    if wanted.host == _listed_host(before) or fleet.oldest_reader < DataRelease.V0_3:
        return before
    return replace(before, host=wanted.host, listed_host=wanted.host)


def _in_step(before: Machine, wanted: Machine, scope: InventoryScope) -> Machine:
    """Return a machine as its line in the inventory says; what the line does not say stays as it was."""
    rest_waits = before.listed_host == before.host
    stays = wanted.host == _listed_host(before) and not rest_waits
    # F-07: a machine whose line keeps its host stays in its domain.
    keeps_domain = (
        stays
        and before.name not in scope.domains_given
        and before.update_domain < max(scope.facts.update_domains, 1)
    )
    return replace(
        before,
        host=before.host if stays else wanted.host,
        listed_host=before.listed_host if stays else NO_HOST,
        update_domain=before.update_domain if keeps_domain else wanted.update_domain,
        fault_domain=wanted.fault_domain,
        spot=wanted.spot,
        eviction=wanted.eviction,
        tags=wanted.tags,
        size=wanted.size,
        location=wanted.location,
    )


def _machine_changed(machine: Machine) -> MachineChanged:
    return MachineChanged(scope=machine.scope, machine=machine, by=INVENTORY)


def _remove(scope: Scope) -> Iterator[Change]:
    busy = busy_machines(scope)
    for name in scope.machines:
        if name not in busy:
            yield MachineRemoved(scope=scope.id, name=name)
    if not busy:
        yield ScopeRemoved(scope=scope.id, set_id=scope.facts.set_id, incarnation=scope.incarnation)
