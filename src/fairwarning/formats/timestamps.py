"""Formats instants: for people, for HTTP headers, and for recordings and the console's scripts."""

from datetime import UTC, datetime

#: The names of days and months in HTTP; ``strftime`` would use those of the machine's locale.
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

#: Small numbers, written once: documents with many events have many dates.
_TWO_DIGITS = tuple(f"{number:02}" for number in range(60))


def http_date(when: datetime) -> str:
    """Return an instant as HTTP writes it, such as ``Mon, 19 Sep 2016 18:29:47 GMT``."""
    utc = when.astimezone(UTC)
    date = f"{DAYS[utc.weekday()]}, {_TWO_DIGITS[utc.day]} {_MONTHS[utc.month - 1]} {utc.year:04}"
    return f"{date} {_TWO_DIGITS[utc.hour]}:{_TWO_DIGITS[utc.minute]}:{_TWO_DIGITS[utc.second]} GMT"


def iso_milliseconds(when: datetime) -> str:
    """Return an instant in UTC, to the millisecond, as ``2026-11-16T12:00:00.000Z``."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def for_people(when: datetime, now: datetime | None = None) -> str:
    """Return an instant in UTC for display; without its date if that is the date of ``now``."""
    utc = when.astimezone(UTC)
    today = now is not None and utc.date() == now.astimezone(UTC).date()
    return f"{utc:%H:%M:%SZ}" if today else f"{utc:%Y-%m-%d %H:%M:%SZ}"
