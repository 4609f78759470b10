"""The journal as the console reads it: every line in words, newest first, as far as somebody wants it."""

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import assert_never

from fairwarning.core.changes import (
    Change,
    EventChanged,
    EventMilestone,
    MachineChanged,
    MachineRemoved,
    Published,
    ScopeMade,
    ScopePropertiesChanged,
    ScopeRemoved,
)
from fairwarning.core.history import (
    ActionNote,
    CommandRefused,
    HistoryEntry,
    Note,
    OperatorAction,
    to_history_entry,
)
from fairwarning.core.model import Machine, ScopeId, ScopeProperties, VmName
from fairwarning.engine.ports import Entry, Store
from fairwarning.formats.durations import for_people

#: How many lines one look at the journal reads, and how many one page goes through at the most.
READ, MOST_READ = 1000, 20_000

#: How many lines a page shows.
PAGE = 100

#: How many excerpts are kept at hand.
EXCERPTS = 64

#: How many changes of events are kept at hand, and how many lines they are looked for in at first.
AT_HAND, LOOK_BACK = 2000, 10_000

#: Of how many scopes they are kept.
SCOPES = 16

#: Every kind of line there is, and what it tells.
KINDS: Mapping[str, str] = {
    EventMilestone.SCHEDULED: "an event was announced",
    EventMilestone.SHOWN: "an event became visible to guests",
    EventMilestone.APPROVED: "an event was approved",
    EventMilestone.STARTED: "an impact began",
    EventMilestone.PROGRESSED: "an impact ended on a machine",
    EventMilestone.FAILED: "an impact failed and will be tried again",
    EventMilestone.FINISHED: "an event was over",
    EventMilestone.CANCELLED: "an event was withdrawn",
    "refused": "a request was against the rules",
    OperatorAction.FAULT: "an endpoint was made to misbehave",
    OperatorAction.HEALED: "an endpoint was healed",
    OperatorAction.ADVANCED: "time was moved on",
    OperatorAction.SPEED: "durations were made to pass faster or slower",
    "made": "a scope was made",
    "changed": "a scope changed as a whole",
    "removed": "a scope was removed",
    "machine": "a machine is new or changed",
    "machine-gone": "a machine was removed",
    "published": "guests see a new document",
}


def tell(entry: Entry) -> HistoryEntry:
    """Return a line of the journal in words."""
    return to_history_entry(entry.seq, entry.at, entry.change) or _otherwise(entry, entry.change)


def _otherwise(entry: Entry, change: Change | Note) -> HistoryEntry:
    match change:
        case ScopeMade(facts=facts, by=by):
            return _line(entry, "made", type=facts.kind, by=by, reason=_facts(facts))
        case ScopePropertiesChanged(facts=facts, by=by):
            return _line(entry, "changed", type=facts.kind, by=by, reason=_facts(facts))
        case ScopeRemoved():
            return _line(entry, "removed")
        case MachineChanged(machine=machine, by=by):
            said = _machine(machine)
            return _line(entry, "machine", machine.name, type=machine.power, by=by, reason=said)
        case MachineRemoved(name=name):
            return _line(entry, "machine-gone", name)
        case Published(incarnation=incarnation):
            return _line(entry, "published", reason=f"document {incarnation}")
        case EventChanged(event=event, what=what, by=by, reason=reason):
            told = _line(entry, what, *event.resources, type=event.kind, by=by, reason=reason)
            return replace(told, event=event.id)
        case CommandRefused(asked=asked, by=by, reason=reason):
            return _line(entry, "refused", type=asked, by=by, reason=reason)
        case ActionNote(deed=deed, by=by, detail=detail):
            return _line(entry, deed, by=by, reason=detail)
        case _:
            assert_never(change)


