"""Networks, addresses, disks and other resources that are stored but have no behaviour.

A document is stored as the client sent it, plus what Azure fills in: id, name, type, addresses, state. Parts
of a network resource with paths of their own (a subnet, a rule) are items of a list in that resource.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from fairwarning.arm import addresses, catalog, operations
from fairwarning.arm.compute import preconditions
from fairwarning.arm.context import SUBSCRIPTION, ArmContext, Edit
from fairwarning.arm.documents import (
    Document,
    fill,
    get_fields,
    get_items,
    get_path,
    overlay,
    without_secrets,
)
from fairwarning.arm.errors import AzureError, invalid, not_found
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import find_vm, machine_id, paginate
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.arm.templates.coercion import coerce
from fairwarning.core.azure.identity import group_id
from fairwarning.core.azure.interfaces import derived_mac_address
from fairwarning.core.document.render import Json
from fairwarning.core.model import derive_id

_NETWORK = "Microsoft.Network"
_INTERFACES = f"{_NETWORK}/networkInterfaces"
_ANY = "{kind}"
#: The stored types, by namespace and kind; the other types of Microsoft.Compute have modules of their own.
STORED: tuple[tuple[str, str], ...] = (
    (_NETWORK, _ANY),
    ("Microsoft.Storage", _ANY),
    ("Microsoft.Authorization", _ANY),
    ("Microsoft.ManagedIdentity", _ANY),
    ("Microsoft.KeyVault", _ANY),
    ("Microsoft.Insights", _ANY),
    ("Microsoft.OperationalInsights", _ANY),
    ("Microsoft.Compute", "images"),
    ("Microsoft.Compute", "snapshots"),
    ("Microsoft.Compute", "sshPublicKeys"),
    ("Microsoft.Compute", "proximityPlacementGroups"),
    ("Microsoft.Compute", "diskEncryptionSets"),
    ("Microsoft.Compute", "hostGroups"),
    ("Microsoft.Compute", "capacityReservationGroups"),
)
#: Azure's spelling of names that clients spell in several ways.
_SPELLINGS = {
    name.lower(): name
    for name in (
        *(namespace for namespace, _ in STORED),
        *(kind for _, kind in STORED if kind.isalpha()),
        *("applicationGateways", "inboundNatRules", "loadBalancers", "natGateways", "networkInterfaces"),
        *("networkSecurityGroups", "publicIPAddresses", "roleAssignments", "routeTables", "securityRules"),
        *("storageAccounts", "subnets", "userAssignedIdentities", "virtualNetworks"),
    )
}
_PATH = re.compile(r"(.*)/providers/([^/]+)/(.+)", re.IGNORECASE)
_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)", re.IGNORECASE)


class NetworkResource(NamedTuple):
    """The path of a document, or of a list; the path of a list has one more kind than names."""

    root: str
    group: str
    location: str
    namespace: str
    kinds: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def type(self) -> str:
        """The type of the resource."""
        return "/".join((self.namespace, *self.kinds))

    @property
    def id(self) -> str:
        """The path of the document, or of the list."""
        segments = [f"/{kind}/{name}" for kind, name in zip(self.kinds, self.names, strict=False)]
        rest = "" if len(self.kinds) == len(self.names) else f"/{self.kinds[-1]}"
        return f"{self.root}/providers/{self.namespace}{''.join(segments)}{rest}"

    @property
    def parent(self) -> "NetworkResource | None":
        """The resource that holds the document as an item of a list; None for other documents."""
        if self.namespace != _NETWORK or len(self.kinds) == 1:
            return None
        return self._replace(kinds=self.kinds[:1], names=self.names[:1])

    def with_stored_name(self, document: Document | None) -> "NetworkResource":
        """Return the same resource with its name spelled as it was created."""
        return self if document is None else self._replace(names=(*self.names[:-1], str(document["name"])))

    def require_document(self, state: ArmState) -> Document:
        """Return the stored document.

        Raises:
            AzureError: there is none.
        """
        document = state.document(self.id)
        if document is None:
            raise self.not_found_error()
        return document

    def is_item(self, item: Json) -> bool:
        """Whether an item of a list has the name of the resource."""
        return str(get_path(item, "name")).lower() == self.names[-1].lower()

    def not_found_error(self) -> AzureError:
        """Return the error for a missing document."""
        return not_found(self.type, "/".join(self.names), self.group)


def is_stored_type(kind: str) -> bool:
    """Whether resources of a type are stored by this module."""
    namespace, *kinds = map(_canonical, kind.split("/"))
    if (namespace, _ANY) in STORED:
        deepest = 2 if namespace == _NETWORK else 1  # a kind, and a list in it
        return 1 <= len(kinds) <= deepest
    return len(kinds) == 1 and (namespace, kinds[0]) in STORED


def parse_resource(state: ArmState, request: ArmRequest, *, create: bool = False) -> NetworkResource:
    """Return the resource in the path of a request; to create it, its group must not be in deletion."""
    path = _PATH.fullmatch(re.sub(r"/{2,}", "/", unquote(request.path)).rstrip("/"))
    if path is None:
        raise AzureError(404, "NotFound", f"No resource answers at {request.path}.")
    root, location, group = f"/subscriptions/{SUBSCRIPTION}", "", _GROUP.match(path[1])
    if group is not None:
        document = state.require_active_group(group[1]) if create else state.require_group(group[1])
        root = f"{document['id']}{path[1][group.end() :]}"
        location = str(document["location"])
    segments = path[3].split("/")
    return NetworkResource(
        root=root,
        group="" if group is None else group[1],
        location=location,
        namespace=_canonical(path[2]),
        kinds=tuple(map(_canonical, segments[0::2])),
        names=tuple(segments[1::2]),
    )


async def put(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Store a document in place of the old one; a PATCH merges both."""
    body = get_fields(_without_etags(without_secrets(coerce(request.fields()))))

    def fill(edit: Edit) -> ArmResponse:
        request.check_deployment(edit.state)
        resource = parse_resource(edit.state, request, create=True)
        if resource.parent is None:
            response = _put_document(edit, request, resource, body)
        else:
            response = _put_item(edit, resource, resource.parent, body)
        if resource.namespace != _NETWORK or request.deployment:
            return response
        # T-29: an interface has succeeded, and is polled all the same.
        state = "Succeeded" if resource.type == _INTERFACES else "Updating"
        operation = operations.over_at_once(edit)
        return operations.created_response(context, request, operation, response, state, _NETWORK)

    return await context.change(request.principal, fill)


