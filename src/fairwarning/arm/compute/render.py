"""Renders machines and sets as clients read them: the state of the core over the stored document.

A machine that ``up`` or a scale set created has no stored document. Members that the core does not know are
then filled with defaults, which depend on the machine alone.
"""

from collections.abc import Sequence
from datetime import timedelta

from fairwarning.arm import resource_ids
from fairwarning.arm.context import TENANT, ArmContext
from fairwarning.arm.documents import Document, deep_merge, get_path, overlay
from fairwarning.arm.operations import format_instant
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

DEFAULT_SIZE = "Standard_D2s_v5"
_DEFAULT_IMAGE: Document = {
    "publisher": "Canonical",
    "offer": "0001-com-ubuntu-server-jammy",
    "sku": "22_04-lts-gen2",
    "version": "latest",
}
_PROVISIONING = {"Succeeded": "Provisioning succeeded", "Updating": "Updating", "Deleting": "Deleting"}


def virtual_machine(context: ArmContext, machine: Machine) -> Document:
    """Return the document of a virtual machine."""
    scope = context.engine.scope(machine.scope)
    identifier = resource_ids.vm_id(context, machine)
    stored = resource_ids.stored_document(context, identifier, machine.vm_id)
    base = overlay(_default_machine(context, scope, machine), stored)
    properties: Document = {
        "vmId": machine.vm_id,
        "provisioningState": provisioning_state(scope, machine),
        **_membership(context, scope),
        **_priority(machine),
        **_profile(machine, get_path(stored, "properties", "scheduledEventsProfile") is not None),
    }
    if scope.facts.kind is ScopeKind.STANDALONE:
        properties |= events_policy(
            scope.facts.approvals, get_path(stored, "properties", "scheduledEventsPolicy")
        )
    return _with_core_state(
        base, identifier, str(machine.name), f"Microsoft.Compute/{resource_ids.VMS}", properties
    )


def instance(context: ArmContext, machine: Machine, model: Document) -> Document:
    """Return the document of an instance; ``model`` is the document of its scale set."""
    scope = context.engine.scope(machine.scope)
    is_latest = machine.model.number == scope.facts.model.number
    applied: Document = {"latestModelApplied": is_latest, "modelDefinitionApplied": "VirtualMachineScaleSet"}
    sku = {"name": get_path(model, "sku", "name"), "tier": "Standard"}
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return overlay(
            virtual_machine(context, machine),
            {"instanceId": machine.name, "sku": sku, "properties": {**applied, **_protection({}, machine)}},
        )
    identifier = instance_id(context, machine)
    stored = resource_ids.stored_document(context, identifier, machine.vm_id)
    base = overlay(_default_instance(context, scope, machine, model), stored)
    properties: Document = {
        "vmId": machine.vm_id,
        "provisioningState": provisioning_state(scope, machine),
        **applied,
        **_protection(stored, machine),
        **_priority(machine),
    }
    kind = f"Microsoft.Compute/{resource_ids.SCALE_SETS}/virtualMachines"
    document = _with_core_state(base, identifier, str(machine.name), kind, properties)
    return {**document, "instanceId": machine.instance, "sku": sku}


def instance_id(context: ArmContext, machine: Machine) -> str:
    """Return the id of an instance of a scale set."""
    scope = context.engine.scope(machine.scope)
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return resource_ids.vm_id(context, machine)
    return f"{resource_ids.set_id(context, scope)}/virtualMachines/{machine.instance}"


def scale_set(context: ArmContext, scopes: Sequence[Scope]) -> Document:
    """Return the document of a scale set, given its scopes: one, or one per zone."""
    facts = scopes[0].facts
    identifier = resource_ids.set_id(context, scopes[0])
    stored = context.document(identifier) or {}
    base = overlay(_default_set(context, scopes), stored)
    number = max(scope.facts.model.number for scope in scopes)
    sku: Document = {"capacity": sum(len(remaining(scope)) for scope in scopes)}
    profile = get_path(stored, "properties", "virtualMachineProfile", "scheduledEventsProfile")
    properties: Document = {
        "provisioningState": "Deleting" if facts.deleting else "Succeeded",
        "uniqueId": derive_id("set", facts.set_id).lower(),
        "orchestrationMode": "Flexible" if facts.kind is ScopeKind.FLEXIBLE_SET else "Uniform",
        "upgradePolicy": {"mode": _mode(facts, get_path(stored, "properties", "upgradePolicy", "mode"))},
        "platformFaultDomainCount": facts.fault_domains,
        "virtualMachineProfile": _notices(
            facts.model.terminate_notice, facts.model.image_notice, profile is not None
        ),
        **events_policy(facts.approvals, get_path(stored, "properties", "scheduledEventsPolicy")),
    }
    kind = f"Microsoft.Compute/{resource_ids.SCALE_SETS}"
    return {
        **_with_core_state(overlay(base, {"sku": sku}), identifier, facts.set_name, kind, properties),
        "etag": f'"{number}"',
    }


