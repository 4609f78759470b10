"""Descriptors are what runs out first when clients connect; here they are asked for and shared out."""

import resource
from dataclasses import dataclass

from fairwarning.metadata.limits import Limits

#: How many are left for the store, for files and for connections that are about to be refused.
RESERVE = 100
#: More than this are of no use to us.
MOST = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How many connections each may have: none can take what is another's."""

    guests: Limits
    operator: int
    management: int


def shares(descriptors: int) -> Shares:
    """Return how many connections everybody may have, given how many descriptors there are."""
    operator, management = min(1000, descriptors // 10), min(500, descriptors // 20)
    most = max(20, descriptors - RESERVE - operator - management)
    # However few there are, one guest must not have them all, nor must those who wait.
    each = max(1, min(Limits().each, most // 8))
    guests = Limits(connections=most, each=each, watchers=most * 3 // 4)
    return Shares(guests=guests, operator=operator, management=management)


def available() -> int:
    """Ask for as many descriptors as we may have, and return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST if soft == resource.RLIM_INFINITY else soft
