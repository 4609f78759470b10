"""The client that an application embeds to watch and approve its machine's events, without an agent.

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
from fairwarning.agent.coordination import is_same_machine, other_machines
from fairwarning.agent.discovery import discover, serves_events
from fairwarning.agent.hooks import DEFAULT_ENVIRONMENT
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import EventId


class NamesOthersError(FairWarningError):
    """The event also names other machines, and an approval would count for them."""

    def __init__(self, event: ObservedEvent, others: tuple[str, ...]) -> None:
        super().__init__(f"event {event.id} also names {', '.join(others)}; an approval would count for them")
        self.event = event
        self.others = others


@dataclass(frozen=True, slots=True)
class Notice:
    """One event that names this machine."""

    event: ObservedEvent
    _client: "Client" = field(repr=False)

    @property
    def time_left(self) -> timedelta | None:
        """How long until the event may start; None if that is unknown or the event has started."""
        if self.event.not_before is None or self.event.started:
            return None
        return max(self.event.not_before - self._client.now(), timedelta(0))

    @contextmanager
    def approving(self, *, for_all: bool = False) -> Iterator[ObservedEvent]:
        """Approve the event if the block ends without an exception.

        Raises:
            NamesOthersError: the event names other machines, and ``for_all`` is false.
        """
        yield self.event
        if not self.event.started:
            self.approve(for_all=for_all)

    def approve(self, *, for_all: bool = False) -> None:
        """Approve the event; ``for_all`` states that the other machines it names are ready too.

        Raises:
            NamesOthersError: the event names other machines, and ``for_all`` is false.
        """
        others = other_machines(self.event, self._client.machine)
        if others and not for_all:
            raise NamesOthersError(self.event, others)
        self._client.approve(self.event)

    def wait_until_gone(self) -> None:
        """Wait until the event has left the document; only then is it over (C-10)."""
        self._client.wait_until_gone(self.event.key)


class Client:
    """The events of this machine, read from its metadata endpoint; not thread-safe."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        machine: str | None = None,
        environment: Mapping[str, str] = DEFAULT_ENVIRONMENT,
        clock: AgentClock | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._clock = clock or AgentSystemClock()
        self._stop = stop or threading.Event()
        base = discover(endpoint, environment, serves_events, now=self._clock.now())
        self._metadata = MetadataClient(base, self._clock, poll=BACK_OFF[0])
        self._machine = machine
        self._document: ObservedDocument | None = None

    @property
    def machine(self) -> str:
        """The name that the endpoint has for this machine.

        Raises:
            UnavailableError: the endpoint did not return a name.
        """
        if self._machine is None:
            self._machine = self._metadata.name()
        return self._machine

    def now(self) -> datetime:
        """Return the time by the endpoint's clock, which NotBefore refers to."""
        return self._metadata.now()

    def watch(self) -> Iterator[Notice]:
        """Yield every event that names this machine, once per appearance."""
        yielded: set[EventId] = set()
        while not self._stop.is_set():
            if self._refresh():
                mine = self._mine()
                yielded &= mine.keys()
                for key, event in mine.items():
                    if key not in yielded:
                        yielded.add(key)
                        yield Notice(event, self)
            self._clock.wait(self._metadata.pause, self._stop)

    def approve(self, event: ObservedEvent) -> None:
        """Approve an event; a refusal is ignored if the event is gone (R-16).

        Raises:
            UnavailableError: the endpoint does not answer.
            RefusedError: the endpoint refuses the approval, and the event is still there.
        """
        try:
            self._metadata.approve(event.id)
        except RefusedError:
            self._refresh()
            if event.key in self._mine():
                raise

    def wait_until_gone(self, key: EventId) -> None:
        """Wait until an event has left the document, or the client is stopped."""
        while not self._stop.is_set():
            if self._refresh() and key not in self._mine():
                return
            self._clock.wait(self._metadata.pause, self._stop)

    def _refresh(self) -> bool:
        """Read the document again; return whether the document and the name of this machine are known."""
        try:
            self._document = self._metadata.poll() or self._document
            return self._document is not None and bool(self.machine)
        except UnavailableError:
            return False

    def _mine(self) -> dict[EventId, ObservedEvent]:
        events = self._document.events if self._document else ()
        return {
            event.key: event
            for event in events
            if any(is_same_machine(n, self.machine) for n in event.resources)
        }
