"""What was seen of a handler, and of the fleet around it, while a scenario was played.

Instants count from the beginning of the play, in wall time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import urlsplit

from fairwarning.core.document.parse import DocumentError, ObservedDocument, parse_document
from fairwarning.core.document.render import EVENTS_PATH, TRANSIENT, parse_start_requests
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import EventId


class Phase(StrEnum):
    """What a hook does to its machine."""

    DRAIN = "drain"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of a handler, and its answer if one came."""

    machine: str
    begun: timedelta
    method: str
    target: str
    body: bytes = b""
    ended: timedelta | None = None
    status: int | None = None
    answer: bytes = b""

    @property
    def about_events(self) -> bool:
        """Whether it went to the document, and not to some other part of the metadata."""
        return urlsplit(self.target).path.casefold() == EVENTS_PATH

    @property
    def document(self) -> ObservedDocument | None:
        """The document that was answered, if one was."""
        if self.method != "GET" or not self.about_events or self.status != 200:
            return None
        return _document(self.answer)

    @property
    def served(self) -> bool:
        """Whether the handler got to know what is scheduled."""
        return self.document is not None or (self.about_events and self.status == 304)

    @property
    def approving(self) -> tuple[EventId, ...]:
        """The events that it wants started."""
        if self.method != "POST" or not self.about_events:
            return ()
        try:
            return parse_start_requests(self.body)
        except InvalidError:
            return ()

    @property
    def accepted(self) -> bool:
        """Whether the answer was: yes."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def final(self) -> bool:
        """Whether the answer leaves nothing to be tried again (C-02)."""
        return self.status is not None and self.status < 500 and self.status not in TRANSIENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooked:
    """A hook that was run on a machine; without an event, it spoke of none in particular."""

    machine: str
    phase: Phase
    begun: timedelta
    event: EventId | None = None
    ended: timedelta | None = None
    ok: bool = False

    def concerns(self, event: EventId) -> bool:
        """Whether it may have been run for this event."""
        return self.event is None or self.event == event


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """A line of the server's own history."""

    kind: str
    event: EventId
    at: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One run of a handler: from its start until it ended, by itself or because we ended it."""

    machine: str
    begun: timedelta
    ended: timedelta | None = None
    code: int | None = None
    ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A while during which a machine's endpoint misbehaved."""

    machine: str
    begun: timedelta
    ended: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CausedEvent:
    """An event that a step caused."""

    id: EventId
    label: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that was seen during one play."""

    ended: timedelta
    asked: tuple[Asked, ...] = ()
    hooks: tuple[Hooked, ...] = ()
    happened: tuple[Happened, ...] = ()
    lives: tuple[Life, ...] = ()
    spells: tuple[Spell, ...] = ()
    events: tuple[CausedEvent, ...] = ()
    #: How many steps were still to be taken when the play was over.
    untaken: int = 0
    #: The end of what each handler printed.
    output: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, machine: str) -> Iterator[Asked]:
        """Yield the requests of one machine, in order."""
        return (one for one in self.asked if one.machine == machine)

    def approvals(self, machine: str, event: EventId) -> tuple[Asked, ...]:
        """Return the requests of a machine to start an event."""
        return tuple(one for one in self.of(machine) if event in one.approving)

    def hooked(self, machine: str, phase: Phase, event: EventId) -> tuple[Hooked, ...]:
        """Return what a machine's hooks did about an event; whoever names none means what is pending."""
        return tuple(
            one
            for one in self.hooks
            if one.machine == machine and one.phase is phase and one.concerns(event)
            if one.event is not None or self._pending(event, one)
        )

    def _pending(self, event: EventId, hook: Hooked) -> bool:
        """Whether a hook was run while an event was there, or has left the machine drained until it came."""
        came, gone = self.announced(event) or timedelta(0), self.gone(event)
        if hook.phase is Phase.RECOVER:
            return came <= hook.begun
        undone = any(
            one.machine == hook.machine and one.phase is Phase.RECOVER and hook.begun <= one.begun <= came
            for one in self.hooks
        )
        return not undone and (gone is None or hook.begun < gone)

    def first(self, event: EventId, *kinds: str) -> timedelta | None:
        """Return when one of these first happened to an event."""
        return min(
            (one.at for one in self.happened if one.event == event and one.kind in kinds), default=None
        )

    def announced(self, event: EventId) -> timedelta | None:
        """Return when an event was there for the first time."""
        return self.first(event, "scheduled", "started")

    def gone(self, event: EventId) -> timedelta | None:
        """Return when an event was over: as the server says, or as a guest read first."""
        told = self.first(event, "finished", "cancelled")
        return min((at for at in (told, *self._missed(event)) if at is not None), default=None)

    def read(self, machine: str, event: EventId) -> timedelta | None:
        """Return when a machine first read of an event."""
        return next((one.ended for one in self.of(machine) if _lists(one, event)), None)

    def _missed(self, event: EventId) -> Iterator[timedelta | None]:
        """Yield when each machine that had read of an event first read a document without it."""
        listing = set[str]()
        for one in self.asked:
            if _lists(one, event):
                listing.add(one.machine)
            elif one.machine in listing and one.document is not None:
                yield one.ended


@lru_cache(maxsize=1024)  # whoever polls reads the same again and again
def _document(body: bytes) -> ObservedDocument | None:
    try:
        return parse_document(body)
    except DocumentError:
        return None


def _lists(asked: Asked, event: EventId) -> bool:
    return asked.document is not None and any(one.key == event for one in asked.document.events)
