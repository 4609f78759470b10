"""Finds scopes by the names of machines, hosts, sets, events and barriers.

``Indexes`` holds the scopes under every name. ``Directory`` answers questions with them; it works on any
state that has scopes and indexes: on the replica, and on a decision in the making.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Protocol

from fairwarning.core.barrier import shared_barriers
from fairwarning.core.document.render import parse_event_id
from fairwarning.core.errors import (
    AmbiguousNameError,
    UnknownEventError,
    UnknownHostError,
    UnknownMachineError,
    UnknownScopeError,
)
from fairwarning.core.model import BarrierId, EventId, MachineRef, Scope, ScopeId, VmName


class Index:
    """The scopes under each key, rarely more than one.

    ``keys`` returns the keys of a scope, each once. ``alike`` is a quick test for two states of a scope that
    have the same keys.
    """

    def __init__(
        self, keys: Callable[[Scope], Collection[str]], alike: Callable[[Scope, Scope], bool]
    ) -> None:
        self._keys = keys
        self._alike = alike
        self._scopes: dict[str, tuple[ScopeId, ...]] = {}

    def __getitem__(self, key: str) -> tuple[ScopeId, ...]:
        return self._scopes.get(key, ())

    def same_keys(self, before: Scope | None, after: Scope | None) -> bool:
        """Whether a scope stays under the same keys; False if that is not clear at a glance."""
        return before is not None and after is not None and self._alike(before, after)

    def put(self, scope_id: ScopeId, before: Scope | None, after: Scope | None) -> None:
        """Replace the old state of a scope with the new one; None if the scope did not or does not exist."""
        if self.same_keys(before, after):
            return
        old = frozenset[str]() if before is None else frozenset(self._keys(before))
        new = frozenset[str]() if after is None else self._keys(after)
        alone = (scope_id,)
        for key in new:
            if key not in old:
                self._scopes[key] = self[key] + alone if key in self._scopes else alone
        for key in old.difference(new):
            self._drop(key, scope_id)

    def _drop(self, key: str, scope_id: ScopeId) -> None:
        others = tuple(other for other in self._scopes.pop(key) if other != scope_id)
        if others:
            self._scopes[key] = others


class IndexedBy(Enum):
    """What scopes are found by."""

    # Enum's own hash is not written in C, and every lookup needs one.
    __hash__ = object.__hash__

    MACHINE = 1
    HOST = 2
    SET = 3
    EVENT = 4
    BARRIER = 5


def new_index(by: IndexedBy) -> Index:
    """Return an empty index."""
    match by:
        case IndexedBy.MACHINE:
            return Index(lambda scope: scope.machines, _same_machines)
        case IndexedBy.HOST:
            return Index(lambda scope: scope.machines.hosts(), _same_machines)
        case IndexedBy.SET:
            return Index(lambda scope: (scope.facts.set_id,), _same_set)
        case IndexedBy.EVENT:
            return Index(lambda scope: scope.events, _same_events)
        case IndexedBy.BARRIER:
            return Index(_barriers, _same_events)


class Indexes:
    """The scopes under every name of a machine, host, set, event and barrier."""

    def __init__(self) -> None:
        self._indexes: Mapping[IndexedBy, Index] = {by: new_index(by) for by in IndexedBy}

    def find(self, by: IndexedBy, key: str) -> tuple[ScopeId, ...]:
        """Return the scopes under a key."""
        return self._indexes[by][key]

    def put(self, scope_id: ScopeId, before: Scope | None, after: Scope | None) -> None:
        """Replace the old state of a scope with the new one; None if the scope did not or does not exist."""
        if before is None or after is None or not _same_names(before, after):
            for index in self._indexes.values():
                index.put(scope_id, before, after)


class IndexedScopes(Protocol):
    """A state that has scopes and indexes."""

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope; None if there is none."""
        ...

    def find(self, by: IndexedBy, key: str) -> tuple[ScopeId, ...]:
        """Return the scopes under a key."""
        ...


class Directory:
    """Answers questions by name about a state."""

    def __init__(self, state: IndexedScopes) -> None:
        self._state = state

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope, or raise ``UnknownScopeError``."""
        scope = self._state.find_scope(scope_id)
        if scope is None:
            raise UnknownScopeError(scope_id)
        return scope

    def machine(self, name: str) -> MachineRef:
        """Return the machine named ``name`` or ``scope/name``."""
        scope_id, slash, plain = name.rpartition("/")
        if slash:
            scope = self._state.find_scope(ScopeId(scope_id))
            if scope is None or VmName(plain) not in scope.machines:
                raise UnknownMachineError(name)
            return MachineRef(scope.id, VmName(plain))
        scopes = self._state.find(IndexedBy.MACHINE, plain)
        if not scopes:
            raise UnknownMachineError(name)
        if len(scopes) > 1:
            raise AmbiguousNameError(plain, tuple(sorted(scopes)))
        return MachineRef(scopes[0], VmName(plain))

    def machines_on_host(self, host: str) -> tuple[MachineRef, ...]:
        """Return the machines on a host."""
        scopes = [self.scope(scope_id) for scope_id in self._state.find(IndexedBy.HOST, host)]
        if not scopes:
            raise UnknownHostError(host)
        machines = [machine for scope in scopes for machine in scope.machines.values()]
        return tuple(sorted(machine.ref for machine in machines if machine.host == host))

    def event(self, event_id: str) -> tuple[ScopeId, EventId]:
        """Return the scope of a pending event, and its id in upper case."""
        key = parse_event_id(event_id, "event")
        for scope_id in self._state.find(IndexedBy.EVENT, key):
            return scope_id, key
        raise UnknownEventError(EventId(event_id))

    def scopes_of_set(self, set_id: str) -> tuple[ScopeId, ...]:
        """Return the scopes of a set: one, or one per zone."""
        return tuple(sorted(self._state.find(IndexedBy.SET, set_id)))

    def scopes_behind(self, barrier: BarrierId) -> tuple[ScopeId, ...]:
        """Return the scopes with events behind a barrier."""
        return self._state.find(IndexedBy.BARRIER, barrier)

    def together(self, scopes: Iterable[ScopeId]) -> Mapping[ScopeId, Scope]:
        """Return these scopes and all that must be decided with them: they share a set or a barrier."""
        group: dict[ScopeId, Scope | None] = {}
        remaining = set(scopes)
        while remaining:
            scope_id = remaining.pop()
            scope = group[scope_id] = self._state.find_scope(scope_id)
            # A scope that does not exist yet may conflict with an existing set of its name.
            set_id = scope_id if scope is None else scope.facts.set_id
            remaining.update(self._state.find(IndexedBy.SET, set_id))
            if scope is not None:
                for barrier in shared_barriers(scope.events.values()):
                    remaining.update(self.scopes_behind(barrier))
            remaining.difference_update(group)
        return {scope_id: scope for scope_id, scope in sorted(group.items()) if scope is not None}


def _same_names(before: Scope, after: Scope) -> bool:
    # The set of a scope never changes.
    return _same_machines(before, after) and _same_events(before, after)


def _barriers(scope: Scope) -> Collection[BarrierId]:
    return {event.barrier for event in scope.events.values()}


def _same_machines(before: Scope, after: Scope) -> bool:
    return before.machines is after.machines


def _same_set(before: Scope, after: Scope) -> bool:
    return before.facts.set_id == after.facts.set_id


def _same_events(before: Scope, after: Scope) -> bool:
    # The barrier of an event never changes, so equal ids mean equal barriers.
    return before.events.keys() == after.events.keys()
