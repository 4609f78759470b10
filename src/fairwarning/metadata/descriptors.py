"""Descriptors are what runs out first when guests connect; here they are asked for and shared out."""

import resource

from fairwarning.metadata.limits import Limits

#: How many guests must leave for the store, the other faces and whoever is just arriving.
RESERVE = 200
#: More than this are of no use to us.
MOST = 65_536


def guest_limits(descriptors: int) -> Limits:
    """Return how many connections guests may have, given how many descriptors there are."""
    most = max(RESERVE // 10, descriptors - RESERVE)
    # However few there are, one guest must not have them all, nor must those who wait.
    each = max(1, min(Limits().each, most // 8))
    return Limits(connections=most, each=each, watchers=most * 3 // 4)


def available() -> int:
    """Ask for as many descriptors as we may have, and return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST if soft == resource.RLIM_INFINITY else soft
