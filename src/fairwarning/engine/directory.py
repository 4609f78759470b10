"""Indexes over all scopes: finds machines, hosts, sets, events and barriers by name."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from fairwarning.core.document.render import parse_event_id
from fairwarning.core.errors import (
    AmbiguousNameError,
    UnknownEventError,
    UnknownHostError,
    UnknownMachineError,
)
from fairwarning.core.model import BarrierId, EventId, HostId, MachineRef, Scope, ScopeId, VmName

Key = TypeVar("Key", bound=Hashable)


class Index(Generic[Key]):
    """The scopes under each key, rarely more than one.

    ``keys`` returns the keys of a scope. ``same`` is a quick test for two states of a scope having the same
    keys.
    """

    def __init__(self, keys: Callable[[Scope], Iterable[Key]], same: Callable[[Scope, Scope], bool]) -> None:
        self._keys = keys
        self._same = same
        self._scopes: dict[Key, tuple[ScopeId, ...]] = {}

    def __getitem__(self, key: Key) -> tuple[ScopeId, ...]:
        return self._scopes.get(key, ())

    def put(self, scope_id: ScopeId, before: Scope | None, after: Scope | None) -> None:
        """Replace the old state of a scope with the new one; None if the scope did not or does not exist."""
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
        others = tuple(other for other in self._scopes.pop(key) if other != scope_id)
        if others:
            self._scopes[key] = others


class Directory:
    """Indexes over all scopes as decided, committed or not."""

    def __init__(self) -> None:
        self._scopes: dict[ScopeId, Scope] = {}
        self._names = Index[VmName](lambda scope: scope.machines, _same_machines)
        self._hosts = Index[HostId](lambda scope: scope.machines.hosts(), _same_machines)
        self._sets = Index[str](lambda scope: (scope.facts.set_id,), _same_properties)
        self._events = Index[EventId](lambda scope: scope.events, _same_events)
        self._barriers = Index[BarrierId](_barriers, _same_events)

    def put(self, scope_id: ScopeId, scope: Scope | None) -> None:
        """Set the state of a scope; None if it was removed."""
        before = self._scopes.pop(scope_id, None)
        if scope is not None:
            self._scopes[scope_id] = scope
        self._names.put(scope_id, before, scope)
        self._hosts.put(scope_id, before, scope)
        self._sets.put(scope_id, before, scope)
        self._barriers.put(scope_id, before, scope)
        self._events.put(scope_id, before, scope)

    def machine(self, name: str) -> MachineRef:
        """Return the machine named ``name`` or ``scope/name``."""
        scope, slash, plain = name.rpartition("/")
        scopes = self._names[VmName(plain)]
        if slash:
            scopes = tuple(candidate for candidate in scopes if candidate == scope)
        if not scopes:
            raise UnknownMachineError(name)
        if len(scopes) > 1:
            raise AmbiguousNameError(plain, tuple(sorted(scopes)))
        return MachineRef(scopes[0], VmName(plain))

    def machines_on_host(self, host: str) -> tuple[MachineRef, ...]:
        """Return the machines on a host."""
        scopes = [self._scopes[scope_id] for scope_id in self._hosts[HostId(host)]]
        if not scopes:
            raise UnknownHostError(host)
        machines = [machine for scope in scopes for machine in scope.machines.values()]
        return tuple(sorted(machine.ref for machine in machines if machine.host == host))

    def event(self, event_id: str) -> tuple[ScopeId, EventId]:
        """Return the scope of a pending event, and its id in upper case."""
        key = parse_event_id(event_id, "event")
        for scope_id in self._events[key]:
            return scope_id, key
        raise UnknownEventError(EventId(event_id))

    def scopes_of_set(self, set_id: str) -> tuple[ScopeId, ...]:
        """Return the scopes of a set: one, or one per zone."""
        return tuple(sorted(self._sets[set_id]))

    def together(self, scopes: Iterable[ScopeId]) -> frozenset[ScopeId]:
        """Return these scopes and all that must be decided with them: they share a set or a barrier."""
        group: set[ScopeId] = set()
        remaining = set(scopes)
        while remaining:
            scope_id = remaining.pop()
            group.add(scope_id)
            scope = self._scopes.get(scope_id)
            # A scope that does not exist yet may conflict with an existing set of its name.
            remaining.update(self._sets[scope_id if scope is None else scope.facts.set_id])
            if scope is not None:
                for event in scope.events.values():
                    remaining.update(self._barriers[event.barrier])
            remaining -= group
        return frozenset(group)


def _barriers(scope: Scope) -> Iterator[BarrierId]:
    return (event.barrier for event in scope.events.values())


def _same_machines(before: Scope, after: Scope) -> bool:
    return before.machines is after.machines


def _same_properties(before: Scope, after: Scope) -> bool:
    return before.facts is after.facts


def _same_events(before: Scope, after: Scope) -> bool:
    # The barrier of an event never changes, so equal ids mean equal barriers.
    return before.events.keys() == after.events.keys()
