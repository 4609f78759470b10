"""The events pages: what is coming and who let it go ahead, what is over, and each event's own story."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.responses import Response

from fairwarning.console.context import ConsoleContext
from fairwarning.console.event_timeline import EventTimeline, event_timelines
from fairwarning.console.page import CONSOLE, Done, Fragment, PageView, Visit
from fairwarning.console.templating import TemplateMacros
from fairwarning.console.timeline import timeline
from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import Approve, Cancel
from fairwarning.core.errors import UnknownEventError, UnknownScopeError
from fairwarning.core.model import Event, EventId, EventStatus, Scope, ScopeId
from fairwarning.engine.clock import ManualClock

#: More rows than this nobody reads; the page says how many there are, and can be filtered.
MOST_PENDING, MOST_OVER = 200, 25

#: What happened to an event, as its story tells it.
STEPS: Mapping[EventMilestone, str] = {
    EventMilestone.SCHEDULED: "announced",
    EventMilestone.SHOWN: "shown to guests for the first time",
    EventMilestone.APPROVED: "approved",
    EventMilestone.STARTED: "impact began",
    EventMilestone.PROGRESSED: "impact ended on",
    EventMilestone.FAILED: "attempt failed; it will be tried again",
    EventMilestone.FINISHED: "over",
    EventMilestone.CANCELLED: "cancelled",
}

#: How far a timeline looks back and ahead: what is in the address, and what people read.
WINDOWS: Mapping[str, str] = {"1": "1 hour", "6": "6 hours", "24": "1 day", "168": "7 days"}
DEFAULT_WINDOW = "24"

#: How many other events are drawn beside one.
MOST_BESIDE = 20

#: The id of the picture on its pages.
PICTURE = "timeline"

#: A picture of time that passes is drawn anew after so many seconds, and whenever something happens.
REDRAWN = 10


async def show(room: ConsoleContext, visit: Visit) -> PageView:
    """Return what is pending, the soonest first, and what was over lately."""
    scopes = room.engine.scopes()
    wanted = visit.query.get("scope")
    chosen = [scope for scope in scopes.values() if wanted in ("", scope.id)]
    pending = sorted(_pending(chosen), key=lambda event: (event.status, event.not_before, event.id))
    told = event_timelines(await room.recent.entries(ScopeId(wanted) if wanted else None))
    over = sorted((one for one in told if one.end is not None), key=_ended, reverse=True)
    sheet = TemplateMacros("_events.html", visit)
    fragments = (
        sheet.fragment(
            "pending", "pending", events=pending[:MOST_PENDING], total=len(pending), wanted=wanted
        ),
        sheet.fragment("over", "over", stories=over[:MOST_OVER]),
    )
    values = {"scopes": list(scopes), "wanted": wanted}
    return PageView(title="Events", template="events.html", values=values, fragments=fragments)


async def show_one(room: ConsoleContext, visit: Visit) -> PageView:
    """Return one event's story, step by step, among the events that were there at the same time."""
    story, now = await _story(room, visit.name), room.engine.clock.now()
    event, window = story.event, max(now - story.event.created_at, timedelta(hours=1))
    others = await _lives(room, event.scope)
    beside = [one for one in others if one.event.id != event.id and story.meets(one, now)]
    shown = sorted((*beside[-MOST_BESIDE:], story), key=lambda one: one.event.created_at)
    fragments = (
        TemplateMacros("_events.html", visit).fragment("story", "story", story=story, words=STEPS),
        _picture(room, event.scope, shown, window),
    )
    title = f"{event.kind} of {', '.join(event.resources[:3])}{'…' if len(event.resources) > 3 else ''}"
    values = {"event": event, "known": event.scope in room.engine.scopes()}
    return PageView(title=title, template="event.html", values=values, fragments=fragments)


async def show_timeline(room: ConsoleContext, visit: Visit) -> PageView:
    """Return the timeline of a scope."""
    scope, hours = ScopeId(visit.name), _window(visit)
    picture = _picture(room, scope, await _known(room, scope), timedelta(hours=int(hours)))
    known = scope in room.engine.scopes()
    values = {"scope": scope, "known": known, "hours": hours, "windows": WINDOWS}
    return PageView(
        title=f"Timeline of {scope}", template="timeline.html", values=values, fragments=(picture,)
    )


