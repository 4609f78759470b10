"""All stores, and commits for them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from fairwarning.core.changes import Change, MachineChanged, ScopeMade, Scopes, apply, evolve, touched
from fairwarning.core.history import Note
from fairwarning.core.model import (
    BarrierId,
    Event,
    EventId,
    EventSource,
    EventType,
    HostId,
    Machine,
    ScopeId,
    ScopeKind,
    ScopeProperties,
    VmName,
)
from fairwarning.engine.ports import Commit, Entry, Store
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON

NOTHING: Scopes = MappingProxyType({})


async def open_memory(_: Path) -> Store:
    return MemoryStore()


STORES: Mapping[str, Callable[[Path], Awaitable[Store]]] = {
    "memory": open_memory,
    "sqlite": SqliteStore.open,
}


@asynccontextmanager
async def opened(kind: str, directory: Path) -> AsyncIterator[Store]:
    """Open a store and close it again."""
    store = await STORES[kind](directory)
    try:
        yield store
    finally:
        await store.close()


def commit(before: Scopes, *changes: Change) -> Commit:
    """Return the commit of ``changes`` that were decided on ``before``."""
    after = evolve(before, changes)
    moved = touched(changes)
    return Commit(
        at=NOON,
        changes=changes,
        expected={one: before[one].version if one in before else 0 for one in sorted(moved)},
        after={one: after[one] for one in sorted(moved) if one in after},
    )


def made(scope: str, *names: str) -> tuple[Change, ...]:
    """Return the changes that create a scope with machines of these names."""
    facts = ScopeProperties(id=ScopeId(scope), kind=ScopeKind.SCALE_SET, set_name=scope, enabled_at=NOON)
    return (
        ScopeMade(scope=facts.id, facts=facts, incarnation=7, by="operator"),
        *(MachineChanged(scope=facts.id, machine=machine(scope, name)) for name in names),
    )


def machine(scope: str, name: str) -> Machine:
    return Machine(scope=ScopeId(scope), name=VmName(name), vm_id=f"id of {name}", host=HostId("h"))


def event(scope: str, number: int, *names: str) -> Event:
    return Event(
        id=EventId(f"E{number}"),
        scope=ScopeId(scope),
        cause="restart",
        kind=EventType.REBOOT,
        source=EventSource.USER,
        resources=tuple(map(VmName, names)),
        description="",
        duration=-1,
        created_at=NOON,
        not_before=NOON,
        barrier=BarrierId(f"E{number}"),
    )


def replayed(entries: Sequence[Entry]) -> Scopes:
    """Return the scopes that the journal leads to, without their versions."""
    return apply(NOTHING, [line.change for line in entries if not isinstance(line.change, Note)])
