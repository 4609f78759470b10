"""The protocols between the engine and its stores and drivers."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from fairwarning.core.changes import Change
from fairwarning.core.fleet import Impact, Observation
from fairwarning.core.history import Note
from fairwarning.core.model import EventId, HostId, MachineRef, Scope, ScopeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A decision to store: the versions it was based on, its changes, and the scopes after it."""

    at: datetime
    changes: tuple[Change | Note, ...]
    expected: Mapping[ScopeId, int] = field(default_factory=lambda: MappingProxyType({}))
    after: Mapping[ScopeId, Scope] = field(default_factory=lambda: MappingProxyType({}))
    #: Texts that other packages store with the fleet, by key; None removes the text.
    documents: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the journal; ``version`` is the version of its scope after the commit."""

    seq: int
    at: datetime
    version: int
    change: Change | Note


class Store(Protocol):
    """Stores the fleet and its journal; every method is one transaction."""

    async def load(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes as of the last commit."""
        ...

    async def last_incarnations(self) -> Mapping[str, int]:
        """Return the highest incarnation among the removed scopes of each set, by set id."""
        ...

    async def commit(self, commits: Sequence[Commit]) -> Sequence[Sequence[Entry]]:
        """Store all commits or none, in order, and return the journal lines of each.

        Raises:
            ConflictError: a scope is not at the version that a commit expects.
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
        """Return the first ``limit`` journal lines after line ``after``: of an event, of a scope, or all."""
        ...

    async def newest(self) -> Entry | None:
        """Return the last line of the journal."""
        ...

    async def prune(
        self, before: datetime | None, most: int, keep: Collection[EventId], spare: int = 1
    ) -> int:
        """Remove the oldest lines of the journal: those written before an instant, or any if None.

        Examines at most ``most`` lines and returns how many. The ``spare`` newest lines stay, at least one,
        so that no line number is used twice. All lines about pending events and events in ``keep`` stay,
        too.
        """
        ...

    async def pruned(self) -> int:
        """Return the last line of the pruned part; the journal is complete after it. 0 if never pruned."""
        ...

    async def size(self) -> int:
        """Return the approximate size of all data in bytes."""
        ...

    async def documents(self) -> Mapping[str, str]:
        """Return the texts that other packages store with the fleet, in order of creation."""
        ...

    async def note(self, key: str, value: str) -> None:
        """Store a value about the service itself."""
        ...

    async def noted(self, key: str) -> str | None:
        """Return a value that ``note`` stored; None if there is none."""
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to act, until an instant; a later lease for the same key has a higher fence."""

    key: str
    owner: str
    fence: int
    until: datetime


class Driver(Protocol):
    """Carries out impacts on machines, and observes them.

    A driver gets the state, not messages: every call lists all impacts of a scope that should be in progress,
    including those that an earlier call listed. An impact is known by its event, machine and attempt.
    """

    name: str

    def reaches(self, host: HostId) -> bool:
        """Whether the driver can act on the machines of a host."""
        ...

    async def observe(self, impacts: Sequence[Impact], now: datetime) -> Sequence[Observation]:
        """Return one observation per impact, in the same order; ``again_at`` is later than ``now``."""
        ...

    async def apply(self, impacts: Sequence[Impact], lease: Lease) -> None:
        """Begin impacts that have not begun; a repeated call changes nothing."""
        ...

    def watch(self) -> AsyncIterator[MachineRef]:
        """Yield machines that should be looked at now."""
        ...


@runtime_checkable
class ReportedDriver(Driver, Protocol):
    """A driver whose impacts end when an operator says so."""

    def reported(self, impact: Impact, problem: str | None) -> Observation:
        """Return what an operator's report about an impact means; ``problem`` says why it failed."""
        ...
