"""The machines of a scope, stored compactly.

A fleet may have a million machines, and the machines of one scope are nearly alike. A table stores the
fields that machines share (host, domains, model, power, tags and so on) once per distinct combination, as
a machine without name and ids, and one short text per machine:

    row = <mark> <instance> NUL <vm_id>

The mark is a single character that names the combination. A ``Machine`` is copied from its combination when
it is looked up, and two lookups give two equal objects: compare machines with ``==``, never with ``is``.

A table never changes. ``MachineTableDraft`` copies a table, takes changes and builds the next table, without
the combinations that no row uses any more.
"""

from collections.abc import Iterator, KeysView, Mapping
from itertools import count
from operator import attrgetter

from fairwarning.core.model import HostId, Machine, PowerState, VmName, replace

_OWN_FIELDS = frozenset({"name", "vm_id", "instance"})
_get_shared_fields = attrgetter(*(name for name in Machine.__slots__ if name not in _OWN_FIELDS))


class MachineTable(Mapping[VmName, Machine]):
    """An immutable mapping from names to machines, in order of creation."""

    __slots__ = ("_rows", "_shared")

    def __init__(self) -> None:
        self._rows: dict[VmName, str] = {}
        self._shared: dict[str, Machine] = {}

    def __getitem__(self, name: VmName) -> Machine:
        row = self._rows[name]
        instance, _, vm_id = row[1:].partition("\0")
        return replace(self._shared[row[0]], name=name, vm_id=vm_id, instance=instance)

    def __iter__(self) -> Iterator[VmName]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def keys(self) -> KeysView[VmName]:
        """Return the names."""
        return self._rows.keys()

    def vm_id(self, name: VmName) -> str:
        """Return the id of a machine."""
        return self._rows[name][1:].partition("\0")[2]

    def shared_fields(self, name: VmName) -> Machine:
        """Return what a machine may share with others, as a machine whose name and ids are empty."""
        return self._shared[self._rows[name][0]]

    def hosts(self) -> frozenset[HostId]:
        """Return the hosts of the machines."""
        return frozenset(shared.host for shared in self._shared.values())

    def running(self) -> bool:
        """Whether at least one machine is running."""
        return any(shared.power is PowerState.RUNNING for shared in self._shared.values())


class MachineTableDraft:
    """A copy of a table that takes changes and becomes the next table."""

    def __init__(self, table: MachineTable) -> None:
        self._rows = table._rows.copy()
        self._shared = table._shared.copy()
        self._marks = {_get_shared_fields(shared): mark for mark, shared in table._shared.items()}

    def put(self, machine: Machine) -> None:
        """Add a machine at the end, or replace the machine of the same name in its place."""
        mark = self._marks.get(_get_shared_fields(machine)) or self._new_mark(machine)
        self._rows[machine.name] = f"{mark}{machine.instance}\0{machine.vm_id}"

    def put_like(self, like: VmName, name: VmName, vm_id: str, instance: str) -> None:
        """Add or replace a machine that has all other fields of a machine that the table has already."""
        self._rows[name] = f"{self._rows[like][0]}{instance}\0{vm_id}"

    def remove(self, name: VmName) -> str | None:
        """Remove a machine and return its ``vm_id``; None if there is no such machine."""
        row = self._rows.pop(name, None)
        return None if row is None else row[1:].partition("\0")[2]

    def build(self) -> MachineTable:
        """Return the new table; the draft must not be used afterwards."""
        used = {row[0] for row in self._rows.values()}
        table = MachineTable()
        table._rows = self._rows
        table._shared = {mark: shared for mark, shared in self._shared.items() if mark in used}
        return table

    def _new_mark(self, machine: Machine) -> str:
        mark = next(mark for mark in map(chr, count()) if mark not in self._shared)
        self._marks[_get_shared_fields(machine)] = mark
        self._shared[mark] = replace(machine, name=VmName(""), vm_id="", instance="")
        return mark
