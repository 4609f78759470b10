"""The timeline of an event: its milestones in order, collected from the journal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.model import Event, EventId, EventStatus
from fairwarning.engine.ports import Entry
from fairwarning.formats.timestamps import for_people


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """A milestone of an event: when it happened, and who caused it."""

    at: datetime
    what: EventMilestone
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeline:
    """An event in its last known state, and its steps so far."""

    event: Event
    steps: tuple[TimelineStep, ...] = ()

    def first_step(self, *milestones: EventMilestone) -> TimelineStep | None:
        """Return the first step with one of these milestones."""
        return next((step for step in self.steps if step.what in milestones), None)

    @property
    def approval(self) -> TimelineStep | None:
        """The step that approved the event."""
        return self.first_step(EventMilestone.APPROVED)

    @property
    def without_notice(self) -> bool:
        """Whether the impact started without notice."""
        return self.event.not_before <= self.event.created_at

    @property
    def end(self) -> TimelineStep | None:
        """The step that finished or cancelled the event."""
        return self.first_step(EventMilestone.FINISHED, EventMilestone.CANCELLED)

    @property
    def cancelled(self) -> bool:
        """Whether the event was cancelled."""
        return self.end is not None and self.end.what is EventMilestone.CANCELLED

    def end_or(self, now: datetime) -> datetime:
        """Return the end of the event; ``now`` if the event has not ended."""
        return now if self.end is None else self.end.at

    def overlaps(self, other: "EventTimeline", now: datetime) -> bool:
        """Whether both events were pending at the same time."""
        return self.event.created_at <= other.end_or(now) and other.event.created_at <= self.end_or(now)

    @property
    def failures(self) -> tuple[TimelineStep, ...]:
        """The failed attempts at the impact."""
        return tuple(step for step in self.steps if step.what is EventMilestone.FAILED)

    @property
    def over(self) -> bool:
        """Whether the event has ended."""
        return self.event.status is EventStatus.GONE


def event_timelines(entries: Iterable[Entry], pending: Iterable[Event] = ()) -> tuple[EventTimeline, ...]:
    """Return the timelines of events, in order of creation.

    An event in ``pending`` gets a timeline even if the journal entries do not reach back to its creation.
    """
    timelines: dict[EventId, EventTimeline] = {}
    for entry in entries:
        change = entry.change
        if isinstance(change, EventChanged):
            reason = change.reason or _detail(change)
            step = TimelineStep(at=entry.at, what=change.what, by=change.by, reason=reason)
            before = timelines.get(change.event.id)
            steps = (step,) if before is None else (*before.steps, step)
            timelines[change.event.id] = EventTimeline(event=change.event, steps=steps)
    for event in pending:
        timeline = timelines.get(event.id) or EventTimeline(event=event, steps=tuple(_known_steps(event)))
        timelines[event.id] = replace(timeline, event=event)
    return tuple(
        sorted(timelines.values(), key=lambda timeline: (timeline.event.created_at, timeline.event.id))
    )


def _detail(change: EventChanged) -> str:
    """Return what the milestone is about: the machines whose impact has ended, or the later NotBefore."""
    match change.what:
        case EventMilestone.PROGRESSED:
            return ", ".join(change.event.done)
        case EventMilestone.POSTPONED:
            return f"until {for_people(change.event.not_before)}"
        case _:
            return ""


def _known_steps(event: Event) -> Iterator[TimelineStep]:
    """Yield the steps that can be read from the event itself."""
    if event.started_at != event.created_at:
        yield TimelineStep(at=event.created_at, what=EventMilestone.SCHEDULED, by="")
    if event.started_at is not None:
        yield TimelineStep(at=event.started_at, what=EventMilestone.STARTED, by=event.approved_by or "notice")
