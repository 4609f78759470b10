"""What ``/metadata/instance`` and ``/metadata/versions`` answer.

A guest learns here who it is, above all the name that events call it by. Nothing
in this module reads or waits: facts in, bytes out.

    FairWarningError
    ├── NoSuchElement   the route leads to nothing in this document
    └── LeafNeedsText   a single value was asked for as JSON
"""

import hashlib
from collections.abc import Mapping, Sequence

from fairwarning.core.document.render import Json, compact_json
from fairwarning.core.document.versions import IMDS_VERSIONS
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import Machine, ScopeKind, ScopeProperties, derive_id
from fairwarning.metadata.instance_fields import FIELDS, DataDisk, InstanceFacts, Value

__all__ = [
    "DataDisk",
    "InstanceFacts",
    "LeafNeedsTextError",
    "NoSuchElementError",
    "computer_name",
    "document",
    "render",
    "versions_document",
    "walk",
]

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_Cells = Sequence[tuple[Sequence[str], Value]]


class NoSuchElementError(FairWarningError):
    """The route leads to nothing in this document."""

    status_hint = 404

    def __init__(self, route: Sequence[str]) -> None:
        super().__init__(f"instance metadata has no element {'/'.join(route)}")
        self.route = tuple(route)


class LeafNeedsTextError(FairWarningError):
    """A single value was asked for as JSON."""

    status_hint = 400

    def __init__(self) -> None:
        super().__init__("the element is a single value and has no JSON form; ask for format=text")


def document(facts: InstanceFacts, version: str) -> Json:
    """Return everything a guest of ``version`` may read about its machine."""
    return _grow([(field.path.split("."), field.value(facts)) for field in FIELDS if field.shown_in(version)])


def versions_document() -> Json:
    """Return the versions on offer, oldest first."""
    return {"apiVersions": list(IMDS_VERSIONS)}


def walk(document: Json, route: Sequence[str]) -> Json:
    """Return the element that ``route`` leads to, key by key and index by index.

    Raises:
        NoSuchElement: A key or index on the way is missing.
    """
    # I-05: a slash after the last key is harmless.
    keys = route[:-1] if route and not route[-1] else route
    node = document
    for key in keys:
        children = _children(node)
        if key not in children:
            raise NoSuchElementError(keys)
        node = children[key]
    return node


def render(node: Json, *, text: bool) -> tuple[str, bytes]:
    """Return the content type and the body that show ``node``.

    Raises:
        LeafNeedsText: The node is a single value and was not asked for as text.
    """
    if text:
        return _TEXT, _as_text(node).encode()
    if not _branches(node):
        raise LeafNeedsTextError
    return _JSON, compact_json(node)


def computer_name(set_name: str, instance_id: int) -> str:
    """Return the guest hostname of an instance of a uniform scale set."""
    # S-06: the id in base 36, padded to six digits; Azure writes the letters in upper case.
    digits = ""
    while instance_id > 0:
        instance_id, digit = divmod(instance_id, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"{set_name}{digits:0>6}"


def _grow(cells: _Cells) -> Json:
    branches: dict[str, list[tuple[Sequence[str], Value]]] = {}
    for path, value in cells:
        if not path and isinstance(value, str):
            return value
        branches.setdefault(path[0], []).append((path[1:], value))
    if column := branches.get("*"):
        return _grow_list(column)
    return {key: _grow(branches[key]) for key in sorted(branches)}


def _grow_list(cells: _Cells) -> Json:
    _, first = cells[0]
    return [_grow([(path, value[row]) for path, value in cells]) for row in range(len(first))]


def _branches(node: Json) -> bool:
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
    if not _branches(node):
        return str(node)
    # I-06: a directory listing; what has children of its own ends in a slash.
    return "\n".join(f"{key}/" if _branches(child) else key for key, child in _children(node).items())


def facts_of(machine: Machine, scope: ScopeProperties) -> InstanceFacts:
    """Return the machine as ``/metadata/instance`` shows it.

    Addresses are made up from the machine's id, so that they stay the same for its whole life.
    """
    digest = hashlib.sha256(machine.vm_id.encode()).digest()
    subnet = f"10.{digest[0]}.{digest[1]}"
    uniform = scope.kind is ScopeKind.SCALE_SET
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
        priority="Spot" if machine.spot else "Regular",
        eviction_policy=machine.eviction.value if machine.spot else "",
        computer_name=(computer_name(scope.set_name, int(machine.instance)) if uniform else machine.name),
        private_ip=f"{subnet}.{4 + digest[2] % 250}",
        subnet=f"{subnet}.0",
        mac="000D3A" + digest[3:6].hex().upper(),
    )
