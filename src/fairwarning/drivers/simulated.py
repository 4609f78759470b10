"""Machines that exist on paper: every impact takes its time and then has happened.

The driver remembers nothing: when an impact ends follows from when it began, so a restarted server finds
every machine where it would have been. Faults make it fail, hang or lie, which is how the engine is tested.
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

#: How long an impact lasts unless Azure's own timings are asked for.
BRIEF = timedelta(seconds=5)

#: How long a driver that does not answer is waited for.
PATIENCE = timedelta(minutes=2)


class Mishap(StrEnum):
    """A way for an impact to go wrong."""

    FAILS = "fails"
    HANGS = "hangs"
    LIES = "lies"


@dataclass(frozen=True, slots=True)
class InjectedMishap:
    """What goes wrong on one machine, and for how many attempts."""

    mishap: Mishap
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt ends: what the hypervisor said is never asked, what the machine shows is."""

    after: timedelta
    problem: str | None = None


class SimulatedDriver:
    """Lets time pass and looks."""

    def __init__(self, *, azure_timings: bool = False) -> None:
        self._azure_timings = azure_timings
        self.faults: dict[VmName, InjectedMishap] = {}

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
        lasts = self._lasts(impact)
        fault = self.faults.get(impact.machine.name)
        if fault is None or impact.attempt >= fault.attempts:
            return Ending(lasts)
        match fault.mishap:
            case Mishap.FAILS:
                return Ending(lasts, "failed")
            case Mishap.LIES:
                return Ending(lasts, "said to be done, but the machine shows no sign of it")
            case Mishap.HANGS:
                return Ending(PATIENCE, "no answer")

    def _lasts(self, impact: Impact) -> timedelta:
        if self._azure_timings:
            return CAUSES[impact.cause].lasts
        if impact.kind is EventType.FREEZE:
            return timedelta(seconds=max(impact.duration, 0))
        return BRIEF
