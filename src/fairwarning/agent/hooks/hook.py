"""The interface of hooks: their context, their outcome, and their time limit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.document.render import Json

Phase = Literal["prepare", "recover"]
Now = Callable[[], datetime]

#: The time between the end of a hook and NotBefore, for the approval to reach the server.
MARGIN: Final = timedelta(seconds=5)
#: The time limit of a hook if NotBefore is unknown.
DEFAULT_LIMIT: Final = timedelta(minutes=10)
#: The time limit of a hook if NotBefore has passed: a quick hook can still help (C-09).
LATE_LIMIT: Final = timedelta(seconds=5)

#: The token of a hook whose earlier run started but never reported its outcome.
UNREPORTED: Final = "unreported"

#: The environment of programs if the agent passes none.
DEFAULT_ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}


@dataclass(frozen=True, slots=True)
class HookContext:
    """The event and phase that a hook runs for, and its deadline."""

    event: ObservedEvent
    phase: Phase
    machine: str
    deadline: datetime | None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The result of a hook; the token is passed to the next hook of the same name for the event."""

    ok: bool
    message: str
    token: str | None = None


class Hook(Protocol):
    """A step that prepares or recovers; it never raises, and running it twice does no harm."""

    @property
    def name(self) -> str:
        """What the hook acts on; a step that prepares and the step that undoes it have the same name."""

    def describe(self) -> str:
        """Return what the hook does, in the imperative."""

    def program(self) -> str | None:
        """Return the program that must be installed for the hook to work, if it needs one."""

    def run(self, context: HookContext, remembered: str | None, now: Now) -> HookOutcome:
        """Run the hook and return its outcome; blocks, but not beyond the deadline of the context."""


def dry_run_outcome(hook: Hook) -> HookOutcome:
    """Return the outcome of a dry run."""
    return HookOutcome(True, f"would {hook.describe()}")


def time_left(context: HookContext, now: Now, limit: timedelta = DEFAULT_LIMIT) -> timedelta:
    """Return the remaining time of the hook, always more than zero."""
    if context.deadline is None:
        return limit
    left = context.deadline - now()
    if left <= timedelta(0):
        return min(LATE_LIMIT, limit)
    return min(left - min(MARGIN, left / 4), limit)


def event_payload(context: HookContext) -> dict[str, Json]:
    """Return the description of the event that programs and webhooks get, as JSON."""
    event = context.event
    return {
        "id": event.id,
        "type": event.kind,
        "status": event.status,
        "source": event.source,
        "resources": list(event.resources),
        "not_before": event.not_before.isoformat() if event.not_before else None,
        "description": event.description,
        "duration": event.duration,
        "phase": context.phase,
        "machine": context.machine,
    }
