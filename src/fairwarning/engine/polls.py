"""The last poll of every scope, and the first read of every pending event by each of its machines.

Both are recorded in memory, where they cost next to nothing, and written a little later, many at a time. The
last polls of all scopes that have become due are one line of the journal, so that a restarted server and
other nodes know which scopes are still being polled (R-22). The first reads of an event are a stored value,
``FIRST_READS``, which ends with the event (``core.decide``). Neither is a part of a scope: recording them
changes no scope, and no answer waits for them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from fairwarning.core.changes import PollsRecorded
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import NO_EVENTS, Event, EventId, Scope, ScopeId, ScopeProperties, VmName
from fairwarning.core.stored.kinds import FIRST_READS
from fairwarning.engine.clock import Clock, ManualClock
from fairwarning.engine.replica import Replica
from fairwarning.engine.requests import Build, Plan, View

#: The shortest time between two writes of polls, and of first reads, unless the clock is manual.
BETWEEN_POLLS, BETWEEN_READS = timedelta(minutes=1), timedelta(seconds=1)

#: The most scopes of one line, and the most events of one request: the request reads all of their scopes.
MOST_SCOPES, MOST_EVENTS = 1000, 100

#: When each machine of an event first read the event.
Reads = Mapping[VmName, datetime]


class DelayedWrite:
    """Calls ``write`` after it was asked for, in a task of its own, and at most once in a while.

    ``write`` returns whether something is left to write: then it is called again after a while.
    """

    def __init__(self, clock: Clock, between: timedelta, write: Callable[[], Awaitable[bool]]) -> None:
        self._clock = clock
        self._between = between.total_seconds()
        self._write = write
        self._waiting: asyncio.Task[None] | None = None
        self._written_at = float("-inf")

    def ask(self) -> None:
        """Write soon; however often this is asked for meanwhile, it is done once."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._write_soon())

    async def flush(self) -> None:
        """Write now."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
        await self._write()

    async def _write_soon(self) -> None:
        # On a manual clock, the place of a line must not depend on how fast real time passes.
        is_real = not isinstance(self._clock, ManualClock)
        if is_real:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._written_at + self._between - loop.time())
            self._written_at = loop.time()
        self._waiting = None
        if await self._write() and is_real:
            self.ask()


class Polls:
    """The last poll of every scope; ``write`` adds a line to the journal."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        refresh: timedelta,
        write: Callable[[PollsRecorded], Awaitable[None]],
    ) -> None:
        self._replica = replica
        #: How old the stored instant of a poll may become.
        self.refresh = refresh
        self._write = write
        self._latest: dict[ScopeId, datetime] = {}
        #: The scopes whose last poll should be written, in order.
        self._due: dict[ScopeId, None] = {}
        self._delayed = DelayedWrite(clock, BETWEEN_POLLS, self._write_due)

    def last(self, facts: ScopeProperties) -> datetime | None:
        """Return the last poll of a scope."""
        latest, stored = self._latest.get(facts.id), self._stored(facts)
        return stored if latest is None else latest if stored is None else max(latest, stored)

    def stale_at(self, facts: ScopeProperties) -> datetime | None:
        """Return when the stored poll becomes too old; None if no poll is stored."""
        stored = self._stored(facts)
        return None if stored is None else stored + self.refresh

    def record(self, scope_id: ScopeId, now: datetime) -> None:
        """Record a poll in memory."""
        self._latest[scope_id] = now

    def record_for_good(self, facts: ScopeProperties, now: datetime) -> None:
        """Record a poll in memory, and in the journal if the stored instant is too old."""
        self._latest[facts.id] = now
        stored = self._stored(facts)
        if stored is not None and now - stored >= self.refresh:
            self._due[facts.id] = None
            self._delayed.ask()

    def forget(self, scope_id: ScopeId) -> None:
        """Forget a scope that was removed."""
        self._latest.pop(scope_id, None)
        self._due.pop(scope_id, None)

    async def flush(self) -> None:
        """Write all instants that are due; a failure is left to a later poll."""
        await self._delayed.flush()

    async def _write_due(self) -> bool:
        while self._due:
            scopes = tuple(islice(self._due, MOST_SCOPES))
            for scope_id in scopes:
                del self._due[scope_id]
            try:
                # One instant stands for all: the earliest, so that no poll is recorded too late.
                await self._write(PollsRecorded(at=min(map(self._latest.__getitem__, scopes)), scopes=scopes))
            except FairWarningError:
                break  # the store's error is reported elsewhere
        return False

    def _stored(self, facts: ScopeProperties) -> datetime | None:
        enabled, stored = facts.polled_at, self._replica.polled_at(facts.id)
        return stored if enabled is None else enabled if stored is None else max(enabled, stored)


