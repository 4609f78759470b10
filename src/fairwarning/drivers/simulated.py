"""A driver for simulated machines: every impact ends after a fixed time.

The driver keeps no state but injected mishaps: the end of an impact follows from its start, so a restart of
the server makes no difference. Tests inject mishaps: an impact that fails, hangs, or is reported as done but
is not.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from fairwarning.core.causes import CAUSES
from fairwarning.core.fleet import Impact, Observation, Progress
from fairwarning.core.model import EventType, HostId, MachineRef, VmName
from fairwarning.drivers.completed import completed
from fairwarning.engine.ports import Lease

#: The duration of an impact without Azure's timings.
DEFAULT_DURATION = timedelta(seconds=5)

#: How long a hanging impact takes before it counts as failed.
TIMEOUT = timedelta(minutes=2)


class Mishap(StrEnum):
    """A way in which an impact goes wrong."""

    FAILS = "fails"
    HANGS = "hangs"
    LIES = "lies"


class InjectedMishap(NamedTuple):
    """A mishap on one machine, and the number of attempts that it affects."""

    mishap: Mishap
    attempts: int = 1


class Ending(NamedTuple):
    """How one attempt of an impact ends."""

    after: timedelta
    problem: str | None = None


class SimulatedDriver:
    """Ends every impact after its duration.

    Without ``unseen_deletes_wait``, a delete that warns no machine takes no time (T-28): the client that sent
    it does not move the clock.
    """

    name = "simulated"

    def __init__(self, *, azure_timings: bool = False, unseen_deletes_wait: bool = True) -> None:
        self._azure_timings = azure_timings
        self._unseen_deletes_wait = unseen_deletes_wait
        self.mishaps: dict[VmName, InjectedMishap] = {}

    def reaches(self, host: HostId) -> bool:
        """Simulated machines are everywhere."""
        return True

    async def observe(self, impacts: Sequence[Impact], now: datetime) -> Sequence[Observation]:
        """Return the state of each impact at ``now``."""
        # A machine that moves twice at the same moment moves on from where the first move took it.
        hosts: dict[MachineRef, HostId] = {}
        return [self._observe(impact, hosts, now) for impact in impacts]

    async def apply(self, impacts: Sequence[Impact], lease: Lease) -> None:
        """Do nothing: an impact begins with its event."""

    async def watch(self) -> AsyncIterator[MachineRef]:
        """Yield nothing: all instants are known beforehand."""
        return
        yield

    def _observe(self, impact: Impact, hosts: dict[MachineRef, HostId], now: datetime) -> Observation:
        ending = self._ending(impact)
        ends = impact.after(ending.after)
        if now < ends:
            return impact.observed(Progress.ACTING, again_at=ends)
        if ending.problem is not None:
            return impact.observed(Progress.FAILED, problem=ending.problem)
        if impact.kind is EventType.REDEPLOY:
            hosts[impact.machine] = next_host(hosts.get(impact.machine, impact.host))
        return completed(impact)._replace(host=hosts.get(impact.machine))

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
        if impact.kind is EventType.TERMINATE and not (impact.seen or self._unseen_deletes_wait):
            return timedelta(0)
        if self._azure_timings:
            return CAUSES[impact.cause].lasts
        if impact.kind is EventType.FREEZE:
            return timedelta(seconds=max(impact.duration, 0))
        return DEFAULT_DURATION


def next_host(host: HostId) -> HostId:
    """Return the host to which a machine on this host moves."""
    name, _, number = host.rpartition("~")
    return HostId(f"{name}~{int(number) + 1}" if name and number.isdecimal() else f"{host}~2")
