"""The state of the fleet in memory: exactly what the journal says up to line ``position``.

Everything that reads, reads here. There are two ways forward. ``install`` takes a batch that this node has
decided, with the objects of its decision; ``apply`` takes journal lines that another node has written and
folds them with the core's own rules. Both give equal states.

Readers rely on object identity: a scope that a batch does not change keeps its object, and a scope that it
changes gets exactly one new object.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from fairwarning.core.changes import MADE_OR_REMOVED, PollsRecorded, ScopeMade, TextChanged
from fairwarning.core.model import ANY_SET, Scope, ScopeId
from fairwarning.core.stored.kinds import UnknownKindError, kind_of
from fairwarning.engine.directory import Directory, IndexedBy, Indexes
from fairwarning.engine.fold import Fold
from fairwarning.engine.ports import (
    Aggregate,
    AggregateKind,
    Batch,
    Entry,
    FleetSnapshot,
    IncompatibleStoreError,
    Line,
    Position,
)


class StoredTexts(Mapping[str, str]):
    """Texts by key; finding those below a prefix costs as much as there are of them."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts = dict(texts or {})
        self._keys = sorted(self._texts)

    def __getitem__(self, key: str) -> str:
        return self._texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def find(self, key: str) -> str | None:
        """Return a text; None if there is none."""
        return self._texts.get(key)

    def under(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with a prefix, in order; the texts must not change meanwhile."""
        for index in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                return
            yield key

    def update(self, texts: Mapping[str, str | None]) -> None:
        """Put texts; None removes a text."""
        for key, text in texts.items():
            if text is not None:
                if key not in self._texts:
                    insort(self._keys, key)
                self._texts[key] = text
            elif key in self._texts:
                del self._texts[key]
                del self._keys[bisect_left(self._keys, key)]


class Replica:
    """All aggregates after line ``position``, with their stamps."""

    def __init__(self) -> None:
        self.position = 0
        #: The stamp of that line; 0 if there is none.
        self.last_stamp = 0
        #: The history of the store that the position counts in.
        self.history = 0
        self.directory = Directory(self)
        self._scopes: dict[ScopeId, Scope] = {}
        self._scope_stamps: dict[ScopeId, int] = {}
        self._set_stamps: dict[str, int] = {}
        self._last_incarnations: dict[str, int] = {}
        self._texts = StoredTexts()
        self._text_stamps: dict[str, int] = {}
        self._polled: dict[ScopeId, datetime] = {}
        self._indexes = Indexes()

    @property
    def reached(self) -> Position:
        """The line that the state has reached, with its history."""
        return Position(self.history, self.position)

    @property
    def scopes(self) -> Mapping[ScopeId, Scope]:
        """All scopes, in order of creation."""
        return self._scopes

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts that other packages store with the fleet, in order of creation."""
        return self._texts

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope; None if there is none."""
        return self._scopes.get(scope_id)

    def find(self, by: IndexedBy, key: str) -> tuple[ScopeId, ...]:
        """Return the scopes under a key."""
        return self._indexes.find(by, key)

    def text(self, key: str) -> str | None:
        """Return a text that another package stores with the fleet."""
        return self._texts.find(key)

    def all_scopes(self) -> Iterable[Scope]:
        """Return all scopes, in order of creation."""
        return self._scopes.values()

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        return self._texts.under(prefix)

    def last_incarnation(self, set_id: str) -> int:
        """Return the highest incarnation among the removed scopes of a set; 0 if none was removed."""
        return self._last_incarnations.get(set_id) or self._last_incarnations.get(ANY_SET, 0)

    def polled_at(self, scope_id: ScopeId) -> datetime | None:
        """Return the last recorded poll of a scope."""
        return self._polled.get(scope_id)

    def stamp(self, aggregate: Aggregate) -> int:
        """Return the stamp of an aggregate; 0 if there is no such aggregate."""
        kind, name = aggregate
        if kind is AggregateKind.SCOPE:
            return self._scope_stamps.get(ScopeId(name), 0)
        stamps = self._set_stamps if kind is AggregateKind.SET else self._text_stamps
        return stamps.get(name, 0)

    def load(self, snapshot: FleetSnapshot) -> Collection[ScopeId]:
        """Replace the whole state; return the scopes that are gone.

        Raises:
            IncompatibleStoreError: only a newer version knows what is stored.
        """
        _check_kinds(snapshot.texts)
        gone = self._scopes.keys() - snapshot.scopes.keys()
        for scope_id in (*gone, *snapshot.scopes):
            self._indexes.put(scope_id, self._scopes.get(scope_id), snapshot.scopes.get(scope_id))
        self._scopes.clear()
        self._scopes.update(snapshot.scopes)
        self._scope_stamps = dict(snapshot.scope_stamps)
        self._set_stamps = {set_id: name.stamp for set_id, name in snapshot.sets.items()}
        self._last_incarnations = {
            set_id: name.incarnation for set_id, name in snapshot.sets.items() if name.incarnation
        }
        self._texts = StoredTexts(snapshot.texts)
        self._text_stamps = dict(snapshot.text_stamps)
        self._polled = dict(snapshot.polled)
        self.position, self.last_stamp = snapshot.position, snapshot.stamp
        self.history = snapshot.history
        return gone

    def install(self, batch: Batch, last: int) -> None:
        """Move on by a batch of this node, whose last line has the number ``last``."""
        lines = [line for part in batch.parts for line in part.lines]
        self._move(lines, last, batch.stamp, batch.after, batch.sets, batch.texts)

    def apply(self, entries: Sequence[Entry]) -> Mapping[ScopeId, Scope | None]:
        """Move on by the lines of another node's batch; return the scopes that they changed.

        Raises:
            IncompatibleStoreError: only a newer version knows what was stored.
        """
        _check_kinds(entry.change.key for entry in entries if isinstance(entry.change, TextChanged))
        fold = Fold(self)
        for _, request in groupby(entries, lambda entry: entry.request):
            fold.replay([entry.change for entry in request])
        lines = [entry.change for entry in entries]
        self._move(lines, entries[-1].seq, entries[-1].stamp, fold.after, fold.sets, fold.texts)
        return fold.after

    def _move(
        self,
        lines: Sequence[Line],
        last: int,
        stamp: int,
        scopes: Mapping[ScopeId, Scope | None],
        sets: Mapping[str, int],
        texts: Mapping[str, str | None],
    ) -> None:
        # A batch that makes a scope writes the name of its set, too.
        remade = {line.scope for line in lines if isinstance(line, ScopeMade)} if sets else ()
        for scope_id, scope in scopes.items():
            self._indexes.put(scope_id, self._scopes.get(scope_id), scope)
            if scope is None or scope_id in remade:
                self._scopes.pop(scope_id, None)
            if scope is None:
                self._scope_stamps.pop(scope_id, None)
            else:
                self._scopes[scope_id] = scope
                self._scope_stamps[scope_id] = stamp
        for set_id, incarnation in sets.items():
            self._set_stamps[set_id] = stamp
            if incarnation:
                self._last_incarnations[set_id] = incarnation
        self._texts.update(texts)
        for key, text in texts.items():
            if text is None:
                self._text_stamps.pop(key, None)
            else:
                self._text_stamps[key] = stamp
        self._record_polls(lines)
        self.position, self.last_stamp = last, stamp

    def _record_polls(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if isinstance(line, PollsRecorded):
                for scope_id in line.scopes:
                    if scope_id in self._scopes:
                        self._polled[scope_id] = max(line.at, self._polled.get(scope_id, line.at))
            elif isinstance(line, MADE_OR_REMOVED):
                self._polled.pop(line.scope, None)


def _check_kinds(keys: Iterable[str]) -> None:
    for key in keys:
        try:
            kind_of(key)
        except UnknownKindError as problem:
            message = f"{problem} is of a kind that this version does not know: a newer version wrote this"
            raise IncompatibleStoreError(message) from problem
