"""Resource groups; deleting one deletes everything in it."""

from collections.abc import Iterable

from fairwarning.arm import operations
from fairwarning.arm.context import ArmContext, core_group, group_document, group_id
from fairwarning.arm.documents import Document, get_path
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.blueprint import check_name
from fairwarning.core.changes import Change
from fairwarning.core.commands import DeleteScopes
from fairwarning.core.document.render import Json
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import EventId, Scope, ScopeId, ScopeKind
from fairwarning.engine.clock import new_event_id

_MOST_LETTERS = 90
_ALL = "/subscriptions/{subscription}/resourceGroups"
_ONE = f"{_ALL}/{{group}}"
_SCALE_SETS = "microsoft.compute/virtualmachinescalesets"
_MACHINES = "microsoft.compute/virtualmachines"
#: The type that ``forceDeletionTypes`` must name to delete a scope without warning its machines.
_TYPES = {
    ScopeKind.SCALE_SET: _SCALE_SETS,
    ScopeKind.FLEXIBLE_SET: _SCALE_SETS,
    ScopeKind.AVAILABILITY_SET: _MACHINES,
    ScopeKind.STANDALONE: _MACHINES,
    ScopeKind.CLOUD_SERVICE: "microsoft.compute/cloudservices",
}


def require_active_group(context: ArmContext, name: str) -> Document:
    """Return a group in which resources can be created.

    Raises:
        AzureError: there is no such group, or it is being deleted.
    """
    group = context.require_group(name)
    if get_path(group, "properties", "provisioningState") == "Deleting":
        message = f"The resource group '{name}' is in deprovisioning state and cannot perform this operation."
        raise AzureError(409, "ResourceGroupBeingDeleted", message)
    return group


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Create a group, or change its tags."""
    name, body = request.names["group"], request.fields()
    async with context.lock(group_id(name)):
        if context.document(group_id(name)) is None:
            _check_name(name)
            group = group_document(name, _location(body), _tags(body.get("tags")))
            await context.put_documents({group_id(name): group})
            return ArmResponse(status=201, body=group)
        group = require_active_group(context, name)
        if "location" in body and _location(body) != group["location"]:
            message = (
                f"Invalid resource group location '{body['location']}'. "
                f"The Resource group already exists in location '{group['location']}'."
            )
            raise AzureError(409, "InvalidResourceGroupLocation", message)
        return ArmResponse(body=await _set_tags(context, group, body.get("tags")))


async def patch(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Change the tags of a group, if the request has any."""
    name, body = request.names["group"], request.fields()
    async with context.lock(group_id(name)):
        group = require_active_group(context, name)
        return ArmResponse(body=await _set_tags(context, group, body["tags"]) if "tags" in body else group)


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a group."""
    return ArmResponse(body=context.require_group(request.names["group"]))


async def head(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return 204 if the group exists."""
    context.require_group(request.names["group"])
    return ArmResponse(status=204)


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return all groups."""
    prefix = group_id("")
    groups: list[Json] = [group for key, group in context.documents(prefix) if "/" not in key[len(prefix) :]]
    return ArmResponse(body={"value": groups})


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a group: its machines first, with a warning, then all other resources."""
    name = request.names["group"]
    async with context.lock(group_id(name)):
        group = context.require_group(name)
        resource = str(group["id"])
        forced = {kind.strip().lower() for kind in request.query.get("forceDeletionTypes", "").split(",")}
        scopes = [
            scope for scope in context.engine.scopes().values() if scope.facts.group == core_group(name)
        ]
        unwarned = tuple(scope.id for scope in scopes if _TYPES[scope.facts.kind] in forced)
        warned = tuple(scope.id for scope in scopes if scope.id not in unwarned)
        operation = operations.Operation(
            id=new_event_id().lower(),
            started_at=operations.format_instant(context.engine.clock.now()),
            events=(),
            resource=resource,
            removes=(f"{resource}/", resource),
            provider="Microsoft.Resources",
        )
        if unwarned:
            command = DeleteScopes(id=new_event_id(), scopes=unwarned, force=True, by=request.by)
            operation = operation.waiting_for(await context.handle(command))
        return operations.accepted_response(
            context, request, await _remove(context, request, group, operation, warned)
        )


async def _remove(
    context: ArmContext,
    request: ArmRequest,
    group: Document,
    operation: operations.Operation,
    scopes: tuple[ScopeId, ...],
) -> operations.Operation:
    deleting: Document = {**group, "properties": {"provisioningState": "Deleting"}}
    operation = operation.waiting_for((), _pending_deletes(context.engine.scope(scope) for scope in scopes))

    def build_documents(changes: tuple[Change, ...]) -> dict[str, Document | None]:
        nonlocal operation
        operation = operation.waiting_for(changes)
        return {operation.key: operation.document(), operation.resource: deleting}

    if scopes:
        await context.handle(DeleteScopes(id=new_event_id(), scopes=scopes, by=request.by), build_documents)
    else:
        await context.put_documents(build_documents(()))
    return operation


def _pending_deletes(scopes: Iterable[Scope]) -> Iterable[EventId]:
    """Return the events that already delete machines; they are not announced again."""
    return (event.id for scope in scopes for event in scope.events.values() if event.cause == "delete")


async def _set_tags(context: ArmContext, group: Document, tags: Json) -> Document:
    after: Document = {**group, "tags": _tags(tags)}
    if after != group:
        await context.put_documents({str(group["id"]): after})
    return after


def _check_name(name: str) -> None:
    try:
        check_name(name)
        is_valid = len(name) <= _MOST_LETTERS and not name.endswith(".")
    except InvalidError:
        is_valid = False
    if not is_valid:
        message = (
            f"The provided resource group name '{name}' must be at most {_MOST_LETTERS} letters, digits, "
            "dots, dashes and underscores, and must not end with a dot."
        )
        raise AzureError(400, "InvalidResourceGroupName", message)


def _location(body: Document) -> str:
    location = body.get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise AzureError(400, "LocationRequired", message)
    return location.replace(" ", "").lower()


def _tags(tags: Json) -> dict[str, Json]:
    if tags is None:
        return {}
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise invalid("tags", "it must be an object of strings")
    return tags


ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", _ALL, list_all),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("GET", _ONE, get),
    ArmRoute("HEAD", _ONE, head),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
)