async def download(room: ConsoleContext, visit: Visit) -> Response:
    """Return the timeline of a scope as a file."""
    scope, now = ScopeId(visit.name), room.engine.clock.now()
    drawn = timeline(scope, await _known(room, scope), now, timedelta(hours=int(_window(visit))))
    name = quote(f"{scope}-timeline-{now:%Y%m%dT%H%M%SZ}.svg", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(drawn, media_type="image/svg+xml", headers=headers)


async def approve(room: ConsoleContext, visit: Visit) -> Done:
    """Say that an event need not wait any longer."""
    scope, event = room.engine.directory.event(visit.name)
    changes = await room.engine.handle(Approve(scope=scope, ids=(event,), by=CONSOLE))
    # Others may have pressed at the same moment; what changed says whose approval it was.
    first = any(isinstance(one, EventChanged) and one.what is EventMilestone.APPROVED for one in changes)
    said = "approved" if first else _overtaken(room, scope, event)
    return Done(_back(visit, event), f"{_called(event)} {said}: {_since(room, scope, event)}")


async def cancel(room: ConsoleContext, visit: Visit) -> Done:
    """Withdraw an event that has not started."""
    scope, event = room.engine.directory.event(visit.name)
    await room.engine.handle(Cancel(scope=scope, id=event, by=CONSOLE))
    return Done(_back(visit, event), f"{_called(event)} cancelled: nothing will happen to its machines")


def _ended(story: EventTimeline) -> datetime:
    return story.event.created_at if story.end is None else story.end.at


def _pending(scopes: Sequence[Scope]) -> list[Event]:
    return [event for scope in scopes for event in scope.events.values()]


def _called(event: EventId) -> str:
    return f"event {event[:8]}"


def _overtaken(room: ConsoleContext, scope: ScopeId, event_id: EventId) -> str:
    """Say why an approval has changed nothing."""
    there = room.engine.scopes().get(scope)
    event = None if there is None else there.events.get(event_id)
    by = None if event is None else event.approved_by
    return "was not waiting any more" if by is None else f"was approved already by {by}"


def _since(room: ConsoleContext, scope: ScopeId, event_id: EventId) -> str:
    """Say what an approval has led to."""
    there = room.engine.scopes().get(scope)
    event = None if there is None else there.events.get(event_id)
    if event is None:
        return "it is over"
    # T-14: the other pending deletes of the set hold it back.
    return (
        "it has started"
        if event.status is EventStatus.STARTED
        else "it starts once the others are approved too"
    )


def _back(visit: Visit, event: EventId) -> str:
    """Return where the button was that was pressed."""
    scope = visit.form.get("scope")
    places = {
        "event": f"/events/{event}",
        "maintenance": "/maintenance",
        "events": f"/events?{urlencode({'scope': scope})}" if scope else "/events",
    }
    return places.get(visit.form.get("back"), "/events")


async def _story(room: ConsoleContext, name: str) -> EventTimeline:
    event_id = EventId(name.upper())
    entries = await room.engine.store.journal(event=event_id)
    pending = (scope.events.get(event_id) for scope in room.engine.scopes().values())
    found = event_timelines(entries, filter(None, pending))
    if not found:
        raise UnknownEventError(EventId(name))
    return found[0]


async def _lives(room: ConsoleContext, scope: ScopeId) -> tuple[EventTimeline, ...]:
    """Return the stories of a scope; one that is no more may still have some."""
    there = room.engine.scopes().get(scope)
    return event_timelines(await room.recent.entries(scope), () if there is None else there.events.values())


async def _known(room: ConsoleContext, scope: ScopeId) -> tuple[EventTimeline, ...]:
    """Return the stories of a scope, or refuse one that nobody has heard of."""
    lives = await _lives(room, scope)
    if not lives and scope not in room.engine.scopes():
        raise UnknownScopeError(scope)
    return lives


def _picture(
    room: ConsoleContext, scope: ScopeId, lives: Sequence[EventTimeline], window: timedelta
) -> Fragment:
    clock = room.engine.clock
    now = clock.now()
    # Manual time moves when somebody says so; real time always does.
    moment = f"{now}" if isinstance(clock, ManualClock) else f"{now.timestamp() // REDRAWN}"
    steps = sum(len(one.steps) for one in lives)
    html = Markup('<div id="{0}" class="picture" tabindex="0" role="region" aria-label="Timeline">{1}</div>')
    drawn = html.format(PICTURE, Markup(timeline(scope, lives, now, window)))
    return Fragment(id=PICTURE, html=drawn, key=f"{len(lives)} {steps} {moment}")


def _window(visit: Visit) -> str:
    asked = visit.query.get("hours", DEFAULT_WINDOW)
    return asked if asked in WINDOWS else DEFAULT_WINDOW
