"""The members of compute resources: which ones an api-version knows, and how Azure spells them.

Azure reads a body into objects and refuses a member that its object does not have, so a misspelt setting
never passes unnoticed (T-01). ``catalog/members.json`` holds the members of all objects with the api-versions
that added them; ``tools/compute_members.py`` writes that file. Names are case-insensitive.
"""

import json
from bisect import bisect
from collections.abc import Iterator, Mapping
from functools import cache
from operator import is_
from typing import NamedTuple

from fairwarning.arm import catalog
from fairwarning.arm.documents import Document
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest
from fairwarning.core.azure.identity import AVAILABILITY_SETS, SCALE_SETS, VMS
from fairwarning.core.document.render import Json

#: The way to a member: names, and positions in lists.
MemberPath = tuple[str | int, ...]


class DocumentMember(NamedTuple):
    """A member of a type of object; ``type`` is empty if any value will do."""

    name: str
    since: str
    type: str
    #: Whether the value maps names to objects of ``type``.
    is_map: bool


class KnownMembers(NamedTuple):
    """The members of a type of object that an api-version knows."""

    names: frozenset[str]
    #: By their names in lower case.
    by_name: Mapping[str, DocumentMember]
    #: Those whose values have members of their own.
    parts: Mapping[str, DocumentMember]


class BodyTypes(NamedTuple):
    """The types of the bodies of PUT and PATCH, and the name of the resource in errors."""

    put: str
    patch: str
    target: str


BODY_TYPES: Mapping[str, BodyTypes] = {
    VMS: BodyTypes("VirtualMachine", "VirtualMachineUpdate", "vm"),
    SCALE_SETS: BodyTypes("VirtualMachineScaleSet", "VirtualMachineScaleSetUpdate", "vmss"),
    f"{SCALE_SETS}/{VMS}": BodyTypes("VirtualMachineScaleSetVM", "VirtualMachineScaleSetVM", "vm"),
    AVAILABILITY_SETS: BodyTypes("AvailabilitySet", "AvailabilitySetUpdate", "availabilitySet"),
}
#: What all resources have, whatever their api-version.
_ENVELOPE = ("id", "name", "type", "location", "tags", "etag", "systemData")
#: The other members of a resource that Azure Resource Manager knows; it refuses all others by itself.
_KNOWN_TO_ARM = frozenset({"extendedlocation", "identity", "kind", "managedby", "plan", "sku", "zones"})
#: Azure's names of types that the SDKs name otherwise.
_AZURE_NAMES = {
    "VirtualMachineScaleSetVMProfile": "VirtualMachineProfile",
    "VirtualMachineScaleSetUpdateVMProfile": "VirtualMachineProfile",
    **{types.patch: types.put for types in BODY_TYPES.values()},
    **{f"{types.put}Properties": "Properties" for types in BODY_TYPES.values()},
    **{f"{types.patch}Properties": "Properties" for types in BODY_TYPES.values()},
}


def _read_types() -> Mapping[str, Mapping[str, DocumentMember]]:
    types: dict[str, dict[str, DocumentMember]] = {}
    for entry in catalog.MEMBERS:
        members = types[str(entry["type"])] = {}
        for since, names in entry.items():
            for text in str(names).split() if since != "type" else ():
                name, _, kind = text.partition(":")
                members[name.lower()] = DocumentMember(name, since, kind.strip("{}"), kind.startswith("{"))
    for body in BODY_TYPES.values():
        for root in (body.put, body.patch):
            types[root] |= {name.lower(): DocumentMember(name, "", "", is_map=False) for name in _ENVELOPE}
    return types


#: The members of each type, by their names in lower case.
TYPES = _read_types()
#: The api-versions that added members, in order.
_VERSIONS = sorted({member.since for members in TYPES.values() for member in members.values()} - {""})