def availability_set(context: ArmContext, scope: Scope) -> Document:
    """Return the document of an availability set."""
    identifier = resource_ids.set_id(context, scope)
    stored = context.document(identifier) or {}
    group = resource_ids.group_name(context, scope)
    defaults: Document = {
        "location": context.require_group(group)["location"],
        "tags": {},
        "sku": {"name": "Aligned"},
        "properties": {},
    }
    properties: Document = {
        "platformUpdateDomainCount": scope.facts.update_domains,
        "platformFaultDomainCount": scope.facts.fault_domains,
        "virtualMachines": [
            {"id": resource_ids.resource_id(group, resource_ids.VMS, name)} for name in scope.machines
        ],
        **events_policy(scope.facts.approvals, get_path(stored, "properties", "scheduledEventsPolicy")),
    }
    kind = f"Microsoft.Compute/{resource_ids.AVAILABILITY_SETS}"
    return _with_core_state(overlay(defaults, stored), identifier, scope.facts.set_name, kind, properties)


def instance_view(context: ArmContext, machine: Machine) -> Document:
    """Return the instance view of a machine."""
    scope = context.engine.scope(machine.scope)
    state = provisioning_state(scope, machine)
    now = format_instant(context.engine.clock.now())
    code, text = power_state(context, machine)
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


def storable(document: Document, *model: str) -> Document:
    """Return a document as it is stored: the core holds the notices, so their profile is emptied.

    An empty profile still says that the client once sent one.
    """
    first = model[0] if model else "scheduledEventsProfile"
    stored = dict(document)
    for name, value in document.items():
        if name.lower() == first.lower() and isinstance(value, dict):
            stored[name] = storable(value, *model[1:]) if model else {}
    return stored


def with_instance_view(document: Document, view: Document) -> Document:
    """Return a document with its instance view."""
    return overlay(document, {"properties": {"instanceView": view}})


def power_state(context: ArmContext, machine: Machine) -> tuple[str, str]:
    """Return the power state of a machine in Azure's words; ``powerOff`` alone does not deallocate."""
    if machine.power is PowerState.RUNNING:
        return "running", "VM running"
    if get_path(context.document(power_off_key(machine.ref)), "vmId") == machine.vm_id:
        return "stopped", "VM stopped"
    return "deallocated", "VM deallocated"


def power_off_key(ref: MachineRef) -> str:
    """Return the key of the document that marks a machine as powered off but not deallocated."""
    return f"switched-off:{ref.full}"


def provisioning_state(scope: Scope, machine: Machine) -> str:
    """Return the provisioning state of a machine."""
    causes = {event.cause for event in scope.events.values() if _affects(event, machine)}
    if "delete" in causes or scope.facts.deleting:
        return "Deleting"
    return "Updating" if causes & {"restart", "redeploy", "reimage"} else "Succeeded"


def events_policy(approvals: ApprovalSettings, stored: Json) -> Document:
    """Return the policy of automatic approvals; empty for default settings without a stored policy."""
    if approvals == ApprovalSettings() and stored is None:
        return {}
    policy: Document = {
        "userInitiatedReboot": {"automaticallyApprove": approvals.user_reboot},
        "userInitiatedRedeploy": {"automaticallyApprove": approvals.user_redeploy},
        "allInstancesDown": {"automaticallyApprove": approvals.all_instances_down},
    }
    return {"scheduledEventsPolicy": deep_merge(stored if isinstance(stored, dict) else {}, policy)}


