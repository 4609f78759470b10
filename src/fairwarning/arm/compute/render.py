"""Documents as clients read them: what is true in the core, laid over what was once put.

A machine that ``up`` or a scale set has made was never put; what a document needs beyond the core's facts is
then made up, the same each time.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from fairwarning.arm import resource_ids
from fairwarning.arm.call import deep_merge, get_path
from fairwarning.arm.context import TENANT, ArmContext, Document
from fairwarning.arm.operations import instant
from fairwarning.core.document.render import Json
from fairwarning.core.model import (
    ApprovalSettings,
    Event,
    Machine,
    MachineRef,
    PowerState,
    Scope,
    ScopeKind,
    ScopeProperties,
    derive_id,
)
from fairwarning.core.scaleset import remaining

SIZE = "Standard_D2s_v5"
_IMAGE: Document = {
    "publisher": "Canonical",
    "offer": "0001-com-ubuntu-server-jammy",
    "sku": "22_04-lts-gen2",
    "version": "latest",
}
_PROVISIONING = {"Succeeded": "Provisioning succeeded", "Updating": "Updating", "Deleting": "Deleting"}


def virtual_machine(room: ArmContext, machine: Machine) -> Document:
    """Return a machine that is a resource of its own."""
    scope = room.engine.scope(machine.scope)
    identifier = resource_ids.vm_id(room, machine)
    put = resource_ids.kept(room, identifier, machine.vm_id)
    base = overlay(_bare_machine(room, scope, machine), put)
    facts: Document = {
        "vmId": machine.vm_id,
        "provisioningState": provisioning(scope, machine),
        **_membership(room, scope),
        **_priority(machine),
        **_profile(machine, get_path(put, "properties", "scheduledEventsProfile") is not None),
    }
    if scope.facts.kind is ScopeKind.STANDALONE:
        facts |= policy(scope.facts.approvals, get_path(put, "properties", "scheduledEventsPolicy"))
    return _laid(base, identifier, str(machine.name), f"Microsoft.Compute/{resource_ids.VMS}", facts)


def instance(room: ArmContext, machine: Machine, model: Document) -> Document:
    """Return an instance of a scale set, whose document is ``model``."""
    scope = room.engine.scope(machine.scope)
    latest = machine.model.number == scope.facts.model.number
    applied: Document = {"latestModelApplied": latest, "modelDefinitionApplied": "VirtualMachineScaleSet"}
    sku = {"name": get_path(model, "sku", "name"), "tier": "Standard"}
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return overlay(
            virtual_machine(room, machine),
            {"instanceId": machine.name, "sku": sku, "properties": {**applied, **_protection({}, machine)}},
        )
    identifier = instance_id(room, machine)
    put = resource_ids.kept(room, identifier, machine.vm_id)
    base = overlay(_bare_instance(room, scope, machine, model), put)
    facts: Document = {
        "vmId": machine.vm_id,
        "provisioningState": provisioning(scope, machine),
        **applied,
        **_protection(put, machine),
        **_priority(machine),
    }
    kind = f"Microsoft.Compute/{resource_ids.SCALE_SETS}/virtualMachines"
    shown = _laid(base, identifier, str(machine.name), kind, facts)
    return {**shown, "instanceId": machine.instance, "sku": sku}


def instance_id(room: ArmContext, machine: Machine) -> str:
    """Return the id of an instance of a scale set."""
    scope = room.engine.scope(machine.scope)
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return resource_ids.vm_id(room, machine)
    return f"{resource_ids.set_id(room, scope)}/virtualMachines/{machine.instance}"


def scale_set(room: ArmContext, scopes: Sequence[Scope]) -> Document:
    """Return a scale set, given its scopes: one, or one per zone."""
    facts = scopes[0].facts
    identifier = resource_ids.set_id(room, scopes[0])
    put = room.document(identifier) or {}
    base = overlay(_bare_set(room, scopes), put)
    number = max(scope.facts.model.number for scope in scopes)
    sku: Document = {"capacity": sum(len(remaining(scope)) for scope in scopes)}
    told = get_path(put, "properties", "virtualMachineProfile", "scheduledEventsProfile") is not None
    shown: Document = {
        "provisioningState": "Deleting" if facts.deleting else "Succeeded",
        "uniqueId": derive_id("set", facts.set_id).lower(),
        "orchestrationMode": "Flexible" if facts.kind is ScopeKind.FLEXIBLE_SET else "Uniform",
        "upgradePolicy": {"mode": _mode(facts, get_path(put, "properties", "upgradePolicy", "mode"))},
        "platformFaultDomainCount": facts.fault_domains,
        "virtualMachineProfile": _notices(facts.model.terminate_notice, facts.model.image_notice, told),
        **policy(facts.approvals, get_path(put, "properties", "scheduledEventsPolicy")),
    }
    kind = f"Microsoft.Compute/{resource_ids.SCALE_SETS}"
    return {
        **_laid(overlay(base, {"sku": sku}), identifier, facts.set_name, kind, shown),
        "etag": f'"{number}"',
    }


def availability_set(room: ArmContext, scope: Scope) -> Document:
    """Return an availability set."""
    identifier = resource_ids.set_id(room, scope)
    put = room.document(identifier) or {}
    group = resource_ids.group_name(room, scope)
    bare: Document = {
        "location": room.group(group)["location"],
        "tags": {},
        "sku": {"name": "Aligned"},
        "properties": {},
    }
    facts: Document = {
        "platformUpdateDomainCount": scope.facts.update_domains,
        "platformFaultDomainCount": scope.facts.fault_domains,
        "virtualMachines": [
            {"id": resource_ids.resource_id(group, resource_ids.VMS, name)} for name in scope.machines
        ],
        **policy(scope.facts.approvals, get_path(put, "properties", "scheduledEventsPolicy")),
    }
    kind = f"Microsoft.Compute/{resource_ids.AVAILABILITY_SETS}"
    return _laid(overlay(bare, put), identifier, scope.facts.set_name, kind, facts)


def instance_view(room: ArmContext, machine: Machine) -> Document:
    """Return how a machine is doing."""
    scope = room.engine.scope(machine.scope)
    state = provisioning(scope, machine)
    now = instant(room.engine.clock.now())
    code, text = power(room, machine)
    agent: list[Json] = [
        {"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Ready", "time": now}
    ]
    domains: Document = {"platformFaultDomain": machine.fault_domain}
    if scope.facts.update_domains:
        domains["platformUpdateDomain"] = machine.update_domain  # S-04: flexible sets have none
    return {
        **domains,
        "computerName": computer_name(scope, machine),
        "osName": "ubuntu",
        "osVersion": "22.04",
        "hyperVGeneration": "V2",
        "vmAgent": {"vmAgentVersion": "2.9.1.1", "statuses": agent, "extensionHandlers": []},
        "disks": [],
        "maintenanceRedeployStatus": _maintenance(scope, machine),
        "statuses": [
            {
                "code": f"ProvisioningState/{state.lower()}",
                "level": "Info",
                "displayStatus": _PROVISIONING[state],
                "time": now,
            },
            {"code": f"PowerState/{code}", "level": "Info", "displayStatus": text},
        ],
    }


def overlay(document: Json, more: Document) -> Document:
    """Return a document with another laid over it; tags are not merged but replaced."""
    after = deep_merge(document, more)
    if not isinstance(after, dict):
        return {}
    tags = get_path(more, "tags")
    return after if tags is None else {**after, "tags": tags}


def storable(document: Document, *model: str) -> Document:
    """Return a document as it is kept: of its notices only that there was ever talk of them."""
    first = model[0] if model else "scheduledEventsProfile"
    kept = dict(document)
    for name, value in document.items():
        if name.lower() == first.lower() and isinstance(value, dict):
            kept[name] = storable(value, *model[1:]) if model else {}
    return kept


def expanded(document: Document, view: Document) -> Document:
    """Return a document with how its machine is doing."""
    return overlay(document, {"properties": {"instanceView": view}})


def power(room: ArmContext, machine: Machine) -> tuple[str, str]:
    """Return a machine's power state as Azure calls it; what was only switched off is not deallocated."""
    if machine.power is PowerState.RUNNING:
        return "running", "VM running"
    if get_path(room.document(switched_off(machine.ref)), "vmId") == machine.vm_id:
        return "stopped", "VM stopped"
    return "deallocated", "VM deallocated"


