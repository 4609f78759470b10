"""What the engine needs from the rooms around it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

from fairwarning.core.changes import Change
from fairwarning.core.commands import ImpactOutcome
from fairwarning.core.fleet import Impact
from fairwarning.core.history import Note
from fairwarning.core.model import EventId, Scope, ScopeId
from fairwarning.core.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One decision on its way to the store: what it was decided on, what changed, what is true afterwards."""

    at: datetime
    changes: tuple[Change | Note, ...]
    expected: Mapping[ScopeId, int] = field(default_factory=lambda: MappingProxyType({}))
    after: Mapping[ScopeId, Scope] = field(default_factory=lambda: MappingProxyType({}))
    #: Texts that other rooms keep beside the fleet, by key; None removes one.
    documents: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal; ``version`` is the scope's after the commit the line belongs to."""

    seq: int
    at: datetime
    version: int
    change: Change | Note


class Store(Protocol):
    """Keeps the fleet and its journal. Every method is one transaction."""

    async def load(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes as of the last commit."""
        ...

    async def last_incarnations(self) -> Mapping[str, int]:
        """Return the highest incarnation that a removed scope of each set had, by set id."""
        ...

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        """Keep all commits or none, in order, and return the journal lines of each.

        Raises:
            Conflict: a scope is not at the version a commit expects.
        """
        ...

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
    ) -> Sequence[Entry]:
        """Return the first ``limit`` journal lines behind ``after``: of an event, of a scope, or all."""
        ...

    async def newest(self) -> Entry | None:
        """Return the last line of the journal."""
        ...

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines of the journal that were written before an instant, or whenever if None.

        It goes through at most ``most`` lines, and returns through how many. The ``spare`` newest lines stay,
        one at least, so that no number is ever given again; so do all lines about an event that is not over
        or is to be kept.
        """
        ...

    async def pruned(self) -> int:
        """Return up to which line the journal was pruned: what is behind that is complete; 0 if all is."""
        ...

    async def size(self) -> int:
        """Return about how many bytes are taken by all that is kept."""
        ...

    async def documents(self) -> Mapping[str, str]:
        """Return every text that was kept beside the fleet, in order of its making."""
        ...

    async def note(self, key: str, value: str) -> None:
        """Remember a fact about the service itself."""
        ...

    async def noted(self, key: str) -> str | None:
        """Return a fact remembered by ``note``."""
        ...

    async def close(self) -> None:
        """Let go of whatever is held."""
        ...


class Driver(Protocol):
    """Makes impacts happen. It is told by state: asked again, it is shown the same impacts again."""

    def observe(self, impacts: Sequence[Impact], policy: Policy, now: datetime) -> Sequence[ImpactOutcome]:
        """Return what is known by now about impacts that have ended, well or badly."""
        ...

    def due(self, impacts: Sequence[Impact], policy: Policy) -> datetime | None:
        """Return when it is worth asking again."""
        ...
