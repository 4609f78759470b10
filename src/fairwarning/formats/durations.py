"""Parses and formats durations: ``30s``, ``1h30m``, ``2d``, or ISO 8601 such as ``PT5M``."""

import re
from collections.abc import Mapping
from datetime import timedelta

#: Ten years: longer than any notice, and short enough that no instant exceeds the range of ``datetime``.
LONGEST_DURATION = timedelta(days=3650)

#: Longest first, the order in which they are written.
_UNITS: Mapping[str, timedelta] = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_COUNTS = "".join(rf"(?:(?P<{unit}>\d{{1,9}}){unit})?" for unit in _UNITS)
_SHORT = re.compile(rf"(?=\d){_COUNTS}", re.ASCII)
_ISO = re.compile(
    r"P(?=.)(?:(?P<d>\d{1,9})D)?"
    r"(?:T(?=.)(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9})S)?)?",
    re.ASCII,
)


def parse(text: str) -> timedelta:
    """Parse a duration.

    Raises:
        ValueError: ``text`` is not a duration, or the duration is longer than ten years.
    """
    match = _SHORT.fullmatch(text) or _ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid duration {text[:40]!r} (expected e.g. 30s, 15m, 1h30m, 2d or PT5M)")
    counts = match.groupdict(default="0")
    seconds = sum(int(counts[unit]) * int(length.total_seconds()) for unit, length in _UNITS.items())
    if seconds > LONGEST_DURATION.total_seconds():
        raise ValueError(f"{text!r} is longer than {for_people(LONGEST_DURATION)}")
    return timedelta(seconds=seconds)


def for_people(duration: timedelta) -> str:
    """Return a duration in the short form, in whole seconds: ``1h30m``."""
    rest = max(duration, timedelta(0))
    text = ""
    for unit, length in _UNITS.items():
        count, rest = divmod(rest, length)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
