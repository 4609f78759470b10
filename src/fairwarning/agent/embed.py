"""What an application embeds to hear of its machine's events by itself, without an agent.

from fairwarning import Client

for notice in Client().watch():
    with notice.approving():
        drain()
    notice.wait_until_gone()
    resume()
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fairwarning.agent.client import BACK_OFF, MetadataClient, RefusedError, UnavailableError
from fairwarning.agent.clock import AgentClock, AgentSystemClock
from fairwarning.agent.coordination import others, same
from fairwarning.agent.discovery import answers, discover
from fairwarning.agent.hooks import BARE
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId


class NamesOthersError(FairWarningError):
    """The event names other machines too, and an approval would speak for them."""

    def __init__(self, event: ObservedEvent, rest: tuple[str, ...]) -> None:
        super().__init__(f"event {event.id} names {', '.join(rest)} too; an approval would speak for them")
        self.event = event
        self.others = rest


@dataclass(frozen=True, slots=True)
class Notice:
    """One event that names this machine."""

    event: ObservedEvent
    _client: "Client" = field(repr=False)

    @property
    def time_left(self) -> timedelta | None:
        """How long until the event may start; nothing if that is not known or it has started."""
        if self.event.not_before is None or self.event.started:
            return None
        return max(self.event.not_before - self._client.now(), timedelta(0))

    @contextmanager
    def approving(self, *, for_all: bool = False) -> Iterator[ObservedEvent]:
        """Approve the event when the block ends well; an exception passes through, and nothing is approved.

        Raises:
            NamesOthers: the event names other machines, and ``for_all`` does not say that they are ready.
        """
        yield self.event
        if not self.event.started:
            self.approve(for_all=for_all)

    def approve(self, *, for_all: bool = False) -> None:
        """Say that the event need not wait for this machine.

        Raises:
            NamesOthers: the event names other machines, and ``for_all`` does not say that they are ready.
        """
        rest = others(self.event, self._client.machine)
        if rest and not for_all:
            raise NamesOthersError(self.event, rest)
        self._client.approve(self.event)

    def wait_until_gone(self) -> None:
        """Return when the event has left the document: only then is it over (C-10)."""
        self._client.wait_until_gone(self.event.key)


class Client:
    """This machine's events, as its metadata endpoint tells of them; for one thread."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        machine: str | None = None,
        environment: Mapping[str, str] = BARE,
        clock: AgentClock | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._clock = clock or AgentSystemClock()
        self._stop = stop or threading.Event()
        base = discover(endpoint, environment, answers, now=self._clock.now())
        self._line = MetadataClient(base, self._clock, poll=BACK_OFF[0])
        self._machine = machine
        self._document: ObservedDocument | None = None

    @property
    def machine(self) -> str:
        """What the endpoint calls this machine.

        Raises:
            Unavailable: it could not be learned now.
        """
        if self._machine is None:
            self._machine = self._line.name()
        return self._machine

    def now(self) -> datetime:
        """Return the time on the calendar in which NotBefore is written."""
        return self._line.now()

    def watch(self) -> Iterator[Notice]:
        """Yield every event that names this machine, once, for as long as it lasts."""
        told: set[EventId] = set()
        while not self._stop.is_set():
            if self._refresh():
                mine = self._mine()
                told &= mine.keys()
                for key, event in mine.items():
                    if key not in told:
                        told.add(key)
                        yield Notice(event, self)
            self._clock.wait(self._line.pause, self._stop)

    def approve(self, event: ObservedEvent) -> None:
        """Say that an event may start; one that is not known any more needs no approval (R-16).

        Raises:
            Unavailable: it could not be said.
            Refused: the endpoint would not have it, though the event is still there.
        """
        try:
            self._line.approve(event.id)
        except RefusedError:
            self._refresh()
            if event.key in self._mine():
                raise

    def wait_until_gone(self, key: EventId) -> None:
        """Return when an event has left the document, or when the client is stopped."""
        while not self._stop.is_set():
            if self._refresh() and key not in self._mine():
                return
            self._clock.wait(self._line.pause, self._stop)

    def _refresh(self) -> bool:
        """Read the document again; say whether there is one and this machine knows its name."""
        try:
            self._document = self._line.poll() or self._document
            return self._document is not None and bool(self.machine)
        except UnavailableError:
            return False

    def _mine(self) -> dict[EventId, ObservedEvent]:
        events = self._document.events if self._document else ()
        return {event.key: event for event in events if any(same(n, self.machine) for n in event.resources)}
