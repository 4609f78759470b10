"""All stores, and batches for them."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType

from fairwarning.core.changes import (
    Change,
    MachineChanged,
    PollsRecorded,
    ScopeMade,
    ScopeRemoved,
    Scopes,
    TextChanged,
    apply,
    evolve,
    touched,
)
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
from fairwarning.engine.ports import Aggregate, AggregateKind, Batch, Entry, Line, Part, Store
from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.postgres import empty_database

NOTHING: Scopes = MappingProxyType({})


async def open_memory(_: Path) -> Store:
    return MemoryStore()


async def open_postgres(_: Path) -> PostgresStore:
    return await PostgresStore.open(empty_database())


STORES: Mapping[str, Callable[[Path], Awaitable[Store]]] = {
    "memory": open_memory,
    "sqlite": SqliteStore.open,
    "postgres": open_postgres,
}


@asynccontextmanager
async def opened(kind: str, directory: Path) -> AsyncIterator[Store]:
    """Open a store and close it again."""
    store = await STORES[kind](directory)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def postgres_nodes(dsn: str, number: int = 2) -> AsyncIterator[list[PostgresStore]]:
    """Open the store of one database for several nodes."""
    async with AsyncExitStack() as stack:
        stores = [await PostgresStore.open(dsn) for _ in range(number)]
        for store in stores:
            stack.push_async_callback(store.close)
        yield stores


class Node:
    """A node that has seen all of its own batches, and nothing else."""

    _stamps = count(1000)

    def __init__(self) -> None:
        self.scopes = NOTHING
        self.stamps: dict[Aggregate, int] = {}
        self.incarnations: dict[str, int] = {}

    def copy(self) -> "Node":
        """Return a node that has seen the same."""
        other = Node()
        other.scopes, other.stamps = self.scopes, dict(self.stamps)
        other.incarnations = dict(self.incarnations)
        return other

    def decide(self, *requests: Sequence[Line]) -> Batch:
        """Return the batch of requests, each a sequence of lines, and see it as stored."""
        before = self.scopes
        parts = tuple(self._part(f"request {number}", lines) for number, lines in enumerate(requests, 1))
        lines = [line for part in parts for line in part.lines]
        sets = [self._set_of(before, line) for line in lines if isinstance(line, ScopeMade | ScopeRemoved)]
        batch = Batch(
            stamp=next(self._stamps),
            parts=parts,
            after={scope: self.scopes.get(scope) for scope in touched(changes_in(lines))},
            sets={set_id: self.incarnations.get(set_id, 0) for set_id in sets},
            texts={line.key: line.text for line in lines if isinstance(line, TextChanged)},
        )
        batch = batch._replace(expected={one: self.stamps.get(one, 0) for one in batch.written()})
        self.stamps |= dict.fromkeys(batch.written(), batch.stamp)
        gone = [scope_key(scope) for scope, after in batch.after.items() if after is None]
        gone += [text_key(key) for key, text in batch.texts.items() if text is None]
        self.stamps |= dict.fromkeys(gone, 0)
        return batch

    def _part(self, request: str, lines: Sequence[Line]) -> Part:
        changes = changes_in(lines)
        self.scopes = evolve(self.scopes, changes)
        versions = {one: self.scopes[one].version for one in touched(changes) if one in self.scopes}
        for line in lines:
            if isinstance(line, ScopeRemoved) and line.set_id:
                last = self.incarnations.get(line.set_id, 0)
                self.incarnations[line.set_id] = max(last, line.incarnation)
        return Part(request=request, at=NOON, lines=tuple(lines), versions=versions)

    def _set_of(self, before: Scopes, line: ScopeMade | ScopeRemoved) -> str:
        match line:
            case ScopeMade(facts=facts):
                return facts.set_id
            case ScopeRemoved(scope=scope, set_id=set_id):
                return set_id or (before[scope].facts.set_id if scope in before else scope)


class WaitingStamps(Mapping[Aggregate, int]):
    """Expected stamps that let the writing thread wait when it looks at them."""

    def __init__(self, stamps: Mapping[Aggregate, int]) -> None:
        self._stamps = stamps
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __getitem__(self, aggregate: Aggregate) -> int:
        return self._stamps[aggregate]

    def __len__(self) -> int:
        return len(self._stamps)

    def __iter__(self) -> Iterator[Aggregate]:
        self.reached.set()
        self.go_on.wait()
        return iter(self._stamps)


def scope_key(scope: str) -> Aggregate:
    return Aggregate(AggregateKind.SCOPE, scope)


def set_key(set_id: str) -> Aggregate:
    return Aggregate(AggregateKind.SET, set_id)


def text_key(key: str) -> Aggregate:
    return Aggregate(AggregateKind.TEXT, key)


def changes_in(lines: Sequence[Line]) -> list[Change]:
    """Return the lines that change scopes."""
    return [line for line in lines if not isinstance(line, Note | TextChanged | PollsRecorded)]


def lines_of(batch: Batch) -> list[Line]:
    """Return all lines of a batch, in order."""
    return [line for part in batch.parts for line in part.lines]


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


def told(entries: Sequence[Entry]) -> list[Entry]:
    """Return journal lines without what differs by chance: the ids of requests, and stamps."""
    return [entry._replace(request="", stamp=0) for entry in entries]


def replayed(entries: Sequence[Entry]) -> Scopes:
    """Return the scopes that the journal leads to, without their versions."""
    return apply(NOTHING, changes_in([entry.change for entry in entries]))
