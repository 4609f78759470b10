"""A recording played back to one machine, as if its documents were of today."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from math import inf

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import CreateSet
from fairwarning.core.document.recording import MachineRecording, RecordedDocument, render_recorded
from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.errors import UnknownEventError, UnknownMachineError
from fairwarning.core.model import EventId, MachineRef, ScopeKind
from fairwarning.core.policy import whole_second
from fairwarning.engine.clock import new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.metadata.views import DocumentSource, MachineView

#: Is told what a machine has approved of its recording, and when.
Told = Callable[[datetime, MachineRef, tuple[EventId, ...]], None]


def nobody(at: datetime, machine: MachineRef, ids: tuple[EventId, ...]) -> None:
    """Tell nobody."""


async def play(
    engine: Engine,
    tapes: Mapping[str, MachineRecording],
    show: Callable[[MachineRef, MachineView], None],
    told: Told = nobody,
) -> None:
    """Show machines what was recorded, from now on; those that the fleet does not have are brought up."""
    for name, tape in tapes.items():
        try:
            machine = engine.directory.machine(name)
        except UnknownMachineError:
            alone = Blueprint(name=name, kind=ScopeKind.STANDALONE)
            await engine.handle(CreateSet(seed=new_event_id(), blueprint=alone))
            machine = engine.directory.machine(name)
        show(machine, Replay(engine, machine, tape, told))


class Replay:
    """A view of what was: documents in their order, each at its time; the last one stays.

    It keeps the speed of its beginning, whatever becomes of that of the fleet: a NotBefore, once read, stays
    true.
    """

    def __init__(
        self, engine: Engine, machine: MachineRef, tape: MachineRecording, told: Told = nobody
    ) -> None:
        self._engine = engine
        self._machine = machine
        self._tape = tape
        self._told = told
        self._speed = engine.policy.speed
        self._start = engine.clock.now()
        self._began = asyncio.get_running_loop().time()
        self._offsets = [self._since(one.at).total_seconds() for one in tape.documents]

    def sheet(self) -> DocumentSource:
        """Return what the machine was shown at this point of its recording."""
        one = self._current()
        return DocumentSource(one.incarnation, partial(self._write, one))

    def due(self) -> float:
        """Return when the next document is to be shown."""
        later = bisect_right(self._offsets, self._elapsed())
        return self._began + self._offsets[later] if later < len(self._offsets) else inf

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Tell of an approval of what is shown; it changes nothing about what was."""
        shown = self._current().ids
        for event_id in ids:
            if event_id not in shown:
                raise UnknownEventError(event_id)
        self._told(self._engine.clock.now(), self._machine, ids)

    def _current(self) -> RecordedDocument:
        reached = bisect_right(self._offsets, self._elapsed())
        # Who joined a recording later has something to show from the start.
        return self._tape.documents[max(reached - 1, 0)]

    def _elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _since(self, instant: datetime) -> timedelta:
        return (instant - self._tape.begins) / self._speed

    def _moved(self, instant: datetime) -> datetime:
        try:
            return whole_second(self._start + self._since(instant))
        except OverflowError:
            return instant  # a date of no calendar means nothing, then as now

    def _write(self, one: RecordedDocument, number: int, shape: DocumentShape) -> bytes:
        return render_recorded(one, number, shape, self._moved)
