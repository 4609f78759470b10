"""Writes ``arm/catalog/members.json``: the members of compute resources, by the api-version that added them.

The members are facts from the models in the wheels of azure-mgmt-compute. The arguments are the wheels::

    pip download --no-deps azure-mgmt-compute==33.1.0    # the same for 36.0.0, 37.2.0, 38.0.0, 38.2.0, 39.0.0
    python tools/compute_members.py azure_mgmt_compute-*.whl

A type keeps the name of the newest api-version. A member that a newer api-version has dropped stays.
"""

import ast
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

FILE = Path("src", "fairwarning", "arm", "catalog", "members.json")

MODULE = re.compile(r"azure/mgmt/compute/(?:v(\d{4}_\d\d_\d\d)\w*/)?models/_models(?:_py3)?\.py")
OPERATIONS = re.compile(r"azure/mgmt/compute/operations/\w+\.py")

#: The types of bodies. A model is looked for under these names, and the first that a version has counts.
ROOTS: Mapping[str, tuple[str, ...]] = {
    "VirtualMachine": ("VirtualMachine",),
    "VirtualMachineUpdate": ("VirtualMachineUpdate", "VirtualMachine"),
    "VirtualMachineScaleSet": ("VirtualMachineScaleSet",),
    "VirtualMachineScaleSetUpdate": ("VirtualMachineScaleSetUpdate", "VirtualMachineScaleSet"),
    "VirtualMachineScaleSetVM": ("VirtualMachineScaleSetVM",),
    "AvailabilitySet": ("AvailabilitySet",),
    "AvailabilitySetUpdate": ("AvailabilitySetUpdate", "AvailabilitySet"),
}
#: The types whose read-only members a type accepts, too: clients send back what they have read.
READ_AS: Mapping[str, str] = {
    "VirtualMachineUpdate": "VirtualMachine",
    "VirtualMachineScaleSetUpdate": "VirtualMachineScaleSet",
    "AvailabilitySetUpdate": "AvailabilitySet",
}
#: Members of any content: what they hold is of no use in a request.
OPAQUE = frozenset({"instanceView", "resources", "systemData"})

Name = str


@dataclass(frozen=True)
class Member:
    """A member of a model: its type if that is a model, too, and whether it maps names to that type."""

    type: Name = ""
    is_map: bool = False
    is_read_only: bool = False


#: The members of models, by the names of both.
Models = dict[Name, dict[Name, Member]]


@dataclass
class Entry:
    """A member in the table."""

    type: Name
    is_map: bool
    since: str


@dataclass
class Table:
    """The members of types, by the names of both; filled from the newest api-version to the oldest."""

    types: dict[Name, dict[Name, Entry]] = field(default_factory=dict)

    def add(self, version: str, models: Models) -> None:
        """Add what an api-version has."""
        seen: set[tuple[Name, Name]] = set()
        for root, names in ROOTS.items():
            model = next((name for name in names if name in models), None)
            if model is not None:
                self._walk(version, models, root, model, seen)
        for root, other in READ_AS.items():
            if root in models:
                self._read_only(version, models, root, other)

    def _walk(
        self, version: str, models: Models, name: Name, model: Name, seen: set[tuple[Name, Name]]
    ) -> None:
        if (name, model) in seen:
            return
        seen.add((name, model))
        entries = self.types.setdefault(name, {})
        spellings = {member.lower(): member for member in entries}
        for key, member in models[model].items():
            entry = entries.setdefault(
                spellings.get(key.lower(), key), Entry(member.type, member.is_map, version)
            )
            entry.since = version
            if member.type and entry.type:
                self._walk(version, models, entry.type, member.type, seen)

    def _read_only(self, version: str, models: Models, root: Name, other: Name) -> None:
        pairs = [(root, other), (self.types[root]["properties"].type, models[other]["properties"].type)]
        for name, model in pairs:
            for key, member in models[model].items():
                if member.is_read_only or key == "location":
                    entry = self.types[name].setdefault(key, Entry("", member.is_map, version))
                    entry.since = min(entry.since, version)

    def lines(self) -> Iterator[str]:
        """Return the table as lines of JSON: a type, and its members by api-version."""
        for name, entries in sorted(self.types.items()):
            versions: dict[str, list[str]] = {}
            for key, entry in sorted(entries.items()):
                kind = f"{{{entry.type}}}" if entry.is_map and entry.type else entry.type
                versions.setdefault(entry.since, []).append(f"{key}:{kind}" if kind else key)
            members = {since: " ".join(versions[since]) for since in sorted(versions)}
            yield json.dumps({"type": name, **members})


