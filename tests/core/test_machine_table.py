"""The table of a scope's machines."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.machine_table import MachineTable, MachineTableDraft
from fairwarning.core.model import EvictionPolicy, HostId, Machine, MachineModel, PowerState, ScopeId, VmName
from tests.fleet_harness import span

#: A machine to add, or the name of a machine to remove.
Entry = Machine | VmName


def machine(name: str, host: str = "h") -> Machine:
    return Machine(scope=ScopeId("web"), name=VmName(name), vm_id=f"id of {name}", host=HostId(host))


def build_table(entries: Sequence[Entry], table: MachineTable | None = None) -> MachineTable:
    draft = MachineTableDraft(MachineTable() if table is None else table)
    for entry in entries:
        if isinstance(entry, Machine):
            draft.put(entry)
        else:
            draft.remove(entry)
    return draft.build()


machines = st.builds(
    Machine,
    scope=st.just(ScopeId("web")),
    name=st.sampled_from("abcd").map(VmName),
    vm_id=st.sampled_from(["", "7f0c", "with\0zero", "ünïcode"]),
    instance=st.sampled_from(["0", "1", "c0ffee"]),
    update_domain=st.integers(0, 1),
    fault_domain=st.integers(0, 1),
    host=st.sampled_from("gh").map(HostId),
    spot=st.booleans(),
    eviction=st.sampled_from(EvictionPolicy),
    power=st.sampled_from(PowerState),
    model=st.sampled_from([MachineModel(), MachineModel(number=2, terminate_notice=span("5m"))]),
    protected=st.booleans(),
    tags=st.sampled_from([(), (("a", "b"),)]),
)
entries = st.lists(machines | st.sampled_from("abcd").map(VmName))


@settings(max_examples=40)
@given(entries, entries)
def test_a_table_behaves_like_a_dictionary_of_machines(first: list[Entry], then: list[Entry]) -> None:
    check_table(first, then)


@pytest.mark.slow
@settings(max_examples=100)
@given(entries, entries)
def test_a_table_behaves_like_a_dictionary_after_many_changes(first: list[Entry], then: list[Entry]) -> None:
    check_table(first, then)


def check_table(first: list[Entry], then: list[Entry]) -> None:
    """Compare a table with a dictionary after the same changes."""
    expected: dict[VmName, Machine] = {}
    for entry in (*first, *then):
        if isinstance(entry, Machine):
            expected[entry.name] = entry
        else:
            expected.pop(entry, None)

    table = build_table(then, build_table(first))

    assert list(table.items()) == list(expected.items())
    assert len(table) == len(expected)
    assert [name in table for name in "abcd"] == [name in expected for name in "abcd"]
    assert table.hosts() == {one.host for one in expected.values()}
    assert table.running() is any(one.power is PowerState.RUNNING for one in expected.values())


@given(entries)
def test_a_table_tells_the_id_and_the_shared_fields_of_a_machine(changes: list[Entry]) -> None:
    table = build_table(changes)

    for name, machine in table.items():
        shared = table.shared_fields(name)
        assert machine == replace(shared, name=name, vm_id=table.vm_id(name), instance=machine.instance)


def test_a_table_does_not_change_when_another_is_built_from_it() -> None:
    before = build_table([machine("a"), machine("b")])

    after = build_table([machine("b", host="other"), VmName("a")], before)

    assert before == {"a": machine("a"), "b": machine("b")}
    assert after == {"b": machine("b", host="other")}


def test_a_machine_that_comes_back_comes_last() -> None:
    table = build_table([machine("a"), machine("b"), VmName("a"), machine("a")])

    assert list(table) == ["b", "a"]


def test_a_machine_that_was_never_added_is_missing() -> None:
    table = build_table([machine("a")])

    with pytest.raises(KeyError):
        table[VmName("b")]


def test_machines_may_differ_in_more_ways_than_there_are_letters() -> None:
    different = [machine(f"m{number}", host=f"host-{number}") for number in range(1000)]

    table = build_table(different)

    assert list(table.values()) == different
