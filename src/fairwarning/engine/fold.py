"""A state in the making: what the requests of one batch make of the state below it.

A fold is private to the batch that is being decided. It holds the scopes, names of sets and texts that its
requests have changed; everything else is read from the state below. A request that is refused adds nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from fairwarning.core.changes import Change, ScopeMade, ScopeRemoved, TextChanged, evolve, touched
from fairwarning.core.commands import Command, arrival_hosts, concerns
from fairwarning.core.errors import UnknownMachineError
from fairwarning.core.model import BarrierId, Event, Machine, MachineRef, Scope, ScopeId
from fairwarning.core.stored.kinds import PENDING
from fairwarning.engine.directory import Directory, IndexedBy, IndexedScopes, new_index
from fairwarning.engine.ports import Aggregate, AggregateKind, Line
from fairwarning.formats.hidden_characters import readable


class State(IndexedScopes, Protocol):
    """All aggregates, and the indexes over the scopes."""

    def text(self, key: str) -> str | None:
        """Return a text that another package stores with the fleet."""
        ...

    def last_incarnation(self, set_id: str) -> int:
        """Return the highest incarnation among the removed scopes of a set; 0 if none was removed."""
        ...

    def all_scopes(self) -> Iterable[Scope]:
        """Return all scopes."""
        ...

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        ...


def scopes_to_decide_on(state: State, commands: Sequence[Command]) -> Mapping[ScopeId, Scope]:
    """Return the scopes that commands name, and all that must be decided with them.

    A machine that reaches a host joins the maintenance of the host, so the others behind that barrier are
    among them (M-12).
    """
    directory = Directory(state)
    scopes = {scope_id for command in commands for scope_id in concerns(command)}
    for hosts in map(arrival_hosts, commands):
        if hosts is None or hosts:
            for host, barriers in (PENDING.find(state.text) or {}).items():
                if hosts is None or host in hosts:
                    scopes.update(*map(directory.scopes_behind, barriers))
    return directory.together(scopes)


class _ScopeChange(NamedTuple):
    """What a request made of a scope; None if the scope did not or does not exist."""

    scope: ScopeId
    before: Scope | None
    after: Scope | None


class _IndexAbove:
    """Finds the scopes that are under other keys than in the index of the state below."""

    def __init__(self, by: IndexedBy) -> None:
        self._index = new_index(by)
        self._moved: set[ScopeId] = set()
        self._included = 0

    def include(self, changes: Sequence[_ScopeChange]) -> None:
        """Bring the index up to date with all changes of the batch so far."""
        for change in changes[self._included :]:
            if change.scope in self._moved:
                self._index.put(*change)
            elif not self._index.same_keys(change.before, change.after):
                self._index.put(change.scope, None, change.after)
                self._moved.add(change.scope)
        self._included = len(changes)

    def find(self, key: str, below: tuple[ScopeId, ...]) -> tuple[ScopeId, ...]:
        """Return the scopes under a key, given those that the state below has under it."""
        if not self._moved:
            return below
        return (*(scope_id for scope_id in below if scope_id not in self._moved), *self._index[key])


class Fold:
    """A state, and what a batch makes of it, request by request."""

    def __init__(self, below: State) -> None:
        self._below = below
        self._changes: list[_ScopeChange] = []
        #: The indexes that were asked for since something changed: most batches need none of them.
        self._indexes: dict[IndexedBy, _IndexAbove] = {}
        self.after: dict[ScopeId, Scope | None] = {}
        self.sets: dict[str, int] = {}
        self.texts: dict[str, str | None] = {}

    @property
    def unchanged(self) -> bool:
        """Whether no request has changed anything."""
        return not self.after and not self.texts

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope; None if there is none."""
        return self.after[scope_id] if scope_id in self.after else self._below.find_scope(scope_id)

    def find(self, by: IndexedBy, key: str) -> tuple[ScopeId, ...]:
        """Return the scopes under a key."""
        below = self._below.find(by, key)
        if not self._changes:
            return below
        if by not in self._indexes:
            self._indexes[by] = _IndexAbove(by)
        self._indexes[by].include(self._changes)
        return self._indexes[by].find(key, below)

    def text(self, key: str) -> str | None:
        """Return a text that another package stores with the fleet."""
        return self.texts[key] if key in self.texts else self._below.text(key)

    def last_incarnation(self, set_id: str) -> int:
        """Return the highest incarnation among the removed scopes of a set; 0 if none was removed."""
        return self.sets[set_id] if set_id in self.sets else self._below.last_incarnation(set_id)

    def all_scopes(self) -> Iterable[Scope]:
        """Return all scopes."""
        below = {scope.id: scope for scope in self._below.all_scopes()}
        return [scope for scope in (below | self.after).values() if scope is not None]

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        if not self.texts:
            return self._below.keys_under(prefix)
        below = {key for key in self._below.keys_under(prefix) if key not in self.texts}
        changed = {key for key, text in self.texts.items() if text is not None and key.startswith(prefix)}
        return iter(sorted(below | changed))

    def add(
        self,
        changes: Iterable[Change],
        after: Mapping[ScopeId, Scope | None],
        texts: Mapping[str, str | None],
    ) -> None:
        """Add the changes of a request, given the scopes and texts after it."""
        for change in changes:
            if isinstance(change, ScopeMade):
                self.sets[change.facts.set_id] = self.last_incarnation(change.facts.set_id)
            elif isinstance(change, ScopeRemoved):
                self._remember(change)
        for scope_id, scope in after.items():
            self._changes.append(_ScopeChange(scope_id, self.find_scope(scope_id), scope))
            self.after[scope_id] = scope
        self.texts.update(texts)

    def replay(self, lines: Sequence[Line]) -> None:
        """Add the journal lines of a request that another node has decided."""
        changes = tuple(line for line in lines if isinstance(line, Change))
        before = {one: scope for one in touched(changes) if (scope := self.find_scope(one)) is not None}
        scopes = evolve(before, changes)
        texts = {line.key: line.text for line in lines if isinstance(line, TextChanged)}
        self.add(changes, {one: scopes.get(one) for one in touched(changes)}, texts)

    def _remember(self, change: ScopeRemoved) -> None:
        scope = self.find_scope(change.scope)
        # Journals of the first release do not name the set of a removed scope.
        set_id = change.set_id or (change.scope if scope is None else scope.facts.set_id)
        self.sets[set_id] = max(self.last_incarnation(set_id), change.incarnation)


