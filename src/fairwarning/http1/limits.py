"""Limits on connections, work and time, and how the file descriptors of the process are shared."""

from dataclasses import dataclass
from typing import NamedTuple

from fairwarning.http1.throttle import Rate

#: Descriptors for the store, for files and for connections that are about to be rejected.
RESERVE = 100
#: The server has no use for more descriptors.
MAX_DESCRIPTORS = 65_536

#: More than a well-behaved caller needs, and little enough that other callers do not notice.
STEPS = Rate(per_second=50.0, burst=30.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long clients may take, in seconds of real time, and how much they may use."""

    #: Time for a connection without a request.
    idle: float = 60.0
    #: Time for a request to arrive; also for a client that stopped sending or reading.
    head: float = 10.0
    #: Time for requests under way when the server closes.
    grace: float = 1.0
    #: Time for idle connections when the server closes: the next response of each is its last.
    linger: float = 0.0
    #: Connections and listeners of all callers together.
    connections: int = 10_000
    #: Connections of one known caller, of one unknown address, and of all unknown addresses together.
    per_caller: int = 64
    per_stranger: int = 16
    strangers: int = 1_250
    #: Responses that are held back at a time. A further long poll is answered at once, so that long polls
    #: never take all connections.
    held_responses: int = 7_500
    #: Work for one caller, in steps: a connection, a read outside the fast path, a response, some chunks.
    steps: Rate = STEPS
    #: How long a caller that exceeds ``steps`` is not read.
    rest: float = 1.0


class DescriptorShares(NamedTuple):
    """How many connections each API may have; none can use the share of another."""

    guests: Limits
    operator: int
    management: int


def share_descriptors(descriptors: int) -> DescriptorShares:
    """Divide a number of descriptors between the APIs."""
    operator, management = min(1000, descriptors // 10), min(500, descriptors // 20)
    connections = max(20, descriptors - RESERVE - operator - management)
    # However few there are, neither one guest nor all long polls nor all strangers may take every connection,
    # and no stranger may take all that strangers have.
    per_caller = max(1, min(Limits().per_caller, connections // 8))
    guests = Limits(
        connections=connections,
        per_caller=per_caller,
        per_stranger=max(1, per_caller // 4),
        strangers=connections // 8,
        held_responses=connections * 3 // 4,
    )
    return DescriptorShares(guests=guests, operator=operator, management=management)


def raise_descriptor_limit() -> int:
    """Raise the descriptor limit of this process as far as allowed, and return it."""
    import resource  # Windows lacks it, and needs only the limits above

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
