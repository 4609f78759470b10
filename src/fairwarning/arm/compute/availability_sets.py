"""Availability sets: made empty, filled by the machines that are put into them; every answer is final."""

from functools import partial

from fairwarning.arm import groups, resource_ids
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.compute import render, validation
from fairwarning.arm.context import ArmContext, Document, core_group
from fairwarning.arm.errors import AzureError
from fairwarning.arm.resource_ids import AVAILABILITY_SETS, GROUPED, SUBSCRIBED
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, DeleteScopes, SetApprovals
from fairwarning.core.model import Scope, ScopeKind
from fairwarning.engine.clock import new_event_id

_FIXED = ("platformUpdateDomainCount", "platformFaultDomainCount")


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show an availability set."""
    group, name = call.names["group"], call.names["name"]
    if not resource_ids.scopes(room, AVAILABILITY_SETS, group, name):
        await _forget(room, call)
    return _shown(room, call)


async def list_all(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Show a page of the availability sets of a group, or of all."""
    found = [
        (resource_ids.set_id(room, scope).lower(), partial(_rendered, room, call, scope))
        for scope in resource_ids.wanted(room, call, AVAILABILITY_SETS)
    ]
    return resource_ids.page(call, found)


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Make an availability set, or change the one that is there; 201 would break the clients."""
    group, name = call.names["group"], call.names["name"]
    groups.require_active_group(room, group)
    body = validation.read(AVAILABILITY_SETS, call)
    async with room.lock(resource_ids.resource_id(group, AVAILABILITY_SETS, name)):
        scopes = resource_ids.scopes(room, AVAILABILITY_SETS, group, name)
        if scopes:
            await _change(room, call, scopes[0], body)
        else:
            await _make(room, call, body)
        return _shown(room, call)


async def patch(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Change an availability set."""
    group, name = call.names["group"], call.names["name"]
    body = validation.read(AVAILABILITY_SETS, call)
    async with room.lock(resource_ids.resource_id(group, AVAILABILITY_SETS, name)):
        (scope,) = resource_ids.require(room, AVAILABILITY_SETS, group, name)
        await _change(room, call, scope, body)
        return _shown(room, call)


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Delete an availability set that nobody is in; one that is not there is gone already."""
    group, name = call.names["group"], call.names["name"]
    room.group(group)
    key = resource_ids.resource_id(group, AVAILABILITY_SETS, name)
    async with room.lock(key):
        scopes = resource_ids.scopes(room, AVAILABILITY_SETS, group, name)
        if scopes and scopes[0].machines:
            members = ", ".join(scopes[0].machines)
            message = f"Availability Set '{name}' cannot be deleted: {members} must be deleted first."
            raise AzureError(409, "OperationNotAllowed", message)
        if scopes:
            command = DeleteScopes(id=new_event_id(), scopes=(scopes[0].id,), by=call.by)
            await room.handle(command, lambda changes: {key: None})
            return ArmResponse(status=200)
    await _forget(room, call)
    return ArmResponse(status=204)


def _rendered(room: ArmContext, call: ArmRequest, scope: Scope) -> Document:
    return validation.hide(AVAILABILITY_SETS, render.availability_set(room, scope), call.version)


def _shown(room: ArmContext, call: ArmRequest) -> ArmResponse:
    (scope,) = resource_ids.require(room, AVAILABILITY_SETS, call.names["group"], call.names["name"])
    return ArmResponse(body=_rendered(room, call, scope))


async def _forget(room: ArmContext, call: ArmRequest) -> None:
    group, name = call.names["group"], call.names["name"]
    key = resource_ids.resource_id(group, AVAILABILITY_SETS, name)
    await resource_ids.drop(room, key, lambda: not resource_ids.scopes(room, AVAILABILITY_SETS, group, name))


async def _make(room: ArmContext, call: ArmRequest, body: Document) -> None:
    group, name = call.names["group"], call.names["name"]
    wishes = validation.event_settings(AVAILABILITY_SETS, body)
    blueprint = Blueprint(
        name=name,
        group=core_group(group),
        kind=ScopeKind.AVAILABILITY_SET,
        count=0,
        update_domains=validation.count(body, "properties", "platformUpdateDomainCount"),
        fault_domains=validation.count(body, "properties", "platformFaultDomainCount"),
        approvals=wishes.approvals,
    )
    kept = {resource_ids.resource_id(group, AVAILABILITY_SETS, name): {**body, "name": name}}
    await room.handle(CreateSet(seed=new_event_id(), blueprint=blueprint, by=call.by), lambda changes: kept)


async def _change(room: ArmContext, call: ArmRequest, scope: Scope, body: Document) -> None:
    before = render.availability_set(room, scope)
    after = render.overlay(before, body)
    for name in _FIXED:
        if validation.count(before, "properties", name) != validation.count(after, "properties", name):
            raise validation.fixed(name)
    wishes = validation.event_settings(AVAILABILITY_SETS, after)
    if get_path(body, "properties", "virtualMachines") is not None:
        # Who is in the set follows from the machines.
        after = render.overlay(after, {"properties": {"virtualMachines": []}})
    if wishes.approvals != scope.facts.approvals:
        await room.handle(SetApprovals(scope=scope.id, approvals=wishes.approvals, by=call.by))
    await room.keep({resource_ids.set_id(room, scope): after})


_ONE = f"{GROUPED}/{AVAILABILITY_SETS}/{{name}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIBED}/{AVAILABILITY_SETS}", list_all),
    ArmRoute("GET", f"{GROUPED}/{AVAILABILITY_SETS}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
)
