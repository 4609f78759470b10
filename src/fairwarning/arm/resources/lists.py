"""Lists of resources of all types."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from fairwarning.arm.compute import disks
from fairwarning.arm.context import ArmContext
from fairwarning.arm.documents import Document, get_fields
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.operations import location_of
from fairwarning.arm.resource_ids import SCOPE_KINDS, group_name, identity_members, paginate, set_id
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.disks import DISKS
from fairwarning.core.azure.identity import VMS, group_id, resource_id
from fairwarning.core.model import Scope, ScopeKind

_SUBSCRIPTION = "/subscriptions/{subscription}"
_CLAUSE = re.compile(
    r"\s*+(?:(?P<member>\w++)\s++(?P<operator>eq|ne)\s++'(?P<value>(?:[^']|'')*+)'"
    r"|substringof\s*+\(\s*+'(?P<part>(?:[^']|'')*+)'\s*+,\s*+(?P<searched>name|resourceGroup)\s*+\))"
    r"\s*+(?P<link>and\b|or\b|\Z)",
    re.IGNORECASE,
)
_MOST_CLAUSES = 20
_RESOURCE = re.compile(r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/([^/]+/[^/]+)/[^/]+")
_UNLISTED_TYPES = frozenset({"microsoft.resources/deployments"})
_SUMMARY_MEMBERS = ("id", "name", "type", "location", "kind", "sku", "zones", "identity", "tags", "managedBy")
#: Types whose resources follow from the machines of the core; a document alone does not make one of them.
_CORE_TYPES = frozenset(f"Microsoft.Compute/{kind}".lower() for kind in (*SCOPE_KINDS, DISKS))

Tags = tuple[tuple[str, str], ...]
Predicate = Callable[[Document], bool]


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the resources of a group, or of the subscription, that match the filter."""
    state, group = context.state(), request.names.get("group")
    if group is not None:
        state.require_group(group)
    matching = filter(requested(request), _resources(state, group))
    return paginate(request, ((str(resource["id"]), resource) for resource in matching), dict)


def requested(request: ArmRequest) -> Predicate:
    """Return whether a document matches the filter of a request.

    Raises:
        AzureError: the filter is not supported.
    """
    alternatives = _parse_filter(request.query.get("$filter", ""))
    return lambda document: any(all(matches(document) for matches in clauses) for clauses in alternatives)


def _resources(state: ArmState, group: str | None) -> Iterator[Document]:
    """Yield a summary of every top-level resource, of a group or of all groups."""
    tags_by_id = chain.from_iterable(_tags_by_id(state, scope) for scope in state.scopes_in_group(group))
    for resource, tags in dict(tags_by_id).items():
        yield _summary(state, resource, tags)
    for key, document in state.existing_documents(group_id("" if group is None else f"{group}/")):
        parts = _RESOURCE.fullmatch(key)
        if parts is not None and parts[1] not in _CORE_TYPES | _UNLISTED_TYPES:
            yield _summarized(document)
    for _, find in disks.all_disks(state, group, SCOPE_KINDS[VMS]):
        yield _summarized(disks.show(state, find()))


def _summarized(document: Document) -> Document:
    return {name: document[name] for name in _SUMMARY_MEMBERS if name in document}


def _tags_by_id(state: ArmState, scope: Scope) -> Iterator[tuple[str, Tags]]:
    """Yield the ids of a set and of its machines, with the tags that the core knows."""
    if scope.facts.kind is not ScopeKind.STANDALONE:
        yield set_id(state, scope), scope.facts.model.tags or ()
    if scope.facts.kind in SCOPE_KINDS[VMS]:
        folder = resource_id(group_name(state, scope), VMS, "")
        for name in scope.machines:
            yield f"{folder}{name}", scope.machines.shared_fields(name).tags


def _summary(state: ArmState, resource: str, tags: Tags) -> Document:
    group, _, _ = resource.partition("/providers/")
    summary: Document = {**identity_members(resource), "location": location_of(state, group)}
    return {**summary, "tags": {**dict(tags)}, **_summarized(state.document(resource) or {})}


def _parse_filter(text: str) -> list[list[Predicate]]:
    """Return the clauses of a filter: lists that ``or`` links, of clauses that ``and`` links."""
    alternatives: list[list[Predicate]] = [[]]
    position, link = 0, "and" if text.strip() else ""
    while link:
        if link == "or":
            alternatives.append([])
        clause = _CLAUSE.match(text, position)
        if clause is None or (clause["member"] or "name").lower() not in _FILTERS:
            message = (
                f"The filter '{text}' is not supported: it must be clauses like resourceType eq '...', "
                "resourceType ne '...' or substringof('...', name), linked by and, or."
            )
            raise AzureError(400, "InvalidFilterInQueryString", message)
        if sum(map(len, alternatives)) == _MOST_CLAUSES:
            message = f"The filter has more than {_MOST_CLAUSES} clauses."
            raise AzureError(400, "InvalidFilterInQueryString", message)
        alternatives[-1].append(_predicate(clause))
        position, link = clause.end(), clause["link"].lower()
    return alternatives


def _predicate(clause: re.Match[str]) -> Predicate:
    values = _FILTERS[(clause["member"] or clause["searched"]).lower()]
    expected = (clause["value"] or clause["part"] or "").replace("''", "'").lower()
    if clause["part"] is not None:
        return lambda document: any(expected in value for value in values(document))
    is_equal = clause["operator"].lower() == "eq"
    return lambda document: (expected in values(document)) is is_equal


def _member(name: str) -> Callable[[Document], list[str]]:
    return lambda document: [str(document.get(name, "")).lower()]


_FILTERS: Mapping[str, Callable[[Document], list[str]]] = {
    "resourcegroup": lambda document: [str(document["id"]).lower().split("/")[4]],
    "resourcetype": _member("type"),
    "name": _member("name"),
    "location": _member("location"),
    "tagname": lambda document: [name.lower() for name in get_fields(document, "tags")],
    "tagvalue": lambda document: [str(value).lower() for value in get_fields(document, "tags").values()],
}


ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{_SUBSCRIPTION}/resources", list_all),
    ArmRoute("GET", f"{_SUBSCRIPTION}/resourceGroups/{{group}}/resources", list_all),
)
