"""How instants are written: for people, and for programs of ours (recordings, scripts of pages)."""

from datetime import UTC, datetime


def iso_milliseconds(when: datetime) -> str:
    """Return an instant in UTC, to the millisecond, as ``2026-11-16T12:00:00.000Z``."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def for_people(when: datetime, now: datetime | None = None) -> str:
    """Return an instant as people read it, in UTC; its date is left out on the day that it is ``now``."""
    utc = when.astimezone(UTC)
    today = now is not None and utc.date() == now.astimezone(UTC).date()
    return f"{utc:%H:%M:%SZ}" if today else f"{utc:%Y-%m-%d %H:%M:%SZ}"
