"""Draws the events of a scope over time, as one self-contained SVG.

Every event has a lane with bars for its notice and its impact, and symbols for approval, not-before,
failed attempts and cancellation; the time axis at the top covers the events that fall into the window.
The drawing needs nothing from outside: sizes, colours and background are attributes, so the file can be
pasted into a report. The classes exist for the console's style sheet, which overrides the colours on a
page with a dark theme.

Names and causes come from users, so all text and all attributes pass through ``text`` or ``tag``, which
escape.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

from fairwarning.console.axis import Axis, day
from fairwarning.console.event_timeline import EventTimeline
from fairwarning.console.formatting import count
from fairwarning.core.model import ScopeId
from fairwarning.formats.durations import for_people
from fairwarning.formats.hidden_characters import escape_hidden

WIDTH = 1080
#: The most lanes of a drawing; it leaves out the oldest events beyond that, and says so.
MOST_LANES = 40
#: How far the drawing looks back and ahead by default.
DAY = timedelta(days=1)

_LEFT, _RIGHT, _TOP = 216, WIDTH - 20, 92
_LANE, _BAR = 50, 14
_FOOT = 52
_MIN_BAR = 3.0
_LETTER = 5.7
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

Attribute = str | float | None
Style = Mapping[str, Attribute]

#: The style of each kind of part, for a white background.
STYLES: Mapping[str, Style] = {
    "ground": {"fill": "#ffffff"},
    "band": {"fill": "#f3f5f8"},
    "grid": {"stroke": "#d9dee6", "stroke_width": 1.0},
    "ink": {"fill": "#1c2430"},
    "quiet": {"fill": "#566173"},
    "notice": {"fill": "#b9d0f5", "stroke": "#2b62c0", "stroke_width": 1.0},
    "unused": {"fill": "none", "stroke": "#6b87b8", "stroke_width": 1.0, "stroke_dasharray": "3 3"},
    "impact": {"fill": "#c8500a"},
    "cancelled": {"fill": "#dde1e7", "stroke": "#7d8797", "stroke_width": 1.0},
    "approval": {"fill": "none", "stroke": "#117a3d", "stroke_width": 2.5},
    "due": {"fill": "none", "stroke": "#2b62c0", "stroke_width": 2.0},
    "beyond": {"fill": "none", "stroke": "#2b62c0", "stroke_width": 2.0},
    "cross": {"fill": "none", "stroke": "#566173", "stroke_width": 2.0},
    "failure": {"fill": "none", "stroke": "#b3122b", "stroke_width": 2.0},
    "now": {"stroke": "#b3122b", "stroke_width": 1.0, "stroke_dasharray": "4 3"},
    "now-text": {"fill": "#b3122b"},
}

#: The legend: each symbol is drawn as it is in a lane.
LEGEND: tuple[tuple[str, str], ...] = (
    ("notice", "notice, until NotBefore"),
    ("unused", "unused notice"),
    ("approval", "approved"),
    ("impact", "impact"),
    ("cancelled", "cancelled"),
    ("failure", "failed attempt"),
)


@dataclass(frozen=True, slots=True)
class Lane:
    """The row of one event."""

    timeline: EventTimeline
    axis: Axis
    now: datetime
    top: float

    @property
    def bar(self) -> float:
        """The upper edge of the lane's bar."""
        return self.top + 8

    @property
    def middle(self) -> float:
        """The vertical middle of the lane's bar."""
        return self.bar + _BAR / 2


def draw_timeline(
    scope: ScopeId, timelines: Sequence[EventTimeline], now: datetime, window: timedelta = DAY
) -> str:
    """Return the drawing of a scope's events that lie within ``window`` of now."""
    recent = [timeline for timeline in timelines if timeline.end_or(now) >= now - window]
    shown = recent[-MOST_LANES:]
    axis = _axis(shown, now, window)
    lanes = [Lane(timeline, axis, now, _TOP + row * _LANE) for row, timeline in enumerate(shown)]
    height = _TOP + max(len(lanes), 1) * _LANE + _FOOT
    heading = f"Scheduled events of {scope}"
    parts = (
        tag("title", text(heading)),
        tag("desc", text(_description(shown, len(recent) - len(shown), now))),
        _part("rect", "ground", width=WIDTH, height=height, rx=6),
        *_header(heading, now, len(recent) - len(shown)),
        *(
            _part("rect", "band", x=8, y=lane.top - 2, width=WIDTH - 16, height=_LANE, rx=4)
            for lane in lanes[::2]
        ),
        *_grid(axis, height - _FOOT),
        *_now_line(axis, now, height - _FOOT),
        *(piece for lane in lanes for piece in _lane(lane)),
        *([] if lanes else [_label(_LEFT, _TOP + 30, "no events in this period", "quiet")]),
        *_legend(height),
    )
    return tag(
        "svg", parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", width=WIDTH,
        height=height, role="img", font_family=_FONT, font_size=12, class_="timeline",
    )  # fmt: skip


