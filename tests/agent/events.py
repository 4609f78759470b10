"""Events and records for tests of the agent."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fairwarning.agent.plan import EventStep, Record
from fairwarning.agent.rules import Rule
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
ME = "web_0"
DRAIN = Rule(name="drain", drains=True)


def seen(
    name: str = "E1",
    kind: str = "Reboot",
    *names: str,
    status: str = "Scheduled",
    source: str = "Platform",
    duration: int | None = -1,
    notice: timedelta | None = timedelta(minutes=15),
) -> ObservedEvent:
    """Return an event; without names, it names this machine."""
    return ObservedEvent(
        id=EventId(name),
        status=status,
        kind=kind,
        resources=names or (ME,),
        not_before=None if notice is None or status == "Started" else NOON + notice,
        source=source,
        duration=duration,
    )


def started(event: ObservedEvent) -> ObservedEvent:
    """Return the event as the document shows it once it has started (L-03)."""
    return replace(event, status="Started", not_before=None)


def document(*events: ObservedEvent, incarnation: int | str = 1) -> ObservedDocument:
    return ObservedDocument(incarnation=incarnation, events=events)


def record(event: ObservedEvent, step: EventStep, **more: object) -> Record:
    """Return the record of an event that was prepared for a minute ago."""
    known = Record(event=event, rule="drain", step=step, at=NOON - timedelta(minutes=1), drains=True)
    for name, value in more.items():
        known = replace(known, **{name: value})  # type: ignore[arg-type]
    return known
