"""The numbers and switches of the service, each with the rule it comes from.

A ``Profile`` is a named set of Azure behaviours: ``azure`` (today), ``azure2020`` (today, with the errors of
2019 to 2022) or ``preview2017`` (the first preview). It holds the ``Policy`` that decisions follow and the
settings of the metadata API. ``may`` says what each kind of caller can ask for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from fairwarning.core.errors import (
    EmulatorOnlyError,
    InvalidError,
    MachinesListedError,
    SpotIsNotWarnedError,
)
from fairwarning.core.model import EventType, Principal, PrincipalKind, ScopeId, replace

#: L-05: the default notice of each event type; a terminate profile may set another one for Terminate (T-02).
NOTICE: Mapping[EventType, timedelta] = {
    EventType.FREEZE: timedelta(minutes=15),
    EventType.REBOOT: timedelta(minutes=15),
    EventType.REDEPLOY: timedelta(minutes=10),
    EventType.PREEMPT: timedelta(seconds=30),
    EventType.TERMINATE: timedelta(minutes=5),
    EventType.REBALANCE: timedelta(minutes=15),
}

#: R-29: how long a node shows guests its state without news from the others, and the shortest such time: it
#: asks for news every second. The longest is less than the shortest notice.
STALE_AFTER, SHORTEST_STALE_AFTER = timedelta(seconds=10), timedelta(seconds=3)

#: T-02: the shortest and the longest notice a terminate profile may ask for.
TERMINATE_NOTICE = (timedelta(minutes=5), timedelta(minutes=15))

#: The longest notice that a command may ask for.
LONGEST_NOTICE = timedelta(days=3650)

#: How often the instant of a scope's last poll is stored, and the shortest interval at any clock speed.
POLL_REFRESH, POLL_REFRESH_LEAST = timedelta(hours=6), timedelta(minutes=1)

#: The slowest and the fastest clock speed.
SPEEDS = 0.01, 100_000.0

#: The delay before the first retry of a failed impact, and the longest delay before any retry.
RETRY_FIRST, RETRY_MOST = timedelta(seconds=5), timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings that decisions follow."""

    speed: float = 1.0
    disable_after: timedelta | None = timedelta(hours=24)
    max_user_events: int | None = None
    one_update_domain: bool = True
    terminate_requires_enabled: bool = True
    start_enabled: bool = False
    #: Whether machines are made up and time may be moved; False for a server of real machines.
    emulator: bool = True

    def shorten(self, duration: timedelta) -> timedelta:
        """Return how long ``duration`` lasts at this clock speed."""
        return duration if self.speed == 1.0 else duration / self.speed

    @property
    def poll_refresh(self) -> timedelta:
        """How old the stored instant of the last poll may become; the exact instant is in memory."""
        return max(self.shorten(POLL_REFRESH), POLL_REFRESH_LEAST)


class FirstCall(StrEnum):
    """What the first poll returns while Scheduled Events is being enabled for the scope (R-25)."""

    NONE = "none"
    DELAY = "delay"
    EMPTY_BODY = "empty_body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named set of Azure behaviours."""

    policy: Policy = Policy()
    versions: frozenset[str] | None = None
    preview_version: bool = False
    iso_dates: bool | None = None
    unsupported_version_status: int = 404
    #: Whether errors are those that were captured from 2019 to 2022 (R-27).
    old_errors: bool = False
    legacy_latest_path: bool = False
    post_returns_document: bool = False
    first_call: FirstCall = FirstCall.NONE
    first_call_delay: timedelta = timedelta(0)
    requests_per_second: float = 5.0
    burst: float = 5.0
    #: Whether machines get tokens of a managed identity.
    identity_tokens: bool = False


PROFILES: Mapping[str, Profile] = {
    "azure": Profile(),
    "azure2020": Profile(unsupported_version_status=400, old_errors=True),
    "preview2017": Profile(
        policy=Policy(disable_after=None, max_user_events=10),
        versions=frozenset({"2017-03-01"}),
        unsupported_version_status=400,
    ),
}


def with_speed(policy: Policy, speed: float) -> Policy:
    """Return ``policy`` at another clock speed."""
    slowest, fastest = SPEEDS
    if not slowest <= speed <= fastest:
        raise InvalidError("speed", f"must be between {slowest:g} and {fastest:g}, not {speed:g}")
    return replace(policy, speed=speed)


def whole_second(instant: datetime) -> datetime:
    """Round up to a whole second: documents have no fractions, and no event may start early."""
    floor = instant.replace(microsecond=0)
    return floor if floor == instant else floor + timedelta(seconds=1)


def retry_delay(attempt: int) -> timedelta:
    """Return the delay before the next try after the ``attempt``-th failure of an impact."""
    return min(RETRY_FIRST * (1 << min(attempt - 1, 10)), RETRY_MOST)


