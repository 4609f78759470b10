"""The machines that the file of ``fairwarning serve`` lists, as scopes of the core, with their addresses.

An inventory of many machines is a CSV file: the TOML parser takes a second for 10,000 tables.

The version of an inventory without a number is a hash of the keys that its sets, budgets and machines have.
Neither their order nor the defaults of a release matter, so nodes of two releases agree about the same file.
"""

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from string import digits
from typing import NamedTuple
from zlib import crc32

import msgspec

from fairwarning.config.operator_file import FileKind, UnusableFileError, read_operator_file
from fairwarning.config.read_file import entry_place, place
from fairwarning.config.serve_file import BudgetTable, HostTable, MachineEntry, ServeFile, SetTable
from fairwarning.core.blueprint import DOMAINS, MOST_MACHINES, check_group_name, check_name, instance_of
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.inputs import check_visible, parse_address, parse_duration
from fairwarning.core.inventory import InventoryScope, InventoryVersion
from fairwarning.core.maintenance.values import HostLabels, MaintenanceBudget
from fairwarning.core.model import (
    EvictionPolicy,
    HostId,
    Machine,
    MachineModel,
    MachineRef,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
    derive_id,
    in_group,
)
from fairwarning.core.policy import check_terminate_notice
from fairwarning.formats.hidden_characters import first_hidden
from fairwarning.formats.suggestions import did_you_mean

#: The columns of a CSV file that hold something other than a text.
_NUMBERS, _FLAGS = ("update_domain", "fault_domain"), ("spot",)
_COLUMNS = tuple(entry.encode_name for entry in msgspec.structs.fields(MachineEntry))


class MachineInventory(NamedTuple):
    """An inventory: its version, its scopes, the machine at each address, and what is wrong with it."""

    version: InventoryVersion
    scopes: tuple[InventoryScope, ...]
    budgets: tuple[MaintenanceBudget, ...]
    labels: HostLabels
    addresses: Mapping[str, MachineRef]
    problems: tuple[str, ...]


class _Listed(NamedTuple):
    """A machine, and where it is listed."""

    place: str
    entry: MachineEntry


@dataclass(slots=True)
class _ScopeDraft:
    """A scope whose machines are being collected."""

    facts: ScopeProperties
    machines: dict[VmName, Machine] = field(default_factory=dict)
    #: The machines whose update domain is given.
    placed: set[VmName] = field(default_factory=set)

    def scope(self) -> InventoryScope:
        """Return the scope; it has as many domains as its machines need."""
        machines = tuple(self.machines.values())
        update = max((machine.update_domain + 1 for machine in machines), default=0)
        fault = max((machine.fault_domain + 1 for machine in machines), default=1)
        facts = replace(
            self.facts,
            update_domains=max(self.facts.update_domains, update) if self.facts.update_domains else 0,
            fault_domains=max(self.facts.fault_domains, fault),
            next_instance=_next_instance(self.facts.kind, machines),
        )
        return InventoryScope(facts, machines, frozenset(self.placed))


def read_inventory(file: ServeFile, folder: Path) -> MachineInventory:
    """Return the machines of a file; relative paths begin at ``folder``."""
    builder = _InventoryBuilder(file)
    for listed in _listed(file, folder, builder.problems):
        builder.add(listed)
    return builder.inventory()