def _put_document(edit: Edit, request: ArmRequest, resource: NetworkResource, body: Document) -> ArmResponse:
    old = edit.state.document(resource.id)
    if resource.namespace == _NETWORK:
        preconditions.check(request, old, _etag_of)
    if request.method == "PATCH":
        body = overlay(resource.require_document(edit.state), body)
    after = _complete_document(resource.with_stored_name(old), body)
    if resource.type == _INTERFACES:
        after = addresses.assign(edit.state, after, old)
    addresses.check_unused(edit.state, _subnet_ids(old) - _subnet_ids(after))
    edit.put({resource.id: after})
    # Clients expect 201 for a new network, but 200 for a new disk.
    status = 201 if old is None and resource.namespace == _NETWORK else 200
    return ArmResponse(status=status, body=_with_etag(after))


def _put_item(edit: Edit, resource: NetworkResource, parent: NetworkResource, body: Document) -> ArmResponse:
    document = edit.state.document(parent.id)
    if document is None:
        message = f"The parent resource '{parent.id}' was not found."
        raise AzureError(404, "ParentResourceNotFound", message)
    item: Document = {**body, "name": resource.names[-1]}
    old_items = get_items(document, "properties", resource.kinds[-1])
    items = [item if resource.is_item(old) else old for old in old_items]
    is_new = not any(map(resource.is_item, old_items))
    after = _with_items(document, resource, [*items, item] if is_new else items)
    edit.put({parent.id: after})
    return ArmResponse(status=201 if is_new else 200, body=_find_item(_with_etag(after), resource))


def _without_etags(value: Json) -> Json:
    """Return what a client sends without the etags that it has read."""
    if isinstance(value, dict):
        return {name: _without_etags(inner) for name, inner in value.items() if name.lower() != "etag"}
    return [*map(_without_etags, value)] if isinstance(value, list) else value


