"""One event's life, put together from what the journal says about it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.model import Event, EventId, EventStatus
from fairwarning.engine.ports import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """One thing that happened to an event."""

    at: datetime
    what: EventMilestone
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeline:
    """An event as it was last known, and what happened to it so far, in order."""

    event: Event
    steps: tuple[TimelineStep, ...] = ()

    def first(self, *what: EventMilestone) -> TimelineStep | None:
        """Return the first step of one of these sorts."""
        return next((step for step in self.steps if step.what in what), None)

    @property
    def approval(self) -> TimelineStep | None:
        """Who let the event go ahead, and when."""
        return self.first(EventMilestone.APPROVED)

    @property
    def sudden(self) -> bool:
        """Whether the impact came without notice."""
        return self.event.not_before <= self.event.created_at

    @property
    def end(self) -> TimelineStep | None:
        """How and when the event was over."""
        return self.first(EventMilestone.FINISHED, EventMilestone.CANCELLED)

    @property
    def cancelled(self) -> bool:
        """Whether the event was withdrawn."""
        return self.end is not None and self.end.what is EventMilestone.CANCELLED

    def until(self, now: datetime) -> datetime:
        """Return when the event was over; now, if it is not."""
        return now if self.end is None else self.end.at

    def meets(self, other: "EventTimeline", now: datetime) -> bool:
        """Whether two events were there at the same time."""
        return self.event.created_at <= other.until(now) and other.event.created_at <= self.until(now)

    @property
    def failures(self) -> tuple[TimelineStep, ...]:
        """The attempts at the impact that went wrong."""
        return tuple(step for step in self.steps if step.what is EventMilestone.FAILED)

    @property
    def over(self) -> bool:
        """Whether there is nothing more to come."""
        return self.event.status is EventStatus.GONE


def event_timelines(entries: Iterable[Entry], pending: Iterable[Event] = ()) -> tuple[EventTimeline, ...]:
    """Return the lives of events in order of their announcement.

    What is ``pending`` is told even if the entries no longer reach back to it.
    """
    found: dict[EventId, EventTimeline] = {}
    for entry in entries:
        change = entry.change
        if isinstance(change, EventChanged):
            step = TimelineStep(
                at=entry.at, what=change.what, by=change.by, reason=change.reason or _done(change)
            )
            before = found.get(change.event.id)
            steps = (step,) if before is None else (*before.steps, step)
            found[change.event.id] = EventTimeline(event=change.event, steps=steps)
    for event in pending:
        known = found.get(event.id) or EventTimeline(event=event, steps=tuple(_remembered(event)))
        found[event.id] = replace(known, event=event)
    return tuple(sorted(found.values(), key=lambda one: (one.event.created_at, one.event.id)))


def _done(change: EventChanged) -> str:
    """Return which machines have had their impact, where that is the news."""
    return ", ".join(change.event.done) if change.what is EventMilestone.PROGRESSED else ""


def _remembered(event: Event) -> Iterator[TimelineStep]:
    """Yield what an event itself remembers of its life."""
    if event.started_at != event.created_at:
        yield TimelineStep(at=event.created_at, what=EventMilestone.SCHEDULED, by="")
    if event.started_at is not None:
        yield TimelineStep(at=event.started_at, what=EventMilestone.STARTED, by=event.approved_by or "notice")