def read_members(kind: str, request: ArmRequest) -> Document:
    """Return the body of a PUT or PATCH with Azure's spelling of its members.

    Raises:
        AzureError: a member is unknown to the api-version.
    """
    body, types = request.fields(), BODY_TYPES.get(kind)
    if types is None:
        return body
    root, version = types.patch if request.method == "PATCH" else types.put, _table_version(request.version)
    for path, owner in _unknown_members(body, root, version, ()):
        raise _unknown_member(types.target, path, owner, _position(body, path))
    return _known_members(body, root, version)


def hide_newer_members(kind: str, document: Document, version: str) -> Document:
    """Return a document without the members that an api-version does not know (T-01)."""
    types = BODY_TYPES.get(kind)
    return document if types is None else _known_members(document, types.put, _table_version(version))


def _table_version(version: str) -> str:
    """Return the newest version of the table that is not newer than an api-version."""
    # A client may send any date, so the cache below holds the dates of the table alone.
    number = bisect(_VERSIONS, version[:10]) if version else len(_VERSIONS)
    return _VERSIONS[max(number, 1) - 1]


@cache
def _members_of(type_name: str, version: str) -> KnownMembers:
    known = [member for member in TYPES[type_name].values() if member.since <= version]
    return KnownMembers(
        frozenset(member.name for member in known),
        {member.name.lower(): member for member in known},
        {member.name: member for member in known if member.type},
    )


def _known_members(document: Document, type_name: str, version: str) -> Document:
    """Return a document without the members that a version does not know, in Azure's spelling."""
    members = _members_of(type_name, version)
    known = document
    if not document.keys() <= members.names:
        named = ((members.by_name.get(name.lower()), value) for name, value in document.items())
        known = {member.name: value for member, value in named if member is not None}
    for name in members.parts.keys() & known.keys():
        part = _known_part(known[name], members.parts[name], version)
        if part is not known[name]:
            known = {**known, name: part}
    return known


def _known_part(value: Json, member: DocumentMember, version: str) -> Json:
    if isinstance(value, list):
        items = [_known_part(item, member, version) for item in value]
        return value if all(map(is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    if not member.is_map:
        return _known_members(value, member.type, version)
    item_member = member._replace(is_map=False)
    return {name: _known_part(item, item_member, version) for name, item in value.items()}


def _unknown_members(
    value: Json, type_name: str, version: str, path: MemberPath, *, is_map: bool = False
) -> Iterator[tuple[MemberPath, str]]:
    """Yield the paths of members that an api-version does not know, and the types that lack them."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown_members(item, type_name, version, (*path, number))
    if not isinstance(value, dict) or not type_name:
        return
    members = _members_of(type_name, version)
    for name, inner in value.items():
        member = members.by_name.get(name.lower())
        if is_map:
            yield from _unknown_members(inner, type_name, version, (*path, name))
        elif member is not None:
            yield from _unknown_members(inner, member.type, version, (*path, name), is_map=member.is_map)
        elif inner is not None:  # a null sets nothing
            yield (*path, name), type_name


def _unknown_member(target: str, path: MemberPath, owner: str, position: int) -> AzureError:
    name, place = path[-1], _text(path)
    is_of_resource = len(path) == 1 and str(name).lower() not in _KNOWN_TO_ARM
    type_name = "ResourceDefinition" if is_of_resource else _AZURE_NAMES.get(owner, owner)
    problem = (
        f"Could not find member '{name}' on object of type '{type_name}'. "
        f"Path '{place}', line 1, position {position}."
    )
    if is_of_resource:
        message = f"The request content was invalid and could not be deserialized: '{problem}'."
        return AzureError(400, "InvalidRequestContent", message)
    return AzureError(400, "BadRequest", problem, f"{target}.{place}")


def _text(path: MemberPath) -> str:
    """Return a path as Azure writes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _position(body: Json, path: MemberPath) -> int:
    """Return how many characters of the body precede the value at a path, as Azure counts them."""
    position = 0
    for step in path:
        items = enumerate(body) if isinstance(body, list) else body.items() if isinstance(body, dict) else ()
        for name, value in items:
            position += 1 if isinstance(name, int) else 1 + len(_compact(name)) + 1
            if name == step:
                body = value
                break
            position += len(_compact(value))
    return position


def _compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