def check_stale_after(stale_after: timedelta) -> timedelta:
    """Return how long a node without news shows guests its state, if no event can come and begin meanwhile.

    Raises:
        InvalidError: the time is too short or too long (R-29).
    """
    notice = min(NOTICE.values())
    if not SHORTEST_STALE_AFTER <= stale_after < notice:
        least, most = (f"{limit.total_seconds():g} s" for limit in (SHORTEST_STALE_AFTER, notice))
        limits = f"must be at least {least} and less than {most}, the shortest notice of an event"
        raise InvalidError("stale_after", f"{limits}, not {stale_after.total_seconds():g} s")
    return stale_after


def check_terminate_notice(notice: timedelta, *, spot: bool) -> timedelta:
    """Return the notice if a terminate profile allows it.

    Raises:
        SpotIsNotWarnedError: the machines are Spot machines (T-05).
        InvalidError: the notice is too short or too long (T-02).
    """
    shortest, longest = TERMINATE_NOTICE
    if spot:
        raise SpotIsNotWarnedError
    if not shortest <= notice <= longest:
        raise InvalidError("terminate_notice", f"must be between 5 and 15 minutes, not {notice}")
    return notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history is kept: the age of its lines and the size of all data; None means no limit."""

    age: timedelta | None = None
    size: int | None = None


#: The default retention of a data directory.
DEFAULT_RETENTION = Retention(age=timedelta(days=30), size=10**9)


class OverdueLimits(NamedTuple):
    """How long an impact that operators report on may take until it is overdue."""

    default: timedelta = timedelta(hours=1)
    by_cause: Mapping[str, timedelta] = MappingProxyType({})

    def limit(self, cause: str) -> timedelta:
        """Return the limit of a cause."""
        return self.by_cause.get(cause, self.default)


#: The limits unless a file sets others.
DEFAULT_OVERDUE = OverdueLimits()


class Action(StrEnum):
    """What a caller can ask for."""

    POLL = "poll"
    APPROVE = "approve"
    CAUSE = "cause"
    CANCEL = "cancel"
    MAINTAIN = "maintain"
    POSTPONE = "postpone"
    HOLD = "hold"
    CREATE = "create"
    CHANGE = "change"
    ADD_MACHINES = "add machines"
    APPLY_INVENTORY = "apply inventory"
    DELETE = "delete"
    SET_POWER = "set power"
    MOVE = "move"
    UPGRADE = "upgrade"
    PROTECT = "protect"
    SET_TAGS = "set tags"
    START_ROLLOUT = "start rollout"
    STOP_ROLLOUT = "stop rollout"
    REPORT = "report"
    SET_FAULT = "set fault"
    CLEAR_FAULT = "clear fault"
    MOVE_CLOCK = "move clock"
    SET_SPEED = "set speed"
    STORE_RESOURCE = "store a resource"
    END_SESSION = "end a session"


#: The actions that each kind of caller may ask for; a guest only in its own scope (R-18).
PERMISSIONS: Mapping[PrincipalKind, frozenset[Action]] = {
    PrincipalKind.GUEST: frozenset({Action.POLL, Action.APPROVE}),
    PrincipalKind.OPERATOR: frozenset(Action) - {Action.POLL, Action.STORE_RESOURCE, Action.APPLY_INVENTORY},
    PrincipalKind.MANAGEMENT: frozenset(
        {
            Action.APPROVE,
            Action.CAUSE,
            Action.CANCEL,
            Action.CREATE,
            Action.CHANGE,
            Action.ADD_MACHINES,
            Action.DELETE,
            Action.SET_POWER,
            Action.UPGRADE,
            Action.PROTECT,
            Action.SET_TAGS,
            Action.STORE_RESOURCE,
        }
    ),
    PrincipalKind.PLATFORM: frozenset(Action),
}


#: What only the emulator can do: endpoints that misbehave, and a clock that callers control.
EMULATOR_ACTIONS = frozenset({Action.SET_FAULT, Action.CLEAR_FAULT, Action.MOVE_CLOCK, Action.SET_SPEED})

#: What only the inventory does on a server of real machines: it lists them with their tags.
LISTED_ACTIONS = frozenset({Action.CREATE, Action.ADD_MACHINES, Action.SET_TAGS})


def check_available(action: Action, policy: Policy) -> None:
    """Refuse what a server of real machines does not do.

    Raises:
        EmulatorOnlyError: only the emulator can do this.
        MachinesListedError: the action would contradict the inventory.
    """
    if policy.emulator:
        return
    if action in EMULATOR_ACTIONS:
        raise EmulatorOnlyError(action)
    if action in LISTED_ACTIONS:
        raise MachinesListedError(action)


def may(principal: Principal, action: Action, target: ScopeId | None = None) -> bool:
    """Whether a caller may do something to a scope; None stands for the whole service."""
    if action not in PERMISSIONS[principal.kind]:
        return False
    machine = principal.machine
    return principal.kind is not PrincipalKind.GUEST or (machine is not None and machine.scope == target)
