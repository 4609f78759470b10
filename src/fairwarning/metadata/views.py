"""The views of single machines, in place of the document that their scope shares.

A machine has a view of its own while an endpoint fault delays or renumbers its documents, during a replay,
and in a scope that does not broadcast (S-03). All other machines get the document that was rendered once for
the scope.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from fairwarning.control.control import Control
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.document.render import render_document
from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.errors import UnknownScopeError
from fairwarning.core.fleet import visible_events
from fairwarning.core.model import Event, EventId, MachineRef, Scope, VmName, guest
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.messages import JSON, Response


class DocumentSource(NamedTuple):
    """One document, before it is rendered in the shape of an api-version."""

    incarnation: int
    events: Mapping[EventId, Event]
    render: Callable[[int, DocumentShape], bytes]

    def response(self, shape: DocumentShape) -> Response:
        """Return the document as a response."""
        body = self.render(self.incarnation, shape)
        return Response(200, body, (("ETag", f'"{self.incarnation}"'),), JSON)

    def listing(self, machine: VmName) -> list[Event]:
        """Return the events in the document that list a machine."""
        return [event for event in self.events.values() if event.seen and machine in event.resources]


class MachineView(Protocol):
    """What one machine sees and may approve."""

    def document(self) -> DocumentSource:
        """Return the document as of now."""
        ...

    def next_change(self) -> float:
        """Return when the view changes by itself, in loop time, even if the scope does not change."""
        ...

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Approve all of the events, or none.

        Raises:
            UnknownEventError: an event is not in the document.
        """
        ...


class ScopeView:
    """The document of a scope, as far as it concerns one machine."""

    def __init__(self, control: Control, machine: MachineRef) -> None:
        self._control = control
        self._machine = machine

    def document(self) -> DocumentSource:
        """Return the document of the scope."""
        scope = self._control.engine.scope(self._machine.scope)
        return DocumentSource(scope.incarnation, scope.events, partial(_render, scope, self._machine.name))

    def next_change(self) -> float:
        """Return infinity: the view changes only when the scope does."""
        return inf

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Approve events of the scope as the guest of the machine."""
        await self._control.approve(guest(self._machine), *ids)


class DelayedView:
    """Another view, as it was some seconds ago."""

    def __init__(self, source: MachineView, fault: ActiveFault) -> None:
        self._source = source
        self._delay = fault.delay
        self._until = fault.until
        self._shown = source.document()
        self._queue: deque[tuple[float, DocumentSource]] = deque()

    def document(self) -> DocumentSource:
        """Return what the source showed before the delay."""
        self.advance()
        return self._shown

    def next_change(self) -> float:
        """Return when the next document is old enough, the source changes by itself or the fault ends."""
        self.advance()
        next_shown = self._queue[0][0] if self._queue else inf
        return min(next_shown, self._source.next_change(), self._until)

    def advance(self) -> None:
        """Queue what the source shows now, and show what is old enough."""
        now = asyncio.get_running_loop().time()
        newest = self._source.document()
        last = self._queue[-1][1] if self._queue else self._shown
        if newest.incarnation != last.incarnation:
            self._queue.append((now + self._delay, newest))
        while self._queue and self._queue[0][0] <= now:
            _, self._shown = self._queue.popleft()

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Approve events as they are now."""
        await self._source.approve(ids)


class RenumberedView:
    """Another view, with incarnations that start at 1 again."""

    def __init__(self, source: MachineView, fault: ActiveFault) -> None:
        self._source = source
        self._until = fault.until
        self._offset = source.document().incarnation - 1

    def document(self) -> DocumentSource:
        """Return what the source shows, under a smaller incarnation."""
        document = self._source.document()
        return document._replace(incarnation=document.incarnation - self._offset)

    def next_change(self) -> float:
        """Return when the source changes by itself, or the fault ends."""
        return min(self._source.next_change(), self._until)

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Approve events of the source."""
        await self._source.approve(ids)


#: The faults that change the document; all others change how requests are answered.
_FAULT_VIEWS: Mapping[EndpointFault, Callable[[MachineView, ActiveFault], MachineView]] = {
    EndpointFault.LATE: DelayedView,
    EndpointFault.RESTART: RenumberedView,
}


class Views:
    """The machines that have a view of their own."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._engine = control.engine
        self._own: dict[MachineRef, MachineView] = {}
        self._replays: dict[MachineRef, MachineView] = {}
        self._followers: dict[MachineRef, asyncio.Task[None]] = {}
        self._engine.faults.watch(self._fault_changed)

    def own(self, machine: MachineRef) -> MachineView | None:
        """Return the view of a machine; None if it shares the document of its scope."""
        if machine not in self._own:
            return None
        # Looking up a fault that has ended removes its view.
        self._engine.faults.of(machine, asyncio.get_running_loop().time())
        return self._own.get(machine)

    def view(self, machine: MachineRef) -> MachineView:
        """Return the view of a machine, its own or that of its scope."""
        return self.own(machine) or ScopeView(self._control, machine)

    def next_change(self, machine: MachineRef) -> float:
        """Return when the view of a machine changes by itself, in loop time."""
        view = self.own(machine)
        return inf if view is None else view.next_change()

    def replay(self, machine: MachineRef, view: MachineView) -> None:
        """Give a machine a view of its own for good."""
        self._replays[machine] = self._own[machine] = view

    def forget(self, machine: MachineRef) -> None:
        """Drop the view of a machine that was deleted."""
        self._replays.pop(machine, None)
        self._remove_view(machine)

    def _fault_changed(self, machine: MachineRef, fault: ActiveFault | None) -> None:
        self._remove_view(machine)
        source = self._replays.get(machine)
        fault_view = None if fault is None else _FAULT_VIEWS.get(fault.kind)
        if fault is not None and fault_view is not None:
            self._own[machine] = view = fault_view(source or ScopeView(self._control, machine), fault)
            if isinstance(view, DelayedView):
                self._followers[machine] = asyncio.create_task(self._follow(machine, view))
        elif source is not None:
            self._own[machine] = source
        self._engine.feed.wake(machine.scope)

    def _remove_view(self, machine: MachineRef) -> None:
        self._own.pop(machine, None)
        follower = self._followers.pop(machine, None)
        if follower is not None:
            follower.cancel()

    async def _follow(self, machine: MachineRef, view: DelayedView) -> None:
        """Keep a delayed view up to date, even if its machine does not poll."""
        with suppress(UnknownScopeError):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self.next_change(machine)):
                        await self._engine.feed.document_change(machine.scope)
                view.advance()


def _render(scope: Scope, machine: VmName, number: int, shape: DocumentShape) -> bytes:
    return render_document(number, visible_events(scope, machine), shape, scope.facts.kind)
