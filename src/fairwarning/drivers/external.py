"""A driver for machines that operators act on with tools of their own.

The driver does nothing to a machine. When an event has started, its impacts stay in progress until an
operator reports each as done or failed (``fairwarning complete`` and ``fairwarning fail``). No impact ends by
itself; an impact without a report within the limit of its cause is overdue, which is noted once per attempt.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from fairwarning.core.fleet import Impact, Observation, Progress
from fairwarning.core.model import HostId, MachineRef
from fairwarning.core.policy import DEFAULT_OVERDUE, OverdueLimits
from fairwarning.drivers.completed import completed
from fairwarning.engine.ports import Lease
from fairwarning.formats import durations


class ExternalDriver:
    """Waits for operators to report what they did."""

    name = "external"

    def __init__(self, overdue: OverdueLimits = DEFAULT_OVERDUE) -> None:
        self._overdue = overdue

    def reaches(self, host: HostId) -> bool:
        """Operators reach every machine."""
        return True

    async def observe(self, impacts: Sequence[Impact], now: datetime) -> Sequence[Observation]:
        """Return all impacts as in progress, with a problem if they are overdue."""
        return [self._observe(impact, now) for impact in impacts]

    async def apply(self, impacts: Sequence[Impact], lease: Lease) -> None:
        """Do nothing: operators act."""

    async def watch(self) -> AsyncIterator[MachineRef]:
        """Yield nothing: reports are requests of operators."""
        return
        yield

    def reported(self, impact: Impact, problem: str | None) -> Observation:
        """Return what an operator's report about an impact means; ``problem`` says why it failed."""
        if problem is not None:
            return impact.observed(Progress.FAILED, problem=problem)
        return completed(impact)

    def _observe(self, impact: Impact, now: datetime) -> Observation:
        limit = self._overdue.limit(impact.cause)
        overdue_at = impact.after(limit)
        if now < overdue_at:
            return impact.observed(Progress.ACTING, again_at=overdue_at)
        late = f"its end was not reported within {durations.for_people(limit)}"
        return impact.observed(Progress.ACTING, problem=late)
