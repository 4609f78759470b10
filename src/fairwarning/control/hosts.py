"""Hosts as operators see them: who is on each, what is about to happen to it, and what is in the way.

A host has no record of its own: machines say on which host they are, as far as that was reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from fairwarning.core.errors import UnknownHostError
from fairwarning.core.maintenance.values import Hold, Maintenance, MaintenancePhase
from fairwarning.core.model import Event, HostId, Machine, ScopeId
from fairwarning.core.stored.kinds import HOLD_OF_HOST, HOST_LABELS, MAINTENANCE, PENDING
from fairwarning.engine.requests import View
from fairwarning.formats.counts import format_count


class HostState(StrEnum):
    """The state of a host in one word."""

    IN_SERVICE = "in-service"
    #: A maintenance is scheduled.
    ANNOUNCED = "announced"
    IN_MAINTENANCE = "in-maintenance"


class Tenant(NamedTuple):
    """A scope with machines on a host, and its events of the host's maintenance."""

    scope: ScopeId
    machines: tuple[Machine, ...]
    #: Whether a guest of the scope polls.
    polls: bool
    events: tuple[Event, ...] = ()

    @property
    def answer(self) -> str:
        """What the tenant has answered, as people read it."""
        number = len(self.events)
        approved = sum(event.approved_by is not None for event in self.events)
        if not number:
            return "nothing is scheduled"
        if not any(event.waiting for event in self.events):
            return "started"
        if approved == number:
            return "approved"
        if approved:
            return f"{approved} of {format_count(number, 'event')} approved"
        return "not approved" if self.polls else "silent: no guest polls"


class Host(NamedTuple):
    """A host, with its maintenances that are not over."""

    name: HostId
    tenants: tuple[Tenant, ...]
    maintenances: tuple[Maintenance, ...] = ()
    hold: Hold | None = None
    #: What the inventory says of the host, such as its rack.
    labels: Mapping[str, str] = MappingProxyType({})

    @property
    def state(self) -> HostState:
        """The state in one word."""
        phases = {maintenance.phase for maintenance in self.maintenances}
        if MaintenancePhase.STARTED in phases:
            return HostState.IN_MAINTENANCE
        return HostState.ANNOUNCED if phases else HostState.IN_SERVICE

    @property
    def machines(self) -> int:
        """The number of machines on the host."""
        return sum(len(tenant.machines) for tenant in self.tenants)


def all_hosts(view: View) -> Iterator[Host]:
    """Yield all hosts by name: those of machines, of maintenances that are not over, and those on hold."""
    machines: dict[HostId, dict[ScopeId, list[Machine]]] = {}
    for scope in view.scopes():
        for machine in scope.machines.values():
            machines.setdefault(machine.host, {}).setdefault(scope.id, []).append(machine)
    held = (HostId(key.removeprefix(HOLD_OF_HOST.prefix)) for key in view.keys_under(HOLD_OF_HOST.prefix))
    labels = HOST_LABELS.find(view.text) or {}
    names = {*machines, *labels, *held, *(PENDING.find(view.text) or {})}
    return (_host(view, name, machines.get(name, {})) for name in sorted(names))


def find_host(view: View, name: str) -> Host:
    """Return a host.

    Raises:
        UnknownHostError: nothing is known of such a host.
    """
    host = HostId(name)
    machines = {
        scope_id: [machine for machine in view.scope(scope_id).machines.values() if machine.host == host]
        for scope_id in view.scopes_on_host(host)
    }
    found = _host(view, host, machines)
    if not (found.tenants or found.maintenances or found.hold or found.labels):
        raise UnknownHostError(name)
    return found


def _host(view: View, name: HostId, machines: Mapping[ScopeId, Sequence[Machine]]) -> Host:
    ids = (PENDING.find(view.text) or {}).get(name, ())
    maintenances = (MAINTENANCE.find(view.text, id) for id in ids)
    tenants = (
        Tenant(
            scope.id,
            tuple(machines[scope.id]),
            scope.enabled,
            tuple(event for event in scope.events.values() if event.barrier in ids),
        )
        for scope in map(view.scope, sorted(machines))
    )
    return Host(
        name,
        tuple(tenants),
        tuple(maintenance for maintenance in maintenances if maintenance is not None),
        HOLD_OF_HOST.find(view.text, name),
        (HOST_LABELS.find(view.text) or {}).get(name, MappingProxyType({})),
    )
