"""A fleet with machines on named hosts, and one method for each thing that its operator asks for."""

from collections.abc import Mapping
from datetime import datetime

from fairwarning.control.control import Control
from fairwarning.control.maintenance import Maintained
from fairwarning.core.inventory import InventoryScope, InventoryVersion
from fairwarning.core.maintenance.values import (
    Maintenance,
    MaintenanceBudget,
    MaintenancePhase,
    OnSilence,
    Places,
)
from fairwarning.core.model import (
    OPERATOR,
    PLATFORM,
    Event,
    HostId,
    Machine,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
)
from fairwarning.core.policy import Policy
from fairwarning.core.stored.kinds import PLACES
from fairwarning.drivers.external import ExternalDriver
from fairwarning.engine.ports import Store
from tests.fleet_harness import FleetHarness, run, span

#: The tenants of two hosts: web has a replica on each, db and app a machine on one.
TWO_HOSTS: Mapping[str, Mapping[str, str]] = {
    "web": {"web_0": "kvm-1", "web_1": "kvm-2"},
    "db": {"db_0": "kvm-1"},
    "app": {"app_0": "kvm-2"},
}


class MaintainedFleet(FleetHarness):
    """A fleet of listed machines, on which operators act."""

    def __init__(
        self,
        machines: Mapping[str, Mapping[str, str]] = TWO_HOSTS,
        *budgets: MaintenanceBudget,
        tags: Mapping[str, Mapping[str, str]] | None = None,
        store: Store | None = None,
    ) -> None:
        super().__init__(store=store, driver=ExternalDriver(), policy=Policy(emulator=False))
        self.control = Control(self.engine)
        self._versions = 0
        #: The tags of machines, by their names.
        self.tags = dict(tags or {})
        self.apply(machines, *budgets)

    def restart(self) -> None:
        super().restart()
        self.control = Control(self.engine)

    def apply(
        self,
        machines: Mapping[str, Mapping[str, str]],
        *budgets: MaintenanceBudget,
        labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Apply an inventory: the machines of each scope with their hosts, budgets, and labels of hosts."""
        self._versions += 1
        version = InventoryVersion(digest=str(self._versions), number=self._versions)
        scopes = [self._scope(name, hosts) for name, hosts in machines.items()]
        own = {HostId(host): own for host, own in (labels or {}).items()}
        run(self.control.apply_inventory(PLATFORM, scopes, version, budgets=budgets, labels=own))
        run(self.engine.tick())

    def maintain(
        self,
        host: str | None = None,
        *machines: str,
        cause: str = "host-reboot",
        opens: str | None = None,
        closes: str | None = None,
        key: str = "",
        on_silence: OnSilence = OnSilence.PROCEED,
        over_budget: bool = False,
        dry_run: bool = False,
    ) -> Maintained:
        """Announce a maintenance; ``opens`` and ``closes`` are durations from now."""
        maintained = run(
            self.control.maintenances.announce(
                OPERATOR,
                cause,
                machines,
                host=host,
                opens=self.after(opens),
                closes=self.after(closes),
                key=key,
                on_silence=on_silence,
                over_budget=over_budget,
                dry_run=dry_run,
            )
        )
        run(self.engine.tick())
        return maintained

    def after(self, duration: str | None) -> datetime | None:
        """Return the instant after a duration."""
        return None if duration is None else self.now + span(duration)

    def approve_all(self, *scopes: str) -> None:
        """Approve the waiting events of some scopes, or of all."""
        for scope in scopes or tuple(self.engine.scopes()):
            ids = [event.id for event in self.pending(scope) if event.waiting]
            if ids:
                self.approve(*ids)

    def complete(self, *scopes: str) -> None:
        """Report the events of some scopes as done that are started now, or those of all."""
        events = [event for scope in scopes or tuple(self.engine.scopes()) for event in self.pending(scope)]
        for event in events:
            if not event.waiting:
                run(self.control.complete(OPERATOR, event.id, ()))
        run(self.engine.tick())

    def move(self, machine: str, host: str) -> None:
        """Report that a machine is on another host now."""
        run(self.control.move(OPERATOR, machine, host))
        run(self.engine.tick())

    def hold(self, reason: str = "", host: str | None = None) -> None:
        """Put the fleet or a host on hold."""
        run(self.control.maintenances.hold(OPERATOR, reason, host))
        run(self.engine.tick())

    def unhold(self, host: str | None = None) -> None:
        """End a hold."""
        run(self.control.maintenances.unhold(OPERATOR, host))
        run(self.engine.tick())

    def down(self) -> list[str]:
        """Return the machines that have a started impact, by their full names."""
        events = [event for scope in self.engine.scopes() for event in self.pending(scope)]
        started = [event for event in events if not event.waiting]
        return sorted({f"{event.scope}/{name}" for event in started for name in event.undone})

    def waits_for(self, scope: str) -> str | None:
        """Return what the first event of a scope waits for."""
        event = self.pending(scope)[0]
        return self.control.waits_for([event]).get(event.id)

    def the_event(self, scope: str) -> Event:
        """Return the only event of a scope."""
        (event,) = self.pending(scope)
        return event

    def places(self, group: str) -> Places:
        """Return the places of a group."""
        return PLACES.find(self.engine.texts().get, group) or Places()

    def maintenance(self, of: Maintained) -> Maintenance:
        """Return a maintenance as it is now."""
        found = self.control.maintenances.find(of.maintenance.id)
        assert found is not None
        return found.maintenance

    def phase(self, of: Maintained) -> MaintenancePhase:
        """Return the phase of a maintenance."""
        return self.maintenance(of).phase

    def _scope(self, name: str, hosts: Mapping[str, str]) -> InventoryScope:
        facts = ScopeProperties(
            id=ScopeId(name), kind=ScopeKind.AVAILABILITY_SET, set_name=name, update_domains=0
        )
        machines = (
            Machine(
                scope=facts.id,
                name=VmName(machine),
                vm_id=f"id-{name}-{machine}",
                host=HostId(host),
                tags=tuple(self.tags.get(machine, {}).items()),
            )
            for machine, host in hosts.items()
        )
        return InventoryScope(facts, tuple(machines))
