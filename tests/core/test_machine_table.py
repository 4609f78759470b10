"""The machines of a scope, kept as a table."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.machine_table import MachineTable, MachineTableDraft
from fairwarning.core.model import EvictionPolicy, HostId, Machine, MachineModel, PowerState, ScopeId, VmName
from tests.fleet_harness import span

#: A machine that is written down, or the name of one that is struck off.
Entry = Machine | VmName


def machine(name: str, host: str = "h") -> Machine:
    return Machine(scope=ScopeId("web"), name=VmName(name), vm_id=f"id of {name}", host=HostId(host))


def drawn_up(entries: Sequence[Entry], roster: MachineTable | None = None) -> MachineTable:
    draft = MachineTableDraft(MachineTable() if roster is None else roster)
    for entry in entries:
        if isinstance(entry, Machine):
            draft.keep(entry)
        else:
            draft.drop(entry)
    return draft.roster()


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


@given(entries, entries)
def test_a_roster_is_a_dictionary_of_machines(first: list[Entry], then: list[Entry]) -> None:
    expected: dict[VmName, Machine] = {}
    for entry in (*first, *then):
        if isinstance(entry, Machine):
            expected[entry.name] = entry
        else:
            expected.pop(entry, None)

    roster = drawn_up(then, drawn_up(first))

    assert list(roster.items()) == list(expected.items())
    assert len(roster) == len(expected)
    assert [name in roster for name in "abcd"] == [name in expected for name in "abcd"]
    assert roster.hosts() == {one.host for one in expected.values()}
    assert roster.running() is any(one.power is PowerState.RUNNING for one in expected.values())


def test_a_roster_stays_what_it_was_when_another_is_drawn_up_from_it() -> None:
    before = drawn_up([machine("a"), machine("b")])

    after = drawn_up([machine("b", host="other"), VmName("a")], before)

    assert before == {"a": machine("a"), "b": machine("b")}
    assert after == {"b": machine("b", host="other")}


def test_a_machine_that_comes_back_comes_last() -> None:
    roster = drawn_up([machine("a"), machine("b"), VmName("a"), machine("a")])

    assert list(roster) == ["b", "a"]


def test_a_machine_nobody_has_written_down_is_not_there() -> None:
    roster = drawn_up([machine("a")])

    with pytest.raises(KeyError):
        roster[VmName("b")]


def test_machines_may_differ_in_more_ways_than_there_are_letters() -> None:
    different = [machine(f"m{number}", host=f"host-{number}") for number in range(1000)]

    roster = drawn_up(different)

    assert list(roster.values()) == different