def _line(
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


def _facts(facts: ScopeProperties) -> str:
    notice, walk = facts.model.terminate_notice, facts.walk
    said = (
        f"model {facts.model.number}",
        "" if notice is None else f"terminate notice {for_people(notice)}",
        "nobody polls" if facts.enabled_at is None else "polled",
        "" if walk is None else f"{walk.cause} at domain {'-' if walk.current is None else walk.current}",
        "being deleted" if facts.deleting else "",
    )
    return ", ".join(filter(None, said))


def _machine(machine: Machine) -> str:
    spot = "Spot, " if machine.spot else ""
    return f"{spot}on {machine.host}, model {machine.model.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines somebody wants; what is left empty does not matter."""

    scope: str = ""
    machine: str = ""
    event: str = ""
    who: str = ""
    kind: str = ""
    text: str = ""

    @property
    def within(self) -> ScopeId | None:
        """The scope that all of it happened in, if there is one."""
        return ScopeId(self.scope) if self.scope else None

    def takes(self, told: HistoryEntry) -> bool:
        """Whether a line is wanted; letters are compared without regard to case."""
        names = [name.casefold() for name in told.resources]
        return (
            self.scope in ("", told.scope)
            and self.kind in ("", told.kind)
            and self.machine.casefold() in ("", *names)
            and (told.event or "").startswith(self.event.upper())
            and self.who.casefold() in told.by.casefold()
            and self.text.casefold() in _whole(told, names)
        )


def _whole(told: HistoryEntry, names: Sequence[str]) -> str:
    parts = (told.kind, told.scope, told.event or "", told.type, told.by, told.reason)
    return " ".join((*parts, *names)).casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Some lines, newest first, and where to look for older ones; None means that there are none."""

    lines: tuple[HistoryEntry, ...]
    older: int | None
    complete: bool = True
    #: The number of the newest line when it was made.
    upto: int = 0

    def grown(self, news: Sequence[HistoryEntry], upto: int, most: int) -> "Excerpt":
        """Return the excerpt with newer lines in front, and no more lines than ``most``."""
        lines = (*news, *self.lines)
        older = lines[most - 1].seq if len(lines) > most else self.older
        return replace(self, lines=lines[:most], older=older, upto=upto)


async def excerpt(
    store: Store, wanted: Wanted, before: int | None = None, most: int = PAGE, reach: int = MOST_READ
) -> Excerpt:
    """Return the newest lines older than ``before``; it gives up after many that nobody wants."""
    upto = await _newest(store)
    start = upto + 1 if before is None else min(before, upto + 1)
    found: list[HistoryEntry] = []
    async with aclosing(_backwards(store, start, wanted.within)) as lines:
        async for entry in lines:
            if reach == 0:
                return Excerpt(lines=tuple(found), older=entry.seq + 1, complete=False, upto=upto)
            reach -= 1
            told = tell(entry)
            if not wanted.takes(told):
                continue
            if len(found) == most:
                return Excerpt(lines=tuple(found), older=found[-1].seq, upto=upto)
            found.append(told)
    return Excerpt(lines=tuple(found), older=None, upto=upto)


async def _backwards(store: Store, before: int, scope: ScopeId | None) -> AsyncGenerator[Entry, None]:
    """Yield the lines before a line, newest first, of a scope or all.

    Those of one scope may lie far apart: the stretch that is read at once grows while there are few in it.
    """
    length = READ
    while before > 1:
        start = max(1, before - length)
        found = await store.journal(after=start - 1, limit=min(READ, before - start), scope=scope)
        inside = [entry for entry in reversed(found) if entry.seq < before]
        if len(inside) == READ < before - start:
            # There may be more in it than was read.
            length //= 2
            continue
        for entry in inside:
            yield entry
        before = start
        if len(inside) < READ // 2:
            length *= 2


async def _newest(store: Store) -> int:
    newest = await store.newest()
    return 0 if newest is None else newest.seq


async def everything(store: Store, wanted: Wanted) -> AsyncGenerator[HistoryEntry, None]:
    """Yield every line that is wanted, oldest first."""
    after = 0
    while entries := await store.journal(after=after, limit=READ, scope=wanted.within):
        for told in map(tell, entries):
            if wanted.takes(told):
                yield told
        after = entries[-1].seq


@dataclass(slots=True)
class Kept:
    """The latest changes of events, as far as the journal was read."""

    entries: deque[Entry]
    upto: int

    def take(self, news: Sequence[Entry]) -> None:
        """Keep what is new; two who ask at once read the same lines, and each is kept once."""
        fresh = [entry for entry in news if entry.seq > self.upto]
        self.entries.extend(entry for entry in fresh if isinstance(entry.change, EventChanged))
        self.upto = fresh[-1].seq if fresh else self.upto


class Recent:
    """What the journal says lately, kept at hand so that a live page need not read it again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._excerpts: dict[tuple[object, ...], Excerpt] = {}
        self._kept: dict[ScopeId | None, Kept] = {}

    async def entries(self, scope: ScopeId | None = None) -> Sequence[Entry]:
        """Return the latest changes of events, of a scope or all, in order."""
        kept = self._kept.pop(scope, None) or await self._begun(scope)
        self._kept[scope] = kept
        if len(self._kept) > SCOPES:
            del self._kept[next(iter(self._kept))]
        newest = await _newest(self._store)
        while news := await self._store.journal(after=kept.upto, limit=READ, scope=scope):
            kept.take(news)
        # What was there before has been read, whosever it was.
        kept.upto = max(kept.upto, newest)
        return tuple(kept.entries)

    async def excerpt(
        self, wanted: Wanted, before: int | None = None, most: int = PAGE, reach: int = MOST_READ
    ) -> Excerpt:
        """Return what ``excerpt`` would, but look only through what is new since the same was asked last."""
        key = (wanted, before, most, reach)
        found = self._excerpts.pop(key, None)
        if found is not None and before is None:
            found = await self._renewed(found, wanted, most)
        if found is None:
            found = await excerpt(self._store, wanted, before, most, reach)
        # Nothing is ever written before a line that is there.
        if before is None or before <= found.upto:
            self._excerpts[key] = found
        if len(self._excerpts) > EXCERPTS:
            del self._excerpts[next(iter(self._excerpts))]
        return found

    async def _renewed(self, known: Excerpt, wanted: Wanted, most: int) -> Excerpt | None:
        """Return a known excerpt with what is new; None if that is too much."""
        newest = await _newest(self._store)
        news = await self._store.journal(after=known.upto, limit=READ, scope=wanted.within)
        if len(news) == READ:
            return None
        told = [line for line in map(tell, reversed(news)) if wanted.takes(line)]
        return known.grown(told, max(newest, news[-1].seq if news else 0), most)

    async def _begun(self, scope: ScopeId | None) -> Kept:
        """Return what is to be kept from the start; it gives up after many lines that are about no event."""
        upto = await _newest(self._store)
        kept, left = Kept(deque(maxlen=AT_HAND), upto), LOOK_BACK
        async with aclosing(_backwards(self._store, upto + 1, scope)) as lines:
            async for entry in lines:
                if isinstance(entry.change, EventChanged):
                    kept.entries.appendleft(entry)
                left -= 1
                if not left or len(kept.entries) == AT_HAND:
                    break
        return kept
