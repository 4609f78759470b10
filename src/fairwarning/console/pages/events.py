"""The events pages: pending and recent events, the timeline of an event, the timeline of a scope."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.responses import Response

from fairwarning.console.context import ConsoleContext
from fairwarning.console.event_timeline import EventTimeline, event_timelines
from fairwarning.console.host_records import maintenances_behind
from fairwarning.console.page import CONSOLE, FormResult, Fragment, PageRequest, PageView
from fairwarning.console.templating import TemplateMacros
from fairwarning.console.timeline import draw_timeline
from fairwarning.core.changes import EventMilestone
from fairwarning.core.errors import StorageError, UnknownEventError, UnknownScopeError
from fairwarning.core.model import Event, EventId, EventStatus, Scope, ScopeId
from fairwarning.engine.clock import ManualClock

#: The most rows of each table; the page shows the total, and can be filtered by scope.
MOST_PENDING, MOST_ENDED = 200, 25

#: The milestones of an event, as its page names them.
STEPS: Mapping[EventMilestone, str] = {
    EventMilestone.SCHEDULED: "announced",
    EventMilestone.SHOWN: "shown to guests for the first time",
    EventMilestone.APPROVED: "approved",
    EventMilestone.OPENED: "window opened",
    EventMilestone.BLOCKED: "due; waits for",
    EventMilestone.POSTPONED: "postponed",
    EventMilestone.STARTED: "impact started",
    EventMilestone.PROGRESSED: "impact ended on",
    EventMilestone.FAILED: "attempt failed; will be retried",
    EventMilestone.OVERDUE: "overdue",
    EventMilestone.FINISHED: "finished",
    EventMilestone.CANCELLED: "cancelled",
}

#: How far a timeline looks back and ahead: the hours in the query, and the label.
WINDOWS: Mapping[str, str] = {"1": "1 hour", "6": "6 hours", "24": "1 day", "168": "7 days"}
DEFAULT_WINDOW = "24"

#: How many other events the drawing on an event's page includes.
MOST_OTHERS = 20

#: The id of the drawing.
TIMELINE_ID = "timeline"

#: With a real clock, the drawing is redrawn after this many seconds, and whenever an event changes.
REDRAW_SECONDS = 10


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the pending events, soonest first, and the events that ended recently."""
    scopes = context.engine.scopes()
    selected = request.query.get("scope")
    chosen = [scope for scope in scopes.values() if selected in ("", scope.id)]
    pending = sorted(_pending(chosen), key=lambda event: (event.status, event.not_before, event.id))
    timelines = event_timelines(await context.journal.event_changes(ScopeId(selected) if selected else None))
    ended = sorted((timeline for timeline in timelines if timeline.end), key=_ended_at, reverse=True)
    macros = TemplateMacros("_events.html", request)
    fragments = (
        macros.fragment(
            "pending",
            "pending",
            events=pending[:MOST_PENDING],
            total=len(pending),
            selected=selected,
            waits_for=context.control.waits_for(pending[:MOST_PENDING]),
            maintenances=maintenances_behind(context, pending[:MOST_PENDING]),
            zone=context.control.zone,
        ),
        macros.fragment("ended", "ended", timelines=ended[:MOST_ENDED]),
    )
    values = {"scopes": list(scopes), "selected": selected}
    return PageView(title="Events", template="events.html", values=values, fragments=fragments)


