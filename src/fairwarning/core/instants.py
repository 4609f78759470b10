"""How instants are written for programs of ours: recordings, and scripts of pages."""

from datetime import UTC, datetime


def stamp(when: datetime) -> str:
    """Return an instant in UTC, to the millisecond, as ``2026-11-16T12:00:00.000Z``."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
