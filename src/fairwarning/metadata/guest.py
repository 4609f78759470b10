"""What a machine may read about itself, from what the fleet knows of it."""

import hashlib

from fairwarning.core.model import Machine, ScopeKind, ScopeProperties, derive_id
from fairwarning.metadata import instance


def facts_of(machine: Machine, scope: ScopeProperties) -> instance.Facts:
    """Return the machine as ``/metadata/instance`` shows it.

    Addresses are made up from the machine's id, so that they stay the same for its whole life.
    """
    digest = hashlib.sha256(machine.vm_id.encode()).digest()
    subnet = f"10.{digest[0]}.{digest[1]}"
    uniform = scope.kind is ScopeKind.SCALE_SET
    return instance.Facts(
        name=machine.name,
        vm_id=machine.vm_id,
        update_domain=machine.update_domain if scope.update_domains else None,
        fault_domain=machine.fault_domain,
        zone=scope.zone,
        tags=machine.tags,
        scale_set=scope.set_name if scope.kind.scales else "",
        flexible=scope.kind is ScopeKind.FLEXIBLE_SET,
        placement_group_id=derive_id("placement group", scope.id).lower() if uniform else "",
        priority="Spot" if machine.spot else "Regular",
        eviction_policy=machine.eviction.value if machine.spot else "",
        computer_name=(
            instance.computer_name(scope.set_name, int(machine.instance)) if uniform else machine.name
        ),
        private_ip=f"{subnet}.{4 + digest[2] % 250}",
        subnet=f"{subnet}.0",
        mac="000D3A" + digest[3:6].hex().upper(),
    )
