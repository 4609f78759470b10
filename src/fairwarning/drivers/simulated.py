"""A driver for simulated machines: every impact ends after a fixed time.

The driver keeps no state: the end of an impact follows from its start, so a restart of the server makes no
difference. Tests inject mishaps: an impact that fails, hangs, or is reported as done but is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fairwarning.core.causes import CAUSES
from fairwarning.core.commands import ImpactOutcome
from fairwarning.core.fleet import Impact
from fairwarning.core.model import EventType, VmName
from fairwarning.core.policy import Policy

#: The duration of an impact without Azure's timings.
DEFAULT_DURATION = timedelta(seconds=5)

#: How long a hanging impact takes before it counts as failed.
TIMEOUT = timedelta(minutes=2)


class Mishap(StrEnum):
    """A way in which an impact goes wrong."""

    FAILS = "fails"
    HANGS = "hangs"
    LIES = "lies"


@dataclass(frozen=True, slots=True)
class InjectedMishap:
    """A mishap on one machine, and the number of attempts that it affects."""

    mishap: Mishap
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt of an impact ends."""

    after: timedelta
    problem: str | None = None


class SimulatedDriver:
    """Ends every impact after its duration."""

    def __init__(self, *, azure_timings: bool = False) -> None:
        self._azure_timings = azure_timings
        self.mishaps: dict[VmName, InjectedMishap] = {}

    def observe(self, impacts: Sequence[Impact], policy: Policy, now: datetime) -> Sequence[ImpactOutcome]:
        """Return the impacts that have ended by ``now``."""
        return [
            ImpactOutcome(
                event=impact.event, machine=impact.machine.name, problem=self._ending(impact).problem
            )
            for impact in impacts
            if self._ends(impact, policy) <= now
        ]

    def due(self, impacts: Sequence[Impact], policy: Policy) -> datetime | None:
        """Return when the next impact ends."""
        return min((self._ends(impact, policy) for impact in impacts), default=None)

    def _ends(self, impact: Impact, policy: Policy) -> datetime:
        return impact.since + policy.shorten(self._ending(impact).after)

    def _ending(self, impact: Impact) -> Ending:
        duration = self._duration(impact)
        injected = self.mishaps.get(impact.machine.name)
        if injected is None or impact.attempt >= injected.attempts:
            return Ending(duration)
        match injected.mishap:
            case Mishap.FAILS:
                return Ending(duration, "failed")
            case Mishap.LIES:
                return Ending(duration, "reported as done, but the machine shows no sign of it")
            case Mishap.HANGS:
                return Ending(TIMEOUT, "no answer")

    def _duration(self, impact: Impact) -> timedelta:
        if self._azure_timings:
            return CAUSES[impact.cause].lasts
        if impact.kind is EventType.FREEZE:
            return timedelta(seconds=max(impact.duration, 0))
        return DEFAULT_DURATION
