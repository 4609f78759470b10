"""Availability sets: created empty, filled by the machines that refer to them; all requests end at once."""

from dataclasses import replace
from functools import partial

from fairwarning.arm import catalog, resource_ids
from fairwarning.arm.compute import render, validation
from fairwarning.arm.compute.resource_type import ResourceType, Scopes, each_set, find_set
from fairwarning.arm.context import Edit
from fairwarning.arm.documents import Document, overlay
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest
from fairwarning.core.azure.identity import AVAILABILITY_SETS
from fairwarning.core.model import ScopeKind

_IMMUTABLE = ("platformUpdateDomainCount", "platformFaultDomainCount")


def _create(edit: Edit, request: ArmRequest, body: Document) -> None:
    settings = validation.event_settings(AVAILABILITY_SETS, body)
    edit.draft.create_set(
        replace(
            settings.blueprint(ScopeKind.AVAILABILITY_SET, request.names),
            count=0,
            update_domains=validation.get_count(body, "properties", "platformUpdateDomainCount"),
            fault_domains=validation.get_count(body, "properties", "platformFaultDomainCount"),
        )
    )
    edit.put({TYPE.id(request.names): {"sku": {"name": "Classic"}, **body, "name": request.names["name"]}})


def _change(edit: Edit, request: ArmRequest, scopes: Scopes, body: Document) -> None:
    (scope,) = scopes
    before = render.availability_set(edit.state, scopes)
    # The members of the set follow from the machines.
    after = overlay(overlay(before, body), {"properties": {"virtualMachines": []}})
    for name in _IMMUTABLE:
        old, new = (validation.get_count(document, "properties", name) for document in (before, after))
        if old != new:
            raise validation.immutable_property(name)
    approvals = validation.event_settings(AVAILABILITY_SETS, after).approvals
    if approvals != scope.facts.approvals:
        edit.draft.set_approvals(scope.id, approvals)
    edit.put({resource_ids.set_id(edit.state, scope): after})


def _delete(edit: Edit, request: ArmRequest, scopes: Scopes) -> None:
    (scope,) = scopes
    if scope.machines:
        message = (
            f"Availability Set '{request.names['name']}' cannot be deleted: "
            f"{', '.join(scope.machines)} must be deleted first."
        )
        raise AzureError(409, "OperationNotAllowed", message)
    edit.draft.delete_scopes((scope.id,))
    edit.put({resource_ids.set_id(edit.state, scope): None})


TYPE = ResourceType[Scopes](
    kind=AVAILABILITY_SETS,
    find=partial(find_set, AVAILABILITY_SETS),
    each=partial(each_set, AVAILABILITY_SETS),
    render=render.availability_set,
    create=_create,
    change=_change,
    delete=_delete,
    # Clients accept nothing else, even for a new set.
    created_status=200,
)
ROUTES = (*TYPE.routes(), TYPE.route_below("vmSizes", lambda state, scopes: {"value": [*catalog.SIZES]}))
