"""The rules of leases; every store uses these functions."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fairwarning.engine.ports import Lease

#: The owner and the end of a lease that was released.
NO_OWNER, LONG_AGO = "", datetime.min.replace(tzinfo=UTC)


def next_lease(newest: Lease | None, key: str, owner: str, now: datetime, lasts: timedelta) -> Lease | None:
    """Return the lease after the newest one; None while another owner's lease lasts."""
    if newest is None:
        return Lease(key, owner, 1, now + lasts)
    if newest.owner != owner and newest.until > now:
        return None
    return Lease(key, owner, newest.fence + 1, now + lasts)


def is_newest(newest: Lease | None, lease: Lease) -> bool:
    """Tell whether no later lease was given and the lease was not released."""
    return newest is not None and (newest.owner, newest.fence) == (lease.owner, lease.fence)


def released(lease: Lease) -> Lease:
    """Return what remains of a released lease: its fence."""
    return replace(lease, owner=NO_OWNER, until=LONG_AGO)