class _InventoryBuilder:
    """Collects machines into scopes, and the problems with them."""

    def __init__(self, file: ServeFile) -> None:
        self.problems: list[str] = []
        self._sets: dict[str, SetTable] = {}
        self._scopes: dict[ScopeId, _ScopeDraft] = {}
        self._addresses: dict[str, MachineRef] = {}
        self._number = file.inventory.version or None
        self._hashes = [_hash("set", table) for table in file.set]
        self._hashes += [_hash("budget", table) for table in file.budget]
        self._budgets: dict[tuple[str, str | None], MaintenanceBudget] = {}
        for index, budget in enumerate(file.budget):
            self._add_budget(entry_place("budget", index, budget.each), budget)
        self._hashes += [_hash("host", host) for host in file.host]
        self._labels: dict[HostId, Mapping[str, str]] = {}
        for index, host in enumerate(file.host):
            self._add_host(entry_place("host", index, host.name), host)
        for index, table in enumerate(file.set):
            self._add_set(entry_place("set", index, table.name), table)

    def inventory(self) -> MachineInventory:
        """Return what was collected."""
        digest = blake2b(b"".join(sorted(self._hashes)), digest_size=6).hexdigest()
        version = InventoryVersion(digest=digest, number=self._number)
        scopes = tuple(draft.scope() for draft in self._scopes.values())
        budgets = tuple(self._budgets.values())
        problems = tuple(self.problems)
        return MachineInventory(version, scopes, budgets, self._labels, self._addresses, problems)

    def add(self, listed: _Listed) -> None:
        """Add a machine to its scope."""
        try:
            self._add(listed.entry)
        except InvalidError as problem:
            self.problems.append(f"{listed.place} {problem.field}: {problem.problem}")
        except FairWarningError as problem:
            self.problems.append(f"{listed.place}: {problem}")

    def _add_budget(self, where: str, table: BudgetTable) -> None:
        budget = MaintenanceBudget(each=table.each, most=table.most, group=table.group or None)
        if (budget.each, budget.group) in self._budgets:
            self.problems.append(f"{where}: is listed twice")
        self._budgets[budget.each, budget.group] = budget

    def _add_host(self, where: str, table: HostTable) -> None:
        if table.name in self._labels:
            self.problems.append(f"{where}: is listed twice")
        for text in (table.name, *table.labels, *table.labels.values()):
            if first_hidden(text) is not None:
                self.problems.append(f"{where}: has an invisible character")
        self._labels[HostId(table.name)] = table.labels

    def _add_set(self, where: str, table: SetTable) -> None:
        try:
            _check_texts(table.name, table.group)
            if table.terminate_notice:
                check_terminate_notice(parse_duration(table.terminate_notice, "terminate_notice"), spot=False)
        except InvalidError as problem:
            self.problems.append(f"{where} {problem.field}: {problem.problem}")
        if table.name in self._sets:
            self.problems.append(f"{where}: is listed twice")
        self._sets[table.name] = table

    def _add(self, entry: MachineEntry) -> None:
        _check_texts(entry.name, entry.group)
        draft = self._draft(entry)
        name = VmName(entry.name)
        if name in draft.machines:
            raise InvalidError("name", f"{draft.facts.id} has two machines of this name")
        if len(draft.machines) == MOST_MACHINES:
            raise InvalidError("set", f"{draft.facts.id} has more than {MOST_MACHINES} machines")
        draft.machines[name] = machine = _machine(entry, draft)
        if entry.update_domain is not None:
            draft.placed.add(name)
        texts = [entry.address] if isinstance(entry.address, str) else entry.address
        addresses = sorted(map(parse_address, texts))
        self._hashes.append(_hash("machine", msgspec.structs.replace(entry, address=addresses)))
        for address in addresses:
            other = self._addresses.setdefault(address, machine.ref)
            if other != machine.ref:
                raise InvalidError("address", f"{address} belongs to {other.full} already")

    def _draft(self, entry: MachineEntry) -> _ScopeDraft:
        """Return the scope of a machine; the first machine of a scope makes it."""
        if not entry.set:
            facts = _standalone(entry)
            if facts.id in self._scopes or (
                entry.name in self._sets and self._sets[entry.name].group == entry.group
            ):
                raise InvalidError("name", f"{facts.id} is listed twice")
            return self._scopes.setdefault(facts.id, _ScopeDraft(facts))
        table = self._sets.get(entry.set)
        if table is None:
            raise InvalidError("set", f"there is no [[set]] {entry.set}{did_you_mean(entry.set, self._sets)}")
        facts = _set_properties(table, entry)
        return self._scopes.setdefault(facts.id, _ScopeDraft(facts))


def _listed(file: ServeFile, folder: Path, problems: list[str]) -> Iterator[_Listed]:
    """Yield all machines: those of the file, the numbered ones of sets, and those of the CSV file."""
    for index, entry in enumerate(file.machine):
        yield _Listed(entry_place("machine", index, entry.name), entry)
    for index, table in enumerate(file.set):
        mark = "_" if ScopeKind(table.kind).scales else "-"
        for number in range(table.count):
            name = f"{table.name}{mark}{number}"
            yield _Listed(entry_place("set", index, table.name), MachineEntry(name=name, set=table.name))
    if file.inventory.file:
        path = folder / file.inventory.file
        try:
            yield from _read_csv(path, problems)
        except UnusableFileError as problem:
            problems.append(f"{place('inventory', 'file')}: {problem}")
        except (ValueError, csv.Error) as problem:
            problems.append(f"{place('inventory', 'file')}: {path} cannot be read: {problem}")


def _read_csv(path: Path, problems: list[str]) -> Iterator[_Listed]:
    content = read_operator_file(path, FileKind.INVENTORY).content
    with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, strict=True)
        unknown = [name for name in rows.fieldnames or () if name not in _COLUMNS]
        for name in unknown:
            problems.append(f"{path}: unknown column {name}{did_you_mean(name, _COLUMNS)}")
        for row in rows if not unknown else ():
            where = f"{path} line {rows.line_num}"
            try:
                yield _Listed(where, msgspec.convert(_values(row), MachineEntry))
            except (msgspec.ValidationError, ValueError) as problem:
                problems.append(f"{where}: {problem}")


