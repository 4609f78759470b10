"""Token buckets: requests of a machine (R-10), and work of any kind for a caller (R-26).

A caller that exceeds its work limit does not get errors, because errors cost work too. It *rests*: for a
second or more, nothing that it sends is read. Its bytes wait in the kernel's buffers and cost the server
nothing, and other callers keep their share. A caller that exceeds the limit again right after a rest rests
twice as long, up to ``MAX_REST_FACTOR`` times the first; a caller that pauses starts over. ``Account``
keeps the connections that wait for the end of the rest. Requests answered on the fast path are not charged
to the account: the bucket of R-10 limits them already.
"""

from typing import NamedTuple

from fairwarning.wakeups import Sleeper


class Rate(NamedTuple):
    """How many per second, and how many at once."""

    per_second: float
    burst: float


class Bucket:
    """A token bucket."""

    __slots__ = ("_level", "_rate", "_since")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._level = rate.burst
        self._since = 0.0

    def take(self, now: float) -> bool:
        """Take a token at ``now`` seconds; False if there is none."""
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


#: The longest rest of a caller that keeps exceeding its limit, as a multiple of the first.
MAX_REST_FACTOR = 4


class Account(Bucket):
    """The steps of work that may still be done for a caller; without steps, the caller rests."""

    __slots__ = ("_first_rest", "_rest", "resting", "until")

    def __init__(self, rate: Rate, rest: float) -> None:
        super().__init__(rate)
        self._first_rest = self._rest = rest
        #: When the current rest ends, or the last rest ended.
        self.until = 0.0
        #: The connections that wait for the end of the rest.
        self.resting: tuple[Sleeper, ...] = ()

    def charge(self, now: float) -> bool:
        """Charge one step at ``now`` seconds; False if the caller has to rest."""
        if now < self.until:
            return False
        if self.take(now):
            return True
        repeated = now - self.until < self._first_rest
        longer = min(2 * self._rest, MAX_REST_FACTOR * self._first_rest)
        self._rest = longer if repeated else self._first_rest
        self.until = now + self._rest
        return False
