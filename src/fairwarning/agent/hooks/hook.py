"""What a hook is told, what it answers, and how long it may take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.document.render import Json

Phase = Literal["prepare", "recover"]
Now = Callable[[], datetime]

#: What stays between the end of a hook and the event's time, for the approval to reach the server.
MARGIN: Final = timedelta(seconds=5)
#: How long a hook may take if nothing says when the event comes.
PATIENCE: Final = timedelta(minutes=10)
#: How long a hook may take if the event's time has passed: what is quick is better late than never (C-09).
LATE: Final = timedelta(seconds=5)

#: What a hook is handed if an earlier run of its step began and never reported what it had done.
UNREPORTED: Final = "unreported"

#: The environment of programs if the agent hands none down.
BARE: Final[Mapping[str, str]] = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


@dataclass(frozen=True, slots=True)
class HookContext:
    """Why a hook runs."""

    event: ObservedEvent
    phase: Phase
    machine: str
    deadline: datetime | None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """How it went; the token is handed back to the hook of the same name when it runs again for the event."""

    ok: bool
    message: str
    token: str | None = None


class Hook(Protocol):
    """One step of preparing or recovering; it never raises, and running it twice does no harm."""

    @property
    def name(self) -> str:
        """What is touched: a step that prepares and the one that undoes it have the same name."""

    def describe(self) -> str:
        """Return what the hook does, as one would ask for it."""

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""

    def run(self, occasion: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Do it, and return how it went; blocks until then, but not beyond the occasion's deadline."""


def rehearsal(hook: Hook) -> HookOutcome:
    """Return the outcome of a dry run."""
    return HookOutcome(True, f"would {hook.describe()}")


def time_left(occasion: HookContext, now: Now, limit: timedelta = PATIENCE) -> timedelta:
    """Return how long the hook may still take, always more than nothing."""
    if occasion.deadline is None:
        return limit
    left = occasion.deadline - now()
    if left <= timedelta(0):
        return min(LATE, limit)
    return min(left - min(MARGIN, left / 4), limit)


def facts(occasion: HookContext) -> dict[str, Json]:
    """Return what programs and webhooks are told, as JSON."""
    event = occasion.event
    return {
        "id": event.id,
        "type": event.kind,
        "status": event.status,
        "source": event.source,
        "resources": list(event.resources),
        "not_before": event.not_before.isoformat() if event.not_before else None,
        "description": event.description,
        "duration": event.duration,
        "phase": occasion.phase,
        "machine": occasion.machine,
    }
