"""How much a caller may ask in wall time: requests of a machine (R-10), and work of whatever kind (R-26)."""

from dataclasses import dataclass

from fairwarning.wakeups import Sleeper


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


#: A caller that goes on asking for too much rests twice as long each time, up to so many times the first.
LONGEST_REST = 4


class Account(Bucket):
    """The steps of work that may still be done for a caller; who asks for more has to rest."""

    __slots__ = ("_first", "_rest", "resting", "until")

    def __init__(self, rate: Rate, rest: float) -> None:
        super().__init__(rate)
        self._first = self._rest = rest
        #: When the last rest ends or ended.
        self.until = 0.0
        #: Who waits for the end of it.
        self.resting: tuple[Sleeper, ...] = ()

    def charge(self, now: float) -> bool:
        """Take one step at ``now`` seconds, or say that the caller has to rest."""
        if now < self.until:
            return False
        if self.admits(now):
            return True
        again = now - self.until < self._first
        self._rest = min(2 * self._rest, LONGEST_REST * self._first) if again else self._first
        self.until = now + self._rest
        return False