def _axis(shown: Sequence[EventTimeline], now: datetime, window: timedelta) -> Axis:
    """Return an axis on which all events fit; it reaches up to now unless all events have ended."""
    begins = min((timeline.event.created_at for timeline in shown), default=now - timedelta(minutes=15))
    ends = max((max(timeline.event.not_before, timeline.end_or(now)) for timeline in shown), default=now)
    begin, end = max(begins, now - window), min(ends, now + window)
    margin = max((end - begin) * 0.03, timedelta(seconds=2))
    return Axis(begin - margin, end + margin, _LEFT, _RIGHT)


def _description(shown: Sequence[EventTimeline], older: int, now: datetime) -> str:
    """Return the drawing as text, for screen readers."""
    lines = [f"{_subject(timeline)}: {summary(timeline, now)}" for timeline in shown]
    left_out = f"; {count(older, 'older event')} left out" if older else ""
    return "; ".join(lines or ["no events in this period"]) + left_out


def summary(timeline: EventTimeline, now: datetime) -> str:
    """Return the steps of an event in one line."""
    return " · ".join(_summary_parts(timeline, now))


def _summary_parts(timeline: EventTimeline, now: datetime) -> Iterator[str]:
    event, approval, end = timeline.event, timeline.approval, timeline.end
    created = event.created_at
    if timeline.without_notice:
        yield f"started {_clock(created, now)} without notice"
    else:
        yield f"announced {_clock(created, now)}"
        yield f"NotBefore {_clock(event.not_before, created)}"
    if not event.seen:
        yield "not shown to guests"
    if event.approved_by is not None:
        when = "" if approval is None else f"{_clock(approval.at, created)} "
        yield f"approved {when}by {event.approved_by[:40]}"
    if event.started_at is not None and not timeline.without_notice:
        unapproved = "" if event.approved_by else " without approval"
        yield f"started {_clock(event.started_at, created)}{unapproved}"
    if timeline.failures:
        yield count(len(timeline.failures), "failed attempt")
    if end is not None:
        by = f" by {end.by[:40]}" if timeline.cancelled else ""
        yield f"{end.what} {_clock(end.at, created)}{by}"
    elif event.started_at is not None:
        yield "in progress"
    else:
        yield f"due in {for_people(event.not_before - now)}"


def _clock(instant: datetime, near: datetime) -> str:
    """Return the time of day, with the day unless it is that of ``near``."""
    return f"{instant:%H:%M:%S}" if instant.date() == near.date() else f"{day(instant)} {instant:%H:%M:%S}"


def _subject(timeline: EventTimeline) -> str:
    names = timeline.event.resources
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{timeline.event.kind} of {', '.join(names[:2])}{more}"


def _lane(lane: Lane) -> Iterator[str]:
    timeline, axis = lane.timeline, lane.axis
    event = timeline.event
    names = ", ".join(event.resources)
    steps = summary(timeline, lane.now)
    tooltip = f"{_subject(timeline)}, {event.cause}, event {event.id}: {steps}"
    yield _label(16, lane.bar + 11, event.kind.value, "ink", most=26, font_weight="600")
    yield _label(16, lane.bar + 27, names, "quiet", most=32, font_size=11)
    yield tag("g", (tag("title", text(tooltip)), *_bars(lane), *_symbols(lane)))
    rightmost = axis.right - len(steps) * _LETTER
    x = max(min(axis.x(event.created_at), rightmost), _LEFT)
    yield _label(x, lane.bar + 29, steps, "quiet", 150, font_size=11)


def _bars(lane: Lane) -> Iterator[str]:
    timeline, event = lane.timeline, lane.timeline.event
    notice_end = event.started_at or (timeline.end.at if timeline.end else None)
    if not timeline.without_notice:
        style = "cancelled" if timeline.cancelled else "notice"
        yield _bar(lane, style, event.created_at, min(notice_end or event.not_before, event.not_before))
    if notice_end is not None and notice_end < event.not_before:
        yield _bar(lane, "unused", notice_end, event.not_before)
    if event.started_at is not None:
        yield _bar(lane, "impact", event.started_at, timeline.end_or(lane.now))


