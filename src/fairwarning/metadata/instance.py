"""``/metadata/instance`` and ``/metadata/versions``.

A guest learns here which machine it runs in, above all the name that events use for it. This module does no
I/O: facts in, bytes out.

    FairWarningError
    ├── NoSuchElementError   the document has no element at the path
    └── LeafNeedsTextError   a single value was requested as JSON
"""

from collections.abc import Callable, Mapping, Sequence

from fairwarning.core.azure.creation import creation_settings
from fairwarning.core.azure.identity import computer_name, identify, stored_documents
from fairwarning.core.azure.interfaces import derived_interface, primary_interface
from fairwarning.core.azure.members import get_path
from fairwarning.core.document.render import Json, compact_json
from fairwarning.core.document.versions import IMDS_VERSIONS
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import Machine, ScopeKind, ScopeProperties, derive_id
from fairwarning.metadata.instance_fields import FIELDS, InstanceFacts, MachineDisk, Value

__all__ = [
    "InstanceFacts",
    "LeafNeedsTextError",
    "MachineDisk",
    "NoSuchElementError",
    "computer_name",
    "document",
    "find_element",
    "instance_facts",
    "render",
    "versions_document",
]

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"

_Cells = Sequence[tuple[Sequence[str], Value]]


class NoSuchElementError(FairWarningError):
    """The document has no element at the path."""

    status_hint = 404

    def __init__(self, path: Sequence[str]) -> None:
        super().__init__(f"instance metadata has no element {'/'.join(path)}")
        self.path = tuple(path)


class LeafNeedsTextError(FairWarningError):
    """A single value was requested as JSON."""

    status_hint = 400

    def __init__(self) -> None:
        super().__init__("the element is a single value and has no JSON form; ask for format=text")


def document(facts: InstanceFacts, version: str) -> Json:
    """Return the instance document of an api-version."""
    return _build(
        [(field.path.split("."), field.value(facts)) for field in FIELDS if field.shown_in(version)]
    )


def versions_document() -> Json:
    """Return the supported versions, oldest first."""
    return {"apiVersions": list(IMDS_VERSIONS)}


def find_element(document: Json, path: Sequence[str]) -> Json:
    """Return the element at a path of keys and indexes.

    Raises:
        NoSuchElementError: a key or index of the path is missing.
    """
    # I-05: a slash after the last key is ignored.
    keys = path[:-1] if path and not path[-1] else path
    node = document
    for key in keys:
        children = _children(node)
        if key not in children:
            raise NoSuchElementError(keys)
        node = children[key]
    return node


def render(node: Json, *, text: bool) -> tuple[str, bytes]:
    """Return the content type and the body for an element.

    Raises:
        LeafNeedsTextError: the element is a single value and was not requested as text.
    """
    if text:
        return _TEXT, _as_text(node).encode()
    if not _is_branch(node):
        raise LeafNeedsTextError
    return _JSON, compact_json(node)


def _build(cells: _Cells) -> Json:
    branches: dict[str, list[tuple[Sequence[str], Value]]] = {}
    for path, value in cells:
        if not path and isinstance(value, str):
            return value
        branches.setdefault(path[0], []).append((path[1:], value))
    if column := branches.get("*"):
        return _build_list(column)
    return {key: _build(branches[key]) for key in sorted(branches)}


def _build_list(cells: _Cells) -> Json:
    _, first = cells[0]
    return [_build([(path, value[row]) for path, value in cells]) for row in range(len(first))]


def _is_branch(node: Json) -> bool:
    return isinstance(node, dict | list)


def _children(node: Json) -> Mapping[str, Json]:
    match node:
        case dict():
            return node
        case list():
            return {str(index): child for index, child in enumerate(node)}
        case _:
            return {}


def _as_text(node: Json) -> str:
    if not _is_branch(node):
        return str(node)
    # I-06: a directory listing; elements with children end in a slash.
    return "\n".join(f"{key}/" if _is_branch(child) else key for key, child in _children(node).items())


def instance_facts(
    machine: Machine, scope: ScopeProperties, stored: Callable[[str], str | None]
) -> InstanceFacts:
    """Return the facts that ``/metadata/instance`` shows about a machine; ``stored`` returns documents."""
    uniform = scope.kind is ScopeKind.SCALE_SET
    find = stored_documents(stored)
    identity = identify(machine, scope, find)
    interface = primary_interface(machine, scope, find) or derived_interface(machine)
    return InstanceFacts(
        name=machine.name,
        vm_id=machine.vm_id,
        update_domain=machine.update_domain if scope.update_domains else None,
        fault_domain=machine.fault_domain,
        zone=scope.zone,
        tags=machine.tags,
        scale_set=scope.set_name if scope.kind.scales else "",
        flexible=scope.kind is ScopeKind.FLEXIBLE_SET,
        placement_group_id=derive_id("placement group", scope.id).lower() if uniform else "",
        priority=identity.priority,
        eviction_policy=machine.eviction.value if machine.spot else "",
        resource_group=identity.group,
        resource_id=identity.resource_id,
        computer_name=identity.computer_name,
        location=identity.location,
        size=identity.size,
        os_type=identity.os_type,
        publisher=identity.image.publisher,
        offer=identity.image.offer,
        sku=identity.image.sku,
        image_version=identity.image.version,
        exact_version=identity.image.exact_version,
        image_id=identity.image.id,
        created=creation_settings(machine, scope, find),
        os_disk=_disk(identity.disks["osDisk"]),
        data_disks=_disks(identity.disks["dataDisks"]),
        private_ip=interface.private_ip,
        public_ip=interface.public_ip,
        subnet=interface.subnet,
        subnet_prefix=interface.subnet_prefix,
        mac=interface.mac,
    )


def _disks(disks: Json) -> tuple[MachineDisk, ...]:
    return tuple(_disk(disk) for disk in disks) if isinstance(disks, list) else ()


def _disk(disk: Json) -> MachineDisk:
    return MachineDisk(
        name=str(get_path(disk, "name") or ""),
        lun=_number(get_path(disk, "lun")),
        size_gb=_number(get_path(disk, "diskSizeGB")),
        resource_id=str(get_path(disk, "managedDisk", "id") or ""),
        caching=str(get_path(disk, "caching") or ""),
        create_option=str(get_path(disk, "createOption") or ""),
    )


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
