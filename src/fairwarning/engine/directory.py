"""Who is called what: from the names people use to the names the core uses."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from fairwarning.core.document.render import read_event_id
from fairwarning.core.errors import (
    AmbiguousNameError,
    UnknownEventError,
    UnknownHostError,
    UnknownMachineError,
)
from fairwarning.core.model import BarrierId, EventId, HostId, MachineRef, Scope, ScopeId, VmName

Key = TypeVar("Key", bound=Hashable)


class Index(Generic[Key]):
    """Which scopes a key leads to: hardly ever more than one.

    ``keys`` says which keys lead to a scope, ``same`` whether they can be told unchanged at a glance.
    """

    def __init__(self, keys: Callable[[Scope], Iterable[Key]], same: Callable[[Scope, Scope], bool]) -> None:
        self._keys = keys
        self._same = same
        self._scopes: dict[Key, tuple[ScopeId, ...]] = {}

    def __getitem__(self, key: Key) -> tuple[ScopeId, ...]:
        return self._scopes.get(key, ())

    def put(self, scope_id: ScopeId, before: Scope | None, after: Scope | None) -> None:
        """Follow a scope from what it was to what it is; None if it was or is nothing."""
        if before is not None and after is not None and self._same(before, after):
            return
        old = set() if before is None else set(self._keys(before))
        new = set() if after is None else set(self._keys(after))
        alone = (scope_id,)
        for key in new - old:
            self._scopes[key] = self[key] + alone if key in self._scopes else alone
        for key in old - new:
            self._drop(key, scope_id)

    def _drop(self, key: Key, scope_id: ScopeId) -> None:
        left = tuple(one for one in self._scopes.pop(key) if one != scope_id)
        if left:
            self._scopes[key] = left


class Directory:
    """Indexes over all scopes, kept in step with what has been decided."""

    def __init__(self) -> None:
        self._scopes: dict[ScopeId, Scope] = {}
        self._names = Index[VmName](lambda scope: scope.machines, _same_machines)
        self._hosts = Index[HostId](lambda scope: scope.machines.hosts(), _same_machines)
        self._sets = Index[str](lambda scope: (scope.facts.set_id,), _same_facts)
        self._events = Index[EventId](lambda scope: scope.events, _same_events)
        self._barriers = Index[BarrierId](_barriers, _same_events)

    def put(self, scope_id: ScopeId, scope: Scope | None) -> None:
        """Know a scope as it is now; None if it is no more."""
        before = self._scopes.pop(scope_id, None)
        if scope is not None:
            self._scopes[scope_id] = scope
        self._names.put(scope_id, before, scope)
        self._hosts.put(scope_id, before, scope)
        self._sets.put(scope_id, before, scope)
        self._barriers.put(scope_id, before, scope)
        self._events.put(scope_id, before, scope)

    def machine(self, name: str) -> MachineRef:
        """Return the machine that people call ``name`` or ``scope/name``."""
        scope, slash, plain = name.rpartition("/")
        scopes = self._names[VmName(plain)]
        if slash:
            scopes = tuple(one for one in scopes if one == scope)
        if not scopes:
            raise UnknownMachineError(name)
        if len(scopes) > 1:
            raise AmbiguousNameError(plain, tuple(sorted(scopes)))
        return MachineRef(scopes[0], VmName(plain))

    def on_host(self, host: str) -> tuple[MachineRef, ...]:
        """Return the machines on a host."""
        scopes = [self._scopes[one] for one in self._hosts[HostId(host)]]
        if not scopes:
            raise UnknownHostError(host)
        machines = [machine for scope in scopes for machine in scope.machines.values()]
        return tuple(sorted(machine.ref for machine in machines if machine.host == host))

    def event(self, event_id: str) -> tuple[ScopeId, EventId]:
        """Return a pending event's scope and its id as we write it."""
        known = read_event_id(event_id, "event")
        for scope_id in self._events[known]:
            return scope_id, known
        raise UnknownEventError(EventId(event_id))

    def scopes_of_set(self, set_id: str) -> tuple[ScopeId, ...]:
        """Return the scopes of a set: one, or one per zone."""
        return tuple(sorted(self._sets[set_id]))

    def together(self, scopes: Iterable[ScopeId]) -> frozenset[ScopeId]:
        """Return the scopes that have to be decided with these: their sets' and their barriers'."""
        found: set[ScopeId] = set()
        left = set(scopes)
        while left:
            scope_id = left.pop()
            found.add(scope_id)
            scope = self._scopes.get(scope_id)
            # What does not exist yet concerns the set that has its name already.
            left.update(self._sets[scope_id if scope is None else scope.facts.set_id])
            if scope is not None:
                for event in scope.events.values():
                    left.update(self._barriers[event.barrier])
            left -= found
        return frozenset(found)


def _barriers(scope: Scope) -> Iterator[BarrierId]:
    return (event.barrier for event in scope.events.values())


def _same_machines(one: Scope, other: Scope) -> bool:
    return one.machines is other.machines


def _same_facts(one: Scope, other: Scope) -> bool:
    return one.facts is other.facts


def _same_events(one: Scope, other: Scope) -> bool:
    # An event has its barrier for life.
    return one.events.keys() == other.events.keys()
