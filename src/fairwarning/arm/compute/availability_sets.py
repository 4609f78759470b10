"""Availability sets: created empty, filled by the machines that refer to them; all requests end at once."""

from functools import partial

from fairwarning.arm import groups, resource_ids
from fairwarning.arm.compute import render, validation
from fairwarning.arm.context import ArmContext, core_group
from fairwarning.arm.documents import Document, get_path, overlay
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import AVAILABILITY_SETS, GROUP_PATH, SUBSCRIPTION_PATH
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet, DeleteScopes, SetApprovals
from fairwarning.core.model import Scope, ScopeKind
from fairwarning.engine.clock import new_event_id

_IMMUTABLE = ("platformUpdateDomainCount", "platformFaultDomainCount")


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return an availability set."""
    group, name = request.names["group"], request.names["name"]
    if not resource_ids.find_scopes(context, AVAILABILITY_SETS, group, name):
        await _delete_stale_document(context, request)
    return _response(context, request)


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a page of the availability sets, of a group or of all groups."""
    resources = [
        (resource_ids.set_id(context, scope).lower(), partial(_render, context, request, scope))
        for scope in resource_ids.select_scopes(context, request, AVAILABILITY_SETS)
    ]
    return resource_ids.paginate(request, resources)


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Create or change an availability set; clients accept 200 only, even for a new one."""
    group, name = request.names["group"], request.names["name"]
    groups.require_active_group(context, group)
    body = validation.read_body(AVAILABILITY_SETS, request)
    async with context.lock(resource_ids.resource_id(group, AVAILABILITY_SETS, name)):
        scopes = resource_ids.find_scopes(context, AVAILABILITY_SETS, group, name)
        if scopes:
            await _change(context, request, scopes[0], body)
        else:
            await _create(context, request, body)
        return _response(context, request)


async def patch(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Change an availability set."""
    group, name = request.names["group"], request.names["name"]
    body = validation.read_body(AVAILABILITY_SETS, request)
    async with context.lock(resource_ids.resource_id(group, AVAILABILITY_SETS, name)):
        (scope,) = resource_ids.require(context, AVAILABILITY_SETS, group, name)
        await _change(context, request, scope, body)
        return _response(context, request)


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete an availability set, which must be empty; 204 if there is none."""
    group, name = request.names["group"], request.names["name"]
    context.require_group(group)
    key = resource_ids.resource_id(group, AVAILABILITY_SETS, name)
    async with context.lock(key):
        scopes = resource_ids.find_scopes(context, AVAILABILITY_SETS, group, name)
        if scopes and scopes[0].machines:
            members = ", ".join(scopes[0].machines)
            message = f"Availability Set '{name}' cannot be deleted: {members} must be deleted first."
            raise AzureError(409, "OperationNotAllowed", message)
        if scopes:
            command = DeleteScopes(id=new_event_id(), scopes=(scopes[0].id,), by=request.by)
            await context.handle(command, lambda changes: {key: None})
            return ArmResponse(status=200)
    await _delete_stale_document(context, request)
    return ArmResponse(status=204)


def _render(context: ArmContext, request: ArmRequest, scope: Scope) -> Document:
    return validation.hide_newer_properties(
        AVAILABILITY_SETS, render.availability_set(context, scope), request.version
    )


def _response(context: ArmContext, request: ArmRequest) -> ArmResponse:
    (scope,) = resource_ids.require(context, AVAILABILITY_SETS, request.names["group"], request.names["name"])
    return ArmResponse(body=_render(context, request, scope))


async def _delete_stale_document(context: ArmContext, request: ArmRequest) -> None:
    group, name = request.names["group"], request.names["name"]
    key = resource_ids.resource_id(group, AVAILABILITY_SETS, name)
    await resource_ids.delete_stale_document(
        context, key, lambda: not resource_ids.find_scopes(context, AVAILABILITY_SETS, group, name)
    )


async def _create(context: ArmContext, request: ArmRequest, body: Document) -> None:
    group, name = request.names["group"], request.names["name"]
    settings = validation.event_settings(AVAILABILITY_SETS, body)
    blueprint = Blueprint(
        name=name,
        group=core_group(group),
        kind=ScopeKind.AVAILABILITY_SET,
        count=0,
        update_domains=validation.get_count(body, "properties", "platformUpdateDomainCount"),
        fault_domains=validation.get_count(body, "properties", "platformFaultDomainCount"),
        approvals=settings.approvals,
    )
    documents = {resource_ids.resource_id(group, AVAILABILITY_SETS, name): {**body, "name": name}}
    await context.handle(
        CreateSet(seed=new_event_id(), blueprint=blueprint, by=request.by), lambda changes: documents
    )


async def _change(context: ArmContext, request: ArmRequest, scope: Scope, body: Document) -> None:
    before = render.availability_set(context, scope)
    after = overlay(before, body)
    for name in _IMMUTABLE:
        old, new = (validation.get_count(document, "properties", name) for document in (before, after))
        if old != new:
            raise validation.immutable_property(name)
    settings = validation.event_settings(AVAILABILITY_SETS, after)
    if get_path(body, "properties", "virtualMachines") is not None:
        # The members of the set follow from the machines.
        after = overlay(after, {"properties": {"virtualMachines": []}})
    if settings.approvals != scope.facts.approvals:
        await context.handle(SetApprovals(scope=scope.id, approvals=settings.approvals, by=request.by))
    await context.put_documents({resource_ids.set_id(context, scope): after})


_ONE = f"{GROUP_PATH}/{AVAILABILITY_SETS}/{{name}}"

ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{SUBSCRIPTION_PATH}/{AVAILABILITY_SETS}", list_all),
    ArmRoute("GET", f"{GROUP_PATH}/{AVAILABILITY_SETS}", list_all),
    ArmRoute("GET", _ONE, get),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
)
