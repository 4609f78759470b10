"""``Microsoft.Resources/tags/default``: the tags of a subscription, a group or a resource (T-33).

The tags are those in the document of the resource. A subscription has no document, so its tags are one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from fairwarning.arm import network
from fairwarning.arm.compute import types as compute
from fairwarning.arm.context import SUBSCRIPTION, ArmContext, Edit
from fairwarning.arm.documents import Document, get_fields, get_path
from fairwarning.arm.errors import invalid
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import identity_members
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState

_FOLDER = "/providers/Microsoft.Resources/tags/default"
_SUBSCRIPTION = "/subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_RESOURCE = f"{_GROUP}/providers/{{namespace}}/{{type}}/{{name}}"
#: The paths of what has tags.
_HOLDERS = (_SUBSCRIPTION, _GROUP, _RESOURCE, f"{_RESOURCE}/{{subtype}}/{{part}}")

#: At most so many tags are on a resource, and so many characters in a name and a value.
MOST_TAGS, LONGEST_NAME, LONGEST_VALUE = 50, 512, 256

Tags = Mapping[str, str]


class TagHolder(NamedTuple):
    """What has tags: its id, its tags, and what stores others in their place."""

    id: str
    tags: Tags
    put: Callable[[Edit, Document], object]


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return tags."""
    holder = _find(context.state(), request)
    return _response(holder, holder.tags)


async def change(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Replace all tags (PUT), change some of them (PATCH), or remove all (DELETE)."""
    operation, given = _operation(request), _given(request)

    def fill(edit: Edit) -> ArmResponse:
        holder = _find(edit.state, request)
        tags = _OPERATIONS[operation](holder.tags, given)
        if len(tags) > MOST_TAGS:
            raise invalid("tags", f"at most {MOST_TAGS} tags are allowed")
        if tags != holder.tags:
            holder.put(edit, {**tags})
        return ArmResponse() if request.method == "DELETE" else _response(holder, tags)

    return await context.change(request.principal, fill)


def _merge(tags: Tags, given: Tags) -> Tags:
    names = {name.lower() for name in given}
    return {name: value for name, value in tags.items() if name.lower() not in names} | dict(given)


def _delete(tags: Tags, given: Tags) -> Tags:
    """Return the tags that are not among those given: by name and value, or by name alone."""
    removed = {name.lower(): value for name, value in given.items()}
    return {
        name: value
        for name, value in tags.items()
        if name.lower() not in removed or removed[name.lower()] not in ("", value)
    }


_OPERATIONS: Mapping[str, Callable[[Tags, Tags], Tags]] = {
    "merge": _merge,
    "replace": lambda tags, given: given,
    "delete": _delete,
}


def _operation(request: ArmRequest) -> str:
    if request.method != "PATCH":
        return "replace"
    operation = str(get_path(request.fields(), "operation"))
    if operation.lower() not in _OPERATIONS:
        raise invalid("operation", "it must be one of Merge, Replace, Delete")
    return operation.lower()


def _given(request: ArmRequest) -> Tags:
    tags = None if request.method == "DELETE" else get_path(request.fields(), "properties", "tags")
    if tags is None:
        return {}
    if not isinstance(tags, dict) or not all(isinstance(value, str | None) for value in tags.values()):
        raise invalid("properties.tags", "it must be an object of strings")
    given = {name: str(value or "") for name, value in tags.items()}
    if any(
        not name or len(name) > LONGEST_NAME or len(value) > LONGEST_VALUE for name, value in given.items()
    ):
        problem = f"a name has 1 to {LONGEST_NAME} characters, and a value at most {LONGEST_VALUE}"
        raise invalid("properties.tags", problem)
    return given


def _find(state: ArmState, request: ArmRequest) -> TagHolder:
    """Return what the path of a request names.

    Raises:
        AzureError: the resource does not exist.
    """
    if "group" not in request.names:
        subscription = f"/subscriptions/{SUBSCRIPTION}"
        key = f"{subscription}{_FOLDER}"
        return _stored(subscription, key, state.document(key) or {})
    if "namespace" not in request.names:
        group = state.require_active_group(request.names["group"])
        return _stored(str(group["id"]), str(group["id"]), group)
    path = unquote(re.sub(r"/{2,}", "/", request.path)).rstrip("/")[: -len(_FOLDER)]
    for kind in compute.TAGGED_TYPES:
        names = kind.names_in(path)
        if names is not None:
            own = replace(request, method="PATCH", path=path, names=names)
            document = kind.require_document(state, own)
            return TagHolder(str(document["id"]), _tags(document), partial(kind.set_tags, own))
    resource = network.parse_resource(state, replace(request, path=path))
    stored = state.document(resource.id) if network.is_stored_type(resource.type) else None
    if stored is None:
        raise resource.not_found_error()
    return _stored(resource.id, resource.id, stored)


def _stored(identifier: str, key: str, document: Document) -> TagHolder:
    def put(edit: Edit, tags: Document) -> None:
        edit.put({key: {**document, "tags": tags}})

    return TagHolder(identifier, _tags(document), put)


def _tags(document: Document) -> Tags:
    return {name: str(value) for name, value in get_fields(document, "tags").items()}


def _response(holder: TagHolder, tags: Tags) -> ArmResponse:
    return ArmResponse(body={**identity_members(f"{holder.id}{_FOLDER}"), "properties": {"tags": {**tags}}})


_HANDLERS = {"GET": get, "PUT": change, "PATCH": change, "DELETE": change}

ROUTES: tuple[ArmRoute, ...] = tuple(
    ArmRoute(method, f"{holder}{_FOLDER}", handler)
    for holder in _HOLDERS
    for method, handler in _HANDLERS.items()
)
