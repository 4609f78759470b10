"""Renders machines and sets as clients read them: the state of the core over the stored document.

A machine that ``up`` or a scale set created has no stored document. Members that the core does not know are
then filled with defaults, which depend on the machine alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta

from fairwarning.arm import catalog, resource_ids
from fairwarning.arm.compute import older_documents
from fairwarning.arm.compute.defaults import complete_model, complete_profile
from fairwarning.arm.compute.validation import APPROVALS
from fairwarning.arm.context import TENANT
from fairwarning.arm.documents import Document, fill, get_fields, get_items, get_path, overlay, without
from fairwarning.arm.operations import format_instant, location_of
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import (
    DEFAULT_SIZE,
    VMS,
    MachineIdentity,
    managed_identity,
    resource_id,
)
from fairwarning.core.azure.images import DEFAULT_IMAGE
from fairwarning.core.azure.operating_system import os_type
from fairwarning.core.document.render import Json
from fairwarning.core.model import (
    ApprovalSettings,
    Machine,
    MachineModel,
    PowerState,
    Scope,
    ScopeKind,
    ScopeProperties,
    derive_id,
)
from fairwarning.core.scaleset import remaining

#: The member of a machine that refers to its set.
_MEMBERSHIPS = {
    ScopeKind.AVAILABILITY_SET: "availabilitySet",
    ScopeKind.FLEXIBLE_SET: "virtualMachineScaleSet",
}
_APPLIED: Document = {"modelDefinitionApplied": "VirtualMachineScaleSet"}
_PROVISIONING = {"Succeeded": "Provisioning succeeded", "Updating": "Updating", "Deleting": "Deleting"}


def virtual_machine(state: ArmState, machine: Machine) -> Document:
    """Return the document of a virtual machine."""
    scope, facts = state.scope_of(machine), state.identify(machine)
    stored = get_fields(facts.own, "properties")
    profile = get_path(facts.model, "properties", "virtualMachineProfile")
    properties: Document = {
        "vmId": machine.vm_id,
        "provisioningState": provisioning_state(scope, machine),
        "storageProfile": facts.disks,
        **_membership(state, scope),
        **_priority(machine, stored, profile),
        **_notices(machine.model, get_path(stored, "scheduledEventsProfile")),
    }
    if scope.facts.kind is ScopeKind.STANDALONE:
        properties |= events_policy(scope.facts.approvals, get_path(stored, "scheduledEventsPolicy"))
    base = _machine(facts, scope, dict(machine.tags), _default_profile(profile, _storage()))
    return with_core_state(base, facts.resource_id, properties)


def instance(state: ArmState, machine: Machine) -> Document:
    """Return the document of an instance."""
    scope, facts = state.scope_of(machine), state.identify(machine)
    model = _set_model(state, (scope,))
    sku = {"name": get_path(model, "sku", "name"), "tier": "Standard"}
    if scope.facts.kind is not ScopeKind.FLEXIBLE_SET:
        uniform = _uniform_instance(facts, scope, machine, model)
        return {**overlay(uniform, own_members(facts, scope, machine)), "sku": sku}
    is_latest = machine.model.number == scope.facts.model.number
    applied = {"latestModelApplied": is_latest, **_APPLIED, **_protection(machine, {})}
    members: Document = {"instanceId": machine.name, "sku": sku, "properties": applied}
    return overlay(virtual_machine(state, machine), members)


def own_members(facts: MachineIdentity, scope: Scope, machine: Machine) -> Document:
    """Return the members of an instance that no other instance shares."""
    network = get_path(facts.model, "properties", "virtualMachineProfile", "networkProfile")
    interfaces: list[Json] = [
        {"id": f"{facts.resource_id}/networkInterfaces/{get_path(interface, 'name')}"}
        for interface in get_items(network, "networkInterfaceConfigurations")
    ]
    return {
        "id": facts.resource_id,
        "name": machine.name,
        "instanceId": machine.instance,
        "properties": {
            "vmId": machine.vm_id,
            "provisioningState": provisioning_state(scope, machine),
            "latestModelApplied": machine.model.number == scope.facts.model.number,
            **_APPLIED,
            "osProfile": {"computerName": facts.computer_name},
            "storageProfile": facts.disks,
            "networkProfile": overlay(
                {"networkInterfaces": interfaces}, get_fields(facts.own, "properties", "networkProfile")
            ),
        },
    }


def _uniform_instance(facts: MachineIdentity, scope: Scope, machine: Machine, model: Document) -> Document:
    """Return the members of an instance that instances which are alike share, and its names."""
    stored = get_fields(facts.own, "properties")
    profile = get_path(model, "properties", "virtualMachineProfile")
    networks: Document = {"networkProfileConfiguration": get_fields(profile, "networkProfile")}
    base = _machine(facts, scope, dict(machine.tags), _default_profile(profile, {}) | networks)
    properties = _protection(machine, stored) | _priority(machine, stored, profile)
    return with_core_state(base, facts.resource_id, properties)


def scale_set(state: ArmState, scopes: Sequence[Scope]) -> Document:
    """Return the document of a scale set, given its scopes: one, or one per zone."""
    facts = scopes[0].facts
    identifier = resource_ids.set_id(state, scopes[0])
    stored = get_fields(state.document(identifier), "properties")
    base = without(_set_model(state, scopes), "properties", "scheduledEventsPolicy")
    sku: Document = {"capacity": sum(len(remaining(scope)) for scope in scopes)}
    profile = get_path(stored, "virtualMachineProfile", "scheduledEventsProfile")
    properties: Document = {
        "provisioningState": "Deleting" if facts.deleting else "Succeeded",
        "uniqueId": derive_id("set", facts.set_id).lower(),
        "orchestrationMode": "Flexible" if facts.kind is ScopeKind.FLEXIBLE_SET else "Uniform",
        "upgradePolicy": {"mode": _mode(facts, get_path(stored, "upgradePolicy", "mode"))},
        **_fault_domains(facts, get_path(stored, "platformFaultDomainCount")),
        "virtualMachineProfile": _notices(facts.model, profile),
        **_policy_of_scale_set(facts.approvals, get_path(stored, "scheduledEventsPolicy")),
    }
    return with_core_state(overlay(base, {"sku": sku}), identifier, properties)


def availability_set(state: ArmState, scopes: Sequence[Scope]) -> Document:
    """Return the document of an availability set."""
    (scope,) = scopes
    identifier = resource_ids.set_id(state, scope)
    stored = state.document(identifier) or {}
    group = resource_ids.group_name(state, scope)
    location = location_of(state, identifier)
    defaults: Document = {"location": location, "sku": {"name": "Aligned"}, "properties": {}}
    properties: Document = {
        "platformUpdateDomainCount": scope.facts.update_domains,
        "platformFaultDomainCount": scope.facts.fault_domains,
        "virtualMachines": [{"id": resource_id(group, VMS, name)} for name in scope.machines],
        **events_policy(scope.facts.approvals, get_path(stored, "properties", "scheduledEventsPolicy")),
    }
    return with_core_state(overlay(defaults, stored), identifier, properties)


def instance_view(state: ArmState, machine: Machine) -> Document:
    """Return the instance view of a machine."""
    scope = state.scope_of(machine)
    facts = state.identify(machine)
    provisioning = provisioning_state(scope, machine)
    now = format_instant(state.now)
    code, text = power_state(state, machine)
    system = catalog.DEFAULTS[f"view of {facts.os_type}"]
    agent = status("succeeded", "Ready", now) | {"message": get_path(system, "vmAgent", "message")}
    return {
        **_domains(scope, machine),
        "computerName": facts.computer_name,
        "osName": system["osName"],
        "osVersion": system["osVersion"],
        "hyperVGeneration": "V2",
        "vmAgent": {
            "vmAgentVersion": get_path(system, "vmAgent", "vmAgentVersion"),
            "statuses": [agent],
            "extensionHandlers": [],
        },
        "disks": [
            {"name": name, "statuses": [status("succeeded", "Provisioning succeeded", now)]}
            for disk in (facts.disks["osDisk"], *get_items(facts.disks, "dataDisks"))
            if (name := get_path(disk, "name")) is not None
        ],
        **_maintenance(scope, machine),
        "statuses": [
            status(provisioning.lower(), _PROVISIONING[provisioning], now),
            {"code": f"PowerState/{code}", "level": "Info", "displayStatus": text},
        ],
    }


def status(state: str, text: str, time: str) -> Document:
    """Return a status of an instance view."""
    return {"code": f"ProvisioningState/{state}", "level": "Info", "displayStatus": text, "time": time}


def _domains(scope: Scope, machine: Machine) -> Document:
    if scope.facts.kind is ScopeKind.STANDALONE:
        return {}
    domains: Document = {"platformFaultDomain": machine.fault_domain}
    if scope.facts.update_domains:
        domains["platformUpdateDomain"] = machine.update_domain  # S-04: flexible sets have none
    if scope.facts.kind is ScopeKind.SCALE_SET:
        domains["placementGroupId"] = derive_id("placement group", scope.id).lower()
    return domains


def new_document(state: ArmState, names: Mapping[str, str], body: Document) -> Document:
    """Return the document of a new machine or scale set: the body, with defaults, and the time."""
    location = state.require_group(names["group"])["location"]
    created: Document = {"name": names["name"], "properties": {"timeCreated": format_instant(state.now)}}
    return overlay(overlay({"location": location, "tags": {}, "properties": {}}, body), created)


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


def power_state(state: ArmState, machine: Machine) -> tuple[str, str]:
    """Return the power state of a machine in Azure's words; ``powerOff`` alone does not deallocate."""
    if machine.power is PowerState.RUNNING:
        return "running", "VM running"
    if machine.allocated or older_documents.is_marked(state, machine):
        return "stopped", "VM stopped"
    return "deallocated", "VM deallocated"