def format_duration(duration: timedelta) -> str:
    """Return a duration in ISO 8601."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    return f"PT{minutes}M{seconds}S" if seconds else f"PT{minutes}M"


def computer_name(scope: Scope, machine: Machine) -> str:
    """Return the hostname of a machine."""
    if scope.facts.kind is ScopeKind.SCALE_SET:
        return f"{scope.facts.set_name}{int(machine.instance):06d}"
    return machine.name


def _default_machine(context: ArmContext, scope: Scope, machine: Machine) -> Document:
    model: Document = {}
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        model = context.document(resource_ids.set_id(context, scope)) or {}
    group = context.require_group(resource_ids.group_name(context, scope))
    profile = get_path(model, "properties", "virtualMachineProfile")
    properties: Document = {
        "hardwareProfile": {"vmSize": get_path(model, "sku", "name") or DEFAULT_SIZE},
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


def _default_instance(context: ArmContext, scope: Scope, machine: Machine, model: Document) -> Document:
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


def _default_set(context: ArmContext, scopes: Sequence[Scope]) -> Document:
    facts = scopes[0].facts
    sample = next((machine for scope in scopes for machine in scope.machines.values()), None)
    zones: list[Json] = [scope.facts.zone for scope in scopes if scope.facts.zone]
    profile: Document = {
        "osProfile": {"computerNamePrefix": facts.set_name, "adminUsername": "ops"},
        "storageProfile": _storage(None),
        "networkProfile": {"networkInterfaceConfigurations": []},
        **(_priority(sample) if sample is not None else {}),
    }
    return {
        "location": context.require_group(resource_ids.group_name(context, scopes[0]))["location"],
        "tags": dict(sample.tags) if sample is not None else {},
        **({"zones": zones} if zones else {}),
        "sku": {"name": DEFAULT_SIZE, "tier": "Standard"},
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
    return {"imageReference": dict(_DEFAULT_IMAGE), "osDisk": disk, "dataDisks": []}


def _membership(context: ArmContext, scope: Scope) -> Document:
    match scope.facts.kind:
        case ScopeKind.AVAILABILITY_SET:
            return {"availabilitySet": {"id": resource_ids.set_id(context, scope)}}
        case ScopeKind.FLEXIBLE_SET:
            return {"virtualMachineScaleSet": {"id": resource_ids.set_id(context, scope)}}
        case _:
            return {}


def _priority(machine: Machine) -> Document:
    return {"priority": "Spot", "evictionPolicy": machine.eviction.value} if machine.spot else {}


def _profile(machine: Machine, declared: bool) -> Document:
    return _notices(machine.model.terminate_notice, machine.model.image_notice, declared)


def _notices(terminate: timedelta | None, image: bool, declared: bool) -> Document:
    profile: Document = {}
    if terminate is not None:
        profile["terminateNotificationProfile"] = {
            "notBeforeTimeout": format_duration(terminate),
            "enable": True,
        }
    if image:
        profile["osImageNotificationProfile"] = {"notBeforeTimeout": "PT15M", "enable": True}
    return {"scheduledEventsProfile": profile} if profile or declared else {}


def _protection(stored: Document, machine: Machine) -> Document:
    policy = get_path(stored, "properties", "protectionPolicy")
    if not machine.protected and policy is None:
        return {}
    base = policy if isinstance(policy, dict) else {}
    return {"protectionPolicy": deep_merge(base, {"protectFromScaleIn": machine.protected})}


def _mode(facts: ScopeProperties, stored: Json) -> Json:
    if facts.upgrades_itself:
        return stored if stored in ("Automatic", "Rolling") else "Automatic"
    return "Manual"


def _maintenance(scope: Scope, machine: Machine) -> Document:
    planned = (
        event
        for event in scope.events.values()
        if event.waiting and event.source == "Platform" and _affects(event, machine)
    )
    event = next(planned, None)
    status: Document = {"isCustomerInitiatedMaintenanceAllowed": True, "lastOperationResultCode": "None"}
    if event is not None:
        status |= {
            "preMaintenanceWindowStartTime": format_instant(event.created_at),
            "preMaintenanceWindowEndTime": format_instant(event.not_before),
            "maintenanceWindowStartTime": format_instant(event.not_before),
            "maintenanceWindowEndTime": format_instant(event.not_before + timedelta(minutes=10)),
        }
    return status


def _affects(event: Event, machine: Machine) -> bool:
    return machine.name in event.undone


def _with_core_state(base: Document, identifier: str, name: str, kind: str, properties: Document) -> Document:
    """Return a document with the state of the core over it."""
    state: Document = {"id": identifier, "name": name, "type": kind, "properties": properties}
    if "systemassigned" in str(get_path(base, "identity", "type")).lower():
        principal = derive_id("principal", identifier.lower()).lower()
        state["identity"] = {"principalId": principal, "tenantId": TENANT}
    return overlay(base, state)
