"""What makes an engine one node of several: heartbeats, the other nodes, its clock, and the age of its state.

Every node knows every deadline. The nodes that are alive are ranked for each scope by a rendezvous hash, and
the node of rank r acts r seconds after it has noticed the deadline, so that the others find the work done. A
node that is alone, or does not know the others yet, has rank 0. A wrong list of nodes costs a second or a
conflict, never correctness: the store compares stamps.

A heartbeat returns the time by the store's clock, which was read between the call and its return. The known
offset stands as long as the new measurement allows it, so a slow answer is no reason to doubt the clock. A
clock that is set between two heartbeats is noticed at once: the event loop's own clock is not set with it.

A node learns only from the store what the others have decided, and an old document is worse than none: it
says "no events" to a machine that is about to be restarted. So the follower asks for the journal's end every
second. Once everything up to that end is applied, the state is complete as of the moment at which the
question was *asked*: an answer may be old when it is read, because the process or its host stood still. After
``stale_after`` without such a moment the state is stale, and guests are refused (R-29).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from math import inf
from typing import NamedTuple, Self

from fairwarning.core.errors import FairWarningError, StorageError
from fairwarning.core.model import ScopeId
from fairwarning.engine.clock import Clock
from fairwarning.engine.ports import Heartbeat, Member, NodeReport, SharedStore, StoreState
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.node")

#: The time between two heartbeats, in seconds.
EVERY = 1.0

#: How long a node waits for each node of a lower rank.
TURN = timedelta(seconds=1)

#: The offset of the clock that is worth a warning, and the largest with which a node acts.
NOTABLE_OFFSET, MOST_OFFSET = timedelta(milliseconds=250), timedelta(seconds=1)

#: How long a node may lack a line that another node has before it counts as behind, in seconds.
BEHIND_AFTER = 5.0

#: How long nodes may have applied different inventories before that is worth a warning, in seconds.
INVENTORIES_DIFFER_AFTER = 60.0

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


class NotReadyReason(StrEnum):
    """Why a node should not be sent traffic."""

    STARTING = "starting"
    LEAVING = "leaving"
    #: The state is being read anew, because the journal does not go on where this node has stopped.
    SNAPSHOT = "snapshot"
    DATABASE_AWAY = "database_away"
    DATABASE_READ_ONLY = "database_read_only"
    CLOCK_WRONG = "clock_wrong"
    #: Other nodes know journal lines that this one should have applied long ago.
    BEHIND = "behind"
    #: It is unknown for too long what other nodes have changed: guests are refused.
    STALE = "stale"
    #: The last change could not be stored.
    STORAGE = "storage"


class Problem(NamedTuple):
    """What is wrong with a node."""

    reason: NotReadyReason
    detail: str


_DATABASE_PROBLEMS: Mapping[StoreState, Problem] = {
    StoreState.AWAY: Problem(
        NotReadyReason.DATABASE_AWAY,
        "the database does not answer: changes are not made",
    ),
    StoreState.READ_ONLY: Problem(
        NotReadyReason.DATABASE_READ_ONLY,
        "the database is read-only: changes are not made",
    ),
}


class ClockOffError(FairWarningError):
    """The clock of a node that starts differs too much from the store's."""

    status_hint = 500

    def __init__(self, offset: timedelta) -> None:
        super().__init__(
            f"the clock of this node is {describe(offset)} the database's; a node may be off by "
            f"{MOST_OFFSET.total_seconds():g} s at most: synchronise the clocks (NTP) and start again"
        )
        self.offset = offset


class _Measurement(NamedTuple):
    """How far the clock was ahead at an instant, and that instant on the loop's clock, which never jumps."""

    ahead: timedelta
    clock: datetime
    loop: float

    @classmethod
    def make(cls, now: datetime, ahead: timedelta) -> Self:
        """Return the measurement of an offset when the clock says ``now``."""
        return cls(ahead, now, asyncio.get_running_loop().time())

    def offset(self, now: datetime) -> timedelta:
        """Return how far the clock is ahead, now that it says ``now``."""
        passed = timedelta(seconds=asyncio.get_running_loop().time() - self.loop)
        return self.ahead + (now - self.clock - passed)


