"""The picture of what happened in a scope, as one SVG that can be pasted anywhere.

It brings everything it needs: sizes, colours and a ground of its own, as attributes. Classes are there so
that a page which shows it in the dark can repaint it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairwarning.console.axis import Axis, day
from fairwarning.console.event_timeline import EventTimeline
from fairwarning.console.svg import Attribute, tag, words
from fairwarning.core.model import ScopeId
from fairwarning.formats.durations import for_people

WIDTH = 1080
#: More lanes than this nobody reads; the oldest are left out, and the picture says so.
MOST_LANES = 40
#: How far the picture looks back and ahead unless told otherwise.
DAY = timedelta(days=1)

_LEFT, _RIGHT, _TOP = 216, WIDTH - 20, 92
_LANE, _BAR = 50, 14
_FOOT = 52
_SLIVER = 3.0
_LETTER = 5.7
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

Paint = Mapping[str, Attribute]

#: How each part looks on the picture's own ground.
PAINT: Mapping[str, Paint] = {
    "ground": {"fill": "#ffffff"},
    "band": {"fill": "#f3f5f8"},
    "grid": {"stroke": "#d9dee6", "stroke_width": 1.0},
    "ink": {"fill": "#1c2430"},
    "quiet": {"fill": "#566173"},
    "notice": {"fill": "#b9d0f5", "stroke": "#2b62c0", "stroke_width": 1.0},
    "unused": {"fill": "none", "stroke": "#6b87b8", "stroke_width": 1.0, "stroke_dasharray": "3 3"},
    "impact": {"fill": "#c8500a"},
    "withdrawn": {"fill": "#dde1e7", "stroke": "#7d8797", "stroke_width": 1.0},
    "approval": {"fill": "none", "stroke": "#117a3d", "stroke_width": 2.5},
    "due": {"fill": "none", "stroke": "#2b62c0", "stroke_width": 2.0},
    "beyond": {"fill": "none", "stroke": "#2b62c0", "stroke_width": 2.0},
    "cross": {"fill": "none", "stroke": "#566173", "stroke_width": 2.0},
    "failure": {"fill": "none", "stroke": "#b3122b", "stroke_width": 2.0},
    "now": {"stroke": "#b3122b", "stroke_width": 1.0, "stroke_dasharray": "4 3"},
    "now-text": {"fill": "#b3122b"},
}

#: What the signs mean; each is drawn as it is in a lane.
LEGEND: tuple[tuple[str, str], ...] = (
    ("notice", "notice: announced until NotBefore"),
    ("unused", "notice not needed"),
    ("approval", "approved"),
    ("impact", "impact"),
    ("withdrawn", "cancelled"),
    ("failure", "failed attempt"),
)


@dataclass(frozen=True, slots=True)
class Lane:
    """One event's place in the picture."""

    story: EventTimeline
    axis: Axis
    now: datetime
    top: float

    @property
    def bar(self) -> float:
        """The upper edge of the lane's bar."""
        return self.top + 8

    @property
    def middle(self) -> float:
        """Half the height of the lane's bar."""
        return self.bar + _BAR / 2


def timeline(scope: ScopeId, told: Sequence[EventTimeline], now: datetime, window: timedelta = DAY) -> str:
    """Return the picture of a scope's events, as far as they lie within ``window`` of now."""
    recent = [one for one in told if one.end is None or one.end.at >= now - window]
    shown = recent[-MOST_LANES:]
    axis = _axis(shown, now, window)
    lanes = [Lane(story, axis, now, _TOP + number * _LANE) for number, story in enumerate(shown)]
    height = _TOP + max(len(lanes), 1) * _LANE + _FOOT
    heading = f"Scheduled events of {scope}"
    parts = (
        tag("title", words(heading)),
        tag("desc", words(_described(shown, len(recent) - len(shown), now))),
        _part("rect", "ground", width=WIDTH, height=height, rx=6),
        *_header(heading, now, len(recent) - len(shown)),
        *(
            _part("rect", "band", x=8, y=lane.top - 2, width=WIDTH - 16, height=_LANE, rx=4)
            for lane in lanes[::2]
        ),
        *_grid(axis, height - _FOOT),
        *_now_line(axis, now, height - _FOOT),
        *(piece for lane in lanes for piece in _lane(lane)),
        *([] if lanes else [_text(_LEFT, _TOP + 30, "no events in this time", "quiet")]),
        *_legend(height),
    )
    return tag(
        "svg", parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", width=WIDTH,
        height=height, role="img", font_family=_FONT, font_size=12, class_="timeline",
    )  # fmt: skip


