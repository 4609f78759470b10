"""Brings the fleet in step with an inventory: the list of machines that an operator keeps outside the fleet.

An inventory says which scopes exist, which machines each has, and where the machines are. What happened to
the machines since (their power, their events, who polled) is not its business and stays. A machine that the
inventory no longer has is removed, unless a pending event lists it: such a machine stays until a later start.

The same inventory applied twice changes nothing the second time, so several nodes may apply it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
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
from fairwarning.core.errors import InvalidError
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import Machine, Scope, ScopeId, ScopeProperties, VmName

#: The caller that the history names.
INVENTORY = "inventory"


class InventoryScope(NamedTuple):
    """A scope and its machines as the inventory describes them."""

    facts: ScopeProperties
    machines: tuple[Machine, ...]


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
            yield from _change(existing, scope)
    for scope_id in gone:
        if scope_id in fleet.scopes:
            yield from _remove(fleet.scopes[scope_id])


def busy_machines(scope: Scope) -> set[VmName]:
    """Return the machines that a pending event lists."""
    return {name for event in scope.events.values() for name in event.resources}


def _create(fleet: FleetState, scope: InventoryScope) -> Iterator[Change]:
    # L-11: a guest that knows the last document of an earlier set of this name must notice the new one.
    incarnation = fleet.last_incarnations.get(scope.facts.set_id, 0) + 1
    yield ScopeMade(scope=scope.facts.id, facts=scope.facts, incarnation=incarnation, by=INVENTORY)
    for machine in scope.machines:
        yield _machine_changed(with_model(machine, scope.facts.model))


def _change(existing: Scope, wanted: InventoryScope) -> Iterator[Change]:
    if existing.facts.kind is not wanted.facts.kind:
        problem = f"{existing.id} exists as {existing.facts.kind}; the inventory says {wanted.facts.kind}"
        raise InvalidError("kind", problem)
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
        after = machine if before is None else _moved(before, machine)
        if before is None or properties.model != existing.facts.model:
            after = with_model(after, properties.model)
        if before != after and machine.name not in busy:
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


def _moved(before: Machine, wanted: Machine) -> Machine:
    """Return a machine where the inventory says it is; the rest stays as it was."""
    return replace(
        before,
        host=wanted.host,
        update_domain=wanted.update_domain,
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
