"""The table of causes: what can happen to a machine, and the event that announces it (L-07, L-08, L-14)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from fairwarning.core.model import EventSource, EventType
from fairwarning.formats.suggestions import did_you_mean


class Text(StrEnum):
    """Azure's descriptions of events, letter for letter (L-08)."""

    HOST = "Host server is undergoing maintenance."
    INFRASTRUCTURE = "Host Server infrastructure is undergoing maintenance."
    LIVE_MIGRATION = (
        "Virtual machine is being paused because of a memory-preserving Live Migration operation."
    )
    RESTART = "Virtual machine is going to be restarted as requested by authorized user."
    REDEPLOY = "Virtual machine is going to be redeployed as requested by authorized user."
    EMERGENCY = "Host server is undergoing an emergency repair."
    FAILURE = "Virtual machine has encountered a failure."
    NOTHING = ""


#: L-10: the length of the interruption is unknown or does not apply to this event type.
UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The event of one action or failure, and how long its impact takes on Azure."""

    kind: EventType
    source: EventSource = EventSource.PLATFORM
    duration: int = UNKNOWN
    text: Text = Text.NOTHING
    lasts: timedelta = timedelta(minutes=10)
    notice: timedelta | None = None
    sudden: bool = False
    withdrawn_after: timedelta | None = None
    operation: bool = False
    #: Whether a stopped machine cannot have it (L-20).
    running_only: bool = False
    spot_only: bool = False
    image_only: bool = False
    summary: str

    @property
    def alone(self) -> bool:
        """Whether each machine gets an event of its own (L-12, T-11)."""
        return self.operation


_USER, _FREEZE = EventSource.USER, EventType.FREEZE

CAUSES: Mapping[str, Cause] = {
    "restart": Cause(
        kind=EventType.REBOOT, source=_USER, text=Text.RESTART, operation=True, running_only=True,
        summary="a user restarts the machine",
    ),
    "redeploy": Cause(
        kind=EventType.REDEPLOY, source=_USER, text=Text.REDEPLOY, operation=True,
        summary="a user moves the machine to another host; ephemeral disks are lost",
    ),
    "reimage": Cause(
        kind=EventType.REBOOT, source=_USER, operation=True, running_only=True, image_only=True,
        summary="a user reimages the machine; announced only if the set asks for it",
    ),
    "freeze": Cause(
        kind=_FREEZE, duration=9, text=Text.HOST,
        summary="host agent maintenance: a pause of nine seconds",
    ),
    "live-migrate": Cause(
        kind=_FREEZE, duration=5, text=Text.LIVE_MIGRATION, lasts=timedelta(minutes=5),
        summary="live migration: a pause of five seconds",
    ),
    "host-update": Cause(
        kind=_FREEZE, duration=30, text=Text.HOST, lasts=timedelta(minutes=8),
        summary="a large host update: a pause of thirty seconds",
    ),
    "host-reboot": Cause(
        kind=EventType.REBOOT, text=Text.HOST,
        summary="the host is rebooted and its machines with it",
    ),
    "cancelled-maintenance": Cause(
        kind=_FREEZE, duration=9, text=Text.HOST, withdrawn_after=timedelta(minutes=8),
        summary="host maintenance that is withdrawn after eight minutes",
    ),
    "hardware-failure": Cause(
        kind=EventType.REDEPLOY, text=Text.FAILURE, sudden=True,
        summary="the host failed; the machine is being moved without notice",
    ),
    "platform-redeploy": Cause(
        kind=EventType.REDEPLOY, text=Text.FAILURE, notice=timedelta(minutes=15),
        summary="the platform moves the machine after a failure, with notice",
    ),
    "predicted-failure": Cause(
        kind=EventType.REDEPLOY, text=Text.EMERGENCY, notice=timedelta(days=7),
        summary="the host is expected to fail; a move is announced a week ahead",
    ),
    "evict": Cause(
        kind=EventType.PREEMPT, lasts=timedelta(seconds=30), operation=True, running_only=True,
        spot_only=True,
        summary="a Spot machine is evicted",
    ),
    "rebalance": Cause(
        kind=EventType.REBALANCE, withdrawn_after=timedelta(minutes=15), spot_only=True,
        summary="advice that a Spot machine may be evicted soon (preview api-version only)",
    ),
    "delete": Cause(
        kind=EventType.TERMINATE, source=_USER, lasts=timedelta(seconds=30), operation=True,
        summary="a user deletes the machine",
    ),
}  # fmt: skip

#: S-04: the causes of a rollout: planned maintenance by the platform. A sudden failure is not planned, and an
#: eviction of Spot capacity does not respect domains.
MAINTENANCE: Mapping[str, Cause] = {
    name: cause
    for name, cause in CAUSES.items()
    if cause.source is EventSource.PLATFORM and not cause.spot_only and not cause.sudden
}


def unknown_cause(name: str, known: Mapping[str, Cause] = CAUSES) -> str:
    """Return what to say about a name that is not a known cause.

    The word of an event type stands for the first cause of events of that type.
    """
    words = {cause.kind.value: each for each, cause in [*known.items()][::-1]}
    if question := did_you_mean(name, known, words=words):
        return f"{name[:40]!r} is not a cause{question}"
    return f"{name[:40]!r} is not one of {', '.join(known)}"
