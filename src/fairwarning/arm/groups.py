"""Resource groups; deleting one deletes everything in it."""

from fairwarning.arm import operations
from fairwarning.arm.compute.actions import wait_for_deletes
from fairwarning.arm.context import ArmContext, Edit
from fairwarning.arm.documents import Document
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resources.lists import requested
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState, group_document
from fairwarning.core.azure.identity import DEFAULT_LOCATION, RESOURCE_TYPES, VMS, group_id
from fairwarning.core.blueprint import check_group_name
from fairwarning.core.document.render import Json
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import HOME_GROUP, PLATFORM, Scope, ScopeKind

_ALL = "/subscriptions/{subscription}/resourceGroups"
_ONE = f"{_ALL}/{{group}}"


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Create a group, or change its tags; a PATCH changes only tags that it has."""
    name, body = request.names["group"], request.fields()

    def fill(edit: Edit) -> ArmResponse:
        if request.method == "PUT" and edit.state.find_group(name) is None:
            _check_name(name)
            group = group_document(name, _location(body), _tags(body))
            # A group that was deleted a moment ago may have left documents behind.
            edit.put(documents_below(edit.state, group_id(name)) | {group_id(name): group})
            return ArmResponse(status=201, body=group)
        group = edit.state.require_active_group(name)
        if request.method == "PUT" and "location" in body and _location(body) != group["location"]:
            message = (
                f"Invalid resource group location '{body['location']}'. "
                f"The Resource group already exists in location '{group['location']}'."
            )
            raise AzureError(409, "InvalidResourceGroupLocation", message)
        after = {**group, "tags": _tags(body)} if request.method == "PUT" or "tags" in body else group
        if after != group:
            edit.put({str(group["id"]): after})
        return ArmResponse(body=after)

    return await context.change(request.principal, fill)


async def ensure_groups(context: ArmContext) -> None:
    """Create the groups that an inventory names and no client has created."""
    names = sorted({scope.facts.group for scope in context.engine.scopes().values()} - {""})

    def fill(edit: Edit) -> ArmResponse:
        missing = [name for name in names if edit.state.find_group(name) is None]
        edit.put({group_id(name): group_document(name, DEFAULT_LOCATION, {}) for name in missing})
        return ArmResponse()

    await context.change(PLATFORM, fill)


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a group."""
    return ArmResponse(body=context.state().require_group(request.names["group"]))


async def head(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return 204 if the group exists."""
    context.state().require_group(request.names["group"])
    return ArmResponse(status=204)


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the groups that match the filter."""
    state, prefix = context.state(), group_id("").lower()
    keys = (key.removeprefix(prefix) for key in state.view.keys_under(prefix))
    names = {HOME_GROUP, *(name for name in keys if "/" not in name)}
    groups = [group for name in sorted(names) if (group := state.find_group(name)) is not None]
    return ArmResponse(body={"value": [*filter(requested(request), groups)]})


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a group: its machines first, with a warning, then all other resources."""
    forced = {kind.strip().lower() for kind in request.query.get("forceDeletionTypes", "").split(",")}

    def fill(edit: Edit) -> ArmResponse:
        group = edit.state.require_group(request.names["group"])
        resource = str(group["id"])
        scopes = edit.state.scopes_in_group(request.names["group"])
        for force in (True, False):
            chosen = [scope.id for scope in scopes if (_type(scope) in forced) is force]
            if chosen:
                edit.draft.delete_scopes(chosen, force=force)
        edit.put({resource: {**group, "properties": {"provisioningState": "Deleting"}}})
        if not scopes:
            edit.put(documents_of_deleted(edit.state, resource))
        operation = wait_for_deletes(edit, resource, scopes)
        location = operations.location_of(edit.state, resource)
        return operations.accepted_response(context, request, operation, location, "Microsoft.Resources")

    return await context.change(request.principal, fill)


def documents_of_deleted(state: ArmState, resource: str) -> dict[str, Document | None]:
    """Return what removes the documents of a deleted group.

    The document of the home group stays: without it the group would exist again.
    """
    is_home = resource.lower() == group_id(HOME_GROUP).lower()
    return documents_below(state, resource) | ({} if is_home else {resource: None})


def documents_below(state: ArmState, resource: str) -> dict[str, Document | None]:
    """Return what removes all documents below a resource."""
    return dict.fromkeys(state.view.keys_under(f"{resource}/".lower()))


def _type(scope: Scope) -> str:
    """Return the type that ``forceDeletionTypes`` must name to delete a scope without a warning."""
    is_set = scope.facts.kind is ScopeKind.AVAILABILITY_SET
    return f"Microsoft.Compute/{VMS if is_set else RESOURCE_TYPES[scope.facts.kind]}".lower()


def _check_name(name: str) -> None:
    try:
        check_group_name(name)
    except InvalidError as problem:
        message = f"The provided resource group name is invalid: {problem.problem}."
        raise AzureError(400, "InvalidResourceGroup", message) from None


def _location(body: Document) -> str:
    location = body.get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise AzureError(400, "LocationRequired", message)
    return location.replace(" ", "").lower()


def _tags(body: Document) -> dict[str, Json]:
    tags = body.get("tags") or {}
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise invalid("tags", "it must be an object of strings")
    return tags


ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", _ALL, list_all),
    ArmRoute("PUT", _ONE, put),
    ArmRoute("GET", _ONE, get),
    ArmRoute("HEAD", _ONE, head),
    ArmRoute("PATCH", _ONE, put),
    ArmRoute("DELETE", _ONE, delete),
)
