"""Handles what is due, and looks at impacts: effects follow from the committed state, whoever caused it.

The reconciler knows two things about every scope: its next deadline, and which of its outstanding impacts it
has looked at. A look observes all impacts and begins those that have not begun; each observation says when to
look again, and that instant is a deadline, too. So is the retry of an impact that failed; until then
the impact is left alone. A commit that leaves an impact unseen makes the scope one to look at, at once.

Scopes are attended to side by side, in the order of their names, at most one task per scope. What a scope's
observations and deadlines lead to at one moment is one request to the engine; an impact that this request
starts is looked at in the same task. The reconciler holds no truth: whatever it forgets, it finds again in
the state. A scope with an outstanding impact is always in one of four states: to be looked at, queued,
attended to, or looked at. In the last one it has an instant for the next look, if the driver has named one.

Every node of several does this. A scope that is due, or has to be looked at, waits for its turn: a second for
each node of a lower rank. A deadline has usually been handled by then, and nothing is left to do. Looks are
not stored, so each node looks for itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple, Protocol

from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import Command, ReportOutcomes, Tick
from fairwarning.core.errors import ContendedError, StorageError
from fairwarning.core.fleet import (
    Impact,
    Observation,
    Progress,
    end_of_silence,
    next_deadline,
    outstanding_impacts,
)
from fairwarning.core.model import PLATFORM, STARTED, EventId, Scope, ScopeId
from fairwarning.core.policy import Policy
from fairwarning.engine.clock import Clock, new_request_id
from fairwarning.engine.deadlines import Deadlines
from fairwarning.engine.leases import LASTS, Leases
from fairwarning.engine.membership import TURN, Membership
from fairwarning.engine.ports import Driver
from fairwarning.engine.requests import Build, Caller, Plan, Result, View
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.engine")

#: At most this many scopes are attended to at once.
MOST_AT_ONCE = 256

#: At most this many of them call the driver, so that a driver that hangs leaves the rest for deadlines.
DRIVER_CALLS = MOST_AT_ONCE // 2

#: How long a call to the driver may take, in seconds.
DRIVER_TIMEOUT = 10.0

#: When impacts are looked at again after a call to the driver has failed.
LOOK_AGAIN_AFTER = timedelta(seconds=30)

#: How many seconds a scope waits after its request has failed.
RETRY_AFTER = 1.0

_ENDED = frozenset({Progress.DONE, Progress.FAILED})


class ReconciledFleet(Protocol):
    """What the reconciler needs of the engine."""

    clock: Clock
    policy: Policy
    membership: Membership
    leases: Leases

    def scopes(self) -> Mapping[ScopeId, Scope]:
        """Return all scopes."""
        ...

    def polled_at(self, scope_id: ScopeId) -> datetime | None:
        """Return the last poll of a scope, which may not be stored yet."""
        ...

    async def submit(self, caller: Caller, build: Build) -> Result:
        """Carry out the commands that ``build`` makes as one decision, and return once it is stored."""
        ...


class Look(NamedTuple):
    """The started events of a scope and their impacts that were looked at, and when to look again."""

    events: Set[EventId]
    impacts: Sequence[Impact]
    again_at: datetime | None


class Turn(NamedTuple):
    """When this node handles a deadline that other nodes handle first."""

    deadline: datetime | None
    at: datetime


class Reconciler:
    """Attends to the scopes of a fleet: their deadlines and their impacts."""

    def __init__(self, fleet: ReconciledFleet, driver: Driver) -> None:
        self.driver = driver
        #: Called when the next deadline has become earlier, or a scope has to be looked at.
        self.wake: Callable[[], None] = without_timer
        self._fleet = fleet
        self._deadlines = Deadlines()
        #: Since when scopes have something to do that was in their events' way before (M-09).
        self._unblocked: dict[ScopeId, datetime] = {}
        #: The turns of scopes that are due elsewhere first; each counts as the scope's deadline.
        self._turns: dict[ScopeId, Turn] = {}
        self._looks: dict[ScopeId, Look] = {}
        #: The scopes to look at, in the order in which they came to be.
        self._unseen: dict[ScopeId, None] = {}
        #: The scopes to attend to, and whether each is due.
        self._queue: deque[tuple[ScopeId, bool]] = deque()
        #: Scopes that were queued again while a task attended to them, and whether each is due.
        self._again: dict[ScopeId, bool] = {}
        self._tasks: dict[ScopeId, asyncio.Task[None]] = {}
        #: None unless a caller waits; done when no task is left, with the first error of a task.
        self._idle: asyncio.Future[Exception | None] | None = None
        self._problem: Exception | None = None
        self._retry_at: dict[ScopeId, float] = {}
        #: The scopes that call the driver, or will.
        self._calling: set[ScopeId] = set()

    # -- the state, as the engine commits it

    def note_scope(self, scope_id: ScopeId, scope: Scope | None) -> None:
        """Take note of a scope's committed state; None if it was removed."""
        if scope is None:
            self._deadlines.put(scope_id, None)
            self._unblocked.pop(scope_id, None)
            self._turns.pop(scope_id, None)
            self._looks.pop(scope_id, None)
            self._unseen.pop(scope_id, None)
            self._retry_at.pop(scope_id, None)
            return
        if scope_id in self._unblocked and not any(event.blocked for event in scope.events.values()):
            del self._unblocked[scope_id]
        started = _started_events(scope)
        if not started:
            self._looks.pop(scope_id, None)
            self._unseen.pop(scope_id, None)
        elif not self._has_looked(scope, started):
            self._unseen[scope_id] = None
        self._schedule(scope)

    def note_all_scopes(self) -> None:
        """Take note of every scope anew: the policy or the whole state has changed."""
        for scope_id, scope in self._fleet.scopes().items():
            self.note_scope(scope_id, scope)

    def note_unblocked(self, scope_id: ScopeId) -> None:
        """Take note that what blocks events of a scope may be out of their way; the scope is due."""
        scope = self._fleet.scopes().get(scope_id)
        if scope is not None:
            self._unblocked[scope_id] = self._fleet.clock.now()
            self._schedule(scope)

    def look(self, scope_id: ScopeId) -> None:
        """Look at the impacts of a scope again, at once."""
        self._looks.pop(scope_id, None)
        self.note_scope(scope_id, self._fleet.scopes().get(scope_id))

    def next_deadline(self) -> datetime | None:
        """Return the next deadline of all scopes."""
        return self._deadlines.next()

    def has_work(self, now: datetime) -> bool:
        """Whether a scope is due or to be looked at that nobody attends to."""
        if self._unseen:
            return True
        deadline = self.next_deadline()
        return deadline is not None and deadline <= now

    # -- work

    def begin(self, now: datetime, *, everything: bool = False) -> None:
        """Start on the scopes that are due or to be looked at, in the order of their names.

        A scope whose request failed a moment ago waits, unless ``everything`` is to be done. A scope to be
        looked at waits until a call to the driver is free for it. While nothing may be done, all wait.
        """
        if not self.has_work(now) or not self._fleet.membership.may_act:
            return
        self._leave_looks_to_others(now)
        due = self._take_due(now)
        waiting = set() if everything else {one for one in due if self._backs_off(one)}
        for scope_id in waiting:
            self._schedule(self._fleet.scopes()[scope_id])
        ready = (one for one in self._unseen if everything or not self._backs_off(one))
        unseen = set(islice(ready, DRIVER_CALLS - len(self._calling)))
        self._calling |= unseen
        for scope_id in sorted((due - waiting) | unseen):
            self._unseen.pop(scope_id, None)
            self._queue.append((scope_id, scope_id in due))
        self._start()

    async def tick(self) -> None:
        """Look at what is to be looked at and handle what is due, until nothing is left.

        Raises the first error of a scope, after the others have been handled; this scope is still due.
        """
        problem = await self._work()
        if problem is not None:
            raise problem

    async def rest(self) -> None:
        """Return once nothing is left to look at and nothing is due, or once a request has failed."""
        await self._work()

    async def close(self) -> None:
        """Wait for what is under way."""
        if self._tasks:
            await self._until_idle()

    async def watch(self) -> None:
        """Look at the machines that the driver points out, as long as it does."""
        try:
            async for machine in self.driver.watch():
                self.look(machine.scope)
        except Exception:  # deadlines go on without the driver's hints
            log.exception(LogMessage("driver_watch_failed", driver=self.driver.name))

    async def _work(self) -> Exception | None:
        problem: Exception | None = None
        while problem is None:
            self.begin(self._fleet.clock.now(), everything=True)
            if not self._tasks:
                break
            problem = await self._until_idle()
        return problem

    async def _until_idle(self) -> Exception | None:
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._idle)

    def _start(self) -> None:
        while self._queue and len(self._tasks) < MOST_AT_ONCE:
            scope_id, due = self._queue.popleft()
            if scope_id in self._tasks:
                self._again[scope_id] = due or self._again.get(scope_id, False)
                continue
            self._tasks[scope_id] = asyncio.create_task(self._run(scope_id, due=due))

    async def _run(self, scope_id: ScopeId, *, due: bool) -> None:
        """Attend to a scope; a task that is cancelled before its first step never counts as finished."""
        try:
            await self._attend(scope_id, due=due)
        except Exception as problem:
            self._note_problem(scope_id, problem)
        finally:
            self._finish(scope_id)

    def _note_problem(self, scope_id: ScopeId, problem: Exception) -> None:
        # A full disk fails many scopes at once; the log needs it once.
        if self._problem is None:
            expected = isinstance(problem, StorageError | ContendedError)
            log.error(
                LogMessage("tick_failed", scope=scope_id, problem=problem if expected else None),
                exc_info=None if expected else problem,
            )
            self._problem = problem

    def _finish(self, scope_id: ScopeId) -> None:
        del self._tasks[scope_id]
        if scope_id in self._again:
            self._queue.append((scope_id, self._again.pop(scope_id)))
        self._start()
        if not self._tasks:
            first, self._problem = self._problem, None
            if self._idle is not None:
                self._idle.set_result(first)
                self._idle = None

    async def _attend(self, scope_id: ScopeId, *, due: bool) -> None:
        """Look at a scope's impacts, and request what they and its deadlines lead to."""
        try:
            await self._look_and_request(scope_id, due=due)
            if scope_id in self._unseen and self._fleet.membership.rank(scope_id) == 0:
                # The request has started an impact.
                del self._unseen[scope_id]
                await self._look_and_request(scope_id, due=False)
            self._retry_at.pop(scope_id, None)
        except Exception:
            self._back_off(scope_id)
            raise
        finally:
            remaining = self._fleet.scopes().get(scope_id)
            if remaining is None:
                self.note_scope(scope_id, None)
            else:
                self._schedule(remaining)

    async def _look_and_request(self, scope_id: ScopeId, *, due: bool) -> None:
        try:
            scope = self._fleet.scopes().get(scope_id)
            if scope is None:
                return
            outcomes = await self._look(scope)
        finally:
            self._release(scope_id)
        if due or outcomes:
            unblocked_at = self._unblocked.pop(scope_id, None)
            try:
                await self._submit(scope_id, outcomes)
            except Exception:
                if unblocked_at is not None:
                    self._unblocked.setdefault(scope_id, unblocked_at)
                raise

    async def _submit(self, scope_id: ScopeId, outcomes: Mapping[Impact, Observation]) -> None:
        def build(view: View) -> Plan:
            scope = view.find_scope(scope_id)
            if scope is None:
                return Plan()
            # The impacts may be others by now: another attempt, another machine of the same name.
            current = self._impacts(scope) if outcomes else ()
            observations = tuple(outcomes[impact] for impact in current if impact in outcomes)
            polled_at = self._fleet.polled_at(scope_id)
            polled = {} if polled_at is None else {scope_id: polled_at}
            tick: Command = Tick(scopes=(scope_id,), polled=polled)
            report = ReportOutcomes(scope=scope_id, observations=observations)
            # A poll that another node has written may have ended the silence.
            disabled_at = end_of_silence(scope, polled_at, self._fleet.policy)
            silent = disabled_at is not None and disabled_at <= self._fleet.clock.now()
            return Plan((report, tick) if observations else (tick,), needs_whole_journal=silent)

        result = await self._fleet.submit(Caller(PLATFORM, new_request_id()), build)
        for change in result.changes:
            if isinstance(change, EventChanged) and change.what is EventMilestone.OVERDUE:
                waiting = len(change.event.undone)
                log.warning(LogMessage("impact_overdue", event_id=change.event.id, machines=waiting))

    # -- impacts

    async def _look(self, scope: Scope) -> Mapping[Impact, Observation]:
        """Begin the due impacts of a scope that have not begun; return the observations that matter."""
        started = _started_events(scope)
        if not started:
            return {}
        now, impacts = self._fleet.clock.now(), self._impacts(scope)
        due = [impact for impact in impacts if impact.since <= now]
        again = [impact.since for impact in impacts if impact.since > now]
        outcomes: Mapping[Impact, Observation] = {}
        if due:
            if scope.id not in self._calling and len(self._calling) >= DRIVER_CALLS:
                self._looks.pop(scope.id, None)
                self._unseen[scope.id] = None
                return {}
            self._calling.add(scope.id)
            try:
                async with asyncio.timeout(DRIVER_TIMEOUT):
                    observations = await self._observe(due, now)
                again += [seen.again_at for seen in observations if seen.again_at is not None]
                observed = zip(due, observations, strict=True)
                outcomes = {impact: seen for impact, seen in observed if _matters(seen)}
            except StorageError:
                raise
            except Exception:  # the driver's errors are as unknown as its machines
                log.exception(LogMessage("driver_failed", driver=self.driver.name, scope=scope.id))
                again.append(self._fleet.clock.now() + LOOK_AGAIN_AFTER)
        self._looks[scope.id] = Look(started, impacts, min(again, default=None))
        current = self._fleet.scopes().get(scope.id)
        if current is not scope:
            # Meanwhile an event has ended, or another one has started.
            self.note_scope(scope.id, current)
        return outcomes

    async def _observe(self, impacts: Sequence[Impact], now: datetime) -> Sequence[Observation]:
        observations = await self.driver.observe(impacts, now)
        not_begun = {
            (seen.event, seen.machine) for seen in observations if seen.progress is Progress.NOT_BEGUN
        }
        if not not_begun:
            return observations
        to_begin = [impact for impact in impacts if (impact.event, impact.machine.name) in not_begun]
        key = f"driver/{self.driver.name}/{impacts[0].machine.scope}"
        lease = await self._fleet.leases.hold(key)
        if lease is None:
            return [_look_again(seen, now + LASTS) for seen in observations]
        await self.driver.apply(to_begin, lease)
        observations = await self.driver.observe(impacts, now)
        # After a call that failed or took too long, the driver may still act: the lease ends by itself.
        await self._fleet.leases.release(key)
        return observations

    def _has_looked(self, scope: Scope, started: Set[EventId]) -> bool:
        """Whether every outstanding impact of a scope was looked at."""
        look = self._looks.get(scope.id)
        # Most looks are wanted for an event that has just started; its impacts need not be listed to know.
        if look is None or not started <= look.events:
            return False
        return set(look.impacts).issuperset(self._impacts(scope))

    def _release(self, scope_id: ScopeId) -> None:
        """Leave a scope's call to the driver to others."""
        self._calling.discard(scope_id)
        if self._unseen:
            self.wake()

    def _impacts(self, scope: Scope) -> Sequence[Impact]:
        impacts = outstanding_impacts(scope, self._fleet.policy)
        return [impact for impact in impacts if self.driver.reaches(impact.host)]

    # -- deadlines

    def _take_due(self, now: datetime) -> set[ScopeId]:
        """Remove and return the scopes that are due and whose turn has come."""
        due: set[ScopeId] = set()
        for scope_id in self._deadlines.take(now):
            rank = 0 if self._turns.pop(scope_id, None) else self._fleet.membership.rank(scope_id)
            if rank == 0:
                due.add(scope_id)
            else:
                scope = self._fleet.scopes()[scope_id]
                self._turns[scope_id] = Turn(self._deadline(scope), now + rank * TURN)
                self._schedule(scope)
        return due

    def _leave_looks_to_others(self, now: datetime) -> None:
        """Turn the scopes to be looked at into scopes that are due, unless it is this node's turn."""
        if self._fleet.membership.alone:
            return
        for scope_id in [one for one in self._unseen if self._fleet.membership.rank(one)]:
            del self._unseen[scope_id]
            scope, look = self._fleet.scopes()[scope_id], self._looks.get(scope_id)
            # A look that is due already is not put off by a further impact.
            due = now if look is None or look.again_at is None else min(look.again_at, now)
            self._looks[scope_id] = Look(_started_events(scope), self._impacts(scope), due)
            self._schedule(scope)

    def _deadline(self, scope: Scope) -> datetime | None:
        """Return when a scope is due: by its own deadline, or to be looked at again."""
        look = self._looks.get(scope.id)
        deadline = next_deadline(scope, self._fleet.polled_at(scope.id), self._fleet.policy)
        again_at = None if look is None else look.again_at
        instants = deadline, again_at, self._unblocked.get(scope.id)
        return min((instant for instant in instants if instant is not None), default=None)

    def _schedule(self, scope: Scope) -> None:
        deadline, turn = self._deadline(scope), self._turns.get(scope.id)
        if turn is not None and turn.deadline == deadline:
            deadline = turn.at
        elif turn is not None:
            del self._turns[scope.id]
        if self._deadlines.put(scope.id, deadline) or scope.id in self._unseen:
            self.wake()

    def _back_off(self, scope_id: ScopeId) -> None:
        """Keep a scope due although its observations were made; without any, have it looked at."""
        self._retry_at[scope_id] = asyncio.get_running_loop().time() + RETRY_AFTER
        if scope_id in self._looks:
            self._looks[scope_id] = self._looks[scope_id]._replace(again_at=self._fleet.clock.now())
        self.note_scope(scope_id, self._fleet.scopes().get(scope_id))

    def _backs_off(self, scope_id: ScopeId) -> bool:
        return asyncio.get_running_loop().time() < self._retry_at.get(scope_id, 0.0)


def without_timer() -> None:
    """Do nothing: no timer runs."""


def _started_events(scope: Scope) -> Set[EventId]:
    """Return the events whose impacts may be outstanding."""
    return {event.id for event in scope.events.values() if event.status is STARTED}


def _look_again(observation: Observation, at: datetime) -> Observation:
    """Return an observation of an impact that another node begins, to be repeated at an instant."""
    return observation if observation.again_at is not None else observation._replace(again_at=at)


def _matters(observation: Observation) -> bool:
    """Whether an observation may change anything."""
    return observation.progress in _ENDED or not observation.exists or observation.problem is not None
