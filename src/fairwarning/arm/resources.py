"""Everything there is, whatever it is: the lists that generic clients start from."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain

from fairwarning.arm.call import ArmRequest, ArmResponse, get_path
from fairwarning.arm.context import SUBSCRIPTION, ArmContext, Document
from fairwarning.arm.errors import AzureError
from fairwarning.arm.resource_ids import KINDS, VMS, page, set_id, vm_id
from fairwarning.arm.routing import ArmRoute
from fairwarning.core.document.render import Json
from fairwarning.core.model import Scope, ScopeKind

_SUBSCRIPTION = "/subscriptions/{subscription}"
_CLAUSE = re.compile(r"\s*(\w+)\s+eq\s+'((?:[^']|'')*)'\s*", re.IGNORECASE)
_AND = re.compile(r"(?<!\s)\s++and\s++(?=\w++\s++eq\s)", re.IGNORECASE)
_RESOURCE = re.compile(r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/([^/]+/[^/]+)/[^/]+")
_NEVER_LISTED = frozenset({"microsoft.resources/deployments"})
_SHOWN = ("id", "name", "type", "location", "kind", "sku", "zones", "identity", "tags", "managedBy")
#: What the core knows to be there or not, whatever a document says.
_LIVING = frozenset(f"Microsoft.Compute/{kind}".lower() for kind in KINDS)

Test = Callable[[Document], bool]


async def listed(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return all resources of a group or of the subscription that the filter lets through."""
    group = call.names.get("group")
    if group is not None:
        room.group(group)
    tests = list(_tests(call.query.get("$filter", "")))
    found = (one for one in everything(room) if group is None or _group(one) == group.lower())
    return page(call, ((str(one["id"]), partial(dict, one)) for one in found if all(t(one) for t in tests)))


def everything(room: ArmContext) -> Iterator[Document]:
    """Yield every resource that stands by itself, in short."""
    for resource in dict.fromkeys(chain.from_iterable(_ids(room, s) for s in room.engine.scopes().values())):
        yield _short(room, resource)
    for key, document in room.documents(f"/subscriptions/{SUBSCRIPTION}/"):
        found = _RESOURCE.fullmatch(key)
        if found is not None and found[1] not in _LIVING | _NEVER_LISTED:
            yield {name: document[name] for name in _SHOWN if name in document}


def _ids(room: ArmContext, scope: Scope) -> Iterator[str]:
    if scope.facts.kind is not ScopeKind.STANDALONE:
        yield set_id(room, scope)
    if scope.facts.kind in KINDS[VMS]:
        yield from (vm_id(room, machine) for machine in scope.machines.values())


def _short(room: ArmContext, resource: str) -> Document:
    group, _, rest = resource.partition("/providers/")
    kind, _, name = rest.rpartition("/")
    location = get_path(room.document(group), "location")
    told: Document = {"id": resource, "name": name, "type": kind, "location": location, "tags": {}}
    known = room.document(resource) or {}
    return told | {word: known[word] for word in _SHOWN if word in known}


def _tests(text: str) -> Iterator[Test]:
    for clause in _AND.split(text) if text.strip() else ():
        found = _CLAUSE.fullmatch(clause)
        if found is None or found[1].lower() not in _FILTERS:
            message = f"The filter '{text}' is not supported: it must be clauses like resourceType eq '...'."
            raise AzureError(400, "InvalidFilterInQueryString", message)
        yield _test(_FILTERS[found[1].lower()], found[2].replace("''", "'").lower())


def _test(values: Callable[[Document], list[str]], wanted: str) -> Test:
    return lambda document: wanted in values(document)


def _group(document: Document) -> str:
    return str(document["id"]).lower().split("/")[4]


def _member(name: str) -> Callable[[Document], list[str]]:
    return lambda document: [str(document.get(name, "")).lower()]


def _tags(document: Document) -> dict[str, Json]:
    tags = get_path(document, "tags")
    return tags if isinstance(tags, dict) else {}


_FILTERS: Mapping[str, Callable[[Document], list[str]]] = {
    "resourcegroup": lambda document: [_group(document)],
    "resourcetype": _member("type"),
    "name": _member("name"),
    "location": _member("location"),
    "tagname": lambda document: [name.lower() for name in _tags(document)],
    "tagvalue": lambda document: [str(value).lower() for value in _tags(document).values()],
}


ROUTES: tuple[ArmRoute, ...] = (
    ArmRoute("GET", f"{_SUBSCRIPTION}/resources", listed),
    ArmRoute("GET", f"{_SUBSCRIPTION}/resourceGroups/{{group}}/resources", listed),
)
