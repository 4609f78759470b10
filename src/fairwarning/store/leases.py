"""The rules of leases; every store uses these functions."""

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


def renewed(newest: Lease | None, lease: Lease, now: datetime, lasts: timedelta) -> Lease | None:
    """Return the lease with a later end; None if it is no longer the newest."""
    return lease._replace(until=now + lasts) if _is_newest(newest, lease) else None


def released(newest: Lease | None, lease: Lease) -> Lease | None:
    """Return what remains of a released lease, its fence; None if the lease is no longer the newest."""
    return lease._replace(owner=NO_OWNER, until=LONG_AGO) if _is_newest(newest, lease) else None


def _is_newest(newest: Lease | None, lease: Lease) -> bool:
    return newest is not None and (newest.owner, newest.fence) == (lease.owner, lease.fence)