def provisioning_state(scope: Scope, machine: Machine) -> str:
    """Return the provisioning state of a machine."""
    causes = {event.cause for event in scope.events.values() if machine.name in event.undone}
    if "delete" in causes or scope.facts.deleting:
        return "Deleting"
    return "Updating" if causes & {"restart", "redeploy", "reimage"} else "Succeeded"


def events_policy(approvals: ApprovalSettings, stored: Json) -> Document:
    """Return the policy of automatic approvals: the parts that were sent, or differ from the defaults.

    T-26: clients compare the policy with the one they sent, so no other part is added.
    """
    if approvals == ApprovalSettings() and stored is None:
        return {}
    settings, defaults = asdict(approvals), asdict(ApprovalSettings())
    policy: Document = {
        member: {"automaticallyApprove": settings[name]}
        for member, name in APPROVALS.items()
        if settings[name] != defaults[name] or get_path(stored, member, "automaticallyApprove") is not None
    }
    return {"scheduledEventsPolicy": overlay(stored, policy)}


def _fault_domains(facts: ScopeProperties, stored: Json) -> Document:
    """Return the number of fault domains; where Azure chooses the number, it does not say so."""
    is_chosen = facts.kind is ScopeKind.SCALE_SET and not facts.zone and stored is None
    return {} if is_chosen else {"platformFaultDomainCount": facts.fault_domains}


