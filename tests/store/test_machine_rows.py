"""Machines are read as they were written, although what they have in common is read once."""

import json
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.model import HostId, Machine, MachineModel, PowerState, ScopeId, VmName
from fairwarning.store import rows
from fairwarning.store.rows import MachineReader

#: Texts that look like the place where the shared fields begin.
AWKWARD = ("a", 'b,"update_domain":0', '"', "\\", "ä\0", ",", "")

machines = st.builds(
    Machine,
    scope=st.sampled_from(["web", "app"]).map(ScopeId),
    name=st.sampled_from(AWKWARD).map(VmName),
    vm_id=st.sampled_from(AWKWARD),
    instance=st.sampled_from(["0", "1"]),
    update_domain=st.integers(0, 1),
    host=st.sampled_from(["h", 'h,"update_domain":1']).map(HostId),
    power=st.sampled_from(PowerState),
    tags=st.sampled_from([(), (("update_domain", "1"),)]),
)


def body(machine: Machine) -> bytes:
    return str(rows.machine_row(machine)[2]).encode()


def read(bodies: Iterable[bytes]) -> dict[ScopeId, dict[VmName, Machine]]:
    reader = MachineReader()
    for one in bodies:
        reader.add(one)
    return {scope: dict(table.build()) for scope, table in reader.tables.items()}


def written(fleet: Iterable[Machine]) -> dict[ScopeId, dict[VmName, Machine]]:
    tables: dict[ScopeId, dict[VmName, Machine]] = {}
    for machine in fleet:
        tables.setdefault(machine.scope, {})[machine.name] = machine
    return tables


@settings(max_examples=60)
@given(st.lists(machines, max_size=12, unique_by=lambda one: (one.scope, one.name)))
def test_machines_are_read_as_they_were_written(fleet: list[Machine]) -> None:
    assert read(map(body, fleet)) == written(fleet)


@settings(max_examples=60)
@given(st.lists(machines, max_size=8, unique_by=lambda one: (one.scope, one.name)), st.data())
def test_machines_are_read_whatever_the_order_of_their_fields(
    fleet: list[Machine], data: st.DataObject
) -> None:
    bodies = []
    for machine in fleet:
        fields = json.loads(body(machine))
        own, others = list(fields)[:4], list(fields)[4:]
        first = data.draw(st.sampled_from([[], ["update_domain"], [*own, "host"], [*own, "power", "host"]]))
        order = dict.fromkeys([*first, *own, *others])
        bodies.append(json.dumps({name: fields[name] for name in order}, separators=(",", ":")).encode())

    assert read(bodies) == written(fleet)


def test_a_scope_with_many_combinations_is_read_whole() -> None:
    fleet = [
        Machine(scope=ScopeId("web"), name=VmName(str(number)), vm_id="", host=HostId(f"h{number % 1500}"))
        for number in range(3000)
    ]

    assert read(map(body, fleet)) == written(fleet)


def test_instances_of_several_sets_share_the_tags_that_they_have_in_common() -> None:
    tags = (("team", "blue"),)
    fleet = [
        Machine(
            scope=ScopeId(scope),
            name=VmName(f"{scope}_{number}"),
            vm_id="",
            host=HostId(str(number)),
            tags=tags,
            model=MachineModel(tags=tags),
        )
        for scope in ("web", "app")
        for number in (0, 1)
    ]

    tables = read(map(body, fleet))

    instances = [machine for table in tables.values() for machine in table.values()]
    assert tables == written(fleet)
    assert len({id(machine.tags) for machine in instances}) == 1
    assert len({id(machine.model) for machine in instances}) == 1
