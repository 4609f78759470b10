"""How much of a server callers may use: connections, work, time; and how descriptors are shared out."""

import resource
from dataclasses import dataclass

from fairwarning.http1.throttle import Rate

#: How many descriptors are left for the store, for files and for connections that are about to be refused.
RESERVE = 100
#: More than this are of no use to us.
MOST = 65_536

#: What no caller needs that means well, and others do not notice.
STEPS = Rate(per_second=50.0, burst=30.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long clients may take, in seconds of real time, and how many there may be."""

    #: A connection without a request.
    idle: float = 60.0
    #: A request that has begun to arrive; also what a client that stopped sending or reading gets.
    head: float = 10.0
    #: Answers still under way when the server closes.
    grace: float = 1.0
    #: Connections and listeners of all callers together.
    connections: int = 10_000
    #: Connections of one caller; those whom nobody knows are one caller.
    each: int = 64
    #: Answers that are held back at a time; who asks for one more is answered at once, so that those who
    #: wait never keep out those who ask.
    watchers: int = 7_500
    #: Steps of work for one caller: a connection, a piece that is no admitted poll, an answer, some chunks.
    steps: Rate = STEPS
    #: How long a caller that asks for more is not read.
    rest: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorShares:
    """How many connections each may have: none can take what is another's."""

    guests: Limits
    operator: int
    management: int


def shares(descriptors: int) -> DescriptorShares:
    """Return how many connections everybody may have, given how many descriptors there are."""
    operator, management = min(1000, descriptors // 10), min(500, descriptors // 20)
    most = max(20, descriptors - RESERVE - operator - management)
    # However few there are, one guest must not have them all, nor must those who wait.
    each = max(1, min(Limits().each, most // 8))
    guests = Limits(connections=most, each=each, watchers=most * 3 // 4)
    return DescriptorShares(guests=guests, operator=operator, management=management)


def available() -> int:
    """Ask for as many descriptors as we may have, and return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST if soft == resource.RLIM_INFINITY else soft
