"""What makes an engine one node of several: its heartbeats, the other nodes, and how far its clock is off.

Every node knows every deadline. The nodes that are alive are ranked for each scope by a rendezvous hash, and
the node of rank r acts r seconds after the deadline, so that the others find the work done. A node that is
alone, or does not know the others yet, has rank 0. A wrong list of nodes costs a second or a conflict, never
correctness: the store compares stamps.

A heartbeat returns the time by the store's clock, which was read between the call and its return. The known
offset stands as long as the new measurement allows it, so a slow answer is no reason to doubt the clock.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b

from fairwarning.core.errors import FairWarningError, StorageError
from fairwarning.core.model import ScopeId
from fairwarning.engine.clock import Clock, new_node_id
from fairwarning.engine.ports import Heartbeat, Member, NodeReport, SharedStore, StoreState
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.node")

#: The time between two heartbeats, in seconds.
EVERY = 1.0

#: How long a node waits for each node of a lower rank.
TURN = timedelta(seconds=1)

#: The offset of the clock that is worth a warning, and the largest with which a node acts.
NOTABLE_OFFSET, MOST_OFFSET = timedelta(milliseconds=250), timedelta(seconds=1)

#: The number of measurements at the start; the fastest counts.
MEASUREMENTS = 5


class ClockState(StrEnum):
    """How the clock of a node compares with the store's."""

    GOOD = "good"
    #: Off by more than ``NOTABLE_OFFSET``: worth a warning.
    OFF = "off"
    #: Ahead by more than ``MOST_OFFSET``: the node would act too early, so it does not act.
    AHEAD = "ahead"
    #: Behind by more than ``MOST_OFFSET``: the other nodes would end too early what this one announces.
    BEHIND = "behind"


#: The states in which a node neither handles deadlines nor carries out commands.
WRONG = ClockState.AHEAD, ClockState.BEHIND


class ClockOffError(FairWarningError):
    """The clock of a node that starts differs too much from the store's."""

    status_hint = 500

    def __init__(self, offset: timedelta) -> None:
        super().__init__(
            f"the clock of this node is {describe(offset)} the database's; a node may be off by "
            f"{MOST_OFFSET.total_seconds():g} s at most: synchronise the clocks (NTP) and start again"
        )
        self.offset = offset


class Membership:
    """The nodes of a store, as one of them sees the others; alone until it has joined."""

    def __init__(self, clock: Clock, position: Callable[[], int]) -> None:
        self.id = new_node_id()
        self.members: tuple[Member, ...] = ()
        #: How far this node's clock is ahead of the store's.
        self.offset = timedelta(0)
        self.leaving = False
        #: The URL of the operator API, once it listens.
        self.address = ""
        self._name = self._release = ""
        self._clock = clock
        self._position = position
        self._store: SharedStore | None = None
        #: The nodes that act, without this one.
        self._others: tuple[str, ...] = ()
        self._seen_state = StoreState.READY
        self._seen_clock = ClockState.GOOD

    # -- what it means for the work

    @property
    def alone(self) -> bool:
        """Whether no other node is known that acts."""
        return not self._others

    @property
    def store_state(self) -> StoreState:
        """What the shared store can do; a store of this process alone is always ready."""
        return StoreState.READY if self._store is None else self._store.state

    @property
    def clock_state(self) -> ClockState:
        """How this node's clock compares with the store's."""
        if abs(self.offset) > MOST_OFFSET:
            return ClockState.AHEAD if self.offset > timedelta(0) else ClockState.BEHIND
        return ClockState.OFF if abs(self.offset) > NOTABLE_OFFSET else ClockState.GOOD

    @property
    def may_act(self) -> bool:
        """Whether deadlines may be handled: a change could be stored, and the clock is not wrong."""
        return self.store_state is StoreState.READY and self.clock_state not in WRONG

    def check_clock(self) -> None:
        """Raise if the time of what is decided now would be wrong."""
        if self.clock_state in WRONG:
            problem = f"the clock of this node is {describe(self.offset)} the database's"
            raise StorageError(problem, problem)

    def store_time(self) -> datetime:
        """Return the time by the store's clock, as this node reckons it."""
        return self._clock.now() - self.offset

    def rank(self, scope_id: ScopeId) -> int:
        """Return how many other nodes act on a scope before this one."""
        if not self._others:
            return 0
        own = _weight(self.id, scope_id)
        return sum(_weight(other, scope_id) > own for other in self._others)

    # -- heartbeats

    async def join(self, store: SharedStore, name: str, release: str) -> None:
        """Become a node of a store under a name.

        Raises:
            ClockOffError: the clock is off by more than a node may be.
        """
        self._name, self._release = name, release
        fastest: timedelta | None = None
        for _ in range(MEASUREMENTS):
            before, beat, after = await self._beat(store)
            if fastest is None or after - before < fastest:
                fastest, self.offset = after - before, before + (after - before) / 2 - beat.now
        if abs(self.offset) > MOST_OFFSET:
            await store.leave(self.id)
            raise ClockOffError(self.offset)
        self._store = store
        self._note_states()

    async def run(self) -> None:
        """Send a heartbeat every second, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.beat()

    async def beat(self) -> None:
        """Send a heartbeat, and take note of the answer; a failure leaves what is known as it is."""
        if self._store is not None:
            # The state of the store says what is wrong.
            with suppress(StorageError):
                before, beat, after = await self._beat(self._store)
                self.offset = min(max(self.offset, before - beat.now), after - beat.now)
            self._note_states()

    async def leave(self) -> None:
        """Tell the others that this node ends."""
        self.leaving = True
        store, self._store = self._store, None
        if store is not None:
            # The others find out by themselves, a little later.
            with suppress(StorageError):
                await store.leave(self.id)

    async def _beat(self, store: SharedStore) -> tuple[datetime, Heartbeat, datetime]:
        report = NodeReport(
            id=self.id,
            name=self._name,
            address=self.address,
            position=self._position(),
            offset=self.offset,
            release=self._release,
        )
        before = self._clock.now()
        beat = await store.heartbeat(report)
        after = self._clock.now()
        self.members = beat.members
        self._others = tuple(
            member.report.id
            for member in beat.members
            if member.report.id != self.id and _acts(member.report)
        )
        return before, beat, after

    def _note_states(self) -> None:
        """Log what has changed since the last heartbeat."""
        state, clock = self.store_state, self.clock_state
        if state is not self._seen_state:
            level = logging.INFO if state is StoreState.READY else logging.ERROR
            log.log(level, LogMessage("database_state", state=state))
        if clock is not self._seen_clock:
            level = logging.INFO if clock is ClockState.GOOD else logging.WARNING
            seconds = round(self.offset.total_seconds(), 3)
            log.log(level, LogMessage("clock_state", state=clock, ahead_seconds=seconds))
        self._seen_state, self._seen_clock = state, clock


def _acts(report: NodeReport) -> bool:
    """Whether a node handles deadlines: it has read the state, and its clock is not wrong."""
    return report.position > 0 and abs(report.offset) <= MOST_OFFSET


def describe(offset: timedelta) -> str:
    """Return an offset in words, such as ``1.500 s ahead of``."""
    return f"{abs(offset.total_seconds()):.3f} s {'ahead of' if offset > timedelta(0) else 'behind'}"


def _weight(node: str, scope_id: ScopeId) -> bytes:
    return blake2b(f"{node} {scope_id}".encode(), digest_size=8).digest()
