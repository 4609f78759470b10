"""What single machines are shown in place of the document that their scope shares.

A machine whose endpoint is late or counts anew, a machine under replay and a machine of a scope that does not
broadcast (S-03) each have a view of their own; everybody else is shown what was rendered once for all.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol

from fairwarning.core.commands import Approve
from fairwarning.core.document.render import render_document
from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.endpoint_faults import EndpointFault
from fairwarning.core.errors import UnknownScopeError
from fairwarning.core.fleet import visible_events
from fairwarning.core.model import EventId, MachineRef, Scope, VmName
from fairwarning.engine.engine import Engine
from fairwarning.engine.faults import ActiveFault
from fairwarning.http1.messages import JSON, Response


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """One document, before it is written down under a number and in the shape of an api-version."""

    incarnation: int
    write: Callable[[int, DocumentShape], bytes]

    def response(self, shape: DocumentShape) -> Response:
        """Return the document as it is answered."""
        body = self.write(self.incarnation, shape)
        return Response(200, body, (("ETag", f'"{self.incarnation}"'),), JSON)


class MachineView(Protocol):
    """What one machine is shown, and what it may approve there."""

    def sheet(self) -> DocumentSource:
        """Return what is shown now."""
        ...

    def due(self) -> float:
        """Return when another sheet will be shown, in loop time, whatever happens to the scope until then."""
        ...

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Start events early, all of them or none.

        Raises:
            UnknownEvent: one of them is not there.
        """
        ...


class ScopeView:
    """What a machine's scope is about, as it concerns this machine."""

    def __init__(self, engine: Engine, machine: MachineRef) -> None:
        self._engine = engine
        self._machine = machine

    def sheet(self) -> DocumentSource:
        """Return the scope's document."""
        scope = self._engine.scope(self._machine.scope)
        return DocumentSource(scope.incarnation, partial(_write, scope, self._machine.name))

    def due(self) -> float:
        """Return never: only what happens to the scope changes its document."""
        return inf

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Approve events of the scope in the machine's name."""
        scope, name = self._machine
        await self._engine.handle(Approve(scope=scope, ids=ids, machine=name, by=name))


class DelayedView:
    """Another view, as it was a while ago."""

    def __init__(self, source: MachineView, fault: ActiveFault) -> None:
        self._source = source
        self._delay = fault.delay
        self._until = fault.until
        self._shown = source.sheet()
        self._coming: deque[tuple[float, DocumentSource]] = deque()

    def sheet(self) -> DocumentSource:
        """Return what the source showed a while ago."""
        self.turn()
        return self._shown

    def due(self) -> float:
        """Return when the next sheet is old enough, the source changes by itself or the fault is over."""
        self.turn()
        coming = self._coming[0][0] if self._coming else inf
        return min(coming, self._source.due(), self._until)

    def turn(self) -> None:
        """Remember what the source shows by now, and take up what is old enough."""
        now = asyncio.get_running_loop().time()
        newest = self._source.sheet()
        last = self._coming[-1][1] if self._coming else self._shown
        if newest.incarnation != last.incarnation:
            self._coming.append((now + self._delay, newest))
        while self._coming and self._coming[0][0] <= now:
            _, self._shown = self._coming.popleft()

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Approve events as they are by now."""
        await self._source.approve(ids)


class RenumberedView:
    """Another view, whose documents are counted from 1 again."""

    def __init__(self, source: MachineView, fault: ActiveFault) -> None:
        self._source = source
        self._until = fault.until
        self._behind = source.sheet().incarnation - 1

    def sheet(self) -> DocumentSource:
        """Return what the source shows, under a smaller number."""
        sheet = self._source.sheet()
        return DocumentSource(sheet.incarnation - self._behind, sheet.write)

    def due(self) -> float:
        """Return when the source changes by itself, or the fault is over."""
        return min(self._source.due(), self._until)

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Approve events of the source."""
        await self._source.approve(ids)


#: The faults that are about what is shown; all others are about how.
_ALTERED: Mapping[EndpointFault, Callable[[MachineView, ActiveFault], MachineView]] = {
    EndpointFault.LATE: DelayedView,
    EndpointFault.RESTART: RenumberedView,
}


class Views:
    """The machines that are shown something of their own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._own: dict[MachineRef, MachineView] = {}
        self._replays: dict[MachineRef, MachineView] = {}
        self._followers: dict[MachineRef, asyncio.Task[None]] = {}
        engine.faults.watch(self._ail)

    def of(self, machine: MachineRef) -> MachineView | None:
        """Return what a machine is shown of its own; None if it shares its scope's document."""
        if machine not in self._own:
            return None
        # Asking for the fault ends the view of one that has run its time.
        self._engine.faults.of(machine, asyncio.get_running_loop().time())
        return self._own.get(machine)

    def whole(self, machine: MachineRef) -> MachineView:
        """Return what a machine is shown, of its own or shared."""
        return self.of(machine) or ScopeView(self._engine, machine)

    def due(self, machine: MachineRef) -> float:
        """Return when a machine will be shown something else whatever happens to its scope, in loop time."""
        view = self.of(machine)
        return inf if view is None else view.due()

    def replay(self, machine: MachineRef, view: MachineView) -> None:
        """Show a machine something else for good."""
        self._replays[machine] = self._own[machine] = view

    def forget(self, machine: MachineRef) -> None:
        """Drop what was shown to a machine that is no more."""
        self._replays.pop(machine, None)
        self._end(machine)

    def _ail(self, machine: MachineRef, fault: ActiveFault | None) -> None:
        self._end(machine)
        source = self._replays.get(machine)
        altered = None if fault is None else _ALTERED.get(fault.kind)
        if fault is not None and altered is not None:
            self._own[machine] = view = altered(source or ScopeView(self._engine, machine), fault)
            if isinstance(view, DelayedView):
                self._followers[machine] = asyncio.create_task(self._follow(machine, view))
        elif source is not None:
            self._own[machine] = source
        self._engine.feed.wake(machine.scope)

    def _end(self, machine: MachineRef) -> None:
        self._own.pop(machine, None)
        follower = self._followers.pop(machine, None)
        if follower is not None:
            follower.cancel()

    async def _follow(self, machine: MachineRef, view: DelayedView) -> None:
        """Let a view know of every change, even if nobody looks at it."""
        with suppress(UnknownScopeError):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self.due(machine)):
                        await self._engine.feed.document_change(machine.scope)
                view.turn()


def _write(scope: Scope, machine: VmName, number: int, shape: DocumentShape) -> bytes:
    return render_document(number, visible_events(scope, machine), shape, scope.facts.kind)