async def get(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return a document."""
    state = context.state()
    resource = parse_resource(state, request)
    if resource.parent is None:
        owners = _owners(state, resource.id) if resource.type == _INTERFACES else {}
        document: Json = _with_owner(resource.require_document(state), owners)
    else:
        document = _find_item(_with_etag(resource.parent.require_document(state)), resource)
    etag = get_path(document, "etag")
    return ArmResponse(body=document, headers=() if etag is None else (("ETag", str(etag)),))


async def delete(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Delete a document; 204 if there is none."""

    def fill(edit: Edit) -> ArmResponse:
        resource = parse_resource(edit.state, request)
        stored = resource.parent or resource
        old = edit.state.document(stored.id)
        after = None if old is None or stored is resource else _without_item(old, resource)
        if after is old:
            return ArmResponse(status=204)
        addresses.check_unused(edit.state, _subnet_ids(old) - _subnet_ids(after))
        if resource.type == _INTERFACES:
            _check_unused(_owners(edit.state, resource.id), resource.id)
        edit.put({stored.id: after})
        return ArmResponse()

    return await context.change(request.principal, fill)


async def list_all(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the documents of a type, in a group or in the subscription."""
    state = context.state()
    resource = parse_resource(state, request)
    if resource.parent is not None:
        document = _with_etag(resource.parent.require_document(state))
        return ArmResponse(body={"value": get_items(document, "properties", resource.kinds[-1])})
    prefix = f"{resource.id}/" if resource.group else f"{resource.root}/"
    owners = _owners(state) if resource.type == _INTERFACES else {}
    documents = (
        (str(document["id"]), document)
        for _, document in state.existing_documents(prefix)
        if str(document.get("type")).lower() == resource.type.lower()
    )
    return paginate(request, documents, lambda document: _with_owner(document, owners))


def _complete_document(resource: NetworkResource, body: Document) -> Document:
    """Return a document with the members that Azure fills in."""
    if not isinstance(body.get("properties"), dict | None):
        raise invalid("properties", "it must be an object")
    document = fill(body, catalog.DEFAULTS.get(resource.type, {}))
    properties = {**get_fields(document, "properties"), "provisioningState": "Succeeded"}
    if resource.namespace == _NETWORK:
        for name, value in properties.items():
            if isinstance(value, list):
                properties[name] = [_complete_item(resource, name, item) for item in value]
        properties["resourceGuid"] = derive_id("guid", resource.id.lower()).lower()
        if resource.type in _DERIVED:
            properties = _DERIVED[resource.type](resource.id, properties)
    identity: Document = {"id": resource.id, "name": resource.names[-1], "type": resource.type}
    location = document.get("location") or resource.location
    return {**document, **identity, **({"location": location} if location else {}), "properties": properties}


def check_interfaces(state: ArmState, interfaces: Sequence[str], machine: str) -> None:
    """Refuse interfaces that a machine cannot get: missing ones, or those of another machine (T-41).

    Raises:
        AzureError: the machine cannot get one of the interfaces.
    """
    owners = _owners(state, *interfaces) if interfaces else {}
    for interface in interfaces:
        group = _GROUP.match(interface)
        document = state.document(interface) if group is not None and state.find_group(group[1]) else None
        if get_path(document, "type") != _INTERFACES:
            message = (
                f"Resource {interface} referenced by resource {machine} was not found. Please make sure that "
                "the referenced resource exists, and that both resources are in the same region."
            )
            raise AzureError(400, "InvalidResourceReference", message)
        _check_unused(owners, interface, machine)


def _check_unused(owners: Mapping[str, str], interface: str, machine: str = "") -> None:
    """Refuse an interface that a machine has, unless it is the given machine."""
    owner = owners.get(interface.lower(), machine)
    if owner.lower() != machine.lower():
        message = (
            f"Network Interface {interface} is used by existing resource {owner}. In order to delete the "
            "network interface, it must be dissociated from the resource. To learn more, see "
            "aka.ms/deletenic."
        )
        raise AzureError(400, "NicInUse", message)


def _subnet_ids(document: Document | None) -> set[str]:
    """Return the ids of the subnets of a network; other documents have none."""
    if document is None or document.get("type") != f"{_NETWORK}/virtualNetworks":
        return set()
    return {str(get_path(subnet, "id")) for subnet in get_items(document, "properties", "subnets")}


def _etag_of(document: Document) -> str:
    return f"W/{preconditions.etag_of(document)}"


def _with_etag(document: Document) -> Document:
    """Return a document of Microsoft.Network with its etag, which is also that of the items in its lists."""
    if not str(document.get("type")).startswith(f"{_NETWORK}/"):
        return document
    etag: Document = {"etag": _etag_of(document)}
    properties: Document = {
        name: [{**item, **etag} if isinstance(item, dict) and "type" in item else item for item in value]
        if isinstance(value, list)
        else value
        for name, value in get_fields(document, "properties").items()
    }
    return {**document, **etag, "properties": properties}


def _owners(state: ArmState, *interfaces: str) -> Mapping[str, str]:
    """Return the ids of machines by the ids of their interfaces, all or these; only machines link both."""
    wanted = {interface.lower() for interface in interfaces}
    # A text is searched for a single id before it is parsed.
    searched = next(iter(wanted)) if len(wanted) == 1 else ""
    owners: dict[str, str] = {}
    for key in list(state.view.keys_under(group_id("").lower())):
        group, _, name = key.partition("/providers/microsoft.compute/virtualmachines/")
        if not name or "/" in name or searched not in (state.view.text(key) or "").lower():
            continue
        items = get_items(state.document(key), "properties", "networkProfile", "networkInterfaces")
        ids = [str(get_path(item, "id")).lower() for item in items]
        if not ids or (wanted and wanted.isdisjoint(ids)):
            continue
        machine = find_vm(state, {"group": group.rpartition("/")[2], "name": name})
        if machine is not None:
            owners |= dict.fromkeys(ids, machine_id(state, machine))
    return owners


def _with_owner(document: Document, owners: Mapping[str, str]) -> Document:
    document = _with_etag(document)
    if str(document["id"]).lower() not in owners:
        return document
    used: Document = {
        "macAddress": derived_mac_address(str(document["id"])),
        "virtualMachine": {"id": owners[str(document["id"]).lower()]},
    }
    return {**document, "properties": {**used, **get_fields(document, "properties")}}


def _find_item(document: Document, resource: NetworkResource) -> Json:
    items = get_items(document, "properties", resource.kinds[-1])
    item = next((item for item in items if resource.is_item(item)), None)
    if item is None:
        raise resource.not_found_error()
    return item


def _without_item(document: Document, resource: NetworkResource) -> Document:
    """Return a document without an item; the same document if it has no such item."""
    items = get_items(document, "properties", resource.kinds[-1])
    others = [item for item in items if not resource.is_item(item)]
    return document if len(others) == len(items) else _with_items(document, resource, others)


def _with_items(document: Document, resource: NetworkResource, items: list[Json]) -> Document:
    """Return a document with these items in place of the list that a resource is in."""
    properties, kind = get_fields(document, "properties"), resource.kinds[-1]
    list_name = next((name for name in properties if name.lower() == kind.lower()), kind)
    parent = resource._replace(kinds=resource.kinds[:1], names=(str(document["name"]),))
    completed: list[Json] = [_complete_item(parent, list_name, item) for item in items]
    return {**document, "properties": {**properties, list_name: completed}}


def _complete_item(parent: NetworkResource, list_name: str, item: Json) -> Json:
    """Return an item of a list; one with a name gets an id, a type, a state and defaults."""
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return item
    kind = f"{parent.type}/{list_name}"
    filled = fill(item, catalog.DEFAULTS.get(kind, {}))
    properties = {**get_fields(filled, "properties"), "provisioningState": "Succeeded"}
    identity: Document = {"id": f"{parent.id}/{list_name}/{item['name']}", "type": kind}
    return {**filled, **identity, "properties": properties}


def _canonical(name: str) -> str:
    return _SPELLINGS.get(name.lower(), name)


def _interface(resource: str, properties: Document) -> Document:
    configurations: list[Json] = [
        fill(item, {"properties": {"primary": number == 0}}) if isinstance(item, dict) else item
        for number, item in enumerate(get_items(properties, "ipConfigurations"))
    ]
    return {**properties, "ipConfigurations": configurations}


def _public_address(resource: str, properties: Document) -> Document:
    octets = bytes.fromhex(derive_id("public", resource.lower())[:6])
    address = f"198.{18 + octets[0] % 2}.{octets[1]}.{4 + octets[2] % 250}"
    return fill(properties, {"ipAddress": address})


#: What follows from the id of a resource and from its properties, by type.
_DERIVED: Mapping[str, Callable[[str, Document], Document]] = {
    _INTERFACES: _interface,
    f"{_NETWORK}/publicIPAddresses": _public_address,
}


def _routes(namespace: str, kind: str) -> tuple[ArmRoute, ...]:
    subscription = f"/subscriptions/{{subscription}}/providers/{namespace}/{kind}"
    group = f"/subscriptions/{{subscription}}/resourceGroups/{{group}}/providers/{namespace}/{kind}"
    item, inside = f"{group}/{{name}}", f"{group}/{{name}}/{{list}}"
    routes = [ArmRoute("GET", subscription, list_all), ArmRoute("GET", group, list_all)]
    routes += [ArmRoute("GET", item, get), ArmRoute("PUT", item, put), ArmRoute("PATCH", item, put)]
    routes.append(ArmRoute("DELETE", item, delete))
    if namespace == _NETWORK:
        part = f"{inside}/{{item}}"
        routes += [ArmRoute("GET", inside, list_all), ArmRoute("GET", part, get)]
        routes += [ArmRoute("PUT", part, put), ArmRoute("DELETE", part, delete)]
    return tuple(routes)


ROUTES: tuple[ArmRoute, ...] = tuple(
    route for namespace, kind in STORED for route in _routes(namespace, kind)
)
