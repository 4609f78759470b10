"""Parses instants as operators write them, and formats instants for people in a time zone.

``Thu 02:00`` and ``02:00`` stand for the next instant at which clocks in the zone show this, ``+5h`` counts
from now, and everything else is ISO 8601; without an offset, it is local time in the zone.

Local time skips and repeats times where clocks are put forward and back. A time that is skipped is refused:
the instants before and after the change are an hour apart, and only the operator knows which of them will do.
A date and time that is repeated stands for its first instant.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo

from fairwarning.formats import durations
from fairwarning.formats.timestamps import DAYS

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WEEKDAY = "|".join(f"{day[:3]}(?:{day[3:]})?" for day in _WEEKDAYS)
_NEXT = re.compile(
    rf"(?:(?P<weekday>{_WEEKDAY}) )?(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)", re.ASCII | re.IGNORECASE
)
#: No instant of these years exceeds the range of ``datetime`` in another zone.
_ISO = re.compile(
    r"(?P<date>2\d{3}-\d\d-\d\d)[T ](?P<time>(?:[01]\d|2[0-3]):\d\d(?::\d\d)?) ?(?P<offset>Z|[+-]\d\d:\d\d)?",
    re.ASCII,
)


def parse_instant(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Parse an instant and return it in UTC; one that is given by its date may be in the past.

    Raises:
        ValueError: ``text`` is not an instant, or is a local time that clocks skip.
    """
    if text.startswith("+"):
        return now.astimezone(UTC) + durations.parse(text.removeprefix("+"))
    if match := _NEXT.fullmatch(text):
        shown = time(int(match["hour"]), int(match["minute"]))
        return _next_instant(match["weekday"], shown, now, zone)
    if match := _ISO.fullmatch(text):
        try:
            local = datetime.fromisoformat(f"{match['date']}T{match['time']}{match['offset'] or ''}")
        except ValueError:
            raise _invalid(text) from None
        return local.astimezone(UTC) if match["offset"] else _first_instant(local, zone)
    raise _invalid(text)


def for_people(when: datetime, zone: tzinfo) -> str:
    """Return an instant in a zone, with its offset: ``Thu 2026-11-19 02:00 +01:00``."""
    local = when.astimezone(zone)
    text = local.isoformat(" ", "seconds" if local.second else "minutes")
    return f"{DAYS[local.weekday()]} {text[:-6]} {text[-6:]}"


def _next_instant(weekday: str | None, shown: time, now: datetime, zone: tzinfo) -> datetime:
    """Return the first instant after now at which clocks show a time, on a day of the week or on any day."""
    day = None if weekday is None else DAYS.index(weekday[:3].title())
    current = now.astimezone(zone).replace(tzinfo=None)
    local = datetime.combine(current, shown)
    while True:
        if day in (None, local.weekday()):
            for instant in _instants(local, zone):
                if instant > now:
                    return instant
            if local > current:
                raise _skipped(local, zone)
        local += timedelta(days=1)


def _first_instant(local: datetime, zone: tzinfo) -> datetime:
    for instant in _instants(local, zone):
        return instant
    raise _skipped(local, zone)


def _instants(local: datetime, zone: tzinfo) -> Iterator[datetime]:
    """Yield the instants at which clocks show a date and time, in their order; none if clocks skip it."""
    for fold in (0, 1):
        instant = local.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None) == local:
            yield instant


def _invalid(text: str) -> ValueError:
    expected = "expected e.g. 'Thu 02:00', 2026-11-19T02:00+01:00 or +5h"
    return ValueError(f"invalid instant {text[:40]!r} ({expected})")


def _skipped(local: datetime, zone: tzinfo) -> ValueError:
    return ValueError(
        f"{local.isoformat(' ', 'minutes')} does not exist in {zone}: clocks are put forward then"
    )