def _policy_of_scale_set(approvals: ApprovalSettings, stored: Json) -> Document:
    """Return the policy of a scale set, which has none if nothing in it is enabled (T-26)."""
    policy = events_policy(approvals, stored)
    return policy if approvals != ApprovalSettings() or _enables(policy) else {}


def _enables(policy: Json) -> bool:
    return any(map(_enables, policy.values())) if isinstance(policy, dict) else policy is True


def format_duration(duration: timedelta) -> str:
    """Return a duration in ISO 8601."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    return f"PT{minutes}M{seconds}S" if seconds else f"PT{minutes}M"


def _machine(facts: MachineIdentity, scope: Scope, tags: Json, profile: Document) -> Document:
    """Return what is stored about a machine, over the defaults; ``profile`` has those of its properties."""
    stored = get_fields(facts.own)
    user = get_fields(profile, "osProfile")
    profile = _without_replaced_image(profile, get_path(stored, "properties"))
    defaults: Document = {
        "location": facts.location,
        "tags": tags,
        **({"zones": [scope.facts.zone]} if scope.facts.zone else {}),
        "properties": {
            "hardwareProfile": {"vmSize": facts.size},
            **profile,
            "osProfile": {"computerName": facts.computer_name, **without(user, "computerNamePrefix")},
            **_creation(scope.facts),
        },
    }
    document = overlay(defaults, stored)
    properties = complete_profile(get_fields(document, "properties"), facts.os_type)
    if scope.facts.kind is not ScopeKind.SCALE_SET:
        properties = fill(properties, catalog.DEFAULTS[f"{facts.os_type} virtual machine"])
    if facts.image.exact_version and get_path(properties, "storageProfile", "imageReference") is not None:
        image: Document = {"exactVersion": facts.image.exact_version}
        properties = overlay(properties, {"storageProfile": {"imageReference": image}})
    return overlay(document, {"properties": properties})


def _creation(facts: ScopeProperties) -> Document:
    return {} if facts.created_at is None else {"timeCreated": format_instant(facts.created_at)}


def _default_profile(model: Json, storage: Document) -> Document:
    """Return what a machine has of the model of its set, over the defaults of all machines."""
    defaults: Document = {
        "storageProfile": storage,
        "osProfile": {"adminUsername": "ops"},
        "networkProfile": {"networkInterfaces": []},
    }
    own = {member: get_fields(model, member) for member in ("storageProfile", "osProfile")}
    return overlay(_without_replaced_image(defaults, model), {**own})


def _without_replaced_image(profile: Document, over: Json) -> Document:
    """Return a profile without its image if the one that comes over it is made from something else."""
    disk = get_path(over, "storageProfile", "osDisk", "createOption")
    if get_path(over, "storageProfile", "imageReference") is None and str(disk).lower() != "attach":
        return profile
    return without(profile, "storageProfile", "imageReference")


def _set_model(state: ArmState, scopes: Sequence[Scope]) -> Document:
    """Return what is stored about a set, over the defaults."""
    ids = tuple(scope.id for scope in scopes)
    if ids not in state.models:
        stored = state.document(resource_ids.set_id(state, scopes[0])) or {}
        state.models[ids] = complete_set(overlay(_default_set(state, scopes, stored), stored))
    return state.models[ids]


def complete_set(document: Document) -> Document:
    """Return the document of a scale set with all defaults."""
    mode = "Flexible" if get_path(document, "properties", "orchestrationMode") == "Flexible" else "Uniform"
    properties = fill(get_fields(document, "properties"), catalog.DEFAULTS[mode])
    profile = get_fields(properties, "virtualMachineProfile")
    completed = complete_model(profile, os_type(profile), str(get_path(document, "sku", "name")), mode)
    return overlay(document, {"properties": overlay(properties, {"virtualMachineProfile": completed})})


def _default_set(state: ArmState, scopes: Sequence[Scope], stored: Document) -> Document:
    facts = scopes[0].facts
    sample = next((machine for scope in scopes for machine in scope.machines.values()), None)
    zones: list[Json] = [scope.facts.zone for scope in scopes if scope.facts.zone]
    profile: Document = {
        "osProfile": {"computerNamePrefix": facts.set_name, "adminUsername": "ops"},
        "storageProfile": _storage(),
        "networkProfile": {"networkInterfaceConfigurations": []},
        **(_priority(sample) if sample is not None else {}),
        **_creation(facts),
    }
    over = get_path(stored, "properties", "virtualMachineProfile")
    return {
        "location": location_of(state, resource_ids.set_id(state, scopes[0])),
        "tags": _default_tags(facts, sample),
        **({"zones": zones} if zones else {}),
        "sku": {"name": DEFAULT_SIZE, "tier": "Standard"},
        "properties": {
            "orchestrationMode": "Flexible" if facts.kind is ScopeKind.FLEXIBLE_SET else "Uniform",
            "virtualMachineProfile": _without_replaced_image(profile, over),
            **_creation(facts),
        },
    }


def _default_tags(facts: ScopeProperties, sample: Machine | None) -> Json:
    """Return the tags of a set; those of an instance if the set has none of its own."""
    if facts.model.tags is not None:
        return dict(facts.model.tags)
    return {} if sample is None else dict(sample.tags)


def _storage() -> Document:
    disk: Document = {"createOption": "FromImage", "caching": "ReadWrite"}
    image = {name: value for name, value in DEFAULT_IMAGE._asdict().items() if value}
    return {"imageReference": image, "osDisk": disk}


def _membership(state: ArmState, scope: Scope) -> Document:
    member = _MEMBERSHIPS.get(scope.facts.kind)
    return {} if member is None else {member: {"id": resource_ids.set_id(state, scope)}}


def _priority(machine: Machine, *models: Json) -> Document:
    """Return the priority of a Spot machine, by the name that a client used; ``Low`` is its older name."""
    if not machine.spot:
        return {}
    names = (get_path(model, "priority") for model in models)
    is_low = next((name for name in names if name is not None), None) == "Low"
    return {"priority": "Low" if is_low else "Spot", "evictionPolicy": machine.eviction.value}


def _notices(model: MachineModel, stored: Json) -> Document:
    profile: Document = {}
    if model.terminate_notice is not None:
        notice = format_duration(model.terminate_notice)
        profile["terminateNotificationProfile"] = {"notBeforeTimeout": notice, "enable": True}
    if model.image_notice:
        profile["osImageNotificationProfile"] = {"notBeforeTimeout": "PT15M", "enable": True}
    return {"scheduledEventsProfile": profile} if profile or stored is not None else {}


def _protection(machine: Machine, stored: Document) -> Document:
    policy = get_path(stored, "protectionPolicy")
    if not machine.protected and policy is None:
        return {}
    return {"protectionPolicy": overlay(policy, {"protectFromScaleIn": machine.protected})}


def _mode(facts: ScopeProperties, stored: Json) -> Json:
    if facts.upgrades_itself:
        return stored if stored in ("Automatic", "Rolling") else "Automatic"
    return "Manual"


def _maintenance(scope: Scope, machine: Machine) -> Document:
    """Return the maintenance that is planned for a machine, if there is any."""
    for event in scope.events.values():
        if event.waiting and event.source == "Platform" and machine.name in event.undone:
            planned: Document = {
                "isCustomerInitiatedMaintenanceAllowed": True,
                "preMaintenanceWindowStartTime": format_instant(event.created_at),
                "preMaintenanceWindowEndTime": format_instant(event.not_before),
                "maintenanceWindowStartTime": format_instant(event.not_before),
                "maintenanceWindowEndTime": format_instant(event.not_before + timedelta(minutes=10)),
                "lastOperationResultCode": "None",
            }
            return {"maintenanceRedeployStatus": planned}
    return {}


def with_core_state(base: Document, identifier: str, properties: Document) -> Document:
    """Return a document with the state of the core over it."""
    state: Document = {**resource_ids.identity_members(identifier), "properties": properties}
    if "systemassigned" in str(get_path(base, "identity", "type")).lower():
        principal = managed_identity(identifier).principal_id
        state["identity"] = {"principalId": principal, "tenantId": TENANT}
    return overlay(base, state)
