"""The protocols between the engine and its stores and drivers.

The journal is the replication log. A *batch* is one transaction: the numbered journal lines of one or more
requests, and the aggregates (scopes, names of sets, texts) as they are afterwards. Every node that follows
the journal reaches the same state by applying the same lines.

Every aggregate has a *stamp*: the random number of the batch that wrote it last, 0 if there is no such
aggregate. A batch names the stamp of every aggregate that its decisions were based on, and is stored only if
all of them still hold. The batch's own stamp is also its receipt: a batch that is sent again, because its
answer was lost, is recognised by its stamp and stored once.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

from fairwarning.core.changes import Change, PollsRecorded, TextChanged
from fairwarning.core.errors import FairWarningError
from fairwarning.core.fleet import Impact, Observation
from fairwarning.core.history import Note
from fairwarning.core.model import EventId, HostId, MachineRef, Scope, ScopeId
from fairwarning.core.stored.releases import NEWEST, DataRelease

#: What a journal line says.
Line = Change | Note | TextChanged | PollsRecorded


class AggregateKind(StrEnum):
    """What is compared and replaced as a whole."""

    # Enum's own hash is not written in C, and every read of an aggregate needs one.
    __hash__ = str.__hash__

    SCOPE = "scope"
    #: The name of a set: it is written by every batch that creates or removes one of the set's scopes.
    SET = "set"
    #: A text that another package stores with the fleet.
    TEXT = "text"


class Aggregate(NamedTuple):
    """The name of an aggregate."""

    kind: AggregateKind
    name: str


class Part(NamedTuple):
    """The journal lines of one request."""

    request: str
    at: datetime
    lines: tuple[Line, ...]
    #: The version of each scope that the request changed, after it, or that a removed scope would have.
    versions: Mapping[ScopeId, int] = MappingProxyType({})


class Batch(NamedTuple):
    """Requests that are stored together or not at all."""

    stamp: int
    parts: tuple[Part, ...]
    #: The stamp of every aggregate that a decision of the batch read.
    expected: Mapping[Aggregate, int] = MappingProxyType({})
    #: If given, the batch is stored only if this is the number of the journal's last line.
    position: int | None = None
    #: If given, the batch is stored only in this history of the store.
    history: int | None = None
    #: The scopes that the batch changes as they are after it; None for a removed scope.
    after: Mapping[ScopeId, Scope | None] = MappingProxyType({})
    #: The sets of which the batch creates or removes scopes, each with the highest incarnation among all of
    #: its scopes that were ever removed; 0 if none was.
    sets: Mapping[str, int] = MappingProxyType({})
    #: The texts that the batch changes; None removes a text.
    texts: Mapping[str, str | None] = MappingProxyType({})

    def written(self) -> tuple[Aggregate, ...]:
        """Return the aggregates that get the stamp of the batch."""
        return (
            *(Aggregate(AggregateKind.SCOPE, scope_id) for scope_id in self.after),
            *(Aggregate(AggregateKind.SET, set_id) for set_id in self.sets),
            *(Aggregate(AggregateKind.TEXT, key) for key in self.texts),
        )


class Entry(NamedTuple):
    """A line of the journal."""

    seq: int
    at: datetime
    #: The version of the line's scope after the request; 0 if the line concerns no scope.
    version: int
    change: Line
    #: The id of the request; the lines of one request are consecutive.
    request: str = ""
    #: The stamp of the batch, and the number of its last line.
    stamp: int = 0
    ends: int = 0


class Position(NamedTuple):
    """A line of the journal; a later history of the store comes after all lines of an earlier one."""

    history: int
    line: int


class SetName(NamedTuple):
    """The name of a set: its stamp, and the highest incarnation among its removed scopes."""

    stamp: int
    incarnation: int = 0


class FleetSnapshot(NamedTuple):
    """The whole state after line ``position``, in order of creation.

    A snapshot of a later history (``Store.history``) replaces everything, even if its position is smaller.
    """

    position: int
    scopes: Mapping[ScopeId, Scope]
    scope_stamps: Mapping[ScopeId, int]
    sets: Mapping[str, SetName]
    texts: Mapping[str, str]
    text_stamps: Mapping[str, int]
    polled: Mapping[ScopeId, datetime]
    history: int = 0
    #: The stamp of line ``position``; 0 if the journal is empty.
    stamp: int = 0
    #: Whether the store has missed lines that it knew since the snapshot before.
    lines_lost: bool = False


class StaleBatchError(Exception):
    """A batch was decided on a state that has changed; nothing of it was stored."""

    def __init__(self, stale: Mapping[Aggregate, int], last: int) -> None:
        """Take every stale aggregate with its true stamp, and the number of the journal's last line."""
        super().__init__(f"{len(stale)} aggregates have changed; the last line is {last}")
        self.stale = stale
        self.last = last


class Lease(NamedTuple):
    """The right to act on something until an instant; a later lease on it has a larger fence."""

    key: str
    owner: str
    fence: int
    until: datetime