class Membership:
    """The nodes of a store, as one of them sees the others; alone until it has joined."""

    def __init__(
        self,
        node_id: str,
        clock: Clock,
        position: Callable[[], int],
        beaten: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the clock and the position of the node, and what to call after every heartbeat."""
        self.id = node_id
        self.members: tuple[Member, ...] = ()
        #: Whether requests are welcome: not while the node starts, and not while it ends.
        self.serving = self.leaving = False
        #: The URL of the operator API, once it listens.
        self.address = ""
        self.name = self.release = ""
        #: The version of the inventory that this node has applied; empty if it has none.
        self.inventory = ""
        #: Whether this node goes on as before because its changed file was refused.
        self.reload_failed = False
        self._clock = clock
        self._position = position
        self._beaten = beaten
        #: The store that the nodes share, once this node has joined them.
        self._store: SharedStore | None = None
        self._beating = asyncio.Lock()
        #: The nodes that act, without this one.
        self._others: tuple[str, ...] = ()
        self._measurement: _Measurement | None = None
        #: A journal line that another node had, and since when this node lacks it; None if it does not.
        self._goal = 0
        self._lacking_since: float | None = None

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
    def offset(self) -> timedelta:
        """How far this node's clock is ahead of the store's, also if it was set since the last heartbeat."""
        return timedelta(0) if self._measurement is None else self._measurement.offset(self._clock.now())

    @property
    def clock_state(self) -> ClockState:
        """How this node's clock compares with the store's."""
        if self._measurement is None:
            return ClockState.GOOD
        offset = self.offset
        if abs(offset) > MOST_OFFSET:
            return ClockState.AHEAD if offset > timedelta(0) else ClockState.BEHIND
        return ClockState.OFF if abs(offset) > NOTABLE_OFFSET else ClockState.GOOD

    @property
    def may_act(self) -> bool:
        """Whether deadlines may be handled: a change could be stored, and the clock is not wrong."""
        return self.store_state is StoreState.READY and self.clock_state not in WRONG

    def check_clock(self) -> None:
        """Raise if the time of what is decided now would be wrong."""
        if self.clock_state in WRONG:
            raise StorageError(self.clock_warning, self.clock_warning)

    @property
    def clock_warning(self) -> str:
        """How far the clock is off; empty if it is good."""
        off = self.clock_state is not ClockState.GOOD
        return f"the clock of this node is {describe(self.offset)} the database's" if off else ""

    def problems(self) -> Iterator[Problem]:
        """Yield why this node should not be sent traffic."""
        if self.leaving:
            yield Problem(NotReadyReason.LEAVING, "this node is ending")
        elif not self.serving:
            yield Problem(NotReadyReason.STARTING, "this node is starting")
        if self.store_state in _DATABASE_PROBLEMS:
            yield _DATABASE_PROBLEMS[self.store_state]
        if self.clock_state in WRONG:
            yield Problem(NotReadyReason.CLOCK_WRONG, f"{self.clock_warning}: changes are not made")

        if self.behind:
            yield Problem(NotReadyReason.BEHIND, "this node lacks changes that other nodes have made")

    @property
    def behind(self) -> bool:
        """Whether this node has lacked a line for too long that another node has."""
        if self._lacking_since is None or self._position() >= self._goal:
            return False
        return asyncio.get_running_loop().time() - self._lacking_since > BEHIND_AFTER

    def other_inventories(self) -> tuple[str, ...]:
        """Return the versions of inventories that other nodes have applied, and this one has not."""
        versions = {member.report.inventory for member in self.members} - {"", self.inventory}
        return tuple(sorted(versions)) if self.inventory else ()

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

    def report(self) -> NodeReport:
        """Return what the others should know of this node."""
        return NodeReport(
            id=self.id,
            name=self.name,
            address=self.address,
            position=self._position(),
            offset=self.offset,
            release=self.release,
            inventory=self.inventory,
        )

    async def join(self, store: SharedStore) -> None:
        """Become a node of a store.

        Raises:
            ClockOffError: the clock is off by more than a node may be.
        """
        fastest: timedelta | None = None
        for _ in range(MEASUREMENTS):
            before, beat, after = await self._beat(store)
            if fastest is None or after - before < fastest:
                fastest = after - before
                self._measurement = _Measurement.make(after, before + fastest / 2 - beat.now)
        if abs(self.offset) > MOST_OFFSET:
            await store.leave(self.id)
            raise ClockOffError(self.offset)
        self._store = store

    async def run(self) -> None:
        """Send a heartbeat every second, and log changes of state, until cancelled.

        Raises:
            IncompatibleStoreError: only a newer version can use the store.
        """
        # A heartbeat may wait for a long time for a database that is away.
        logging_states = asyncio.create_task(self._log_states())
        try:
            while True:
                await asyncio.sleep(EVERY)
                await self.beat()
        finally:
            logging_states.cancel()

    async def beat(self) -> None:
        """Send a heartbeat, and take note of the answer; a failure leaves what is known as it is."""
        async with self._beating:
            if self._store is not None and not self.leaving:
                # The state of the store says what is wrong.
                with suppress(StorageError):
                    before, beat, after = await self._beat(self._store)
                    offset = min(max(self.offset, before - beat.now), after - beat.now)
                    self._measurement = _Measurement.make(after, offset)
                    self._beaten()

    async def leave(self) -> None:
        """Tell the others that this node ends."""
        self.leaving = True
        if self._store is None or self.store_state is not StoreState.READY:
            return  # the others find out by themselves, a little later
        # A heartbeat that is still under way must not come after the farewell.
        async with self._beating:
            with suppress(StorageError):
                await self._store.leave(self.id)

    async def _beat(self, store: SharedStore) -> tuple[datetime, Heartbeat, datetime]:
        before = self._clock.now()
        beat = await store.heartbeat(self.report())
        after = self._clock.now()
        self.members = beat.members
        self._compare_positions(max(member.report.position for member in beat.members))
        self._others = tuple(
            member.report.id
            for member in beat.members
            if member.report.id != self.id and _acts(member.report)
        )
        return before, beat, after

    def _compare_positions(self, newest: int) -> None:
        # A database that has lost lines may make the goal unreachable.
        self._goal = min(self._goal, newest)
        if self._position() >= self._goal:
            self._goal = newest
            self._lacking_since = None
        if self._lacking_since is None and self._position() < self._goal:
            self._lacking_since = asyncio.get_running_loop().time()

    async def _log_states(self) -> None:
        """Log every change of the states, once a second at most."""
        state, clock = StoreState.READY, ClockState.GOOD
        loop = asyncio.get_running_loop()
        agreed, told = loop.time(), False
        while True:
            if state is not self.store_state:
                state = self.store_state
                level = logging.INFO if state is StoreState.READY else logging.ERROR
                log.log(level, LogMessage("database_state", state=state))
            if clock is not self.clock_state:
                clock = self.clock_state
                level = logging.INFO if clock is ClockState.GOOD else logging.WARNING
                ahead = round(self.offset.total_seconds(), 3)
                log.log(level, LogMessage("clock_state", state=clock, ahead_seconds=ahead))
            others = self.other_inventories()
            if not others:
                agreed, told = loop.time(), False
            elif not told and loop.time() - agreed > INVENTORIES_DIFFER_AFTER:
                told = True
                log.warning(LogMessage("inventories_differ", own=self.inventory, others=", ".join(others)))
            await asyncio.sleep(EVERY)


class Freshness:
    """How old the state of a node is; a state that no other node can change never gets old.

    Moments are seconds of the host's uptime, which nobody sets and which pass while the host is suspended.
    """

    def __init__(
        self, uptime: Callable[[], float], stale_after: timedelta | None, became_stale: Callable[[], None]
    ) -> None:
        """Take the host's uptime, no age for a store of one node, and what to call at that age."""
        #: The uptime from which on the state is stale.
        self.until = inf if stale_after is None else -inf
        self._uptime = uptime
        self._stale_after = stale_after
        self._complete_at = -inf
        self._became_stale = became_stale

    def note_complete(self, moment: float) -> None:
        """Note that the state is complete as of a moment."""
        if self._stale_after is not None and moment > self._complete_at:
            self._complete_at = moment
            self.until = moment + self._stale_after.total_seconds()

    @property
    def stale(self) -> bool:
        """Whether other nodes may have changed the fleet too long ago for this node not to know."""
        return self._uptime() >= self.until

    @property
    def age(self) -> float:
        """The seconds since the state was complete; 0 if no other node can change it."""
        return 0.0 if self._stale_after is None else self._uptime() - self._complete_at

    def problems(self) -> Iterator[Problem]:
        """Yield why this node should not be sent traffic."""
        if self.stale:
            silence = f"no news from the database for {self.age:.0f} s"
            yield Problem(NotReadyReason.STALE, f"{silence}: guests are answered with 503")

    async def watch(self) -> None:
        """Log when the state becomes stale and when it is fresh again, until cancelled."""
        while True:
            await asyncio.sleep(max(self.until - self._uptime(), 0.0))
            if not self.stale:
                continue
            log.error(LogMessage("state_stale", age_seconds=round(self.age)))
            self._became_stale()
            while self.stale:
                await asyncio.sleep(EVERY)
            log.info(LogMessage("state_fresh"))


def _acts(report: NodeReport) -> bool:
    """Whether a node handles deadlines: it has read the state, and its clock is not wrong."""
    return report.position > 0 and abs(report.offset) <= MOST_OFFSET


def describe(offset: timedelta) -> str:
    """Return an offset in words, such as ``1.500 s ahead of``."""
    return f"{abs(offset.total_seconds()):.3f} s {'ahead of' if offset > timedelta(0) else 'behind'}"


def _weight(node: str, scope_id: ScopeId) -> bytes:
    return blake2b(f"{node} {scope_id}".encode(), digest_size=8).digest()
