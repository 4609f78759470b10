"""The compute routes of the management API, and helpers that build the bodies of requests."""

from collections.abc import Sequence

from fairwarning.arm import maintenance
from fairwarning.arm.compute import (
    availability_sets,
    cloud_services,
    disks,
    extensions,
    instances,
    interfaces,
    scalesets,
    vms,
)
from fairwarning.arm.documents import deep_merge
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import ApplyInventory, RecordInventory
from fairwarning.core.document.render import Json
from fairwarning.core.inventory import InventoryScope, InventoryVersion
from fairwarning.core.model import HostId, Machine, ScopeId, ScopeKind, ScopeProperties, VmName, in_group
from fairwarning.core.policy import Policy
from fairwarning.engine.ports import Store
from tests.arm.azure import GROUP, HOME, Azure
from tests.fleet_harness import run

VM = "Microsoft.Compute/virtualMachines"
SET = "Microsoft.Compute/virtualMachineScaleSets"
AVAILABILITY_SET = "Microsoft.Compute/availabilitySets"
HOME_SET = f"{HOME}/{SET}"
TABLES = (
    vms.ROUTES,
    scalesets.ROUTES,
    instances.ROUTES,
    availability_sets.ROUTES,
    cloud_services.ROUTES,
    disks.ROUTES,
    extensions.ROUTES,
    interfaces.ROUTES,
    maintenance.ROUTES,
)
#: The newest api-version, as az sends it.
NEWEST = "2026-04-01"


def compute(
    *blueprints: Blueprint, watched: bool = True, policy: Policy | None = None, store: Store | None = None
) -> Azure:
    """Return the compute routes over a fleet with these sets."""
    return Azure(*TABLES, blueprints=blueprints, watched=watched, policy=policy, store=store)


def profile(minutes: int | None = 10, *, enable: Json = True) -> dict[str, Json]:
    """Return a scheduledEventsProfile as clients write it."""
    notice: dict[str, Json] = {"enable": enable}
    if minutes is not None:
        notice["notBeforeTimeout"] = f"PT{minutes}M"
    return {"scheduledEventsProfile": {"terminateNotificationProfile": notice}}


def scale_set(capacity: int = 3, *, zones: Sequence[str] = (), **properties: Json) -> dict[str, Json]:
    """Return the body of a uniform scale set, with these additional properties."""
    body: dict[str, Json] = {
        "location": "westeurope",
        "sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": capacity},
        "properties": properties,
    }
    return {**body, "zones": list(zones)} if zones else body


def model(**properties: Json) -> dict[str, Json]:
    """Return a body with nothing but the model of a scale set."""
    return {"properties": {"virtualMachineProfile": properties}}


def both(one: Json, other: Json) -> Json:
    """Return two bodies merged."""
    return deep_merge(one, other)


def capacity_of(azure: Azure, path: str) -> Json:
    """Return the capacity in the document of a scale set."""
    document = azure.get(path)
    assert isinstance(document, dict)
    sku = document["sku"]
    assert isinstance(sku, dict)
    return sku["capacity"]


def make_set_of_0_2(azure: Azure, name: str = "old", zones: Sequence[str] = ("1", "2")) -> None:
    """Make a uniform scale set with an instance in each zone, whose tags no scope knows."""
    version = InventoryVersion(digest=name)
    scopes = []
    for number, zone in enumerate(zones):
        scope = ScopeId(in_group(GROUP, f"{name}.zone{zone}"))
        kind = ScopeKind.SCALE_SET
        facts = ScopeProperties(
            id=scope, kind=kind, set_name=name, group=GROUP, zone=zone, next_instance=len(zones) + number
        )
        vm = VmName(f"{name}_{number}")
        machine = Machine(scope=scope, name=vm, vm_id=vm, instance=str(number), host=HostId(vm))
        scopes.append(InventoryScope(facts, (machine,)))
    run(azure.fleet.engine.handle(RecordInventory(version)))
    run(azure.fleet.engine.handle(ApplyInventory(version, tuple(scopes))))