class FirstReads:
    """When each machine of a pending event first read the event; ``submit`` carries out a request."""

    def __init__(self, replica: Replica, clock: Clock, submit: Callable[[Build], Awaitable[object]]) -> None:
        self._replica = replica
        self._clock = clock
        self._submit = submit
        #: What is recorded and not yet stored.
        self._due: dict[ScopeId, dict[EventId, dict[VmName, datetime]]] = {}
        self._delayed = DelayedWrite(clock, BETWEEN_READS, self._write_due)

    def of(self, event: Event) -> Reads:
        """Return when each machine of an event first read the event, without those that have not."""
        stored, due = self._stored(event.id), self._due.get(event.scope, {}).get(event.id, {})
        known = _earliest(stored, due)
        return {name: known[name] for name in event.resources if name in known}

    def record(self, machine: VmName, events: Iterable[Event]) -> None:
        """Record that a machine reads events now, unless the machine has read them before."""
        for event in events:
            if machine not in self._stored(event.id):
                due = self._due.setdefault(event.scope, {}).setdefault(event.id, {})
                due.setdefault(machine, self._clock.now())
                self._delayed.ask()

    def note_scope(self, scope_id: ScopeId, scope: Scope | None) -> None:
        """Forget the events of a scope that are gone; the scope has changed."""
        due = self._due.get(scope_id)
        if due is not None:
            pending = NO_EVENTS if scope is None else scope.events
            self._due[scope_id] = {event_id: reads for event_id, reads in due.items() if event_id in pending}
            self._drop_if_empty(scope_id)

    async def flush(self) -> None:
        """Write everything that is not yet stored; what cannot be written stays in memory."""
        await self._delayed.flush()

    async def _write_due(self) -> bool:
        while self._due:
            every = ((scope_id, event_id) for scope_id, events in self._due.items() for event_id in events)
            written = {key: dict(self._due[key[0]][key[1]]) for key in islice(every, MOST_EVENTS)}
            try:
                await self._submit(partial(_plan, written))
            except FairWarningError:
                return True  # U-01, or the store's error, which is reported elsewhere
            for (scope_id, event_id), reads in written.items():
                self._forget(scope_id, event_id, reads)
        return False

    def _forget(self, scope_id: ScopeId, event_id: EventId, written: Reads) -> None:
        due = self._due.get(scope_id, {})
        if event_id in due:
            due[event_id] = {name: at for name, at in due[event_id].items() if name not in written}
            if not due[event_id]:
                del due[event_id]
            self._drop_if_empty(scope_id)

    def _drop_if_empty(self, scope_id: ScopeId) -> None:
        if not self._due[scope_id]:
            del self._due[scope_id]

    def _stored(self, event_id: EventId) -> Reads:
        return FIRST_READS.find(self._replica.text, event_id) or {}


def _plan(reads: Mapping[tuple[ScopeId, EventId], Reads], view: View) -> Plan:
    """Return what stores first reads together with those that are stored; the earliest stay."""
    texts: dict[str, str | None] = {}
    for (scope_id, event_id), new in reads.items():
        scope = view.find_scope(scope_id)
        if scope is not None and event_id in scope.events:
            stored = FIRST_READS.find(view.text, event_id) or {}
            texts[FIRST_READS.key(event_id)] = FIRST_READS.encode(_earliest(stored, new))
    return Plan(texts=lambda changes: texts)


def _earliest(some: Reads, others: Reads) -> Reads:
    return {**some, **others, **{name: min(some[name], others[name]) for name in some.keys() & others.keys()}}
