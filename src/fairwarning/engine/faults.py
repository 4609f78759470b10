"""The endpoint faults that are active now.

Faults concern the connection to a guest, so they last in real time, whatever the clock of the fleet. They
are not stored: a restarted server has none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from math import inf
from typing import NamedTuple

from fairwarning.core.document.endpoint_faults import FAULT_DESCRIPTIONS, EndpointFault
from fairwarning.core.errors import InvalidError
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import MachineRef
from fairwarning.formats import durations

#: The faults that use their delay.
_DELAYED = frozenset({EndpointFault.SLOW, EndpointFault.LATE})


class ActiveFault(NamedTuple):
    """A fault, when it ends, and its delay; times are those of the event loop, in seconds."""

    kind: EndpointFault
    until: float
    delay: float = 0.0

    @classmethod
    def parse(cls, kind: str, lasts: str | None, delay: str, now: float) -> "ActiveFault":
        """Return the fault that a request describes; without ``lasts`` it lasts until it is cleared."""
        if kind not in FAULT_DESCRIPTIONS:
            raise InvalidError("fault", f"{kind[:40]!r} is not one of {', '.join(FAULT_DESCRIPTIONS)}")
        seconds = inf if lasts is None else parse_duration(lasts, "lasts").total_seconds()
        return cls(EndpointFault(kind), now + seconds, parse_duration(delay, "delay").total_seconds())

    def describe(self, now: float) -> str:
        """Return the fault, its delay and its duration in words."""
        fault = f"{self.kind} by {_format(self.delay)}" if self.kind in _DELAYED else self.kind.value
        return f"{fault} until healed" if self.until == inf else f"{fault} for {_format(self.until - now)}"


def _format(seconds: float) -> str:
    return durations.for_people(timedelta(seconds=round(seconds)))


#: Called with the new fault of a machine's endpoint; None if the endpoint works again.
Watcher = Callable[[MachineRef, ActiveFault | None], None]


class ActiveFaults:
    """The faults of all endpoints; ``set`` and ``clear`` also write a note to the journal."""

    def __init__(self, remark: Callable[[ActionNote], Awaitable[None]]) -> None:
        self._remark = remark
        self._faults: dict[MachineRef, ActiveFault] = {}
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Call ``watcher`` for every fault that begins or ends."""
        self._watchers.append(watcher)

    async def set(self, machine: MachineRef, fault: ActiveFault, by: str) -> None:
        """Set the fault of a machine's endpoint, at the request of ``by``."""
        self.put(machine, fault)
        await self._note(OperatorAction.FAULT, machine, fault.describe(_now()), by)

    async def clear(self, machine: MachineRef, by: str) -> None:
        """Clear the fault of a machine's endpoint, if it has one, at the request of ``by``."""
        fault = self.of(machine, _now())
        if fault is not None:
            self.drop(machine)
            await self._note(OperatorAction.HEALED, machine, fault.kind, by)

    def put(self, machine: MachineRef, fault: ActiveFault) -> None:
        """Set the fault of a machine's endpoint without a note."""
        self._notify(machine, fault)
        self._faults[machine] = fault

    def drop(self, machine: MachineRef) -> None:
        """Clear the fault of a machine's endpoint without a note."""
        if self._faults.pop(machine, None) is not None:
            self._notify(machine, None)

    def of(self, machine: MachineRef, now: float) -> ActiveFault | None:
        """Return the fault of a machine's endpoint; a fault that has ended is dropped."""
        fault = self._faults.get(machine)
        if fault is not None and fault.until <= now:
            self.drop(machine)
            return None
        return fault

    def kind_of(self, machine: MachineRef, now: float) -> EndpointFault | None:
        """Return the kind of the fault of a machine's endpoint."""
        fault = self.of(machine, now)
        return None if fault is None else fault.kind

    def _notify(self, machine: MachineRef, fault: ActiveFault | None) -> None:
        for watcher in self._watchers:
            watcher(machine, fault)

    async def _note(self, action: OperatorAction, machine: MachineRef, detail: str, by: str) -> None:
        note = ActionNote(deed=action, detail=detail, by=by, scope=machine.scope, machines=(machine,))
        await self._remark(note)


def _now() -> float:
    return asyncio.get_running_loop().time()
