"""Instances of scale sets, by number; instances of a flexible set by the name of the machine."""

from collections.abc import Iterator
from functools import partial

from fairwarning.arm import resource_ids
from fairwarning.arm.compute import actions, disks, render, scalesets, validation
from fairwarning.arm.compute.actions import Selection
from fairwarning.arm.compute.resource_type import Likeness, Listed, Names, ResourceType
from fairwarning.arm.context import Edit
from fairwarning.arm.documents import Document, get_path, overlay, without
from fairwarning.arm.errors import invalid
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import SCALE_SETS, VMS
from fairwarning.core.blueprint import instance_of
from fairwarning.core.document.render import Json
from fairwarning.core.model import Machine, ScopeKind, ScopeProperties
from fairwarning.core.scaleset import restarted


def _find(state: ArmState, names: Names) -> Machine | None:
    return resource_ids.instance_in(scalesets.TYPE.require(state, names), names["instance"])


def _each(state: ArmState, request: ArmRequest) -> Iterator[Listed[Machine]]:
    for scope in scalesets.TYPE.require(state, request.names):
        is_flexible = scope.facts.kind is ScopeKind.FLEXIBLE_SET
        for name in scope.machines:
            key = name.lower() if is_flexible else f"{instance_of(name):0>10}"
            yield key, partial(scope.machines.__getitem__, name)


def _likeness(state: ArmState, machine: Machine) -> Likeness | None:
    """Return how an instance differs from those that have no documents of their own either."""
    scope, facts = state.scope_of(machine), state.identify(machine)
    if facts.own is not None or scope.facts.kind is ScopeKind.FLEXIBLE_SET:
        return None
    eviction = machine.spot and machine.eviction.value
    kind = machine.scope, machine.size, machine.location, eviction, machine.protected, machine.tags
    return Likeness(kind, render.own_members(facts, scope, machine))


def _select(state: ArmState, request: ArmRequest, verb: str) -> Selection:
    if request.names["instance"] != "*":
        return Selection((TYPE.require(state, request.names).ref,))
    scopes = scalesets.TYPE.require(state, request.names)
    return Selection([ref for scope in scopes for ref in scope.refs()], all=True)


def _refuse_to_create(edit: Edit, request: ArmRequest, body: Document) -> None:
    raise invalid("instanceIds", f"the scale set has no instance {request.names['instance']}")


def _change(edit: Edit, request: ArmRequest, machine: Machine, body: Document) -> None:
    before = render.instance(edit.state, machine)
    after = overlay(before, body)
    is_protected = get_path(after, "properties", "protectionPolicy", "protectFromScaleIn") is True
    edit.draft.protect(machine.ref, protected=is_protected)
    scope = edit.state.scope_of(machine).facts
    stored = _move_tags(edit, machine, scope, before, render.storable(after, "properties"))
    edit.put(disks.change_with(edit.state, machine, scope, stored))


def _move_tags(
    edit: Edit, machine: Machine, scope: ScopeProperties, before: Document, after: Document
) -> Document:
    """Give an instance its tags, and after a change of its disks those of its set (I-11); return the rest."""
    refreshed = restarted(machine, scope)
    if _disks(before) == _disks(after) or refreshed == machine:
        return actions.move_tags(edit, machine, after)
    # Clients send the tags that they have read along with the disks.
    tags = refreshed.tags if after["tags"] == before["tags"] else validation.tags_of(after)
    edit.draft.set_tags(machine.ref, tags, refreshed=True)
    return without(after, "tags")


def _disks(document: Document) -> Json:
    return get_path(document, "properties", "storageProfile", "dataDisks")


TYPE = ResourceType[Machine](
    kind=f"{SCALE_SETS}/{VMS}",
    names=("name", "instance"),
    find=_find,
    each=_each,
    render=render.instance,
    likeness=_likeness,
    create=_refuse_to_create,
    change=_change,
    delete=actions.delete_machine,
    view=render.instance_view,
    select=_select,
    verbs=(*actions.MACHINE_VERBS, "reimageall"),
    expands=True,
    user_data=("properties", "userData"),
    long_running=True,
    has_etag=True,
)
ROUTES = TYPE.routes()
