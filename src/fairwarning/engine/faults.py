"""What ails the metadata endpoint of single machines, for a while: what the field has seen, on demand.

Faults are about the wire, so they last in wall time, and a server that ends forgets them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from fairwarning.core.endpoint_faults import FAULT_DESCRIPTIONS, EndpointFault
from fairwarning.core.errors import InvalidError
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import MachineRef
from fairwarning.formats import durations

#: The ailments that a delay makes worse.
_DELAYED = frozenset({EndpointFault.SLOW, EndpointFault.LATE})


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """What ails an endpoint, until when, and by how much it is slow or late; times are of the event loop."""

    ailment: EndpointFault
    until: float
    delay: float = 0.0

    @classmethod
    def read(cls, ailment: str, lasts: str | None, delay: str, now: float) -> "ActiveFault":
        """Return the fault that somebody asks for in words; without a length it lasts until it is healed."""
        if ailment not in FAULT_DESCRIPTIONS:
            raise InvalidError("fault", f"{ailment[:40]!r} is not one of {', '.join(FAULT_DESCRIPTIONS)}")
        lasting = inf if lasts is None else parse_duration(lasts, "lasts").total_seconds()
        return cls(EndpointFault(ailment), now + lasting, parse_duration(delay, "delay").total_seconds())

    def told(self, now: float) -> str:
        """Say in words what it is and how long it lasts."""
        what = f"{self.ailment} by {_spell(self.delay)}" if self.ailment in _DELAYED else self.ailment.value
        return f"{what} until healed" if self.until == inf else f"{what} for {_spell(self.until - now)}"


def _spell(seconds: float) -> str:
    return durations.for_people(timedelta(seconds=round(seconds)))


#: Is told what ails a machine's endpoint from now on; None if nothing does.
Watcher = Callable[[MachineRef, ActiveFault | None], None]


class ActiveFaults:
    """The endpoints that misbehave; whoever asks for it is remembered."""

    def __init__(self, remark: Callable[[ActionNote], Awaitable[None]]) -> None:
        self._remark = remark
        self._faults: dict[MachineRef, ActiveFault] = {}
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Tell somebody of every fault that comes or goes."""
        self._watchers.append(watcher)

    async def inflict(self, machine: MachineRef, fault: ActiveFault, by: str) -> None:
        """Let a machine's endpoint misbehave because somebody wants it so."""
        self.put(machine, fault)
        await self._note(OperatorAction.FAULT, machine, fault.told(_now()), by)

    async def cure(self, machine: MachineRef, by: str) -> None:
        """Let a machine's endpoint work again because somebody wants it so; what works is left alone."""
        fault = self.of(machine, _now())
        if fault is not None:
            self.heal(machine)
            await self._note(OperatorAction.HEALED, machine, fault.ailment, by)

    def put(self, machine: MachineRef, fault: ActiveFault) -> None:
        """Let a machine's endpoint misbehave from now on."""
        self._tell(machine, fault)
        self._faults[machine] = fault

    def heal(self, machine: MachineRef) -> None:
        """Let a machine's endpoint work again."""
        if self._faults.pop(machine, None) is not None:
            self._tell(machine, None)

    def of(self, machine: MachineRef, now: float) -> ActiveFault | None:
        """Return what ails a machine's endpoint; what has run its time is over."""
        fault = self._faults.get(machine)
        if fault is not None and fault.until <= now:
            self.heal(machine)
            return None
        return fault

    def ailment(self, machine: MachineRef, now: float) -> EndpointFault | None:
        """Return the name of what ails a machine's endpoint."""
        fault = self.of(machine, now)
        return None if fault is None else fault.ailment

    def _tell(self, machine: MachineRef, fault: ActiveFault | None) -> None:
        for watcher in self._watchers:
            watcher(machine, fault)

    async def _note(self, deed: OperatorAction, machine: MachineRef, detail: str, by: str) -> None:
        note = ActionNote(deed=deed, detail=detail, by=by, scope=machine.scope, machines=(machine,))
        await self._remark(note)


def _now() -> float:
    return asyncio.get_running_loop().time()
