"""A stretch of time laid over a stretch of pixels, with marks at instants that people like to read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: Distances between marks, the first that leaves few enough of them is taken.
_STEPS: tuple[timedelta, ...] = (
    *(timedelta(seconds=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1825)),
)
_MOST_MARKS = 8
_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)  # a Monday: marks a week apart fall on the first day of one
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant on the axis and what is written at it."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Where instants between ``begin`` and ``end`` are, from ``left`` to ``right``."""

    begin: datetime
    end: datetime
    left: float
    right: float

    def x(self, instant: datetime) -> float:
        """Return where an instant is; what lies outside is at the nearer end."""
        share = (instant - self.begin) / (self.end - self.begin)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def holds(self, instant: datetime) -> bool:
        """Whether an instant lies on the axis."""
        return self.begin <= instant <= self.end

    @property
    def step(self) -> timedelta:
        """How far the marks are apart."""
        length = self.end - self.begin
        return next((step for step in _STEPS if length / step <= _MOST_MARKS), _STEPS[-1])

    def marks(self) -> Iterator[Mark]:
        """Yield the marks of the axis; the first of each day says which."""
        step = self.step
        instant = _EPOCH - (_EPOCH - self.begin) // step * step
        today = None
        while instant <= self.end:
            yield Mark(instant, _written(instant, step, new_day=instant.date() != today))
            today = instant.date()
            instant += step


def day(instant: datetime) -> str:
    """Return the day of an instant, as ``16 Nov``."""
    return f"{instant.day} {instant:%b}"


def _written(instant: datetime, step: timedelta, *, new_day: bool) -> str:
    if step >= _DAY:
        return f"{day(instant)} {instant.year}" if step > 28 * _DAY else day(instant)
    clock = f"{instant:%H:%M:%S}" if step < _MINUTE else f"{instant:%H:%M}"
    return f"{day(instant)} {clock}" if new_day else clock