class ReadRecorder:
    """A state that remembers what one request reads of it.

    ``by_predicate`` says that the request asked a question whose answer no aggregate's stamp covers: which
    machines are on a host, which scopes have a machine of this name, or what there is at all.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.aggregates: set[Aggregate] = set()
        self.by_predicate = False

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope; None if there is none."""
        self.aggregates.add(Aggregate(AggregateKind.SCOPE, scope_id))
        return self._state.find_scope(scope_id)

    def find(self, by: IndexedBy, key: str) -> tuple[ScopeId, ...]:
        """Return the scopes under a key."""
        found = self._state.find(by, key)
        if by is IndexedBy.SET:
            self.aggregates.add(Aggregate(AggregateKind.SET, key))
        elif by is IndexedBy.BARRIER:
            pass  # an event joins a barrier only in a batch that reads every scope behind it
        elif by is IndexedBy.EVENT and found:
            pass  # an event never moves to another scope
        else:
            self.by_predicate = True
        return found

    def text(self, key: str) -> str | None:
        """Return a text that another package stores with the fleet."""
        self.aggregates.add(Aggregate(AggregateKind.TEXT, key))
        return self._state.text(key)

    def last_incarnation(self, set_id: str) -> int:
        """Return the highest incarnation among the removed scopes of a set; 0 if none was removed."""
        self.aggregates.add(Aggregate(AggregateKind.SET, set_id))
        return self._state.last_incarnation(set_id)

    def last_incarnations(self) -> Mapping[str, int]:
        """Return the last incarnation of every set that was read so far and has a removed scope."""
        last: dict[str, int] = {}
        for kind, name in self.aggregates:
            if kind is AggregateKind.SET and (incarnation := self._state.last_incarnation(name)):
                last[name] = incarnation
        return last

    def all_scopes(self) -> Iterable[Scope]:
        """Return all scopes."""
        self.by_predicate = True
        return self._state.all_scopes()

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        self.by_predicate = True
        return self._state.keys_under(prefix)


class FoldView:
    """What the function that builds a request may ask; see ``requests.View``."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._directory = Directory(state)

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope, or raise ``UnknownScopeError``."""
        return self._directory.scope(scope_id)

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope; None if there is none."""
        return self._state.find_scope(scope_id)

    def machines_on_host(self, host: str) -> tuple[MachineRef, ...]:
        """Return the machines on a host."""
        return self._directory.machines_on_host(host)

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        return self._state.keys_under(prefix)

    def text(self, key: str) -> str | None:
        """Return a text that another package stores with the fleet."""
        return self._state.text(readable(key))

    def machine(self, name: str) -> Machine:
        """Return the machine named ``name`` or ``scope/name``."""
        return self.machine_at(self._directory.machine(name))

    def machine_at(self, ref: MachineRef) -> Machine:
        """Return a machine by its reference, or raise ``UnknownMachineError``."""
        scope = self._state.find_scope(ref.scope)
        if scope is None or ref.name not in scope.machines:
            raise UnknownMachineError(ref.name)
        return scope.machines[ref.name]

    def event(self, event_id: str) -> Event:
        """Return a pending event."""
        scope_id, known = self._directory.event(event_id)
        return self.scope(scope_id).events[known]

    def scopes_on_host(self, host: str) -> tuple[ScopeId, ...]:
        """Return the scopes with machines on a host."""
        return self._state.find(IndexedBy.HOST, host)

    def scopes_behind(self, barrier: BarrierId) -> tuple[ScopeId, ...]:
        """Return the scopes with events behind a barrier."""
        return self._directory.scopes_behind(barrier)

    def scopes(self) -> tuple[Scope, ...]:
        """Return all scopes."""
        return tuple(self._state.all_scopes())

    def scopes_of_set(self, set_id: str) -> tuple[Scope, ...]:
        """Return the scopes of a set: one, or one per zone; none if there is no such set."""
        return tuple(self.scope(scope_id) for scope_id in self._directory.scopes_of_set(set_id))
