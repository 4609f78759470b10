"""The journal as the console reads it: every line described, filtered, newest first.

The store reads the journal forwards; the console shows it backwards, a page at a time. ``read_excerpt``
searches backwards from a line until it has a page of matching lines, and stops after ``MOST_READ`` lines,
so that a filter that matches nothing cannot read the whole journal. The excerpt then says where the
search stopped.

A live page asks for the same excerpt again and again. ``JournalCache`` keeps the last answers and adds
the lines that are new, which is possible because the journal only grows at its end.
"""

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import assert_never

from fairwarning.core.changes import (
    EventChanged,
    EventMilestone,
    MachineChanged,
    MachineRemoved,
    PollsRecorded,
    Published,
    ScopeMade,
    ScopePropertiesChanged,
    ScopeRemoved,
    TextChanged,
)
from fairwarning.core.errors import StorageError
from fairwarning.core.history import (
    ActionNote,
    CommandRefused,
    HistoryEntry,
    OperatorAction,
    to_history_entry,
)
from fairwarning.core.maintenance.values import Maintenance, MaintenancePhase
from fairwarning.core.model import Machine, ScopeId, ScopeProperties, VmName
from fairwarning.core.stored.kinds import HOLD, HOLD_OF_HOST, MAINTENANCE, kind_name
from fairwarning.engine.ports import Entry, Line, Store
from fairwarning.formats import timestamps
from fairwarning.formats.counts import format_count
from fairwarning.formats.durations import for_people

#: How many lines one read of the journal fetches, and how many lines one page reads at most.
CHUNK, MOST_READ = 1000, 20_000

#: How many lines a page shows.
PAGE_SIZE = 100

#: How many excerpts are cached.
MOST_EXCERPTS = 64

#: How many changes of events are cached per scope, and how many lines are read to find them.
MOST_CHANGES, LOOK_BACK = 2000, 10_000

#: For how many scopes changes are cached.
MOST_SCOPES = 16

#: Every kind of line, and its meaning.
KINDS: Mapping[str, str] = {
    EventMilestone.SCHEDULED: "an event was announced",
    EventMilestone.SHOWN: "an event became visible to guests",
    EventMilestone.APPROVED: "an event was approved",
    EventMilestone.OPENED: "the window of an event's maintenance opened",
    EventMilestone.BLOCKED: "an event was due and something kept it from starting",
    EventMilestone.POSTPONED: "an event got a later NotBefore",
    EventMilestone.STARTED: "an impact started",
    EventMilestone.PROGRESSED: "an impact ended on a machine",
    EventMilestone.FAILED: "an impact failed and will be retried",
    EventMilestone.OVERDUE: "an impact takes longer than it should",
    EventMilestone.FINISHED: "an event finished",
    EventMilestone.CANCELLED: "an event was cancelled",
    "refused": "a request was refused",
    OperatorAction.FAULT: "an endpoint fault was set",
    OperatorAction.HEALED: "an endpoint fault was cleared",
    OperatorAction.ADVANCED: "the clock was advanced",
    OperatorAction.SPEED: "the speed was changed",
    OperatorAction.RESTORED: "the database was restored",
    OperatorAction.HELD: "the fleet or a host was put on hold",
    OperatorAction.UNHELD: "a hold ended",
    "made": "a scope was created",
    "changed": "the properties of a scope changed",
    "removed": "a scope was removed",
    "machine": "a machine was added or changed",
    "machine-gone": "a machine was removed",
    "published": "a new document was published",
    "polled": "the last polls of scopes were recorded",
    "text": "a document, a maintenance, a hold, the version of an inventory, first reads of an event or the"
    " end of a session was stored or removed",
}


def describe(entry: Entry) -> HistoryEntry:
    """Return a journal line as the console shows it."""
    return to_history_entry(entry.seq, entry.at, entry.change) or _describe(entry, entry.change)


def _describe(entry: Entry, change: Line) -> HistoryEntry:
    match change:
        case ScopeMade(facts=facts, by=by):
            return _entry(entry, "made", type=facts.kind, by=by, reason=_scope_summary(facts))
        case ScopePropertiesChanged(facts=facts, by=by):
            return _entry(entry, "changed", type=facts.kind, by=by, reason=_scope_summary(facts))
        case ScopeRemoved():
            return _entry(entry, "removed")
        case MachineChanged(machine=machine, by=by):
            summary = _machine_summary(machine)
            return _entry(entry, "machine", machine.name, type=machine.power, by=by, reason=summary)
        case MachineRemoved(name=name):
            return _entry(entry, "machine-gone", name)
        case Published(incarnation=incarnation):
            return _entry(entry, "published", reason=f"document {incarnation}")
        case EventChanged(event=event, what=what, by=by, reason=reason):
            described = _entry(entry, what, *event.resources, type=event.kind, by=by, reason=reason)
            return replace(described, event=event.id)
        case CommandRefused(asked=asked, by=by, reason=reason):
            return _entry(entry, "refused", type=asked, by=by, reason=reason)
        case ActionNote(deed=deed, by=by, detail=detail):
            return _entry(entry, deed, by=by, reason=detail)
        case PollsRecorded(scopes=scopes):
            return _entry(entry, "polled", reason=format_count(len(scopes), "scope"))
        case TextChanged(key=key, text=text):
            return _describe_text(entry, key, text)
        case _:
            assert_never(change)


