"""Virtual machines: standalone, in an availability set or in a flexible scale set."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from fairwarning.arm import catalog, network, resource_ids
from fairwarning.arm.compute import actions, disks, extensions, render, validation
from fairwarning.arm.compute.actions import Selection
from fairwarning.arm.compute.resource_type import Listed, Names, ResourceType, Scopes
from fairwarning.arm.compute.validation import EventSettings
from fairwarning.arm.context import ArmContext, Edit
from fairwarning.arm.documents import Document, get_items, get_path, overlay, without
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import GROUP_PATH
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import AVAILABILITY_SETS, SCALE_SETS, VMS, resource_id
from fairwarning.core.changes import Change, MachineChanged, ScopeMade
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, MachineModel, Scope, ScopeKind
from fairwarning.core.scaleset import scale_out

_IN_SET = re.compile(r"\s*'?virtualMachineScaleSet/id'?\s+eq\s+'([^']+)'\s*", re.IGNORECASE)
_IMMUTABLE = (("zones",), ("properties", "osProfile", "computerName"))
_INTERFACES = ("properties", "networkProfile", "networkInterfaces")
_SETS = {"availabilitySet": AVAILABILITY_SETS, "virtualMachineScaleSet": SCALE_SETS}


def _each(state: ArmState, request: ArmRequest) -> Iterator[Listed[Machine]]:
    chosen_set = _filter(request)
    for scope in resource_ids.select_scopes(state, request, VMS):
        if chosen_set is not None and resource_ids.set_id(state, scope).lower() != chosen_set:
            continue
        folder = resource_id(resource_ids.group_name(state, scope), VMS, "")
        for name in scope.machines:
            yield f"{folder}{name}".lower(), partial(scope.machines.__getitem__, name)


def _filter(request: ArmRequest) -> str | None:
    """Return the id of the scale set in the filter, in lower case; None without a filter."""
    text = request.query.get("$filter")
    if not text:
        return None
    clause = _IN_SET.fullmatch(text)
    if clause is None:
        message = f"The filter {text!r} is not supported: it must be 'virtualMachineScaleSet/id' eq '...'."
        raise AzureError(400, "InvalidFilterInQueryString", message)
    return clause[1].lower()


def _render(state: ArmState, machine: Machine) -> Document:
    return extensions.with_extensions(state, machine, render.virtual_machine(state, machine))


def _select(state: ArmState, request: ArmRequest, verb: str) -> Selection:
    return Selection((TYPE.require(state, request.names).ref,))


def _create(edit: Edit, request: ArmRequest, body: Document) -> None:
    document = render.new_document(edit.state, request.names, without(body, "resources"))
    settings = validation.event_settings(VMS, document)
    _check_interfaces(edit.state, request.names, None, body)
    parent = _parent_set(edit.state, request.names, body)
    if parent is None:
        blueprint = settings.blueprint(ScopeKind.STANDALONE, request.names)
        edit.draft.create_set(replace(blueprint, upgrades_itself=True))
    else:
        _create_in_set(edit, request.names["name"], parent, document, settings)
    edit.put_after(partial(_new_documents, edit.state, request.names, document))


def _create_in_set(
    edit: Edit, name: str, parent: Scopes, document: Document, settings: EventSettings
) -> None:
    _refuse_own_policy(document)
    scope = _choose_scope(parent, validation.get_texts(document, "zones"))
    if scope.facts.kind is ScopeKind.AVAILABILITY_SET:
        # The new machine has its own notices; the other machines keep theirs.
        _set_model(edit, scope, scope.facts.model, settings)
    else:
        _refuse_own_profile(settings, scope.facts.model)
    edit.draft.add_machines(
        scope.id, names=(name,), spot=settings.spot, eviction=settings.eviction, tags=settings.tags
    )


def _new_documents(
    state: ArmState, names: Names, document: Document, changes: tuple[Change, ...]
) -> dict[str, Document]:
    machines = (change.machine for change in changes if isinstance(change, MachineChanged))
    machine = next(machine for machine in machines if machine.name == names["name"])
    created = (change.facts for change in changes if isinstance(change, ScopeMade))
    scope = next(created, None) or state.view.scope(machine.scope).facts
    document = overlay(without(document, "tags"), {"properties": {"vmId": machine.vm_id}})
    return disks.create_with(state, machine, scope, render.storable(document, "properties"))


def _change(edit: Edit, request: ArmRequest, machine: Machine, body: Document) -> None:
    scope = edit.state.scope_of(machine)
    before = render.virtual_machine(edit.state, machine)
    after = overlay(before, without(body, "resources"))
    _check_interfaces(edit.state, request.names, before, body)
    settings = validation.event_settings(VMS, after)
    for path in _IMMUTABLE:
        asked = get_path(body, *path)
        if asked is not None and asked != get_path(before, *path):
            raise validation.immutable_property(".".join(path).removeprefix("properties."))
    _check_same_set(edit.state, request, scope, body)
    if settings.spot != machine.spot or (settings.spot and settings.eviction is not machine.eviction):
        raise validation.immutable_property("priority")
    if scope.facts.kind is not ScopeKind.STANDALONE:
        _refuse_own_policy(body)
    elif settings.approvals != scope.facts.approvals:
        edit.draft.set_approvals(scope.id, settings.approvals)
    if scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        _refuse_own_profile(settings, machine.model)
    if _set_model(edit, scope, machine.model, settings):
        edit.draft.upgrade((machine.ref,))
    stored = actions.move_tags(edit, machine, render.storable(after, "properties"))
    edit.put(disks.change_with(edit.state, machine, scope.facts, stored))


def _set_model(edit: Edit, scope: Scope, model: MachineModel, settings: EventSettings) -> bool:
    """Change the notices of a model, if the settings differ from it; return whether they do."""
    if (settings.terminate_notice, settings.image_notice) == (model.terminate_notice, model.image_notice):
        return False
    edit.draft.change_model(
        (scope.id,), terminate_notice=settings.terminate_notice, image_notice=settings.image_notice
    )
    return True


def _delete(edit: Edit, request: ArmRequest, machine: Machine) -> str:
    scope = edit.state.scope_of(machine)
    if scope.facts.kind is ScopeKind.STANDALONE:
        return actions.delete_set(edit, request, (scope,))
    return actions.delete_machine(edit, request, machine)


async def attach_detach_data_disks(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Attach disks to a machine, or detach them, and return its storage profile (T-36)."""

    def fill(edit: Edit) -> None:
        machine = TYPE.require(edit.state, request.names)
        before = get_items(TYPE.render(edit.state, machine), "properties", "storageProfile", "dataDisks")
        data_disks: Json = disks.with_data_disks(edit.state, before, request.fields())
        _change(edit, request, machine, {"properties": {"storageProfile": {"dataDisks": data_disks}}})

    await context.change(request.principal, fill)
    document = TYPE.require_document(context.state(), request)
    return ArmResponse(body=get_path(document, "properties", "storageProfile"))