async def show_event(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the page of an event: its steps, and a drawing of it and the events at the same time."""
    timeline, now = await _find_timeline(context, request.name), context.engine.clock.now()
    event, window = timeline.event, max(now - timeline.event.created_at, timedelta(hours=1))
    others = [
        other
        for other in await _timelines(context, event.scope)
        if other.event.id != event.id and timeline.overlaps(other, now)
    ]
    shown = sorted((*others[-MOST_OTHERS:], timeline), key=lambda shown: shown.event.created_at)
    macros = TemplateMacros("_events.html", request)
    fragments = (
        macros.fragment(
            "event_details",
            "event-details",
            timeline=timeline,
            steps=STEPS,
            waits_for=context.control.waits_for([event]),
            reads=context.engine.first_reads(event),
            maintenance=maintenances_behind(context, [event]).get(event.barrier),
            zone=context.control.zone,
        ),
        _drawing(context, event.scope, shown, window),
    )
    title = f"{event.kind} of {', '.join(event.resources[:3])}{'…' if len(event.resources) > 3 else ''}"
    values = {"event": event, "known": event.scope in context.engine.scopes()}
    return PageView(title=title, template="event.html", values=values, fragments=fragments)


async def show_timeline(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the timeline of a scope."""
    scope, hours = ScopeId(request.name), _hours(request)
    timelines = await _known_timelines(context, scope)
    drawing = _drawing(context, scope, timelines, timedelta(hours=int(hours)))
    known = scope in context.engine.scopes()
    values = {"scope": scope, "known": known, "hours": hours, "windows": WINDOWS}
    return PageView(
        title=f"Timeline of {scope}", template="timeline.html", values=values, fragments=(drawing,)
    )


async def download(context: ConsoleContext, request: PageRequest) -> Response:
    """Return the timeline of a scope as an SVG file."""
    scope, now = ScopeId(request.name), context.engine.clock.now()
    window = timedelta(hours=int(_hours(request)))
    drawing = draw_timeline(scope, await _known_timelines(context, scope), now, window)
    name = quote(f"{scope}-timeline-{now:%Y%m%dT%H%M%SZ}.svg", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(drawing, media_type="image/svg+xml", headers=headers)


async def approve(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Approve an event."""
    approved = await context.control.approve(CONSOLE, request.name)
    (event,) = approved.events
    outcome = "approved" if approved.counted else _why_unchanged(event)
    return FormResult(_back(request, event.id), f"{_label(event.id)} {outcome}; {_progress(context, event)}.")


async def cancel(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Cancel an event that has not started."""
    event = await context.control.cancel(CONSOLE, request.name)
    return FormResult(
        _back(request, event.id), f"{_label(event.id)} cancelled; its machines are not affected."
    )


def _ended_at(timeline: EventTimeline) -> datetime:
    return timeline.end_or(timeline.event.created_at)


def _pending(scopes: Sequence[Scope]) -> list[Event]:
    return [event for scope in scopes for event in scope.events.values()]


def _label(event_id: EventId) -> str:
    return f"Event {event_id[:8]}"


def _why_unchanged(event: Event) -> str:
    """Return why an approval changed nothing."""
    if event.approved_by is None:
        return "was no longer waiting for approval"
    return f"was already approved by {event.approved_by}"


def _progress(context: ConsoleContext, event: Event) -> str:
    """Return what an event does after its approval."""
    if event.status is EventStatus.GONE:
        return "it has ended"
    if event.status is EventStatus.STARTED:
        return "it has started"
    others = context.control.waits_for([event]).get(event.id)
    return "it starts now" if others is None else f"it waits for {others}"


def _back(request: PageRequest, event_id: EventId) -> str:
    """Return the page on which the button was pressed."""
    scope = request.form.get("scope")
    pages = {
        "event": f"/events/{event_id}",
        "maintenance": "/maintenance",
        "events": f"/events?{urlencode({'scope': scope})}" if scope else "/events",
    }
    return pages.get(request.form.get("back"), "/events")


async def _find_timeline(context: ConsoleContext, name: str) -> EventTimeline:
    event_id = EventId(name.upper())
    pending = [
        event
        for scope in context.engine.scopes().values()
        if (event := scope.events.get(event_id)) is not None
    ]
    try:
        entries = await context.engine.store.journal(event=event_id)
    except StorageError:
        if not pending:
            raise
        entries = ()
    timelines = event_timelines(entries, pending)
    if not timelines:
        raise UnknownEventError(EventId(name))
    return timelines[0]


async def _timelines(context: ConsoleContext, scope_id: ScopeId) -> tuple[EventTimeline, ...]:
    """Return the event timelines of a scope, even if the scope was removed."""
    scope = context.engine.scopes().get(scope_id)
    pending = () if scope is None else scope.events.values()
    return event_timelines(await context.journal.event_changes(scope_id), pending)


async def _known_timelines(context: ConsoleContext, scope_id: ScopeId) -> tuple[EventTimeline, ...]:
    """Return the event timelines of a scope that exists or has a history."""
    timelines = await _timelines(context, scope_id)
    if not timelines and scope_id not in context.engine.scopes():
        raise UnknownScopeError(scope_id)
    return timelines


def _drawing(
    context: ConsoleContext, scope: ScopeId, timelines: Sequence[EventTimeline], window: timedelta
) -> Fragment:
    clock = context.engine.clock
    now = clock.now()
    moment = f"{now}" if isinstance(clock, ManualClock) else f"{now.timestamp() // REDRAW_SECONDS}"
    steps = sum(len(timeline.steps) for timeline in timelines)
    html = Markup('<div id="{0}" class="picture" tabindex="0" role="region" aria-label="Timeline">{1}</div>')
    drawn = html.format(TIMELINE_ID, Markup(draw_timeline(scope, timelines, now, window)))
    return Fragment(id=TIMELINE_ID, html=drawn, key=f"{len(timelines)} {steps} {moment}")


def _hours(request: PageRequest) -> str:
    hours = request.query.get("hours", DEFAULT_WINDOW)
    return hours if hours in WINDOWS else DEFAULT_WINDOW