def models_of(source: str) -> Models:
    """Return the members of the models in a module; those that are inherited included."""
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    models: Models = {}
    for name in classes:
        for key, member in _inherited(classes, name):
            _put(models, name, key, member)
    return {
        name: {
            key: member if member.type in models else replace(member, type="")
            for key, member in members.items()
        }
        for name, members in models.items()
    }


def _put(models: Models, name: Name, key: str, member: Member) -> None:
    """Add a member; a key with a dot is the path of a member that the model has flattened."""
    first, _, rest = key.partition(".")
    if not rest or first in OPAQUE:
        models.setdefault(name, {})[first] = replace(member, type="") if first in OPAQUE else member
        return
    inner = f"{name}.{first}"
    models.setdefault(name, {})[first] = Member(inner)
    _put(models, inner, rest, member)


def _inherited(classes: Mapping[Name, ast.ClassDef], name: Name) -> Iterator[tuple[str, Member]]:
    node = classes[name]
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _inherited(classes, base.id)
    yield from _mapped(node)
    yield from _annotated(node)


def _mapped(node: ast.ClassDef) -> Iterator[tuple[str, Member]]:
    """Yield the members of a model of older SDKs, which are in a dictionary."""
    values = {
        target.id: ast.literal_eval(statement.value)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id in ("_attribute_map", "_validation")
    }
    rules = values.get("_validation", {})
    for attribute, mapped in values.get("_attribute_map", {}).items():
        kind, is_read_only = mapped["type"], bool(rules.get(attribute, {}).get("readonly"))
        yield mapped["key"], Member(kind.strip("[]{}"), kind.startswith("{"), is_read_only)


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, Member]]:
    """Yield the members of a model of newer SDKs, which are annotated fields."""
    for statement in node.body:
        call = statement.value if isinstance(statement, ast.AnnAssign) else None
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "rest_field":
            continue
        options = {
            option.arg: ast.literal_eval(option.value) for option in call.keywords if option.arg != "type"
        }
        annotation = ast.unparse(statement.annotation)
        kind = re.search(r"_models\.(\w+)", annotation)
        yield (
            options.get("name", statement.target.id),
            Member(kind[1] if kind else "", "dict[" in annotation, options.get("visibility") == ["read"]),
        )


def versions_in(wheel: Path) -> Iterator[tuple[str, Models]]:
    """Yield the api-versions in a wheel that have virtual machines, with their models."""
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            folder = re.fullmatch(
                r"azure/mgmt/compute/(?:v(\d{4}_\d\d_\d\d)\w*/)?models/_models(?:_py3)?\.py", path
            )
            if folder is None:
                continue
            models = models_of(archive.read(path).decode())
            if "VirtualMachine" in models:
                yield (folder[1] or _version_of(archive)).replace("_", "-"), models


def _version_of(archive: zipfile.ZipFile) -> str:
    """Return the api-version that most operations of a wheel use."""
    operations = filter(OPERATIONS.fullmatch, archive.namelist())
    text = "".join(archive.read(name).decode() for name in operations)
    versions: list[str] = re.findall(r'"(\d{4}-\d\d-\d\d)"', text)
    return Counter(versions).most_common(1)[0][0]


def write(wheels: Iterable[Path]) -> str:
    """Return the text of the file."""
    table = Table()
    for version, models in sorted(
        (pair for wheel in wheels for pair in versions_in(wheel)), key=lambda pair: pair[0], reverse=True
    ):
        table.add(version, models)
    return "[\n  " + ",\n  ".join(table.lines()) + "\n]\n"


if __name__ == "__main__":
    FILE.write_text(write(map(Path, sys.argv[1:])))