def _values(row: Mapping[str, str | None]) -> dict[str, object]:
    """Return the keys of a machine that a line of a CSV file has; an empty cell is not a key."""
    if None in row:
        raise ValueError("has more cells than the first line")
    values: dict[str, object] = {key: text.strip() for key, text in row.items() if text and text.strip()}
    for key in values.keys() & set(_NUMBERS):
        values[key] = int(str(values[key]))
    for key in values.keys() & set(_FLAGS):
        values[key] = {"true": True, "false": False}.get(str(values[key]).lower(), values[key])
    if "address" in values:
        values["address"] = str(values["address"]).split()
    if "tags" in values:
        pairs = (pair.partition("=") for pair in str(values["tags"]).split(";") if pair)
        values["tags"] = {key.strip(): value.strip() for key, _, value in pairs}
    return values


def _hash(table: str, content: SetTable | BudgetTable | HostTable | MachineEntry) -> bytes:
    """Return a hash of the keys of a table that differ from their defaults."""
    return blake2b(msgspec.json.encode({table: content}, order="sorted"), digest_size=16).digest()


def _check_texts(name: str, group: str) -> None:
    check_name(name)
    check_group_name(group)


def _standalone(entry: MachineEntry) -> ScopeProperties:
    updates, faults = DOMAINS[ScopeKind.STANDALONE]
    notice = None
    if entry.terminate_notice:
        notice = parse_duration(entry.terminate_notice, "terminate_notice")
        check_terminate_notice(notice, spot=entry.spot)
    return ScopeProperties(
        id=ScopeId(in_group(entry.group.lower(), entry.name)),
        kind=ScopeKind.STANDALONE,
        set_name=entry.name,
        group=entry.group.lower(),
        zone=entry.zone,
        update_domains=updates,
        fault_domains=faults,
        model=MachineModel(terminate_notice=notice),
    )


def _set_properties(table: SetTable, entry: MachineEntry) -> ScopeProperties:
    kind = ScopeKind(table.kind)
    if entry.group:
        raise InvalidError("group", "the machines of a set are in the group of the set")
    if entry.terminate_notice:
        raise InvalidError("terminate_notice", "is a key of the set")
    if entry.zone and not kind.scales:
        raise InvalidError("zone", f"an {kind} has no zones")
    if entry.zone and not entry.zone.isalnum():
        raise InvalidError("zone", "must be letters and digits")
    # The management API compares the names of groups without case.
    set_id = in_group(table.group.lower(), table.name)
    updates, faults = DOMAINS[kind]
    notice = parse_duration(table.terminate_notice, "terminate_notice") if table.terminate_notice else None
    return ScopeProperties(
        id=ScopeId(f"{set_id}.zone{entry.zone}" if entry.zone else set_id),
        kind=kind,
        set_name=table.name,
        group=table.group.lower(),
        zone=entry.zone,
        update_domains=updates if table.update_domains is None else table.update_domains,
        fault_domains=faults if table.fault_domains is None else table.fault_domains,
        broadcast=table.broadcast,
        model=MachineModel(terminate_notice=notice),
    )


def _machine(entry: MachineEntry, draft: _ScopeDraft) -> Machine:
    facts, index = draft.facts, len(draft.machines)
    for text, name in ((entry.host, "host"), (entry.size, "size"), (entry.location, "location")):
        check_visible(text, name)
    return Machine(
        scope=facts.id,
        name=VmName(entry.name),
        vm_id=entry.vm_id or derive_id("vm", "inventory", facts.id, entry.name).lower(),
        instance=_instance(entry, facts, index),
        # F-07: machines on one host share a domain.
        update_domain=_domain(entry.update_domain, entry.host or entry.name, max(facts.update_domains, 1)),
        fault_domain=_domain(entry.fault_domain, entry.name, facts.fault_domains),
        # Machines share a host only if the inventory says so.
        host=HostId(entry.host or f"host-{entry.name}"),
        spot=entry.spot,
        eviction=EvictionPolicy(entry.eviction),
        tags=tuple(sorted(entry.tags.items())),
        size=entry.size,
        location=entry.location,
    )


def _instance(entry: MachineEntry, facts: ScopeProperties, index: int) -> str:
    if not facts.kind.scales:
        return str(index)
    instance = instance_of(VmName(entry.name))
    is_valid = instance.isalnum() if facts.kind is ScopeKind.FLEXIBLE_SET else instance.isdecimal()
    if entry.name != f"{facts.set_name}_{instance}" or not is_valid:
        example = f"{facts.set_name}_0"
        raise InvalidError("name", f"the machines of a {facts.kind} are named after it, like {example}")
    return instance


def _next_instance(kind: ScopeKind, machines: Collection[Machine]) -> int:
    if kind is not ScopeKind.SCALE_SET:
        return len(machines)
    return max((int(machine.instance) + 1 for machine in machines), default=0)


def _domain(given: int | None, name: str, domains: int) -> int:
    """Return a domain; one that is not given does not change when other machines come and go."""
    if given is not None:
        return given
    number = name[len(name.rstrip(digits)) :]
    return (int(number) if number else crc32(name.encode())) % domains
