"""A store in memory, for tests and temporary emulators."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice, takewhile
from types import MappingProxyType

from fairwarning.core.changes import remember_removed
from fairwarning.core.errors import ConflictError
from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.engine.ports import Commit, Entry
from fairwarning.store.entries import event_of, number_lines

#: The approximate size of a journal line in bytes.
LINE_SIZE = 1000


class MemoryStore:
    """A store whose data ends with the process."""

    def __init__(self) -> None:
        self._scopes: dict[ScopeId, Scope] = {}
        self._journal: list[Entry] = []
        self._documents: dict[str, str] = {}
        self._notes: dict[str, str] = {}
        self._last_incarnations: dict[str, int] = {}
        self._pruned = 0

    async def load(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes as of the last commit."""
        return MappingProxyType(dict(self._scopes))

    async def last_incarnations(self) -> Mapping[str, int]:
        """Return the highest incarnation among the removed scopes of each set, by set id."""
        return MappingProxyType(dict(self._last_incarnations))

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        """Store all commits or none, in order, and return the journal lines of each."""
        self._check_versions(commits)
        numbered = number_lines(commits, self._journal[-1].seq if self._journal else 0)
        for commit in commits:
            for removed in commit.expected.keys() - commit.after.keys():
                self._scopes.pop(removed, None)
            self._scopes.update(commit.after)
            remember_removed(self._last_incarnations, commit.changes)
            for key, text in commit.documents.items():
                if text is None:
                    self._documents.pop(key, None)
                else:
                    self._documents[key] = text
        self._journal += [entry for entries in numbered for entry in entries]
        return numbered

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
    ) -> Sequence[Entry]:
        """Return the first ``limit`` journal lines after line ``after``: of an event, of a scope, or all."""
        lines: Iterable[Entry] = self._journal[_index_after(self._journal, after) :]
        if event is not None:
            lines = (entry for entry in lines if event_of(entry.change) == event)
        if scope is not None:
            lines = (entry for entry in lines if entry.change.scope == scope)
        return list(islice(lines, limit))

    async def newest(self) -> Entry | None:
        """Return the last line of the journal."""
        return self._journal[-1] if self._journal else None

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines that are not needed; return the number of lines examined."""
        start = _index_after(self._journal, self._pruned)
        older = self._journal[start : max(0, min(start + most, len(self._journal) - max(1, spare)))]
        due = takewhile(lambda entry: before is None or entry.at < before, older)
        examined = [entry.seq for entry in due]
        self._pruned = examined[-1] if examined else self._pruned
        needed = {*keep, *(event for scope in self._scopes.values() for event in scope.events)}
        end = start + len(examined)
        self._journal[:end] = [entry for entry in self._journal[:end] if event_of(entry.change) in needed]
        return len(examined)

    async def pruned(self) -> int:
        """Return the last line of the pruned part."""
        return self._pruned

    async def size(self) -> int:
        """Return the approximate size of the journal in bytes."""
        return len(self._journal) * LINE_SIZE

    async def documents(self) -> Mapping[str, str]:
        """Return the texts that other packages store with the fleet, in order of creation."""
        return MappingProxyType(dict(self._documents))

    async def note(self, key: str, value: str) -> None:
        """Store a value about the service itself."""
        self._notes[key] = value

    async def noted(self, key: str) -> str | None:
        """Return a value that ``note`` stored; None if there is none."""
        return self._notes.get(key)

    async def close(self) -> None:
        """Do nothing: memory needs no closing."""

    def _check_versions(self, commits: Sequence[Commit]) -> None:
        versions: dict[ScopeId, int] = {}
        for commit in commits:
            for scope_id, expected in commit.expected.items():
                scope = self._scopes.get(scope_id)
                if versions.get(scope_id, scope.version if scope else 0) != expected:
                    raise ConflictError(scope_id, expected)
                after = commit.after.get(scope_id)
                versions[scope_id] = after.version if after else 0


def _index_after(lines: Sequence[Entry], after: int) -> int:
    """Return the index of the first line after line ``after``."""
    return bisect_right(lines, after, key=lambda entry: entry.seq)