class Store(Protocol):
    """Stores the fleet and its journal; a batch and a snapshot are one transaction each."""

    @property
    def history(self) -> int:
        """Grows when lines may be lost, because the database has fallen back to a copy of itself.

        A number may then stand for another line.
        """
        ...

    @property
    def oldest_reader(self) -> DataRelease:
        """The oldest release that may use the store: nothing is written that it cannot read."""
        ...

    async def snapshot(self) -> FleetSnapshot:
        """Return the whole state as of the last batch."""
        ...

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        """Store a batch, or none of it, and return its journal lines.

        A batch whose stamp is known was stored before: its lines are returned, and nothing is stored.

        Raises:
            StaleBatchError: an expected stamp does not hold, or the position is not the last line, or the
                history is over.
            StorageError: nothing was stored, or, with ``outcome_unknown``, perhaps all of it.
        """
        ...

    async def last(self) -> int:
        """Return the number of the journal's last line; 0 if there is none."""
        ...

    def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the lines after line ``after`` as they are stored, in order, whole batches at once.

        ``stamp`` is the stamp of line ``after``; 0 if it is not known, then the lines prove nothing.

        Raises:
            GapError: lines after ``after`` were pruned, or lines that were read are lost, or line ``after``
                has another stamp; a snapshot has to be read.
            IncompatibleStoreError: only a newer version understands the next line.
        """
        ...

    async def claim(self, key: str, owner: str, now: datetime, lasts: timedelta) -> Lease | None:
        """Return a new lease with the next fence; None while another owner's lease lasts."""
        ...

    async def renew(self, lease: Lease, now: datetime, lasts: timedelta) -> Lease | None:
        """Return the lease with a later end; None if it is no longer the newest."""
        ...

    async def release(self, lease: Lease) -> None:
        """End a lease, unless it is no longer the newest."""
        ...

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
        newest_first: bool = False,
    ) -> Sequence[Entry]:
        """Return ``limit`` journal lines after line ``after``: of an event, of a scope, or all.

        These are the first lines, or the last in reverse order if ``newest_first``.
        """
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

    async def put_value(self, key: str, value: str | None) -> None:
        """Store a value about the service itself, outside the journal; None removes it."""
        ...

    async def put_value_if_absent(self, key: str, value: str) -> str:
        """Store a value unless the key has one; return the value that the key has now."""
        ...

    async def get_value(self, key: str) -> str | None:
        """Return a value that ``put_value`` stored; None if there is none."""
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...


class StoreState(StrEnum):
    """What a store that several nodes share can do at the moment."""

    READY = "ready"
    #: The database refuses writes: it is a standby, or was set to read only.
    READ_ONLY = "read_only"
    #: The database does not answer.
    AWAY = "away"


class NodeReport(NamedTuple):
    """What a node tells the others with every heartbeat."""

    #: Different at every start of the process.
    id: str
    #: The name in its configuration.
    name: str
    #: The URL of its operator API; empty if it has none.
    address: str
    #: The last journal line that its replica includes.
    position: int
    #: How far its clock is ahead of the store's, as last measured.
    offset: timedelta
    release: str
    #: The version of the inventory that it has applied; empty if it has none, or is of an earlier release.
    inventory: str = ""


class Member(NamedTuple):
    """A node that has sent a heartbeat."""

    report: NodeReport
    #: The time of its last heartbeat, by the store's clock.
    beat_at: datetime
    #: The newest data that it can read.
    reads: DataRelease = NEWEST


class Heartbeat(NamedTuple):
    """The store's answer to a heartbeat."""

    #: The time by the store's clock.
    now: datetime
    #: The nodes whose last heartbeat is not older than ``GONE_AFTER``.
    members: tuple[Member, ...]


#: The age of its last heartbeat after which a node counts as gone.
GONE_AFTER = timedelta(seconds=3)


class SharedStore(Store, Protocol):
    """A store that several nodes use at the same time."""

    @property
    def state(self) -> StoreState:
        """What the store can do, as the last calls have shown."""
        ...

    async def heartbeat(self, report: NodeReport) -> Heartbeat:
        """Record that a node is alive, and return the store's time and the nodes that are alive."""
        ...

    async def leave(self, node: str) -> None:
        """Remove a node that ends, by its id: the others need not wait until it counts as gone."""
        ...


def is_shared(store: Store) -> TypeGuard[SharedStore]:
    """Whether several nodes use the store at the same time."""
    return hasattr(store, "heartbeat")


class GapError(Exception):
    """The journal does not go on at the line that a follower has reached: a snapshot has to be read."""


class IncompatibleStoreError(FairWarningError):
    """The store holds what only a newer version understands: the node has to stop."""

    status_hint = 500


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
        """Begin impacts that have not begun; a repeated call changes nothing.

        What the driver calls should refuse a fence that is smaller than one it has seen.
        """
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
