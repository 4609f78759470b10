"""Who is called what: from the names people use to the names the core uses."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from fairwarning.core.errors import AmbiguousName, UnknownEvent, UnknownHost, UnknownMachine
from fairwarning.core.model import BarrierId, EventId, HostId, MachineRef, Scope, ScopeId, VmName

K = TypeVar("K")
V = TypeVar("V")


class Directory:
    """Indexes over all scopes, kept in step with what has been decided."""

    def __init__(self) -> None:
        self._scopes: dict[ScopeId, Scope] = {}
        self._names: dict[VmName, set[ScopeId]] = defaultdict(set)
        self._hosts: dict[HostId, set[MachineRef]] = defaultdict(set)
        self._sets: dict[str, set[ScopeId]] = defaultdict(set)
        self._barriers: dict[BarrierId, set[ScopeId]] = defaultdict(set)
        self._events: dict[EventId, ScopeId] = {}

    def put(self, scope_id: ScopeId, scope: Scope | None) -> None:
        """Know a scope as it is now; None if it is no more."""
        before = self._scopes.pop(scope_id, None)
        if before is not None:
            self._forget(before, keep=scope)
        if scope is not None:
            self._scopes[scope_id] = scope
            self._learn(scope, known=before)

    def machine(self, name: str) -> MachineRef:
        """Return the machine that people call ``name`` or ``scope/name``."""
        scope, slash, plain = name.rpartition("/")
        scopes = self._names.get(VmName(plain), set())
        if slash:
            scopes = scopes & {ScopeId(scope)}
        if not scopes:
            raise UnknownMachine(name)
        if len(scopes) > 1:
            raise AmbiguousName(plain, tuple(sorted(scopes)))
        return MachineRef(next(iter(scopes)), VmName(plain))

    def on_host(self, host: str) -> tuple[MachineRef, ...]:
        """Return the machines on a host."""
        refs = self._hosts.get(HostId(host))
        if not refs:
            raise UnknownHost(host)
        return tuple(sorted(refs))

    def event(self, event_id: str) -> tuple[ScopeId, EventId]:
        """Return a pending event's scope and its id as we write it."""
        known = EventId(event_id.upper())
        if known not in self._events:
            raise UnknownEvent(EventId(event_id))
        return self._events[known], known

    def scopes_of_set(self, set_id: str) -> tuple[ScopeId, ...]:
        """Return the scopes of a set: one, or one per zone."""
        return tuple(sorted(self._sets.get(set_id, ())))

    def together(self, scopes: Iterable[ScopeId]) -> frozenset[ScopeId]:
        """Return the scopes that have to be decided with these: their sets' and their barriers'."""
        found: set[ScopeId] = set()
        left = set(scopes)
        while left:
            scope_id = left.pop()
            found.add(scope_id)
            scope = self._scopes.get(scope_id)
            # What does not exist yet concerns the set that has its name already.
            set_id = scope_id if scope is None else scope.facts.set_id
            left |= self._sets.get(set_id, set()) - found
            if scope is not None:
                for event in scope.events.values():
                    left |= self._barriers.get(event.barrier, set()) - found
        return frozenset(found)

    def _learn(self, scope: Scope, known: Scope | None) -> None:
        self._sets[scope.facts.set_id].add(scope.id)
        for event in scope.events.values():
            self._barriers[event.barrier].add(scope.id)
            self._events[event.id] = scope.id
        if known is not None and known.machines is scope.machines:
            return
        for machine in scope.machines.values():
            self._names[machine.name].add(scope.id)
            self._hosts[machine.host].add(machine.ref)

    def _forget(self, scope: Scope, keep: Scope | None) -> None:
        _drop(self._sets, scope.facts.set_id, scope.id)
        for event in scope.events.values():
            _drop(self._barriers, event.barrier, scope.id)
            self._events.pop(event.id, None)
        if keep is not None and keep.machines is scope.machines:
            return
        for machine in scope.machines.values():
            _drop(self._names, machine.name, scope.id)
            _drop(self._hosts, machine.host, machine.ref)


def _drop(index: dict[K, set[V]], key: K, value: V) -> None:
    values = index[key]
    values.discard(value)
    if not values:
        del index[key]