def _bar(lane: Lane, style: str, begin: datetime, end: datetime) -> str:
    x = lane.axis.x(begin)
    width = max(lane.axis.x(end) - x, _MIN_BAR)
    return _part("rect", style, x=x, y=lane.bar, width=width, height=_BAR, rx=2)


def _symbols(lane: Lane) -> Iterator[str]:
    timeline, axis, y = lane.timeline, lane.axis, lane.middle
    event, approval = timeline.event, timeline.approval
    if not timeline.without_notice:
        yield _symbol("beyond" if event.not_before > axis.end else "due", axis.x(event.not_before), y)
    if approval is not None and axis.holds(approval.at):
        yield _symbol("approval", axis.x(approval.at), y)
    for failure in timeline.failures:
        yield _symbol("failure", axis.x(failure.at), y)
    if timeline.end is not None and timeline.cancelled:
        yield _symbol("cross", axis.x(timeline.end.at), y)


#: The symbols as paths around their centre.
_PATHS: Mapping[str, str] = {
    "due": "M0,-10 L0,10",
    "beyond": "M-6,-4 L-2,0 L-6,4 M-11,-4 L-7,0 L-11,4",
    "approval": "M-5,-1 L-1,4 L6,-7",
    "failure": "M-4,-4 L4,4 M4,-4 L-4,4",
    "cross": "M-4,-4 L4,4 M4,-4 L-4,4",
}


def _symbol(style: str, x: float, y: float) -> str:
    return _part("path", style, d=_PATHS[style], transform=f"translate({x:.1f} {y:.1f})")


def _header(heading: str, now: datetime, older: int) -> Iterator[str]:
    yield _label(16, 28, heading, "ink", most=90, font_size=16, font_weight="600")
    left_out = f" · {count(older, 'older event')} left out" if older else ""
    yield _label(16, 48, f"as of {day(now)} {now:%Y %H:%M:%S} · all times UTC{left_out}", "quiet")


def _grid(axis: Axis, bottom: float) -> Iterator[str]:
    for mark in axis.marks():
        x = axis.x(mark.at)
        yield _part("line", "grid", x1=x, y1=_TOP - 10, x2=x, y2=bottom)
        yield _label(x, _TOP - 16, mark.text, "quiet", font_size=11, text_anchor="middle")


def _now_line(axis: Axis, now: datetime, bottom: float) -> Iterator[str]:
    if not axis.holds(now):
        return
    x = axis.x(now)
    yield _part("line", "now", x1=x, y1=_TOP - 10, x2=x, y2=bottom)
    yield _label(x, bottom + 12, "now", "now-text", font_size=11, text_anchor="middle")


def _legend(height: float) -> Iterator[str]:
    x, y = 16.0, height - 20
    for style, meaning in LEGEND:
        if style in _PATHS:
            yield _symbol(style, x + 9, y - 4)
        else:
            yield _part("rect", style, x=x, y=y - 10, width=18, height=11, rx=2)
        yield _label(x + 25, y, meaning, "quiet", font_size=11)
        x += 25 + len(meaning) * _LETTER + 22


def _label(
    x: float, y: float, content: str, style: str, most: int | None = None, **attributes: Attribute
) -> str:
    return tag("text", text(content, most), x=x, y=y, class_=style, **STYLES[style], **attributes)


def _part(name: str, style: str, **attributes: Attribute) -> str:
    return tag(name, class_=style, **attributes, **STYLES[style])


# -- SVG elements

#: Characters that XML cannot contain, escaped or not.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(content: str, most: int | None = None) -> str:
    """Return a text escaped for XML, shortened to ``most`` characters."""
    visible = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", escape_hidden(content, keep="\t\n\r"))
    if most is not None and len(visible) > most:
        visible = visible[: most - 1].rstrip() + "…"
    return escape(visible)


def tag(name: str, content: str | Iterable[str] = "", /, **attributes: Attribute) -> str:
    """Return an element; its content is SVG already, and ``_`` in an attribute's name becomes a dash."""
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = content if isinstance(content, str) else "".join(content)
    return f"<{name}{given}>{inside}</{name}>" if inside else f"<{name}{given}/>"


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return text(value)
    return f"{value:.1f}".rstrip("0").rstrip(".")