def _parent_set(state: ArmState, names: Names, body: Document) -> Scopes | None:
    """Return the scopes of the set that a machine refers to; None for a standalone machine."""
    sets = []
    for member, kind in _SETS.items():
        target = f"properties.{member}"
        reference = resource_ids.parse_reference(get_path(body, "properties", member), kind, target)
        if reference is None:
            continue
        scopes = resource_ids.find_scopes(state, kind, reference)
        if not scopes or reference["group"].lower() != names["group"].lower():
            name, group = reference["name"], names["group"]
            message = f"{target} refers to {name}, which is not in resource group {group}."
            raise AzureError(400, "InvalidResourceReference", message, target)
        if scopes[0].facts.kind is ScopeKind.SCALE_SET:
            raise invalid(target, "a machine can only be put into a scale set in Flexible orchestration mode")
        sets.append(scopes)
    if len(sets) > 1:
        raise invalid("properties", "a machine is in an availability set or in a scale set, not in both")
    return sets[0] if sets else None


def _choose_scope(scopes: Scopes, zones: tuple[str, ...]) -> Scope:
    """Return the scope that a new machine joins: that of its zone, or the smallest."""
    candidates = [scope for scope in scopes if scope.facts.zone in zones] if zones else list(scopes)
    if not candidates:
        raise invalid("zones", f"the scale set has no zone {', '.join(zones)}")
    (chosen,) = scale_out(candidates, 1)
    return next(scope for scope in candidates if scope.id == chosen)


def _check_same_set(state: ArmState, request: ArmRequest, scope: Scope, body: Document) -> None:
    if request.method == "PUT":
        _parent_set(state, request.names, body)
    for member, kind in _SETS.items():
        value = get_path(body, "properties", member)
        names = resource_ids.parse_reference(value, kind, f"properties.{member}")
        if names is None:
            continue
        identifier = resource_id(names["group"], kind, names["name"])
        if identifier.lower() != resource_ids.set_id(state, scope).lower():
            raise validation.immutable_property(f"{member}.id")


def _check_interfaces(state: ArmState, names: Names, before: Document | None, body: Document) -> None:
    """Refuse new interfaces that do not exist, or belong to other machines."""
    kept = {str(get_path(interface, "id")).lower() for interface in get_items(before, *_INTERFACES)}
    identifiers = (get_path(interface, "id") for interface in get_items(body, *_INTERFACES))
    new = [name for name in identifiers if isinstance(name, str) and name.lower() not in kept]
    network.check_interfaces(state, new, TYPE.id(names))


def _refuse_own_policy(document: Document) -> None:
    if get_path(document, "properties", "scheduledEventsPolicy") is not None:
        message = "A virtual machine in a set cannot have a scheduledEventsPolicy; the set's policy applies."
        raise AzureError(409, "OperationNotAllowed", message, "properties.scheduledEventsPolicy")  # T-22


def _refuse_own_profile(settings: EventSettings, model: MachineModel) -> None:
    if settings.terminate_notice not in (None, model.terminate_notice):
        message = "The scheduledEventsProfile of a virtual machine in a scale set is that of the scale set."
        raise AzureError(409, "OperationNotAllowed", message, "properties.scheduledEventsProfile")


TYPE = ResourceType[Machine](
    kind=VMS,
    find=resource_ids.find_vm,
    each=_each,
    render=_render,
    create=_create,
    change=_change,
    delete=_delete,
    view=render.instance_view,
    select=_select,
    verbs=actions.MACHINE_VERBS,
    lists_by_location=True,
    expands=True,
    user_data=("properties", "userData"),
    long_running=True,
    has_etag=True,
)
ROUTES = (
    *TYPE.routes(),
    TYPE.route_below("vmSizes", lambda state, machine: {"value": [*catalog.SIZES]}),
    ArmRoute("POST", f"{GROUP_PATH}/{TYPE.path}/attachDetachDataDisks", attach_detach_data_disks),
)
