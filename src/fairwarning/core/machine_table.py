"""The machines of a scope, kept as a table.

A fleet may have a million machines, and those of a scope are much alike: what they have in common is kept
once, the rest is one short text each, and a ``Machine`` is made when somebody asks for it.
"""

from collections.abc import Iterator, KeysView, Mapping
from itertools import count
from operator import attrgetter
from typing import NamedTuple

from fairwarning.core.model import EvictionPolicy, HostId, Machine, MachineModel, PowerState, ScopeId, VmName


class _Common(NamedTuple):
    """What one machine has in common with others of its scope."""

    scope: ScopeId
    update_domain: int
    fault_domain: int
    host: HostId
    spot: bool
    eviction: EvictionPolicy
    power: PowerState
    model: MachineModel
    protected: bool
    tags: tuple[tuple[str, str], ...]


_shared = attrgetter(*_Common._fields)


class MachineTable(Mapping[VmName, Machine]):
    """Machines by name, in order of their coming; never changed, only drawn up anew."""

    __slots__ = ("_commons", "_rows")

    def __init__(self) -> None:
        self._rows: dict[VmName, str] = {}
        self._commons: dict[str, _Common] = {}

    def __getitem__(self, name: VmName) -> Machine:
        row = self._rows[name]
        instance, _, vm_id = row[1:].partition("\0")
        return Machine(name=name, vm_id=vm_id, instance=instance, **self._commons[row[0]]._asdict())

    def __iter__(self) -> Iterator[VmName]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def keys(self) -> KeysView[VmName]:
        """Return the names."""
        return self._rows.keys()

    def hosts(self) -> frozenset[HostId]:
        """Return the hosts that the machines are on."""
        return frozenset(common.host for common in self._commons.values())

    def running(self) -> bool:
        """Whether any of the machines could still answer."""
        return any(common.power is PowerState.RUNNING for common in self._commons.values())


class MachineTableDraft:
    """A roster in the making: each row is marked with a letter that stands for what it shares."""

    def __init__(self, roster: MachineTable) -> None:
        self._rows = roster._rows.copy()
        self._marks = {common: mark for mark, common in roster._commons.items()}

    def keep(self, machine: Machine) -> None:
        """Write a machine down, in its old place or as the last."""
        common = _Common._make(_shared(machine))
        mark = self._marks.get(common) or self._new_mark(common)
        self._rows[machine.name] = f"{mark}{machine.instance}\0{machine.vm_id}"

    def drop(self, name: VmName) -> str | None:
        """Strike a machine off and return its ``vm_id``."""
        row = self._rows.pop(name, None)
        return None if row is None else row[1:].partition("\0")[2]

    def roster(self) -> MachineTable:
        """Return the roster, without what nobody shares any more; the draft has served its purpose."""
        used = {row[0] for row in self._rows.values()}
        roster = MachineTable()
        roster._rows = self._rows
        roster._commons = {mark: common for common, mark in self._marks.items() if mark in used}
        return roster

    def _new_mark(self, common: _Common) -> str:
        taken = set(self._marks.values())
        mark = next(mark for mark in map(chr, count()) if mark not in taken)
        self._marks[common] = mark
        return mark
