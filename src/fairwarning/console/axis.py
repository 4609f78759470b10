"""A time axis: maps instants to pixels and places marks at round instants."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: Possible distances between marks; the axis takes the first that gives at most ``_MOST_MARKS`` marks.
_STEPS: tuple[timedelta, ...] = (
    *(timedelta(seconds=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1825)),
)
_MOST_MARKS = 8
_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday, so that weekly marks fall on Mondays
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant on the axis and its label."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The instants from ``begin`` to ``end``, drawn between the pixels ``left`` and ``right``."""

    begin: datetime
    end: datetime
    left: float
    right: float

    def x(self, instant: datetime) -> float:
        """Return the position of an instant, clamped to the ends of the axis."""
        share = (instant - self.begin) / (self.end - self.begin)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def holds(self, instant: datetime) -> bool:
        """Whether an instant lies on the axis."""
        return self.begin <= instant <= self.end

    @property
    def step(self) -> timedelta:
        """The distance between two marks."""
        length = self.end - self.begin
        return next((step for step in _STEPS if length / step <= _MOST_MARKS), _STEPS[-1])

    def marks(self) -> Iterator[Mark]:
        """Yield the marks of the axis; the first mark of each day names the day."""
        step = self.step
        instant = _EPOCH - (_EPOCH - self.begin) // step * step
        today = None
        while instant <= self.end:
            yield Mark(instant, _label(instant, step, new_day=instant.date() != today))
            today = instant.date()
            instant += step


def day(instant: datetime) -> str:
    """Return the day of an instant, as ``16 Nov``."""
    return f"{instant.day} {instant:%b}"


def _label(instant: datetime, step: timedelta, *, new_day: bool) -> str:
    if step >= _DAY:
        return f"{day(instant)} {instant.year}" if step > 28 * _DAY else day(instant)
    clock = f"{instant:%H:%M:%S}" if step < _MINUTE else f"{instant:%H:%M}"
    return f"{day(instant)} {clock}" if new_day else clock