def _axis(shown: Sequence[EventTimeline], now: datetime, window: timedelta) -> Axis:
    """Return the axis that all of it fits on, up to now unless all of it is over."""
    begins = min((one.event.created_at for one in shown), default=now - timedelta(minutes=15))
    ends = max((max(one.event.not_before, one.until(now)) for one in shown), default=now)
    begin, end = max(begins, now - window), min(ends, now + window)
    air = max((end - begin) * 0.03, timedelta(seconds=2))
    return Axis(begin - air, end + air, _LEFT, _RIGHT)


def _described(shown: Sequence[EventTimeline], older: int, now: datetime) -> str:
    """Return the picture in words, for those who cannot see it."""
    lines = [f"{_subject(one)}: {summary(one, now)}" for one in shown] or ["no events in this time"]
    return "; ".join(lines) + (f"; {older} older events are left out" if older else "")


def summary(story: EventTimeline, now: datetime) -> str:
    """Return what happened to an event in one line."""
    return " · ".join(_facts(story, now))


def _facts(story: EventTimeline, now: datetime) -> Iterator[str]:
    event, approval, end = story.event, story.approval, story.end
    made = event.created_at
    if story.sudden:
        yield f"started {_clock(made, now)} without notice"
    else:
        yield f"announced {_clock(made, now)}"
        yield f"NotBefore {_clock(event.not_before, made)}"
    if not event.seen:
        yield "nobody was told"
    if event.approved_by is not None:
        when = "" if approval is None else f"{_clock(approval.at, made)} "
        yield f"approved {when}by {event.approved_by[:40]}"
    if event.started_at is not None and not story.sudden:
        yield f"started {_clock(event.started_at, made)}" + ("" if event.approved_by else " unapproved")
    if story.failures:
        yield f"{len(story.failures)} failed"
    if end is not None:
        yield f"{end.what} {_clock(end.at, made)}" + (f" by {end.by[:40]}" if story.cancelled else "")
    elif event.started_at is not None:
        yield "under way"
    else:
        yield f"due in {for_people(event.not_before - now)}"


def _clock(instant: datetime, near: datetime) -> str:
    """Return the time of day, and the day unless it goes without saying."""
    return f"{instant:%H:%M:%S}" if instant.date() == near.date() else f"{day(instant)} {instant:%H:%M:%S}"


def _subject(story: EventTimeline) -> str:
    names = story.event.resources
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{story.event.kind} of {', '.join(names[:2])}{more}"


def _lane(lane: Lane) -> Iterator[str]:
    story, axis = lane.story, lane.axis
    event = story.event
    names = ", ".join(event.resources)
    tip = f"{_subject(story)}, {event.cause}, event {event.id}: {summary(story, lane.now)}"
    yield _text(16, lane.bar + 11, event.kind.value, "ink", most=26, font_weight="600")
    yield _text(16, lane.bar + 27, names, "quiet", most=32, font_size=11)
    yield tag("g", (tag("title", words(tip)), *_bars(lane), *_signs(lane)))
    said = summary(story, lane.now)
    room = axis.right - len(said) * _LETTER
    yield _text(
        max(min(axis.x(event.created_at), room), _LEFT), lane.bar + 29, said, "quiet", 150, font_size=11
    )


