"""Scale sets, uniform and flexible: their models, their capacity, and actions on their instances."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from fairwarning.arm import catalog, resource_ids
from fairwarning.arm.compute import actions, render, validation
from fairwarning.arm.compute.actions import Selection
from fairwarning.arm.compute.resource_type import ResourceType, Scopes, each_set, find_set
from fairwarning.arm.compute.validation import EventSettings
from fairwarning.arm.context import Edit
from fairwarning.arm.documents import Document, get_fields, get_path, overlay, without
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.operations import format_instant
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import SCALE_SETS
from fairwarning.core.blueprint import MOST_MACHINES
from fairwarning.core.document.render import Json
from fairwarning.core.model import MachineRef, ScopeKind
from fairwarning.core.scaleset import remaining, scale_in, scale_out

#: The members that cannot be changed, and their defaults; so is the number of fault domains.
_IMMUTABLE: Mapping[tuple[str, ...], Json] = {
    ("properties", "orchestrationMode"): "Uniform",
    ("properties", "virtualMachineProfile", "priority"): "Regular",
    ("properties", "virtualMachineProfile", "evictionPolicy"): "Deallocate",
    ("zones",): [],
}


def _view(state: ArmState, scopes: Scopes) -> Document:
    counts = Counter(
        f"ProvisioningState/{render.provisioning_state(scope, machine).lower()}"
        for scope in scopes
        for machine in scope.machines.values()
    )
    summary: list[Json] = [{"code": code, "count": count} for code, count in counts.items()]
    status = render.status("succeeded", "Provisioning succeeded", format_instant(state.now))
    return {"virtualMachine": {"statusesSummary": summary}, "statuses": [status]}


def _select(state: ArmState, request: ArmRequest, verb: str) -> Selection:
    scopes, ids = TYPE.require(state, request.names), validation.read_texts(request, "instanceIds")
    if not ids and verb in ("delete", actions.UPGRADE):
        raise invalid("instanceIds", "name the instances, or * for all of them")
    if not ids or "*" in ids:
        return Selection([ref for scope in scopes for ref in scope.refs()], all=True)
    refs: dict[MachineRef, None] = {}
    for instance in ids:
        machine = resource_ids.instance_in(scopes, instance)
        if machine is None:
            raise invalid("instanceIds", f"the scale set has no instance {instance}")
        refs[machine.ref] = None
    return Selection(tuple(refs))


def _create(edit: Edit, request: ArmRequest, body: Document) -> None:
    created: Document = {"timeCreated": format_instant(edit.state.now)}
    document = render.new_document(edit.state, request.names, body)
    document = overlay(document, {"properties": {"virtualMachineProfile": created}})
    settings = validation.event_settings(SCALE_SETS, document)
    is_flexible = get_path(document, "properties", "orchestrationMode") == "Flexible"
    kind = ScopeKind.FLEXIBLE_SET if is_flexible else ScopeKind.SCALE_SET
    edit.draft.create_set(
        replace(
            settings.blueprint(kind, request.names),
            count=validation.get_count(document, "sku", "capacity") or 0,
            zones=validation.get_texts(document, "zones"),
            fault_domains=_fault_domains(document, kind),
            upgrades_itself=_upgrades_itself(document),
        )
    )
    edit.put({TYPE.id(request.names): without(_storable(document), "tags")})


def _change(edit: Edit, request: ArmRequest, scopes: Scopes, body: Document) -> str | None:
    if scopes[0].facts.deleting:
        message = f"Scale set {request.names['name']} is being deleted."
        raise AzureError(409, "OperationNotAllowed", message)
    before = render.scale_set(edit.state, scopes)
    after = render.complete_set(overlay(before, body))
    settings = validation.event_settings(SCALE_SETS, after)
    fixed = {**_IMMUTABLE, ("properties", "platformFaultDomainCount"): scopes[0].facts.fault_domains}
    for path, default in fixed.items():
        if (get_path(before, *path) or default) != (get_path(after, *path) or default):
            raise validation.immutable_property(".".join(path))
    if _change_model(edit, scopes, before, after, settings):
        changed: Document = {"timeCreated": format_instant(edit.state.now)}
        after = overlay(after, {"properties": {"virtualMachineProfile": changed}})
    for scope in scopes:
        if settings.approvals != scope.facts.approvals:
            edit.draft.set_approvals(scope.id, settings.approvals)
    edit.put({resource_ids.set_id(edit.state, scopes[0]): _move_tags(edit, scopes, before, _storable(after))})
    return _resize(edit, scopes, settings, validation.get_count(body, "sku", "capacity"))


def _move_tags(edit: Edit, scopes: Scopes, before: Document, after: Document) -> Document:
    """Give a set the tags of its changed document, and return the document without a copy of them."""
    tags = validation.tags_of(after)
    if scopes[0].facts.model.tags is None and dict(tags) == dict(validation.tags_of(before)):
        return after  # of an earlier release: ``upkeep`` converts it
    if dict(tags) != dict(scopes[0].facts.model.tags or ()):
        edit.draft.set_tags_of_set((scope.id for scope in scopes), tags)
    return without(after, "tags")


def _change_model(
    edit: Edit, scopes: Scopes, before: Document, after: Document, settings: EventSettings
) -> bool:
    """Change the model of a set, and return whether it is new; upgraded instances follow (T-06)."""
    facts, upgrades_itself = scopes[0].facts, _upgrades_itself(after)
    notices = (facts.model.terminate_notice, facts.model.image_notice)
    new_notices = (settings.terminate_notice, settings.image_notice)
    is_new_model = _model(before) != _model(after) or notices != new_notices
    if not is_new_model and upgrades_itself == facts.upgrades_itself:
        return False
    edit.draft.change_model(
        [scope.id for scope in scopes],
        terminate_notice=settings.terminate_notice,
        image_notice=settings.image_notice,
        upgrades_itself=upgrades_itself,
    )
    current = [
        machine.ref
        for scope in scopes
        for machine in scope.machines.values()
        if machine.model.number == scope.facts.model.number
    ]
    if not is_new_model and current:
        # Only the upgrade policy has changed: instances that were current stay current.
        edit.draft.upgrade(current)
    return is_new_model


def _resize(edit: Edit, scopes: Scopes, settings: EventSettings, capacity: int | None) -> str | None:
    """Create or delete instances to reach a capacity; instances in deletion do not count (T-16)."""
    count = sum(len(remaining(scope)) for scope in scopes)
    desired = count if capacity is None else capacity
    for scope_id, more in scale_out(scopes, desired - count).items():
        edit.draft.add_machines(
            scope_id, more, spot=settings.spot, eviction=settings.eviction, tags=settings.tags
        )
    refs = scale_in(scopes, count - desired)
    if not refs:
        return None
    return actions.announce(edit, "delete", resource_ids.set_id(edit.state, scopes[0]), refs)


def _fault_domains(document: Document, kind: ScopeKind) -> int | None:
    """Return the number of fault domains; a zonal set is spread as far as possible, and shows one."""
    count = validation.get_count(document, "properties", "platformFaultDomainCount")
    is_zonal = kind is ScopeKind.SCALE_SET and bool(validation.get_texts(document, "zones"))
    return 1 if count is None and is_zonal else count


def _upgrades_itself(document: Document) -> bool:
    return get_path(document, "properties", "upgradePolicy", "mode") in ("Automatic", "Rolling")


def _model(document: Document) -> tuple[Json, Json]:
    """Return the part of a set that its instances are created from, without the notices and the time."""
    profile = get_fields(document, "properties", "virtualMachineProfile")
    model = without(without(profile, "scheduledEventsProfile"), "timeCreated")
    return model, get_path(document, "sku", "name")


def _storable(document: Document) -> Document:
    """Return the document of a set as it is stored; the core holds the capacity."""
    size = without(get_fields(document, "sku"), "capacity")
    return render.storable({**document, "sku": size}, "properties", "virtualMachineProfile")


def _skus(state: ArmState, scopes: Scopes) -> Document:
    """Return the sizes that the instances of a set may have."""
    limits: Json = {"minimum": 0, "maximum": MOST_MACHINES, "defaultCapacity": 1, "scaleType": "Automatic"}
    skus: list[Json] = [
        {
            "resourceType": f"Microsoft.Compute/{SCALE_SETS}",
            "sku": {"name": size["name"], "tier": "Standard"},
            "capacity": limits,
        }
        for size in catalog.SIZES
    ]
    return {"value": skus}


TYPE = ResourceType[Scopes](
    kind=SCALE_SETS,
    find=partial(find_set, SCALE_SETS),
    each=partial(each_set, SCALE_SETS),
    render=render.scale_set,
    create=_create,
    change=_change,
    delete=actions.delete_set,
    view=_view,
    select=_select,
    verbs=actions.SET_VERBS,
    lists_by_location=True,
    user_data=("properties", "virtualMachineProfile", "userData"),
    long_running=True,
    has_etag=True,
)
ROUTES: tuple[ArmRoute, ...] = (
    *TYPE.routes(),
    TYPE.route_below("skus", _skus),
    TYPE.route_below("osUpgradeHistory", lambda state, scopes: {"value": []}),
)
