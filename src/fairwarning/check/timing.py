"""How fast a scenario is played: what ``--quick`` and ``--speed`` make of its lengths."""

from dataclasses import dataclass
from datetime import timedelta

from fairwarning.check.scenario import Length, Scenario, Speeds, Times, seconds


@dataclass(frozen=True, slots=True)
class Timing:
    """What was asked for: whether lengths are shortened, and a speed instead of the scenario's own."""

    quick: bool = False
    speed: float | None = None

    def length(self, length: Length) -> timedelta:
        """Return how long something takes, in wall time."""
        if isinstance(length, Times):
            return seconds(length.quick if self.quick else length.full)
        return seconds(length)

    def speed_of(self, scenario: Scenario) -> float:
        """Return by what the durations of the fleet are divided."""
        return self._own(scenario) if self.speed is None else self.speed

    def limit(self, scenario: Scenario) -> timedelta:
        """Return when a scenario is over at the latest: later, if it is played more slowly than it says."""
        return self.length(scenario.limit) * max(1.0, self._own(scenario) / self.speed_of(scenario))

    def _own(self, scenario: Scenario) -> float:
        if isinstance(scenario.speed, Speeds):
            return scenario.speed.quick if self.quick else scenario.speed.full
        return scenario.speed