def _describe_text(entry: Entry, key: str, text: str | None) -> HistoryEntry:
    if HOLD.has(key) or HOLD_OF_HOST.has(key):
        host = "" if HOLD.has(key) else f" on host {key.removeprefix(HOLD_OF_HOST.prefix)}"
        hold = None if text is None else HOLD.decode(text)
        what = f"hold{host} ended" if hold is None else f"hold{host}: {hold.reason or 'no reason given'}"
        return _entry(entry, "text", type=kind_name(key), by=hold.by if hold else "", reason=what)
    if MAINTENANCE.has(key) and text is not None:
        maintenance = MAINTENANCE.decode(text)
        # Announced by this principal; who did the rest is in the lines of the events.
        by = maintenance.by if maintenance.created_at == entry.at else ""
        return _entry(entry, "text", type=kind_name(key), by=by, reason=_maintenance_summary(maintenance))
    return _entry(entry, "text", type=kind_name(key), reason=key)


def _entry(
    entry: Entry, kind: str, *names: VmName, type: str = "", by: str = "", reason: str = ""
) -> HistoryEntry:
    return HistoryEntry(
        seq=entry.seq,
        at=entry.at,
        kind=kind,
        scope=entry.change.scope,
        event=None,
        type=type,
        resources=names,
        by=by,
        reason=reason,
    )


def _maintenance_summary(maintenance: Maintenance) -> str:
    detail = ""
    if maintenance.phase is MaintenancePhase.SCHEDULED:
        detail = f", not before {timestamps.for_people(maintenance.not_before)}"
    elif maintenance.reason:
        detail = f": {maintenance.reason}"
    return f"{maintenance.cause} of {maintenance.subject} is {maintenance.phase}{detail}"


def _scope_summary(facts: ScopeProperties) -> str:
    notice, rollout = facts.model.terminate_notice, facts.walk
    parts = (
        f"model {facts.model.number}",
        "" if notice is None else f"terminate notice {for_people(notice)}",
        "not polled" if facts.enabled_at is None else "polled",
        ""
        if rollout is None
        else f"{rollout.cause} at domain {'-' if rollout.current is None else rollout.current}",
        "being deleted" if facts.deleting else "",
    )
    return ", ".join(filter(None, parts))


def _machine_summary(machine: Machine) -> str:
    spot = "Spot, " if machine.spot else ""
    return f"{spot}on {machine.host}, model {machine.model.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """A filter for lines of the history; an empty field matches every line."""

    scope: str = ""
    machine: str = ""
    event: str = ""
    who: str = ""
    kind: str = ""
    text: str = ""

    @property
    def scope_id(self) -> ScopeId | None:
        """The scope to which the filter is limited, if any."""
        return ScopeId(self.scope) if self.scope else None

    def matches(self, entry: HistoryEntry) -> bool:
        """Whether a line passes the filter; case is ignored except in the scope and the kind."""
        names = [name.casefold() for name in entry.resources]
        return (
            self.scope in ("", entry.scope)
            and self.kind in ("", entry.kind)
            and self.machine.casefold() in ("", *names)
            and (entry.event or "").startswith(self.event.upper())
            and self.who.casefold() in entry.by.casefold()
            and self.text.casefold() in _full_text(entry, names)
        )


def _full_text(entry: HistoryEntry, names: Sequence[str]) -> str:
    parts = (entry.kind, entry.scope, entry.event or "", entry.type, entry.by, entry.reason)
    return " ".join((*parts, *names)).casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Some lines, newest first; ``older`` is the line before which to continue, None at the beginning."""

    lines: tuple[HistoryEntry, ...]
    older: int | None
    #: False if the search stopped before it reached the beginning of the journal or filled the page.
    complete: bool = True
    #: The number of the newest journal line when the excerpt was read.
    upto: int = 0

    def extended(self, newer: Sequence[HistoryEntry], upto: int, most: int) -> "Excerpt":
        """Return the excerpt with newer lines in front, cut to ``most`` lines."""
        lines = (*newer, *self.lines)
        older = lines[most - 1].seq if len(lines) > most else self.older
        return replace(self, lines=lines[:most], older=older, upto=upto)


async def read_excerpt(
    store: Store,
    criteria: HistoryFilter,
    before: int | None = None,
    most: int = PAGE_SIZE,
    reach: int = MOST_READ,
) -> Excerpt:
    """Return the newest matching lines before line ``before``; reads at most ``reach`` lines."""
    upto = await _newest(store)
    start = upto + 1 if before is None else min(before, upto + 1)
    matching: list[HistoryEntry] = []
    async with aclosing(_backwards(store, start, criteria.scope_id)) as entries:
        async for entry in entries:
            if reach == 0:
                return Excerpt(lines=tuple(matching), older=entry.seq + 1, complete=False, upto=upto)
            reach -= 1
            described = describe(entry)
            if not criteria.matches(described):
                continue
            if len(matching) == most:
                return Excerpt(lines=tuple(matching), older=matching[-1].seq, upto=upto)
            matching.append(described)
    return Excerpt(lines=tuple(matching), older=None, upto=upto)


