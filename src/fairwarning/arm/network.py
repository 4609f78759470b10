"""Networks, addresses, disks and whatever else machines are made with: documents that are only kept.

Nothing here decides anything. What Azure would fill in is filled in: ids, addresses, states.
What has a path of its own inside a network resource (a subnet, a rule) is an item of one of its lists.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import unquote

from fairwarning.arm.call import ArmRequest, ArmResponse, deep_merge, get_path
from fairwarning.arm.context import SUBSCRIPTION, ArmContext, Document
from fairwarning.arm.errors import AzureError, invalid, not_found
from fairwarning.arm.groups import require_active_group
from fairwarning.arm.resource_ids import page, vm, vm_id
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.templates.coercion import coerce
from fairwarning.core.document.render import Json
from fairwarning.core.model import derive_id

_NETWORK = "Microsoft.Network"
_INTERFACES = f"{_NETWORK}/networkInterfaces"
_ANY = "{kind}"
#: What is kept, by namespace and kind; the rest of Microsoft.Compute is more than a document.
STORED: tuple[tuple[str, str], ...] = (
    (_NETWORK, _ANY),
    ("Microsoft.Storage", _ANY),
    ("Microsoft.Authorization", _ANY),
    ("Microsoft.ManagedIdentity", _ANY),
    ("Microsoft.KeyVault", _ANY),
    ("Microsoft.Insights", _ANY),
    ("Microsoft.OperationalInsights", _ANY),
    ("Microsoft.Compute", "disks"),
    ("Microsoft.Compute", "images"),
    ("Microsoft.Compute", "snapshots"),
    ("Microsoft.Compute", "sshPublicKeys"),
    ("Microsoft.Compute", "proximityPlacementGroups"),
    ("Microsoft.Compute", "diskEncryptionSets"),
    ("Microsoft.Compute", "hostGroups"),
    ("Microsoft.Compute", "capacityReservationGroups"),
    ("Microsoft.Compute", "virtualMachines/{machine}/extensions"),
)
#: How Azure writes the names that clients write in several ways.
_SPELLINGS = {
    word.lower(): word
    for word in (
        *(namespace for namespace, _ in STORED),
        *(kind for _, kind in STORED if kind.isalpha()),
        *("applicationGateways", "inboundNatRules", "loadBalancers", "natGateways", "networkInterfaces"),
        *("networkSecurityGroups", "publicIPAddresses", "roleAssignments", "routeTables", "securityRules"),
        *("storageAccounts", "subnets", "userAssignedIdentities", "virtualNetworks"),
    )
}
_DEEPEST = 3  # a namespace, a kind, and a list in it
_PATH = re.compile(r"(.*)/providers/([^/]+)/(.+)", re.IGNORECASE)
_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkResource:
    """Where a document belongs; a list has one kind more than it has names."""

    root: str
    group: str
    location: str
    namespace: str
    kinds: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def type(self) -> str:
        """What the document is of."""
        return "/".join((self.namespace, *self.kinds))

    @property
    def id(self) -> str:
        """The path of the document, or of the list."""
        steps = [f"/{kind}/{name}" for kind, name in zip(self.kinds, self.names, strict=False)]
        rest = "" if len(self.kinds) == len(self.names) else f"/{self.kinds[-1]}"
        return f"{self.root}/providers/{self.namespace}{''.join(steps)}{rest}"

    @property
    def holder(self) -> str | None:
        """The path of the resource whose list the document is an item of, if it is one."""
        if self.namespace != _NETWORK or len(self.kinds) == 1:
            return None
        return f"{self.root}/providers/{self.namespace}/{self.kinds[0]}/{self.names[0]}"

    def known_as(self, document: Document | None) -> "NetworkResource":
        """Return the same place, in the spelling it was first called by."""
        return self if document is None else replace(self, names=(*self.names[:-1], str(document["name"])))

    def missing(self) -> AzureError:
        """Return the refusal of a document that is not there."""
        return not_found(self.type, "/".join(self.names), self.group)


def keeps(kind: str) -> bool:
    """Whether documents of a type are kept here."""
    wanted = kind.lower().split("/")
    for namespace, kinds in STORED:
        known = [namespace.lower(), *(step for step in kinds.lower().split("/") if step != "{machine}")]
        deep = _DEEPEST if namespace == _NETWORK else 2
        if wanted == known or (kinds == _ANY and wanted[0] == known[0] and 2 <= len(wanted) <= deep):
            return True
    return False


def place(room: ArmContext, call: ArmRequest, *, make: bool = False) -> NetworkResource:
    """Return what a path means; whatever is to be made there needs a group that stands."""
    found = _PATH.fullmatch(re.sub(r"/{2,}", "/", unquote(call.path)).rstrip("/"))
    if found is None:
        raise AzureError(404, "NotFound", f"No resource answers at {call.path}.")
    root, location, group = f"/subscriptions/{SUBSCRIPTION}", "", _GROUP.match(found[1])
    if group is not None:
        document = require_active_group(room, group[1]) if make else room.group(group[1])
        root = f"{document['id']}{found[1][group.end() :]}"
        location = str(document["location"])
    steps = found[3].split("/")
    return NetworkResource(
        root=root,
        group="" if group is None else group[1],
        location=location,
        namespace=_spelled(found[2]),
        kinds=tuple(map(_spelled, steps[0::2])),
        names=tuple(steps[1::2]),
    )


async def put(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Keep a document in the place of what was there."""
    where = place(room, call, make=True)
    body = coerce(call.fields())
    async with room.lock(where.holder or where.id):
        if where.holder is not None:
            return await _put_item(room, where, where.holder, body)
        old = room.document(where.id)
        after = completed(where.known_as(old), body)
        await room.keep({where.id: after})
        # A disk that was created would surprise the clients; a network never does.
        return ArmResponse(status=201 if old is None and where.namespace == _NETWORK else 200, body=after)


