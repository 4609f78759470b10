"""Five requests a second for each machine, in wall time (R-10)."""

from dataclasses import dataclass

from fairwarning.metadata.query import error

TOO_MANY = error(429, "Too many requests", ("Retry-After", "1"))


@dataclass(frozen=True, slots=True)
class Rate:
    """How many requests a second, and how many at once."""

    per_second: float
    burst: float


class Bucket:
    """The requests that may still be made."""

    __slots__ = ("_level", "_rate", "_since")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._level = rate.burst
        self._since = 0.0

    def admits(self, now: float) -> bool:
        """Take one request at ``now`` seconds, or say that it came too soon."""
        rate = self._rate
        level = self._level + (now - self._since) * rate.per_second
        if level > rate.burst:
            level = rate.burst
        self._since = now
        if level < 1.0:
            self._level = level
            return False
        self._level = level - 1.0
        return True