async def _backwards(store: Store, before: int, scope: ScopeId | None) -> AsyncGenerator[Entry, None]:
    """Yield the lines before a line, newest first, of one scope or of all.

    The store can only read forwards from a line, so this reads one range of line numbers after the other.
    The lines of one scope may lie far apart: the range doubles while it yields few lines, and halves if
    it holds too many.
    """
    length = CHUNK
    while before > 1:
        start = max(1, before - length)
        entries = await store.journal(after=start - 1, limit=min(CHUNK, before - start), scope=scope)
        inside = [entry for entry in reversed(entries) if entry.seq < before]
        if len(inside) == CHUNK < before - start:
            # The range may hold more lines than the limit let through.
            length //= 2
            continue
        for entry in inside:
            yield entry
        before = start
        if len(inside) < CHUNK // 2:
            length *= 2


async def _newest(store: Store) -> int:
    return await store.last()


async def read_all(store: Store, criteria: HistoryFilter) -> AsyncGenerator[HistoryEntry, None]:
    """Yield every matching line, oldest first."""
    after = 0
    while entries := await store.journal(after=after, limit=CHUNK, scope=criteria.scope_id):
        for described in map(describe, entries):
            if criteria.matches(described):
                yield described
        after = entries[-1].seq


@dataclass(slots=True)
class CachedChanges:
    """The latest changes of events up to journal line ``upto``."""

    entries: deque[Entry]
    upto: int

    def add(self, news: Sequence[Entry]) -> None:
        """Add new lines; concurrent readers fetch the same lines, and each line is added once."""
        fresh = [entry for entry in news if entry.seq > self.upto]
        self.entries.extend(entry for entry in fresh if isinstance(entry.change, EventChanged))
        self.upto = fresh[-1].seq if fresh else self.upto


class JournalCache:
    """The newest part of the journal in memory, so that live pages read only new lines."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._excerpts: dict[tuple[object, ...], Excerpt] = {}
        self._changes: dict[ScopeId | None, CachedChanges] = {}

    async def event_changes(self, scope: ScopeId | None = None) -> Sequence[Entry]:
        """Return the latest changes of events, of one scope or of all, in order.

        While the store cannot be read, these are the changes that were read before: pages go on to show the
        pending events, which are in memory.
        """
        changes = self._changes.pop(scope, None)
        try:
            changes = changes or await self._read_changes(scope)
            newest = await _newest(self._store)
            while news := await self._store.journal(after=changes.upto, limit=CHUNK, scope=scope):
                changes.add(news)
            # Lines of other scopes up to here need not be searched again.
            changes.upto = max(changes.upto, newest)
        except StorageError:
            if changes is None:
                return ()
        self._changes[scope] = changes
        if len(self._changes) > MOST_SCOPES:
            del self._changes[next(iter(self._changes))]
        return tuple(changes.entries)

    async def excerpt(
        self,
        criteria: HistoryFilter,
        before: int | None = None,
        most: int = PAGE_SIZE,
        reach: int = MOST_READ,
    ) -> Excerpt:
        """Return the same as ``read_excerpt``, but read only the lines since the last equal call."""
        key = (criteria, before, most, reach)
        excerpt = self._excerpts.pop(key, None)
        if excerpt is not None and before is None:
            excerpt = await self._extend(excerpt, criteria, most)
        if excerpt is None:
            excerpt = await read_excerpt(self._store, criteria, before, most, reach)
        # The journal only grows at its end: an excerpt before an existing line never changes.
        if before is None or before <= excerpt.upto:
            self._excerpts[key] = excerpt
        if len(self._excerpts) > MOST_EXCERPTS:
            del self._excerpts[next(iter(self._excerpts))]
        return excerpt

    async def _extend(self, known: Excerpt, criteria: HistoryFilter, most: int) -> Excerpt | None:
        """Return a cached excerpt with the new lines; None if there are too many of them."""
        newest = await _newest(self._store)
        news = await self._store.journal(after=known.upto, limit=CHUNK, scope=criteria.scope_id)
        if len(news) == CHUNK:
            return None
        newer = [described for described in map(describe, reversed(news)) if criteria.matches(described)]
        return known.extended(newer, max(newest, news[-1].seq if news else 0), most)

    async def _read_changes(self, scope: ScopeId | None) -> CachedChanges:
        """Return the latest changes of events; reads at most ``LOOK_BACK`` lines."""
        upto = await _newest(self._store)
        changes, left = CachedChanges(deque(maxlen=MOST_CHANGES), upto), LOOK_BACK
        async with aclosing(_backwards(self._store, upto + 1, scope)) as entries:
            async for entry in entries:
                if isinstance(entry.change, EventChanged):
                    changes.entries.appendleft(entry)
                left -= 1
                if not left or len(changes.entries) == MOST_CHANGES:
                    break
        return changes
