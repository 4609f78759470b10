"""The numbers and switches of the service. Each names the rule it comes from.

A ``Profile`` is a level of fidelity: what Azure does today (``azure``) or what its first preview did
(``preview2017``). A profile holds the ``Policy`` that decisions obey and the settings of the metadata face.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from fairwarning.core.errors import InvalidError, SpotIsNotWarnedError
from fairwarning.core.model import EventType

#: L-05: how long before an impact the guests are told; for Terminate unless the profile says (T-02).
NOTICE: Mapping[EventType, timedelta] = {
    EventType.FREEZE: timedelta(minutes=15),
    EventType.REBOOT: timedelta(minutes=15),
    EventType.REDEPLOY: timedelta(minutes=10),
    EventType.PREEMPT: timedelta(seconds=30),
    EventType.TERMINATE: timedelta(minutes=5),
    EventType.REBALANCE: timedelta(minutes=15),
}

#: T-02: the shortest and the longest notice a terminate profile may ask for.
TERMINATE_NOTICE = (timedelta(minutes=5), timedelta(minutes=15))

#: The longest notice anybody may ask for.
LONGEST_NOTICE = timedelta(days=3650)

#: How often the instant of the last poll is kept, and how often at the most, however fast time passes.
POLL_REFRESH, POLL_REFRESH_LEAST = timedelta(hours=1), timedelta(minutes=1)

#: How slowly and how fast durations may be made to pass.
SPEEDS = 0.01, 100_000.0

#: How long a failed impact rests before its first retry, and the longest it ever rests.
RETRY_FIRST, RETRY_MOST = timedelta(seconds=5), timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What every decision obeys."""

    speed: float = 1.0
    disable_after: timedelta | None = timedelta(hours=24)
    max_user_events: int | None = None
    one_update_domain: bool = True
    terminate_requires_enabled: bool = True
    start_enabled: bool = False

    def shorten(self, duration: timedelta) -> timedelta:
        """Return ``duration`` as long as it lasts at this speed."""
        return duration if self.speed == 1.0 else duration / self.speed

    @property
    def poll_refresh(self) -> timedelta:
        """How stale the stored instant of the last poll may become; memory knows it exactly."""
        return max(self.shorten(POLL_REFRESH), POLL_REFRESH_LEAST)


class FirstCall(StrEnum):
    """What a guest meets while the feature is being switched on for its scope (R-25)."""

    NONE = "none"
    DELAY = "delay"
    EMPTY_BODY = "empty_body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One level of fidelity."""

    policy: Policy = Policy()
    versions: frozenset[str] | None = None
    preview_version: bool = False
    iso_dates: bool | None = None
    unsupported_version_status: int = 404
    legacy_latest_path: bool = False
    post_returns_document: bool = False
    first_call: FirstCall = FirstCall.NONE
    first_call_delay: timedelta = timedelta(0)
    requests_per_second: float = 5.0
    burst: float = 5.0
    #: Whether machines are given tokens of an identity of their own.
    identity_tokens: bool = False


PROFILES: Mapping[str, Profile] = {
    "azure": Profile(),
    "preview2017": Profile(
        policy=Policy(disable_after=None, max_user_events=10),
        versions=frozenset({"2017-03-01"}),
        unsupported_version_status=400,
    ),
}


def with_speed(policy: Policy, speed: float) -> Policy:
    """Return ``policy`` with every duration divided by ``speed``."""
    slowest, fastest = SPEEDS
    if not slowest <= speed <= fastest:
        raise InvalidError("speed", f"must be between {slowest:g} and {fastest:g}, not {speed:g}")
    return replace(policy, speed=speed)


def whole_second(instant: datetime) -> datetime:
    """Round up to the next whole second: what the wire can say, and never too early."""
    floor = instant.replace(microsecond=0)
    return floor if floor == instant else floor + timedelta(seconds=1)


def retry_delay(attempt: int) -> timedelta:
    """How long the impact rests after its ``attempt``-th failure."""
    return min(RETRY_FIRST * (1 << min(attempt - 1, 10)), RETRY_MOST)


def terminate_notice(minutes: timedelta, *, spot: bool) -> timedelta:
    """Return the notice if a terminate profile may ask for it, or refuse."""
    shortest, longest = TERMINATE_NOTICE
    if spot:
        raise SpotIsNotWarnedError  # T-05
    if not shortest <= minutes <= longest:
        raise InvalidError("terminate_notice", f"must be between 5 and 15 minutes, not {minutes}")
    return minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history is kept, by age and by the bytes that all of the data takes; None is no limit."""

    age: timedelta | None = None
    size: int | None = None


#: What is kept in a data directory unless told otherwise.
DEFAULT_RETENTION = Retention(age=timedelta(days=30), size=10**9)