def _bars(lane: Lane) -> Iterator[str]:
    story, event = lane.story, lane.story.event
    began = event.started_at or (story.end.at if story.end else None)
    if not story.sudden:
        sort = "withdrawn" if story.cancelled else "notice"
        yield _bar(lane, sort, event.created_at, min(began or event.not_before, event.not_before))
    if began is not None and began < event.not_before:
        yield _bar(lane, "unused", began, event.not_before)
    if event.started_at is not None:
        yield _bar(lane, "impact", event.started_at, story.end.at if story.end else lane.now)


def _bar(lane: Lane, sort: str, begin: datetime, end: datetime) -> str:
    x = lane.axis.x(begin)
    return _part("rect", sort, x=x, y=lane.bar, width=max(lane.axis.x(end) - x, _SLIVER), height=_BAR, rx=2)


def _signs(lane: Lane) -> Iterator[str]:
    story, axis, y = lane.story, lane.axis, lane.middle
    event, approval = story.event, story.approval
    if not story.sudden:
        yield _sign("beyond" if event.not_before > axis.end else "due", axis.x(event.not_before), y)
    if approval is not None and axis.holds(approval.at):
        yield _sign("approval", axis.x(approval.at), y)
    for failure in story.failures:
        yield _sign("failure", axis.x(failure.at), y)
    if story.end is not None and story.cancelled:
        yield _sign("cross", axis.x(story.end.at), y)


#: Signs as strokes around their middle.
_STROKES: Mapping[str, str] = {
    "due": "M0,-10 L0,10",
    "beyond": "M-6,-4 L-2,0 L-6,4 M-11,-4 L-7,0 L-11,4",
    "approval": "M-5,-1 L-1,4 L6,-7",
    "failure": "M-4,-4 L4,4 M4,-4 L-4,4",
    "cross": "M-4,-4 L4,4 M4,-4 L-4,4",
}


def _sign(sort: str, x: float, y: float) -> str:
    return _part("path", sort, d=_STROKES[sort], transform=f"translate({x:.1f} {y:.1f})")


def _header(heading: str, now: datetime, older: int) -> Iterator[str]:
    yield _text(16, 28, heading, "ink", most=90, font_size=16, font_weight="600")
    left_out = f" · {older} older events left out" if older else ""
    yield _text(16, 48, f"as of {day(now)} {now:%Y %H:%M:%S} · all times UTC{left_out}", "quiet")


def _grid(axis: Axis, bottom: float) -> Iterator[str]:
    for mark in axis.marks():
        x = axis.x(mark.at)
        yield _part("line", "grid", x1=x, y1=_TOP - 10, x2=x, y2=bottom)
        yield _text(x, _TOP - 16, mark.text, "quiet", font_size=11, text_anchor="middle")


def _now_line(axis: Axis, now: datetime, bottom: float) -> Iterator[str]:
    if not axis.holds(now):
        return
    x = axis.x(now)
    yield _part("line", "now", x1=x, y1=_TOP - 10, x2=x, y2=bottom)
    yield _text(x, bottom + 12, "now", "now-text", font_size=11, text_anchor="middle")


def _legend(height: float) -> Iterator[str]:
    x, y = 16.0, height - 20
    for sort, meaning in LEGEND:
        if sort in _STROKES:
            yield _sign(sort, x + 9, y - 4)
        else:
            yield _part("rect", sort, x=x, y=y - 10, width=18, height=11, rx=2)
        yield _text(x + 25, y, meaning, "quiet", font_size=11)
        x += 25 + len(meaning) * _LETTER + 22


def _text(x: float, y: float, text: str, sort: str, most: int | None = None, **attributes: Attribute) -> str:
    return tag("text", words(text, most), x=x, y=y, class_=sort, **PAINT[sort], **attributes)


def _part(name: str, sort: str, **attributes: Attribute) -> str:
    return tag(name, class_=sort, **attributes, **PAINT[sort])