async def patch(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Lay a document over what is there."""
    where = place(room, call, make=True)
    async with room.lock(where.id):
        known = room.document(where.id)
        if known is None:
            raise where.missing()
        after = completed(where.known_as(known), deep_merge(known, coerce(call.fields())))
        await room.keep({where.id: after})
        return ArmResponse(body=after)


async def get(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return a document."""
    where = place(room, call)
    if where.holder is None:
        found: Json = _shown(room.document(where.id), _owners(room, where))
    else:
        items = _items(room, where, where.holder)
        found = next((item for item in items if _called(item, where.names[-1])), None)
    if not found:
        raise where.missing()
    return ArmResponse(body=found)


async def delete(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Forget a document; what is not there is gone already."""
    where = place(room, call)
    async with room.lock(where.holder or where.id):
        if where.holder is not None:
            return await _delete_item(room, where, where.holder)
        if room.document(where.id) is None:
            return ArmResponse(status=204)
        await room.keep({where.id: None})
        return ArmResponse()


async def listed(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Return all documents of a type, of a group or of the subscription."""
    where = place(room, call)
    if where.holder is not None:
        return ArmResponse(body={"value": [*_items(room, where, where.holder)]})
    prefix = f"{where.id}/" if where.group else f"{where.root}/"
    wanted = where.type.lower()
    owners = _owners(room, where)
    found = (one for _, one in room.documents(prefix) if str(one.get("type")).lower() == wanted)
    return page(call, ((str(one["id"]), partial(_shown, one, owners)) for one in found))


def completed(where: NetworkResource, body: Json) -> Document:
    """Return a document with what Azure fills in."""
    document = dict(body) if isinstance(body, dict) else {}
    facts = document.get("properties")
    if facts is not None and not isinstance(facts, dict):
        raise invalid("properties", "it must be an object")
    facts = {**(facts or {}), "provisioningState": "Succeeded"}
    if where.namespace == _NETWORK:
        facts = {name: _list(f"{where.id}/{name}", value) for name, value in facts.items()}
        facts = _FILLED.get(where.type, _as_it_is)(where.id, facts)
    told: Document = {"id": where.id, "name": where.names[-1], "type": where.type}
    location = document.get("location") or where.location
    return {**document, **told, **({"location": location} if location else {}), "properties": facts}


def _owners(room: ArmContext, where: NetworkResource) -> Mapping[str, str]:
    """Return the machines that interfaces belong to; only the machines' documents know."""
    owners: dict[str, str] = {}
    if where.type != _INTERFACES:
        return owners
    for key, document in room.documents(f"/subscriptions/{SUBSCRIPTION}/resourceGroups/"):
        group, _, machine = key.partition("/providers/microsoft.compute/virtualmachines/")
        if not machine or "/" in machine:
            continue
        living = vm(room, group.rpartition("/")[2], machine)
        attached = get_path(document, "properties", "networkProfile", "networkInterfaces")
        if living is not None and isinstance(attached, list):
            owners |= {str(get_path(one, "id")).lower(): vm_id(room, living) for one in attached}
    return owners


def _shown(document: Document | None, owners: Mapping[str, str]) -> Document:
    facts = get_path(document, "properties")
    if document is None or not isinstance(facts, dict) or str(document["id"]).lower() not in owners:
        return document or {}
    owner: Document = {"id": owners[str(document["id"]).lower()]}
    return {**document, "properties": {**facts, "virtualMachine": owner}}


async def _put_item(room: ArmContext, where: NetworkResource, holder: str, body: Json) -> ArmResponse:
    known, name = _holder(room, where, holder), where.names[-1]
    new = not any(_called(item, name) for item in _items(room, where, holder))
    item: Document = {**(body if isinstance(body, dict) else {}), "name": name}
    items = [item if _called(old, name) else old for old in _items(room, where, holder)]
    after = _with_items(where, known, [*items, item] if new else items)
    await room.keep({holder: after})
    found = next(one for one in _listed(after, where.kinds[-1]) if _called(one, name))
    return ArmResponse(status=201 if new else 200, body=found)


async def _delete_item(room: ArmContext, where: NetworkResource, holder: str) -> ArmResponse:
    known = room.document(holder)
    if known is None or not any(_called(item, where.names[-1]) for item in _listed(known, where.kinds[-1])):
        return ArmResponse(status=204)
    left = [item for item in _listed(known, where.kinds[-1]) if not _called(item, where.names[-1])]
    await room.keep({holder: _with_items(where, known, left)})
    return ArmResponse()


def _with_items(where: NetworkResource, known: Document, items: list[Json]) -> Document:
    facts = known.get("properties")
    facts = dict(facts) if isinstance(facts, dict) else {}
    wanted = where.kinds[-1]
    list_name = next((name for name in facts if name.lower() == wanted.lower()), wanted)
    facts[list_name] = _list(f"{known['id']}/{list_name}", items)
    return {**known, "properties": facts}


def _holder(room: ArmContext, where: NetworkResource, holder: str) -> Document:
    known = room.document(holder)
    if known is None:
        message = f"Nothing can be done inside of '{holder}': it was not found."
        raise AzureError(404, "ParentResourceNotFound", message)
    return known


def _items(room: ArmContext, where: NetworkResource, holder: str) -> list[Json]:
    return _listed(_holder(room, where, holder), where.kinds[-1])


def _listed(document: Document, name: str) -> list[Json]:
    found = get_path(document, "properties", name)
    return found if isinstance(found, list) else []


def _called(item: Json, name: str) -> bool:
    return str(get_path(item, "name")).lower() == name.lower()


def _list(path: str, value: Json) -> Json:
    """Return a list of named items as parts of their resource; anything else as it is."""
    if not isinstance(value, list):
        return value
    return [_item(path, item) for item in value]


def _item(path: str, item: Json) -> Json:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return item
    facts = item.get("properties")
    facts = facts if isinstance(facts, dict) else {}
    facts = {**facts, "provisioningState": "Succeeded"}
    return {**item, "id": f"{path}/{item['name']}", "properties": facts}


def _spelled(word: str) -> str:
    return _SPELLINGS.get(word.lower(), word)


def _bytes(*parts: str) -> bytes:
    return bytes.fromhex(derive_id(*(part.lower() for part in parts)).replace("-", ""))


def _interface(resource: str, facts: Document) -> Document:
    address = _bytes(resource)
    hardware = "-".join(("00", "0D", "3A", *(f"{byte:02X}" for byte in address[:3])))
    configurations = facts.get("ipConfigurations")
    listed = configurations if isinstance(configurations, list) else []
    filled: list[Json] = [_configuration(number, one) for number, one in enumerate(listed)]
    return {**facts, "macAddress": facts.get("macAddress") or hardware, "ipConfigurations": filled}


def _configuration(number: int, configuration: Json) -> Json:
    if not isinstance(configuration, dict):
        return configuration
    facts = configuration.get("properties")
    facts = facts if isinstance(facts, dict) else {}
    octets = _bytes("private", str(configuration.get("id")))
    address = f"10.{octets[0]}.{octets[1]}.{4 + octets[2] % 250}"
    told: Document = {"privateIPAllocationMethod": "Dynamic", "primary": number == 0}
    told |= {**facts, "privateIPAddress": facts.get("privateIPAddress") or address}
    return {**configuration, "properties": told}


def _public_address(resource: str, facts: Document) -> Document:
    octets = _bytes("public", resource)
    address = f"198.{18 + octets[0] % 2}.{octets[1]}.{4 + octets[2] % 250}"
    told: Document = {"publicIPAddressVersion": "IPv4", "publicIPAllocationMethod": "Dynamic"}
    return {**told, **facts, "ipAddress": facts.get("ipAddress") or address}


def _as_it_is(resource: str, facts: Document) -> Document:
    return facts


#: Filled in by type, always the same for the same resource.
_FILLED: Mapping[str, Callable[[str, Document], Document]] = {
    _INTERFACES: _interface,
    f"{_NETWORK}/publicIPAddresses": _public_address,
}


def _routes(namespace: str, kind: str) -> tuple[ArmRoute, ...]:
    subscription = f"/subscriptions/{{subscription}}/providers/{namespace}/{kind}"
    group = f"/subscriptions/{{subscription}}/resourceGroups/{{group}}/providers/{namespace}/{kind}"
    item, inside = f"{group}/{{name}}", f"{group}/{{name}}/{{list}}"
    routes = [ArmRoute("GET", subscription, listed), ArmRoute("GET", group, listed)]
    routes += [ArmRoute("GET", item, get), ArmRoute("PUT", item, put), ArmRoute("DELETE", item, delete)]
    routes.append(ArmRoute("PATCH", item, patch))
    if namespace == _NETWORK:
        part = f"{inside}/{{item}}"
        routes += [ArmRoute("GET", inside, listed), ArmRoute("GET", part, get)]
        routes += [ArmRoute("PUT", part, put), ArmRoute("DELETE", part, delete)]
    return tuple(routes)


ROUTES: tuple[ArmRoute, ...] = tuple(
    route for namespace, kind in STORED for route in _routes(namespace, kind)
)
