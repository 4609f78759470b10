"""The members of compute resources: which ones an api-version knows, and how Azure spells them.

Azure reads a body into objects and refuses a member that its object does not have, so a misspelt setting
never passes unnoticed (T-01). ``catalog/members.json`` holds the members of all objects with the api-versions
that added them; ``tools/compute_members.py`` writes that file. Names are case-insensitive.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairwarning.arm import catalog
from fairwarning.arm.documents import Document
from fairwarning.arm.errors import AzureError
from fairwarning.arm.messages import ArmRequest
from fairwarning.core.azure.identity import AVAILABILITY_SETS, SCALE_SETS, VMS
from fairwarning.core.document.render import Json

#: The way to a member: names, and positions in lists.
MemberPath = tuple[str | int, ...]
#: Takes a member that an object does not have: its path, the type of the object, and the value.
OnUnknown = Callable[[MemberPath, str, Json], None]


@dataclass(frozen=True, slots=True)
class DocumentMember:
    """A member of a type of object; ``type`` is empty if any value will do."""

    name: str
    since: str
    type: str
    #: Whether the value maps names to objects of ``type``.
    is_map: bool


@dataclass(frozen=True, slots=True)
class BodyTypes:
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


def read_members(kind: str, request: ArmRequest) -> Document:
    """Return the body of a PUT or PATCH with Azure's spelling of its members.

    Raises:
        AzureError: a member is unknown to the api-version.
    """
    body, types = request.fields(), BODY_TYPES.get(kind)
    if types is None:
        return body

    def refuse(path: MemberPath, owner: str, value: Json) -> None:
        # A null sets nothing.
        if value is not None:
            raise _unknown_member(types.target, path, owner, _position(body, path))

    root = types.patch if request.method == "PATCH" else types.put
    known = _known_members(body, root, request.version, (), refuse)
    return known if isinstance(known, dict) else {}


def hide_newer_members(kind: str, document: Document, version: str) -> Document:
    """Return a document without the members that an api-version does not know (T-01)."""
    types = BODY_TYPES.get(kind)
    if types is None:
        return document
    known = _known_members(document, types.put, version, (), lambda path, owner, value: None)
    return known if isinstance(known, dict) else {}


def _known_members(
    value: Json, type_name: str, version: str, path: MemberPath, on_unknown: OnUnknown
) -> Json:
    if isinstance(value, list):
        return [
            _known_members(item, type_name, version, (*path, number), on_unknown)
            for number, item in enumerate(value)
        ]
    if not isinstance(value, dict) or not type_name:
        return value
    members, known = TYPES[type_name], dict[str, Json]()
    for name, inner in value.items():
        member, inner_path = members.get(name.lower()), (*path, name)
        if member is None or _is_newer(member, version):
            on_unknown(inner_path, type_name, inner)
        elif member.is_map and isinstance(inner, dict):
            known[member.name] = {
                key: _known_members(item, member.type, version, (*inner_path, key), on_unknown)
                for key, item in inner.items()
            }
        else:
            known[member.name] = _known_members(inner, member.type, version, inner_path, on_unknown)
    return known


def _is_newer(member: DocumentMember, version: str) -> bool:
    return bool(version) and version[:10] < member.since


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
