"""A state in the making: what a batch has changed so far is found by its new names, and by no old one."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core import barrier
from fairwarning.core.machine_table import MachineTable, MachineTableDraft
from fairwarning.core.model import (
    Event,
    EventId,
    EventSource,
    EventType,
    HostId,
    Machine,
    Scope,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
)
from fairwarning.engine.directory import IndexedBy, Indexes
from fairwarning.engine.fold import Fold
from fairwarning.engine.ports import FleetSnapshot
from fairwarning.engine.replica import Replica
from tests.fleet_harness import NOON

SCOPES = [ScopeId("a"), ScopeId("b"), ScopeId("c")]
NAMES = ["x", "y"]
KEYS: Mapping[IndexedBy, Sequence[str]] = {
    IndexedBy.MACHINE: NAMES,
    IndexedBy.HOST: [f"rack-{name}" for name in NAMES],
    IndexedBy.SET: SCOPES,
    IndexedBy.EVENT: NAMES,
    IndexedBy.BARRIER: [barrier.of_deletes("x"), barrier.of_event(EventId("y"))],
}

names = st.frozensets(st.sampled_from(NAMES))
#: A scope as a request leaves it: its machines and its events; None if it is removed.
after = st.none() | st.tuples(names, names)
#: A change, or a question.
steps = st.tuples(st.sampled_from(SCOPES), after) | st.sampled_from(IndexedBy)


def scope_of(scope_id: ScopeId, machines: frozenset[str], events: frozenset[str]) -> Scope:
    table = MachineTableDraft(MachineTable())
    for name in sorted(machines):
        table.put(Machine(scope=scope_id, name=VmName(name), vm_id=name, host=HostId(f"rack-{name}")))
    return Scope(
        facts=ScopeProperties(id=scope_id, kind=ScopeKind.SCALE_SET, set_name=scope_id),
        machines=table.build(),
        events=MappingProxyType({EventId(name): event(scope_id, name) for name in sorted(events)}),
    )


def event(scope_id: ScopeId, name: str) -> Event:
    return Event(
        id=EventId(name),
        scope=scope_id,
        cause="restart",
        kind=EventType.REBOOT,
        source=EventSource.USER,
        resources=(),
        description="",
        duration=-1,
        created_at=NOON,
        not_before=NOON,
        barrier=barrier.of_deletes("x") if name == "x" else barrier.of_event(EventId(name)),
    )


def replica_with(*scopes: Scope) -> Replica:
    replica = Replica()
    state = {scope.id: scope for scope in scopes}
    stamps = dict.fromkeys(state, 1)
    replica.load(FleetSnapshot(1, state, stamps, {}, {}, {}, {}))
    return replica


@given(st.lists(after, min_size=3, max_size=3), st.lists(steps, max_size=12))
def test_a_fold_finds_scopes_as_if_all_names_were_indexed_anew(
    before: list[tuple[frozenset[str], frozenset[str]] | None],
    changes: list[tuple[ScopeId, tuple[frozenset[str], frozenset[str]] | None] | IndexedBy],
) -> None:
    fold = Fold(
        replica_with(
            *(scope_of(one, *names) for one, names in zip(SCOPES, before, strict=True) if names is not None)
        )
    )
    for step in changes:
        if isinstance(step, IndexedBy):
            # A question in between brings an index up to date, which must go on from there.
            check(fold, step)
        else:
            scope_id, names = step
            fold.add((), {scope_id: None if names is None else scope_of(scope_id, *names)}, {})

    for by in IndexedBy:
        check(fold, by)


def check(fold: Fold, by: IndexedBy) -> None:
    anew = Indexes()
    for scope in fold.all_scopes():
        anew.put(scope.id, None, scope)
    for key in KEYS[by]:
        assert sorted(fold.find(by, key)) == sorted(anew.find(by, key)), key
