"""A store that forgets: for tests and throw-away emulators."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice, takewhile
from types import MappingProxyType

from fairwarning.core.changes import remember_removed
from fairwarning.core.errors import ConflictError
from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.engine.ports import Commit, Entry
from fairwarning.store.entries import event_of, number

#: About how many bytes a line takes.
LINE = 1000


class MemoryStore:
    """Keeps everything in variables."""

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
        """Return the highest incarnation that a removed scope of each set had, by set id."""
        return MappingProxyType(dict(self._last_incarnations))

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        """Keep all commits or none, in order, and return the journal lines of each."""
        self._check(commits)
        numbered = number(commits, self._journal[-1].seq if self._journal else 0)
        for commit in commits:
            for gone in commit.expected.keys() - commit.after.keys():
                self._scopes.pop(gone, None)
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
        """Return the first ``limit`` journal lines behind ``after``: of an event, of a scope, or all."""
        lines: Iterable[Entry] = self._journal[_place(self._journal, after) :]
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
        """Remove the oldest lines that nobody needs; return through how many it went."""
        start = _place(self._journal, self._pruned)
        older = self._journal[start : max(0, min(start + most, len(self._journal) - max(1, spare)))]
        passed = [entry.seq for entry in takewhile(lambda one: before is None or one.at < before, older)]
        self._pruned = passed[-1] if passed else self._pruned
        needed = {*keep, *(event for scope in self._scopes.values() for event in scope.events)}
        end = start + len(passed)
        self._journal[:end] = [one for one in self._journal[:end] if event_of(one.change) in needed]
        return len(passed)

    async def pruned(self) -> int:
        """Return up to which line the journal was pruned."""
        return self._pruned

    async def size(self) -> int:
        """Return about how many bytes are taken by the journal."""
        return len(self._journal) * LINE

    async def documents(self) -> Mapping[str, str]:
        """Return every text that was kept beside the fleet, in order of its making."""
        return MappingProxyType(dict(self._documents))

    async def note(self, key: str, value: str) -> None:
        """Remember a fact about the service itself."""
        self._notes[key] = value

    async def noted(self, key: str) -> str | None:
        """Return a fact remembered by ``note``."""
        return self._notes.get(key)

    async def close(self) -> None:
        """Let go of whatever is held."""

    def _check(self, commits: Sequence[Commit]) -> None:
        versions: dict[ScopeId, int] = {}
        for commit in commits:
            for scope_id, expected in commit.expected.items():
                known = self._scopes.get(scope_id)
                if versions.get(scope_id, known.version if known else 0) != expected:
                    raise ConflictError(scope_id, expected)
                after = commit.after.get(scope_id)
                versions[scope_id] = after.version if after else 0


def _place(lines: Sequence[Entry], after: int) -> int:
    """Return where the lines behind a number begin."""
    return bisect_right(lines, after, key=lambda entry: entry.seq)
