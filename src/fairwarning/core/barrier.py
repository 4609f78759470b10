"""When an event may start.

Every event belongs to a barrier: by default its own; all tenants of one host under maintenance (L-02); all
pending deletes of one scale set, across its zones (T-14). One rule serves them all.
"""

from collections.abc import Iterable
from datetime import datetime

from fairwarning.core.model import BarrierId, Event, EventId, HostId


def alone(event_id: EventId) -> BarrierId:
    """The barrier of an event that waits for nobody else."""
    return BarrierId(f"event:{event_id}")


def of_host(host: HostId, command: EventId) -> BarrierId:
    """The barrier of one maintenance of one host."""
    return BarrierId(f"host:{host}:{command}")


def of_deletes(set_id: str) -> BarrierId:
    """The barrier of a scale set's pending deletes."""
    return BarrierId(f"deletes:{set_id}")


def ready(event: Event, now: datetime) -> bool:
    """Whether nothing more is owed to this event's guests: approved, or out of notice."""
    return event.approved_by is not None or event.not_before <= now


def released(events: Iterable[Event], now: datetime) -> tuple[Event, ...]:
    """Return the waiting events that start now.

    T-14: an event starts at its own NotBefore at the latest, and before that as soon as it is approved and
    every other event that waits behind the same barrier is approved or out of notice.
    """
    pending = tuple(events)
    able = [event for event in pending if ready(event, now) and event.waiting]
    if not able:
        return ()
    held = {event.barrier for event in pending if not ready(event, now) and event.waiting}
    return tuple(event for event in able if event.barrier not in held or event.not_before <= now)