def switched_off(ref: MachineRef) -> str:
    """Return where it is kept that a machine was switched off and not deallocated."""
    return f"switched-off:{ref.full}"


def provisioning(scope: Scope, machine: Machine) -> str:
    """Return what is being done to a machine."""
    causes = {event.cause for event in scope.events.values() if _concerns(event, machine)}
    if "delete" in causes or scope.facts.deleting:
        return "Deleting"
    return "Updating" if causes & {"restart", "redeploy", "reimage"} else "Succeeded"


def policy(approvals: ApprovalSettings, put: Json) -> Document:
    """Return the member that says what is approved without asking; nothing where nobody ever said."""
    if approvals == ApprovalSettings() and put is None:
        return {}
    told: Document = {
        "userInitiatedReboot": {"automaticallyApprove": approvals.user_reboot},
        "userInitiatedRedeploy": {"automaticallyApprove": approvals.user_redeploy},
        "allInstancesDown": {"automaticallyApprove": approvals.all_instances_down},
    }
    return {"scheduledEventsPolicy": deep_merge(put if isinstance(put, dict) else {}, told)}


def iso(duration: timedelta) -> str:
    """Write a duration as ISO 8601 does."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    return f"PT{minutes}M{seconds}S" if seconds else f"PT{minutes}M"


def computer_name(scope: Scope, machine: Machine) -> str:
    """Return what a machine calls itself."""
    if scope.facts.kind is ScopeKind.SCALE_SET:
        return f"{scope.facts.set_name}{int(machine.instance):06d}"
    return machine.name


def _bare_machine(room: ArmContext, scope: Scope, machine: Machine) -> Document:
    model: Document = {}
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        model = room.document(resource_ids.set_id(room, scope)) or {}
    group = room.group(resource_ids.group_name(room, scope))
    profile = get_path(model, "properties", "virtualMachineProfile")
    properties: Document = {
        "hardwareProfile": {"vmSize": get_path(model, "sku", "name") or SIZE},
        "storageProfile": get_path(profile, "storageProfile") or _storage(machine),
        "osProfile": {"computerName": computer_name(scope, machine), "adminUsername": "ops"},
        "networkProfile": {"networkInterfaces": []},
    }
    return {
        "location": get_path(model, "location") or group["location"],
        "tags": dict(machine.tags),
        **({"zones": [scope.facts.zone]} if scope.facts.zone else {}),
        "properties": properties,
    }


def _bare_instance(room: ArmContext, scope: Scope, machine: Machine, model: Document) -> Document:
    profile = get_path(model, "properties", "virtualMachineProfile")
    prefix = get_path(profile, "osProfile", "computerNamePrefix")
    name = f"{prefix}{int(machine.instance):06d}" if prefix else computer_name(scope, machine)
    properties: Document = {
        "hardwareProfile": {"vmSize": get_path(model, "sku", "name")},
        "storageProfile": get_path(profile, "storageProfile"),
        "osProfile": {"computerName": name, "adminUsername": get_path(profile, "osProfile", "adminUsername")},
        "networkProfile": {"networkInterfaces": []},
        "networkProfileConfiguration": get_path(profile, "networkProfile"),
    }
    return {
        "location": model["location"],
        "tags": model["tags"],
        **({"zones": [scope.facts.zone]} if scope.facts.zone else {}),
        "properties": properties,
    }


def _bare_set(room: ArmContext, scopes: Sequence[Scope]) -> Document:
    facts = scopes[0].facts
    some = next((machine for scope in scopes for machine in scope.machines.values()), None)
    zones: list[Json] = [scope.facts.zone for scope in scopes if scope.facts.zone]
    profile: Document = {
        "osProfile": {"computerNamePrefix": facts.set_name, "adminUsername": "ops"},
        "storageProfile": _storage(None),
        "networkProfile": {"networkInterfaceConfigurations": []},
        **(_priority(some) if some is not None else {}),
    }
    return {
        "location": room.group(resource_ids.group_name(room, scopes[0]))["location"],
        "tags": dict(some.tags) if some is not None else {},
        **({"zones": zones} if zones else {}),
        "sku": {"name": SIZE, "tier": "Standard"},
        "properties": {
            "singlePlacementGroup": facts.kind is ScopeKind.SCALE_SET,
            "overprovision": False,
            "virtualMachineProfile": profile,
        },
    }


def _storage(machine: Machine | None) -> Document:
    disk: Document = {"osType": "Linux", "createOption": "FromImage", "caching": "ReadWrite"}
    if machine is not None:
        disk["name"] = f"{machine.name}_OsDisk_1"
    return {"imageReference": dict(_IMAGE), "osDisk": disk, "dataDisks": []}


def _membership(room: ArmContext, scope: Scope) -> Document:
    match scope.facts.kind:
        case ScopeKind.AVAILABILITY_SET:
            return {"availabilitySet": {"id": resource_ids.set_id(room, scope)}}
        case ScopeKind.FLEXIBLE_SET:
            return {"virtualMachineScaleSet": {"id": resource_ids.set_id(room, scope)}}
        case _:
            return {}


def _priority(machine: Machine) -> Document:
    return {"priority": "Spot", "evictionPolicy": machine.eviction.value} if machine.spot else {}


def _profile(machine: Machine, told: bool) -> Document:
    return _notices(machine.model.terminate_notice, machine.model.image_notice, told)


def _notices(terminate: timedelta | None, image: bool, told: bool) -> Document:
    profile: Document = {}
    if terminate is not None:
        profile["terminateNotificationProfile"] = {"notBeforeTimeout": iso(terminate), "enable": True}
    if image:
        profile["osImageNotificationProfile"] = {"notBeforeTimeout": "PT15M", "enable": True}
    return {"scheduledEventsProfile": profile} if profile or told else {}


def _protection(put: Document, machine: Machine) -> Document:
    told = get_path(put, "properties", "protectionPolicy")
    if not machine.protected and told is None:
        return {}
    base = told if isinstance(told, dict) else {}
    return {"protectionPolicy": deep_merge(base, {"protectFromScaleIn": machine.protected})}


def _mode(facts: ScopeProperties, put: Json) -> Json:
    if facts.upgrades_itself:
        return put if put in ("Automatic", "Rolling") else "Automatic"
    return "Manual"


def _maintenance(scope: Scope, machine: Machine) -> Document:
    planned = [event for event in scope.events.values() if event.waiting and _concerns(event, machine)]
    windows: Iterable[Event] = (event for event in planned if event.source == "Platform")
    window = next(iter(windows), None)
    told: Document = {"isCustomerInitiatedMaintenanceAllowed": True, "lastOperationResultCode": "None"}
    if window is not None:
        told |= {
            "preMaintenanceWindowStartTime": instant(window.created_at),
            "preMaintenanceWindowEndTime": instant(window.not_before),
            "maintenanceWindowStartTime": instant(window.not_before),
            "maintenanceWindowEndTime": instant(window.not_before + timedelta(minutes=10)),
        }
    return told


def _concerns(event: Event, machine: Machine) -> bool:
    return machine.name in event.undone


def _laid(base: Document, identifier: str, name: str, kind: str, facts: Document) -> Document:
    """Lay what is true over what was put."""
    own: Document = {"id": identifier, "name": name, "type": kind, "properties": facts}
    if "systemassigned" in str(get_path(base, "identity", "type")).lower():
        principal = derive_id("principal", identifier.lower()).lower()
        own["identity"] = {"principalId": principal, "tenantId": TENANT}
    return overlay(base, own)
