"""What release 0.2 kept in documents, and machines and sets say themselves since 0.3.

A marker said that a machine is switched off and not deallocated (now ``Machine.allocated``). The documents of
scale sets, of their instances and of older machines had tags (now ``MachineModel.tags``, ``Machine.tags``).
``convert`` moves all of it, once no node of release 0.2 may use the database (U-01); until then the documents
count. This module ends with release 0.4.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from fairwarning.arm import resource_ids
from fairwarning.arm.compute import validation
from fairwarning.arm.context import ArmContext, Edit
from fairwarning.arm.documents import get_path, without
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import group_id
from fairwarning.core.model import PLATFORM, Machine, MachineRef, PowerState, Scope
from fairwarning.core.stored.kinds import SWITCHED_OFF, kind_name
from fairwarning.core.stored.releases import DataRelease

T = TypeVar("T")

#: How many machines or sets are converted in one request.
SLICE = 100


def is_marked(state: ArmState, machine: Machine) -> bool:
    """Whether a marker says that a machine is switched off."""
    return get_path(SWITCHED_OFF.find(state.view.text, _marker(machine.ref)), "vmId") == machine.vm_id


def forget_marker(edit: Edit, ref: MachineRef) -> None:
    """Remove the marker of a machine that is started or stopped."""
    edit.draft.put_texts({SWITCHED_OFF.key(_marker(ref)): None})


def may_convert(context: ArmContext) -> bool:
    """Whether every node reads what ``convert`` writes."""
    return context.engine.store.oldest_reader >= DataRelease.V0_3


async def convert(context: ArmContext) -> None:
    """Move what documents of release 0.2 say to machines and sets."""
    await _convert_markers(context)
    state = context.committed()
    # An inventory says which tags its machines have, whatever a document says.
    listed = not context.engine.policy.emulator
    found = (resource_ids.find_machine(state, key) for key in _tagged(state, "virtual machine", "instance"))
    machines = [machine.ref for machine in found if machine is not None]
    await _change_each(context, machines, lambda edit, ref: _convert_machine(edit, ref, listed=listed))
    keys = {resource_ids.set_id(state, scope).lower(): scope.facts.set_id for scope in _scale_sets(state)}
    sets = [keys[key] for key in _tagged(state, "scale set") if key in keys]
    await _change_each(context, sets, lambda edit, set_id: _convert_set(edit, set_id, listed=listed))


async def _convert_markers(context: ArmContext) -> None:
    markers = set(context.engine.view().keys_under(SWITCHED_OFF.prefix))
    if not markers:
        return
    marked = [ref for ref in context.engine.refs() if SWITCHED_OFF.key(_marker(ref)) in markers]
    await _change_each(context, marked, _convert_marker)
    orphans = markers - {SWITCHED_OFF.key(_marker(ref)) for ref in marked}
    await _change_each(context, sorted(orphans), lambda edit, key: edit.draft.put_texts({key: None}))


async def _change_each(context: ArmContext, items: Sequence[T], change: Callable[[Edit, T], None]) -> None:
    for start in range(0, len(items), SLICE):
        some = items[start : start + SLICE]

        def fill(edit: Edit, some: Sequence[T] = some) -> None:
            for item in some:
                change(edit, item)

        await context.change(PLATFORM, fill)


def _convert_marker(edit: Edit, ref: MachineRef) -> None:
    machine = edit.state.view.machine_at(ref)
    if machine.power is PowerState.STOPPED and is_marked(edit.state, machine):
        edit.draft.set_power(ref, PowerState.STOPPED, allocated=True)
    forget_marker(edit, ref)


def _convert_machine(edit: Edit, ref: MachineRef, *, listed: bool) -> None:
    machine = edit.state.view.machine_at(ref)
    key = resource_ids.machine_id(edit.state, machine)
    document = edit.state.document(key)
    if document is None or get_path(document, "properties", "vmId") != machine.vm_id:
        return
    tags = validation.tags_of(document)
    if not listed and tags != machine.tags:
        edit.draft.set_tags(ref, tags)
    edit.put({key: without(document, "tags")})


def _convert_set(edit: Edit, set_id: str, *, listed: bool) -> None:
    scopes = edit.state.view.scopes_of_set(set_id)
    key = resource_ids.set_id(edit.state, scopes[0]) if scopes else ""
    document = edit.state.document(key)
    if document is None:
        return
    if not listed and scopes[0].facts.model.tags is None:
        edit.draft.set_tags_of_set((scope.id for scope in scopes), validation.tags_of(document))
    edit.put({key: without(document, "tags")})


def _tagged(state: ArmState, *kinds: str) -> list[str]:
    """Return the keys of documents of some kinds that have tags."""
    keys = (key for key in state.view.keys_under(group_id("").lower()) if kind_name(key) in kinds)
    return [key for key in keys if "tags" in (state.document(key) or {})]


def _scale_sets(state: ArmState) -> Iterator[Scope]:
    return (scope for scope in state.view.scopes() if scope.facts.kind.scales)


def _marker(ref: MachineRef) -> str:
    return ref.full.lower()
