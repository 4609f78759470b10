"""Splits an inventory into requests of limited size, and counts what they change.

A fleet may have a million machines, and one transaction must not hold all of them. Scopes that are as the
inventory says are left out, so that the next start of a server writes nothing.

The version is stored first, by a request of its own. Every other request reads it, and is refused once
another node has stored another version.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from fairwarning.core.changes import Change, MachineChanged, MachineRemoved
from fairwarning.core.errors import MassRemovalError
from fairwarning.core.fleet import FleetState
from fairwarning.core.inventory import (
    InventoryScope,
    apply_inventory,
    busy_machines,
    check_kind,
)
from fairwarning.core.model import MachineRef, Scope, ScopeId

T = TypeVar("T")

#: This many machines may be removed in any case.
FEW = 10

#: A request has at most this many machines, or one scope.
MOST_AT_ONCE = 1000


class InventoryRequest(NamedTuple):
    """The scopes that the inventory has, and those to remove."""

    scopes: Sequence[InventoryScope] = ()
    gone: Sequence[ScopeId] = ()


class InventorySync(NamedTuple):
    """How a fleet was brought in step with an inventory: numbers of machines, and those that stay."""

    written: int = 0
    removed: int = 0
    #: Machines that are not in the inventory and stay because of a pending event.
    kept: tuple[str, ...] = ()


def check_kinds(existing: Mapping[ScopeId, Scope], inventory: Sequence[InventoryScope]) -> None:
    """Refuse an inventory with a scope that exists and is of another kind.

    Raises:
        InvalidError: names the scope.
    """
    for scope in inventory:
        if scope.facts.id in existing:
            check_kind(existing[scope.facts.id], scope)


def check_removals(existing: Mapping[ScopeId, Scope], inventory: Sequence[InventoryScope]) -> None:
    """Refuse an inventory that would remove most of the machines.

    Raises:
        MassRemovalError: more than half of a fleet of some size would be removed.
    """
    listed = {scope.facts.id: {machine.name for machine in scope.machines} for scope in inventory}
    machines = sum(len(scope.machines) for scope in existing.values())
    missing = sum(
        name not in listed.get(scope.id, ()) for scope in existing.values() for name in scope.machines
    )
    if missing > max(machines // 2, FEW):
        raise MassRemovalError(missing, machines)


def inventory_requests(
    existing: Mapping[ScopeId, Scope], inventory: Sequence[InventoryScope]
) -> list[InventoryRequest]:
    """Return the requests that bring the fleet in step with an inventory."""
    fleet, known = FleetState(existing), {scope.facts.id for scope in inventory}
    different = [scope for scope in inventory if _any_change(apply_inventory(fleet, (scope,), ()))]
    gone = [scope for scope in existing.values() if scope.id not in known]
    removable = [scope for scope in gone if _any_change(apply_inventory(fleet, (), (scope.id,)))]
    return [
        *(InventoryRequest(scopes=batch) for batch in _batches(different, lambda scope: len(scope.machines))),
        *(
            InventoryRequest(gone=[scope.id for scope in batch])
            for batch in _batches(removable, lambda scope: len(scope.machines))
        ),
    ]


def count_changes(
    changes: Iterable[Change], existing: Mapping[ScopeId, Scope], inventory: Sequence[InventoryScope]
) -> InventorySync:
    """Return what the requests changed, given the fleet after them."""
    kinds = [type(change) for change in changes]
    machines = {machine.ref for scope in inventory for machine in scope.machines}
    kept = (ref.full for scope in existing.values() for ref in _busy(scope) if ref not in machines)
    return InventorySync(kinds.count(MachineChanged), kinds.count(MachineRemoved), tuple(kept))


def _busy(scope: Scope) -> Iterator[MachineRef]:
    return (MachineRef(scope.id, name) for name in busy_machines(scope) if name in scope.machines)


def _any_change(changes: Iterator[Change]) -> bool:
    return next(changes, None) is not None


def _batches(scopes: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    batch: list[T] = []
    total = 0
    for scope in scopes:
        if batch and total + size(scope) > MOST_AT_ONCE:
            yield batch
            batch, total = [], 0
        batch.append(scope)
        total += size(scope)
    if batch:
        yield batch
