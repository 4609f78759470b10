"""What was observed of a handler and of its fleet while a scenario ran.

All times count from the beginning of the scenario, in wall time. Four sources contribute: the recording
proxy (``Asked``: a request and its answer), the hook server (``Hooked``: a drain or a recovery), the
server's history (``Happened``) and the process of the handler (``Life``). ``Spell`` and ``CausedEvent`` are
what the steps did.

Two questions have no direct answer in these records, and ``Observed`` answers them for the judge. When was
an event over? At the first sign: the server's history, or a guest that reads a document without the event,
because the handler cannot know more than that. Which event does a hook belong to, if it names none? To
every event that was pending at the time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import urlsplit

from fairwarning.core.causes import CAUSES
from fairwarning.core.document.parse import DocumentError, ObservedDocument, parse_document
from fairwarning.core.document.render import EVENTS_PATH, TRANSIENT, parse_start_requests
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import EventId, EventSource, EventType


class Phase(StrEnum):
    """What a hook does to its machine."""

    DRAIN = "drain"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request of a handler, and its answer if there was one."""

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
        """Whether the request is for scheduled events, and not for other metadata."""
        return urlsplit(self.target).path.casefold() == EVENTS_PATH

    @property
    def document(self) -> ObservedDocument | None:
        """The document in the answer; None if there is none."""
        if self.method != "GET" or not self.about_events or self.status != 200:
            return None
        return _document(self.answer)

    @property
    def served(self) -> bool:
        """Whether the answer was a document, or a 304 for the document that the handler has."""
        return self.document is not None or (self.about_events and self.status == 304)

    @property
    def approving(self) -> tuple[EventId, ...]:
        """The events that the request approves."""
        if self.method != "POST" or not self.about_events:
            return ()
        try:
            return parse_start_requests(self.body)
        except InvalidError:
            return ()

    @property
    def accepted(self) -> bool:
        """Whether the answer is 2xx."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def final(self) -> bool:
        """Whether the answer gives no reason to retry (C-02)."""
        return self.status is not None and self.status < 500 and self.status not in TRANSIENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooked:
    """A run of a hook on a machine; ``event`` is None if the handler named no event."""

    machine: str
    phase: Phase
    begun: timedelta
    event: EventId | None = None
    ended: timedelta | None = None
    ok: bool = False

    def concerns(self, event: EventId) -> bool:
        """Whether the hook may have run for this event."""
        return self.event is None or self.event == event


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """A line of the server's history."""

    kind: str
    event: EventId
    at: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A run of a handler; ``ended_by_step`` says that a step ended it, not the handler itself."""

    machine: str
    begun: timedelta
    ended: timedelta | None = None
    code: int | None = None
    ended_by_step: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A period in which a machine's endpoint had a fault."""

    machine: str
    begun: timedelta
    ended: timedelta


#: The nouns for causes whose names are verbs.
_NOUNS = {"evict": "eviction", "live-migrate": "live migration", "rebalance": "rebalance recommendation"}
_DETERMINERS = frozenset({"a", "an", "its", "our", "the"})


def event_name(label: str) -> str:
    """Return the label of an event as a noun phrase for sentences: "evict" is "the eviction"."""
    noun = _NOUNS.get(label, label.replace("-", " ")) if label in CAUSES else label
    return noun if noun.partition(" ")[0] in _DETERMINERS else f"the {noun}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CausedEvent:
    """An event that a step caused."""

    id: EventId
    label: str
    cause: str
    resources: tuple[str, ...]

    @property
    def name(self) -> str:
        """The event as a noun phrase."""
        return event_name(self.label)

    @property
    def full_name(self) -> str:
        """The event as a noun phrase that names its machines."""
        if all(machine in self.name for machine in self.resources):
            return self.name
        return f"{self.name} of {' and '.join(self.resources)}"

    @property
    def removes_machines(self) -> bool:
        """Whether the event removes its machines: an eviction or a delete."""
        return CAUSES[self.cause].kind in {EventType.PREEMPT, EventType.TERMINATE}

    @property
    def user_waits(self) -> bool:
        """Whether a user asked for the event and waits until it starts."""
        return CAUSES[self.cause].source is EventSource.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All observations of one scenario."""

    ended: timedelta
    asked: tuple[Asked, ...] = ()
    hooks: tuple[Hooked, ...] = ()
    happened: tuple[Happened, ...] = ()
    lives: tuple[Life, ...] = ()
    spells: tuple[Spell, ...] = ()
    events: tuple[CausedEvent, ...] = ()
    #: How many steps had not run when the scenario ended.
    steps_left: int = 0
    #: How late this machine ran meanwhile.
    lateness: timedelta = timedelta(0)
    #: The end of the output of each handler.
    output: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def requests(self, machine: str) -> Iterator[Asked]:
        """Yield the requests of a machine, in order."""
        return (request for request in self.asked if request.machine == machine)

    def approvals(self, machine: str, event: EventId) -> tuple[Asked, ...]:
        """Return the requests of a machine that approve an event."""
        return tuple(request for request in self.requests(machine) if event in request.approving)

    def hooked(self, machine: str, phase: Phase, event: EventId) -> tuple[Hooked, ...]:
        """Return a machine's hooks for an event; a hook that names none counts for all pending events."""
        return tuple(
            hook
            for hook in self.hooks
            if hook.machine == machine and hook.phase is phase and hook.concerns(event)
            if hook.event is not None or self._pending(event, hook)
        )

    def _pending(self, event: EventId, hook: Hooked) -> bool:
        """Whether an event was pending during a hook, or came while the machine was still drained by it."""
        came, gone = self.announced(event) or timedelta(0), self.gone(event)
        if hook.phase is Phase.RECOVER:
            return came <= hook.begun
        undone = any(
            other.machine == hook.machine
            and other.phase is Phase.RECOVER
            and hook.begun <= other.begun <= came
            for other in self.hooks
        )
        return not undone and (gone is None or hook.begun < gone)

    def first(self, event: EventId, *kinds: str) -> timedelta | None:
        """Return when the history first has one of these kinds for an event."""
        return min(
            (entry.at for entry in self.happened if entry.event == event and entry.kind in kinds),
            default=None,
        )

    def announced(self, event: EventId) -> timedelta | None:
        """Return when an event was announced."""
        return self.first(event, "scheduled", "started")

    def gone(self, event: EventId) -> timedelta | None:
        """Return when an event was over: by the server's history, or earlier by a guest's document."""
        ended = self.first(event, "finished", "cancelled")
        return min((at for at in (ended, *self._missed(event)) if at is not None), default=None)

    def read(self, machine: str, event: EventId) -> timedelta | None:
        """Return when a machine first read a document with an event."""
        return next((request.ended for request in self.requests(machine) if _lists(request, event)), None)

    def _missed(self, event: EventId) -> Iterator[timedelta | None]:
        """Yield when a machine that had read an event read a document without it."""
        readers = set[str]()
        for request in self.asked:
            if _lists(request, event):
                readers.add(request.machine)
            elif request.machine in readers and request.document is not None:
                yield request.ended


@lru_cache(maxsize=1024)  # most polls return the same document
def _document(body: bytes) -> ObservedDocument | None:
    try:
        return parse_document(body)
    except DocumentError:
        return None


def _lists(request: Asked, event: EventId) -> bool:
    return request.document is not None and any(listed.key == event for listed in request.document.events)
