"""What ails the metadata endpoint of single machines, for a while: what the field has seen, on demand.

Faults are about the wire, so they last in wall time, and a server that ends forgets them.
"""

from dataclasses import dataclass
from enum import StrEnum

from fairwarning.core.model import MachineRef


class Ailment(StrEnum):
    """A way for the endpoint to misbehave."""

    TOO_MANY = "429"
    GONE = "410"
    BROKEN = "500"
    EMPTY = "empty"
    RESET = "reset"
    TIMEOUT = "timeout"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Fault:
    """What ails an endpoint, until when, and by how much it is slowed; times are of the event loop."""

    ailment: Ailment
    until: float
    delay: float = 0.0


class Faults:
    """The endpoints that misbehave."""

    def __init__(self) -> None:
        self._faults: dict[MachineRef, Fault] = {}

    def put(self, machine: MachineRef, fault: Fault) -> None:
        """Let a machine's endpoint misbehave from now on."""
        self._faults[machine] = fault

    def heal(self, machine: MachineRef) -> None:
        """Let a machine's endpoint work again."""
        self._faults.pop(machine, None)

    def of(self, machine: MachineRef, now: float) -> Fault | None:
        """Return what ails a machine's endpoint; what has run its time is over."""
        fault = self._faults.get(machine)
        if fault is not None and fault.until <= now:
            del self._faults[machine]
            return None
        return fault
