"""One node: a replica of the fleet, the decider that changes it, and the work that follows from it.

``Replica`` is the state after a line of the journal; everything that reads, reads it. ``Decider`` carries out
requests, one batch at a time. This class puts them together and is what the APIs see.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from fairwarning.core.changes import Change, PollsRecorded, TextChanged
from fairwarning.core.commands import Command, Poll
from fairwarning.core.errors import StorageError, UnknownMachineError, UnknownScopeError
from fairwarning.core.history import Note
from fairwarning.core.model import PLATFORM, Event, Machine, MachineRef, Scope, ScopeId, VmName
from fairwarning.core.policy import STALE_AFTER, Policy, with_speed
from fairwarning.engine.blocked import blocked_scopes, unblocked_scopes
from fairwarning.engine.clock import Clock, new_node_id, new_request_id, new_stamp, uptime
from fairwarning.engine.decider import Decider
from fairwarning.engine.faults import ActiveFaults
from fairwarning.engine.feed import Feed
from fairwarning.engine.fold import FoldView
from fairwarning.engine.follower import Follower
from fairwarning.engine.leases import LeaseHolder, Leases, SoleHolder
from fairwarning.engine.membership import Freshness, Membership, NotReadyReason, Problem
from fairwarning.engine.polls import FirstReads, Polls, Reads
from fairwarning.engine.ports import Batch, Driver, Entry, Store, StoreState, is_shared
from fairwarning.engine.reconciler import Reconciler
from fairwarning.engine.replica import Replica
from fairwarning.engine.requests import Build, Caller, NoteRefusal, Plan, Result, View, no_note

#: The most requests that are stored together.
BATCH_SIZE = 256

#: How long ``catch_up`` waits for the journal, in seconds.
CATCH_UP = 1.0

#: The time between two tries to store something after a failure, in seconds.
CHECK_EVERY = 1.0

#: What is no trouble for people who look at a page: it is over in a moment, or the server ends.
_PASSING = frozenset({NotReadyReason.STARTING, NotReadyReason.SNAPSHOT, NotReadyReason.LEAVING})


class Engine:
    """A node: what the fleet is, and the requests that change it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        driver: Driver,
        policy: Policy,
        *,
        new_stamp: Callable[[], int] = new_stamp,
        new_node_id: Callable[[], str] = new_node_id,
        uptime: Callable[[], float] = uptime,
        batch_size: int = BATCH_SIZE,
        stale_after: timedelta = STALE_AFTER,
    ) -> None:
        self.store = store
        self.clock = clock
        self.policy = policy
        self.feed = Feed()
        self.faults = ActiveFaults(self.remark)
        #: Work that follows from the state; a moved clock waits for it at every step.
        self.upkeep: list[Callable[[], Awaitable[None]]] = []
        self._replica = Replica()
        self._scopes = self._replica.scopes
        self.directory = self._replica.directory
        #: Whether guests may be shown the state.
        self.freshness = Freshness(uptime, stale_after if is_shared(store) else None, self.feed.wake_all)
        self._follower = Follower(
            store, self._replica, self._installed, self._reloaded, uptime, self.freshness.note_complete
        )
        #: The other nodes of the store; none unless this node has joined them.
        self.membership = Membership(new_node_id(), clock, lambda: self.position, self._check_soon)
        self._decider = Decider(
            store,
            self._replica,
            self._follower,
            clock,
            self.membership.check_clock,
            lambda: self.policy,
            new_stamp,
            batch_size,
        )
        self._polls = Polls(self._replica, clock, policy.poll_refresh, self._write_polls)
        self._first_reads = FirstReads(self._replica, clock, self._submit)
        self.leases: Leases = self._open_leases()
        self.reconciler = Reconciler(self, driver)
        self._new_stamp = new_stamp
        self._check: asyncio.Task[None] | None = None
        self._checked_at = float("-inf")

    def _open_leases(self) -> Leases:
        if is_shared(self.store):
            return LeaseHolder(self.store, self.membership.id, self.membership.store_time)
        return SoleHolder(self.membership.id, self.clock.now)

    async def open(self) -> None:
        """Read the state and handle what is due."""
        await self._follower.reload()
        if is_shared(self.store):
            await self._follower.catch_up()
        await self.tick()

    async def follow(self) -> None:
        """Apply what other nodes store, until cancelled; a node that is alone need not."""
        work = self._follower.keep_looking(), self.freshness.watch()
        background = [asyncio.create_task(coroutine) for coroutine in work]
        try:
            await self._follower.run()
        finally:
            for task in background:
                task.cancel()

    async def catch_up(self) -> bool:
        """Apply what was stored before the call; return whether the state is newer than at the call.

        A reader calls this before it says that something is unknown: another node may have just stored it. It
        is an attempt: the state stays as it is if the journal cannot be read within a second. A store that is
        known not to answer is not asked.
        """
        if self.membership.store_state is StoreState.AWAY:
            return False
        before = self._replica.reached
        with suppress(TimeoutError, StorageError):
            async with asyncio.timeout(CATCH_UP):
                await self._follower.catch_up()
        return self._replica.reached > before

    async def close(self) -> None:
        """Wait until everything is stored."""
        if self._check is not None:
            self._check.cancel()
        await self.reconciler.close()
        # Nothing of this is worth waiting for a database that is away.
        if self.membership.store_state is StoreState.READY:
            await self.leases.release_all()
            await self.flush_polls()
        await self._decider.idle()

    # -- the state

    @property
    def position(self) -> int:
        """The number of the journal line up to which the state is known."""
        return self._replica.position

    def scopes(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes."""
        return self._scopes

    def texts(self) -> Mapping[str, str]:
        """Return the texts that other packages store with the fleet."""
        return self._replica.texts

    def stored(self, key: str) -> str | None:
        """Return the text of a stored value (``core.stored.kinds``); None if there is none."""
        return self._replica.text(key)

    def view(self) -> View:
        """Return the state as requests see the state that they are decided on."""
        return FoldView(self._replica)

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope."""
        scope = self._scopes.get(scope_id)
        if scope is None:
            raise UnknownScopeError(scope_id)
        return scope

    def refs(self) -> Iterator[MachineRef]:
        """Return the names of all machines."""
        return (ref for scope in self.scopes().values() for ref in scope.refs())

    def has_machine(self, ref: MachineRef) -> bool:
        """Whether there is such a machine."""
        scope = self._replica.find_scope(ref.scope)
        return scope is not None and ref.name in scope.machines

    def machine(self, ref: MachineRef) -> Machine:
        """Return a machine."""
        return self._home(ref).machines[ref.name]

    def is_own(self, entry: Entry) -> bool:
        """Whether this node has written a new line of the journal, and not another node."""
        return not is_shared(self.store) or self._decider.has_sent(entry.stamp)

    # -- what is wrong

    @property
    def trouble(self) -> str:
        """What people should know who want to change something; empty if all is well."""
        warnings = [problem.detail for problem in self.problems() if problem.reason not in _PASSING]
        return "; ".join(warnings) or self.membership.clock_warning

    def problems(self) -> Iterator[Problem]:
        """Yield why this node should not be sent traffic."""
        yield from self.membership.problems()
        yield from self.freshness.problems()
        if self._follower.reloading:
            yield Problem(NotReadyReason.SNAPSHOT, "the state is being read anew")
        problem = self._decider.problem
        if problem is not None and self.membership.may_act:
            reason = problem.problem if isinstance(problem, StorageError) else "the server's log says why"
            yield Problem(NotReadyReason.STORAGE, f"changes cannot be stored: {reason}")

    @property
    def stuck(self) -> bool:
        """Whether the store has not answered for so long that only a new start may help."""
        return self._decider.stuck

    async def check_health(self) -> None:
        """After a failure, try to store a batch that changes nothing.

        However many ask, one try is made at a time and one per second; no caller waits longer than that.
        """
        self._check_soon()
        if self._check is not None and not self._check.done():
            await asyncio.wait([self._check], timeout=CHECK_EVERY)

    def _check_soon(self) -> None:
        now = asyncio.get_running_loop().time()
        is_idle = self._check is None or self._check.done()
        if self._decider.problem is not None and is_idle and now - self._checked_at >= CHECK_EVERY:
            self._checked_at = now
            self._check = asyncio.create_task(self._try_to_store())

    async def _try_to_store(self) -> None:
        # An error of any kind means that the trouble goes on.
        with suppress(Exception):
            await self.store.commit(Batch(stamp=self._new_stamp(), parts=()))
            await self._follower.reach(await self.store.last())
            self._decider.problem = None

    # -- requests

    async def submit(self, caller: Caller, build: Build, note_refusal: NoteRefusal = no_note) -> Result:
        """Carry out the commands that ``build`` makes as one decision, and return once it is stored."""
        self.membership.check_clock()
        return await self._decider.submit(caller, build, note_refusal)

    def preview(self, build: Build) -> Result:
        """Return what a request would change now, and change nothing.

        Raises:
            FairWarningError: the request would be refused.
        """
        return self._decider.preview(build)

    async def handle(self, command: Command) -> tuple[Change, ...]:
        """Carry out a command of the platform, and return its changes."""
        return (await self._submit(lambda view: Plan((command,)))).changes

    async def remark(self, note: Note) -> None:
        """Write a note to the journal."""
        await self._submit(lambda view: Plan(notes=(note,)))

    def _submit(self, build: Build) -> Awaitable[Result]:
        return self.submit(Caller(PLATFORM, new_request_id()), build)

    # -- polls

    def polled_at(self, scope_id: ScopeId) -> datetime | None:
        """Return the last poll of a scope."""
        return self._polls.last(self.scope(scope_id).facts)

    def stale_at(self, scope_id: ScopeId) -> datetime | None:
        """Return when polls of a scope have to be recorded by ``record_poll`` again; None if by ``poll``."""
        scope = self.scope(scope_id)
        return self._polls.stale_at(scope.facts) if scope.enabled else None

    async def poll(self, ref: MachineRef) -> None:
        """Record a poll; the first poll of a scope is stored before it is answered (R-21)."""
        if not self.record_poll(ref):
            await self.handle(Poll(machine=ref))

    def record_poll(self, ref: MachineRef) -> bool:
        """Record a poll; False means that the scope has to be enabled first."""
        facts = self._home(ref).facts
        now = self.clock.now()
        if facts.enabled_at is None or facts.polled_at is None:
            self._polls.record(ref.scope, now)
            return False
        self._polls.record_for_good(facts, now)
        return True

    def record_poll_if_current(self, scope_id: ScopeId, scope: Scope | None, now: datetime) -> bool:
        """Record a poll in memory if ``scope`` is the current state; False means that it is not."""
        if scope is None or self._scopes.get(scope_id) is not scope:
            return False
        self._polls.record(scope_id, now)
        return True

    async def flush_polls(self) -> None:
        """Write the polls to the journal that are due, and the first reads that are not yet stored."""
        await self._first_reads.flush()
        await self._polls.flush()

    async def _write_polls(self, polled: PollsRecorded) -> None:
        await self._submit(lambda view: Plan(notes=(polled,)))

    def record_read(self, machine: VmName, events: Iterable[Event]) -> None:
        """Record that a guest is shown events that list its machine; only the first time counts (R-30)."""
        self._first_reads.record(machine, events)

    def first_reads(self, event: Event) -> Reads:
        """Return when each machine of a pending event first read the event."""
        return self._first_reads.of(event)

    def _home(self, ref: MachineRef) -> Scope:
        scope = self._scopes.get(ref.scope)
        if scope is None or ref.name not in scope.machines:
            raise UnknownMachineError(ref.name)
        return scope

    # -- what follows from the state

    def next_deadline(self) -> datetime | None:
        """Return the next deadline of all scopes."""
        return self.reconciler.next_deadline()

    async def tick(self) -> None:
        """Look at new impacts, and handle every scope whose deadline is reached."""
        await self.reconciler.tick()

    async def rest(self) -> None:
        """Return once nothing is left to look at and nothing is due, or once a request has failed."""
        await self.reconciler.rest()

    def set_speed(self, speed: float) -> None:
        """Change how fast durations pass from now on."""
        self.policy = with_speed(self.policy, speed)
        self._polls.refresh = self.policy.poll_refresh
        self.reconciler.note_all_scopes()

    def _installed(self, entries: Sequence[Entry], scopes: Mapping[ScopeId, Scope | None]) -> None:
        for scope_id, scope in scopes.items():
            if scope is None:
                self._polls.forget(scope_id)
            self._first_reads.note_scope(scope_id, scope)
            self.reconciler.note_scope(scope_id, scope)
        changed = {entry.change.key for entry in entries if isinstance(entry.change, TextChanged)}
        for scope_id in unblocked_scopes(self._replica, changed):
            self.reconciler.note_unblocked(scope_id)
        self.feed.publish(entries)

    def _reloaded(self, gone: Collection[ScopeId]) -> None:
        for scope_id in gone:
            self._polls.forget(scope_id)
            self._first_reads.note_scope(scope_id, None)
            self.reconciler.note_scope(scope_id, None)
        self.reconciler.note_all_scopes()
        for scope_id in blocked_scopes(self._replica):
            self.reconciler.note_unblocked(scope_id)
        self.feed.start_over()
