"""Events as a guest sees them, for tests of what it does about them."""

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
    *who: str,
    status: str = "Scheduled",
    source: str = "Platform",
    duration: int | None = -1,
    notice: timedelta | None = timedelta(minutes=15),
) -> ObservedEvent:
    """Return an event that names this machine, unless told otherwise."""
    return ObservedEvent(
        id=EventId(name),
        status=status,
        kind=kind,
        resources=who or (ME,),
        not_before=None if notice is None or status == "Started" else NOON + notice,
        source=source,
        duration=duration,
    )


def started(event: ObservedEvent) -> ObservedEvent:
    """Return the event as it is shown once its impact is under way (L-03)."""
    return replace(event, status="Started", not_before=None)


def document(*events: ObservedEvent, incarnation: int | str = 1) -> ObservedDocument:
    return ObservedDocument(incarnation=incarnation, events=events)


def record(event: ObservedEvent, step: EventStep, **more: object) -> Record:
    """Return what is remembered of an event that was prepared for a minute ago."""
    known = Record(event=event, rule="drain", step=step, at=NOON - timedelta(minutes=1), drains=True)
    for name, value in more.items():
        known = replace(known, **{name: value})  # type: ignore[arg-type]
    return known
