"""Replays a recording to one machine, with its times moved to today."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from math import inf

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.recording import MachineRecording, RecordedDocument, render_recorded
from fairwarning.core.document.versions import DocumentShape
from fairwarning.core.errors import UnknownEventError, UnknownMachineError
from fairwarning.core.model import NO_EVENTS, OPERATOR, EventId, MachineRef, ScopeKind
from fairwarning.core.policy import whole_second
from fairwarning.engine.engine import Engine
from fairwarning.metadata.views import DocumentSource, MachineView

#: Called when a machine approves events of its recording.
OnApproval = Callable[[datetime, MachineRef, tuple[EventId, ...]], None]


def ignore_approval(at: datetime, machine: MachineRef, ids: tuple[EventId, ...]) -> None:
    """Do nothing."""


async def start_replays(
    control: Control,
    recordings: Mapping[str, MachineRecording],
    show: Callable[[MachineRef, MachineView], None],
    on_approval: OnApproval = ignore_approval,
) -> None:
    """Show machines their recordings from now on; machines that are not in the fleet are created."""
    for name, recording in recordings.items():
        try:
            machine = control.engine.directory.machine(name)
        except UnknownMachineError:
            blueprint = Blueprint(name=name, kind=ScopeKind.STANDALONE)
            (machine,) = (await control.create_set(OPERATOR, blueprint)).machines
        show(machine, Replay(control.engine, machine, recording, on_approval))


class Replay:
    """A view of a recording: its documents in order, each at its time; the last document stays.

    A replay keeps the speed the fleet had at its start, so that a NotBefore that a guest has read stays true.
    """

    def __init__(
        self,
        engine: Engine,
        machine: MachineRef,
        recording: MachineRecording,
        on_approval: OnApproval = ignore_approval,
    ) -> None:
        self._engine = engine
        self._machine = machine
        self._recording = recording
        self._on_approval = on_approval
        self._speed = engine.policy.speed
        self._start = engine.clock.now()
        self._began = asyncio.get_running_loop().time()
        self._offsets = [self._since(document.at).total_seconds() for document in recording.documents]

    def document(self) -> DocumentSource:
        """Return the document that is current in the recording."""
        document = self._current()
        return DocumentSource(document.incarnation, NO_EVENTS, partial(self._render, document))

    def next_change(self) -> float:
        """Return when the next document is due."""
        later = bisect_right(self._offsets, self._elapsed())
        return self._began + self._offsets[later] if later < len(self._offsets) else inf

    async def approve(self, ids: tuple[EventId, ...]) -> None:
        """Report an approval of current events; the recording does not change."""
        shown = self._current().ids
        for event_id in ids:
            if event_id not in shown:
                raise UnknownEventError(event_id)
        self._on_approval(self._engine.clock.now(), self._machine, ids)

    def _current(self) -> RecordedDocument:
        reached = bisect_right(self._offsets, self._elapsed())
        # A machine that joined the recording later shows its first document from the start.
        return self._recording.documents[max(reached - 1, 0)]

    def _elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _since(self, instant: datetime) -> timedelta:
        return (instant - self._recording.begins) / self._speed

    def _moved(self, instant: datetime) -> datetime:
        try:
            return whole_second(self._start + self._since(instant))
        except OverflowError:
            return instant  # a date that cannot be moved stays as recorded

    def _render(self, document: RecordedDocument, number: int, shape: DocumentShape) -> bytes:
        return render_recorded(document, number, shape, self._moved)
