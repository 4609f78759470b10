"""Resource groups: what holds everything else, and takes it along when it goes."""

from collections.abc import Iterable

from fairwarning.arm import operations
from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.context import ArmContext, Document, core_group, group_document, group_id
from fairwarning.arm.errors import AzureError, invalid
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
#: What ``forceDeletionTypes`` has to name for the machines of a scope to go unwarned.
_TYPES = {
    ScopeKind.SCALE_SET: _SCALE_SETS,
    ScopeKind.FLEXIBLE_SET: _SCALE_SETS,
    ScopeKind.AVAILABILITY_SET: _MACHINES,
    ScopeKind.STANDALONE: _MACHINES,
    ScopeKind.CLOUD_SERVICE: "microsoft.compute/cloudservices",
}


def require_active_group(room: ArmContext, name: str) -> Document:
    """Return a group that something can be put into, or refuse."""
    group = room.group(name)
    if get_path(group, "properties", "provisioningState") == "Deleting":
        message = f"The resource group '{name}' is in deprovisioning state and cannot perform this operation."
        raise AzureError(409, "ResourceGroupBeingDeleted", message)
    return group


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Make a group, or change its tags."""
    name, body = call.names["group"], call.fields()
    async with room.lock(group_id(name)):
        if room.document(group_id(name)) is None:
            _check_name(name)
            group = group_document(name, _location(body), _tags(body.get("tags")))
            await room.keep({group_id(name): group})
            return ArmResponse(status=201, body=group)
        group = require_active_group(room, name)
        if "location" in body and _location(body) != group["location"]:
            message = (
                f"Invalid resource group location '{body['location']}'. "
                f"The Resource group already exists in location '{group['location']}'."
            )
            raise AzureError(409, "InvalidResourceGroupLocation", message)
        return ArmResponse(body=await _tagged(room, group, body.get("tags")))


async def patch(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Change the tags of a group, if the request speaks of them."""
    name, body = call.names["group"], call.fields()
    async with room.lock(group_id(name)):
        group = require_active_group(room, name)
        return ArmResponse(body=await _tagged(room, group, body["tags"]) if "tags" in body else group)


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return a group."""
    return ArmResponse(body=room.group(call.names["group"]))


async def head(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say whether there is such a group."""
    room.group(call.names["group"])
    return ArmResponse(status=204)


async def listed(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return all groups."""
    prefix = group_id("")
    groups: list[Json] = [g for key, g in room.documents(prefix) if "/" not in key[len(prefix) :]]
    return ArmResponse(body={"value": groups})


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Delete a group: its machines first, with their warnings, then everything else."""
    name = call.names["group"]
    async with room.lock(group_id(name)):
        group = room.group(name)
        resource = str(group["id"])
        forced = {kind.strip().lower() for kind in call.query.get("forceDeletionTypes", "").split(",")}
        scopes = [s for s in room.engine.scopes().values() if s.facts.group == core_group(name)]
        unwarned = tuple(s.id for s in scopes if _TYPES[s.facts.kind] in forced)
        warned = tuple(s.id for s in scopes if s.id not in unwarned)
        operation = operations.Operation(
            id=new_event_id().lower(),
            started_at=operations.instant(room.engine.clock.now()),
            events=(),
            resource=resource,
            removes=(f"{resource}/", resource),
            provider="Microsoft.Resources",
        )
        if unwarned:
            command = DeleteScopes(id=new_event_id(), scopes=unwarned, force=True, by=call.by)
            operation = operation.waiting_for(await room.handle(command))
        return operations.accepted(room, call, await _remove(room, call, group, operation, warned))


async def _remove(
    room: ArmContext,
    call: ArmRequest,
    group: Document,
    operation: operations.Operation,
    scopes: tuple[ScopeId, ...],
) -> operations.Operation:
    deleting: Document = {**group, "properties": {"provisioningState": "Deleting"}}
    told = operation.waiting_for((), _going(room.engine.scope(one) for one in scopes))

    def also(changes: tuple[Change, ...]) -> dict[str, Document | None]:
        nonlocal told
        told = told.waiting_for(changes)
        return {told.key: told.document(), told.resource: deleting}

    if scopes:
        await room.handle(DeleteScopes(id=new_event_id(), scopes=scopes, by=call.by), also)
    else:
        await room.keep(also(()))
    return told


def _going(scopes: Iterable[Scope]) -> Iterable[EventId]:
    """Yield the events that delete machines already; nobody announces those again."""
    return (e.id for scope in scopes for e in scope.events.values() if e.cause == "delete")


async def _tagged(room: ArmContext, group: Document, tags: Json) -> Document:
    after: Document = {**group, "tags": _tags(tags)}
    if after != group:
        await room.keep({str(group["id"]): after})
    return after


def _check_name(name: str) -> None:
    try:
        check_name(name)
        acceptable = len(name) <= _MOST_LETTERS and not name.endswith(".")
    except InvalidError:
        acceptable = False
    if not acceptable:
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
    ArmRoute("GET", _ALL, listed),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("GET", _ONE, get),
    ArmRoute("HEAD", _ONE, head),
    ArmRoute("PATCH", _ONE, patch),
    ArmRoute("DELETE", _ONE, delete),
)
