"""Five requests a second for each machine, in wall time (R-10)."""

from fairwarning.core.model import MachineRef


class Throttle:
    """A token bucket per machine."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._levels: dict[MachineRef, tuple[float, float]] = {}

    def admits(self, machine: MachineRef, now: float) -> bool:
        """Take one request of the machine at ``now`` seconds, or say that it came too soon."""
        level, since = self._levels.get(machine, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        admitted = level >= 1.0
        self._levels[machine] = (level - 1.0 if admitted else level, now)
        return admitted

    def forget(self, machine: MachineRef) -> None:
        """Drop what is known of a machine that is no more."""
        self._levels.pop(machine, None)
