"""Availability sets: made empty, filled by the machines that are put into them; every answer is final."""

from functools import partial

from fairwarning.arm import gates, groups, places, views
from fairwarning.arm.call import Call, Reply, child
from fairwarning.arm.errors import AzureError
from fairwarning.arm.places import AVAILABILITY_SETS, GROUPED, SUBSCRIBED
from fairwarning.arm.room import Document, Room, core_group
from fairwarning.arm.routing import Route
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, DeleteScopes, SetApprovals
from fairwarning.core.model import Scope, ScopeKind
from fairwarning.engine.clock import new_event_id

_FIXED = ("platformUpdateDomainCount", "platformFaultDomainCount")


async def get(room: Room, call: Call) -> Reply:
    """Show an availability set."""
    group, name = call.names["group"], call.names["name"]
    if not places.scopes(room, AVAILABILITY_SETS, group, name):
        await _forget(room, call)
    return _shown(room, call)


async def list_all(room: Room, call: Call) -> Reply:
    """Show a page of the availability sets of a group, or of all."""
    found = [
        (places.set_id(room, scope).lower(), partial(_rendered, room, call, scope))
        for scope in places.wanted(room, call, AVAILABILITY_SETS)
    ]
    return places.page(call, found)


async def put(room: Room, call: Call) -> Reply:
    """Make an availability set, or change the one that is there; 201 would break the clients."""
    group, name = call.names["group"], call.names["name"]
    groups.standing(room, group)
    body = gates.read(AVAILABILITY_SETS, call)
    async with room.lock(places.resource_id(group, AVAILABILITY_SETS, name)):
        scopes = places.scopes(room, AVAILABILITY_SETS, group, name)
        if scopes:
            await _change(room, call, scopes[0], body)
        else:
            await _make(room, call, body)
        return _shown(room, call)


async def patch(room: Room, call: Call) -> Reply:
    """Change an availability set."""
    group, name = call.names["group"], call.names["name"]
    body = gates.read(AVAILABILITY_SETS, call)
    async with room.lock(places.resource_id(group, AVAILABILITY_SETS, name)):
        (scope,) = places.demand(room, AVAILABILITY_SETS, group, name)
        await _change(room, call, scope, body)
        return _shown(room, call)


async def delete(room: Room, call: Call) -> Reply:
    """Delete an availability set that nobody is in; one that is not there is gone already."""
    group, name = call.names["group"], call.names["name"]
    room.group(group)
    key = places.resource_id(group, AVAILABILITY_SETS, name)
    async with room.lock(key):
        scopes = places.scopes(room, AVAILABILITY_SETS, group, name)
        if scopes and scopes[0].machines:
            members = ", ".join(scopes[0].machines)
            message = f"Availability Set '{name}' cannot be deleted: {members} must be deleted first."
            raise AzureError(409, "OperationNotAllowed", message)
        if scopes:
            command = DeleteScopes(id=new_event_id(), scopes=(scopes[0].id,), by=call.by)
            await room.handle(command, lambda changes: {key: None})
            return Reply(status=200)
    await _forget(room, call)
    return Reply(status=204)


def _rendered(room: Room, call: Call, scope: Scope) -> Document:
    return gates.hide(AVAILABILITY_SETS, views.availability_set(room, scope), call.version)


def _shown(room: Room, call: Call) -> Reply:
    (scope,) = places.demand(room, AVAILABILITY_SETS, call.names["group"], call.names["name"])
    return Reply(body=_rendered(room, call, scope))


async def _forget(room: Room, call: Call) -> None:
    group, name = call.names["group"], call.names["name"]
    key = places.resource_id(group, AVAILABILITY_SETS, name)
    await places.drop(room, key, lambda: not places.scopes(room, AVAILABILITY_SETS, group, name))


async def _make(room: Room, call: Call, body: Document) -> None:
    group, name = call.names["group"], call.names["name"]
    wishes = gates.wishes(AVAILABILITY_SETS, body)
    blueprint = Blueprint(
        name=name,
        group=core_group(group),
        kind=ScopeKind.AVAILABILITY_SET,
        count=0,
        update_domains=gates.count(body, "properties", "platformUpdateDomainCount"),
        fault_domains=gates.count(body, "properties", "platformFaultDomainCount"),
        approvals=wishes.approvals,
    )
    kept = {places.resource_id(group, AVAILABILITY_SETS, name): {**body, "name": name}}
    await room.handle(CreateSet(seed=new_event_id(), blueprint=blueprint, by=call.by), lambda changes: kept)


async def _change(room: Room, call: Call, scope: Scope, body: Document) -> None:
    before = views.availability_set(room, scope)
    after = views.over(before, body)
    for name in _FIXED:
        if gates.count(before, "properties", name) != gates.count(after, "properties", name):
            raise gates.fixed(name)
    wishes = gates.wishes(AVAILABILITY_SETS, after)
    if child(body, "properties", "virtualMachines") is not None:
        # Who is in the set follows from the machines.
        after = views.over(after, {"properties": {"virtualMachines": []}})
    if wishes.approvals != scope.facts.approvals:
        await room.handle(SetApprovals(scope=scope.id, approvals=wishes.approvals, by=call.by))
    await room.keep({places.set_id(room, scope): after})


_ONE = f"{GROUPED}/{AVAILABILITY_SETS}/{{name}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", f"{SUBSCRIBED}/{AVAILABILITY_SETS}", list_all),
    Route("GET", f"{GROUPED}/{AVAILABILITY_SETS}", list_all),
    Route("GET", _ONE, get),
    Route("PUT", _ONE, put),
    Route("PATCH", _ONE, patch),
    Route("DELETE", _ONE, delete),
)
