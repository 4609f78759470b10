"""The life of one event, as a table.

Every move an event can make is a row of ``TRANSITIONS``; nothing outside this file changes an event's
status. An approval is not a move: it is remembered, and the event's barrier decides when to release it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from fairwarning.core.errors import IllegalTransitionError
from fairwarning.core.model import Event, EventStatus


class Signal(StrEnum):
    """Something that happened to an event."""

    APPROVED = "approved"
    RELEASED = "started"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FAILED = "failed"


TRANSITIONS: Mapping[tuple[EventStatus, Signal], EventStatus] = {
    # an approval alone changes nothing a guest can see.
    (EventStatus.SCHEDULED, Signal.APPROVED): EventStatus.SCHEDULED,
    (EventStatus.SCHEDULED, Signal.RELEASED): EventStatus.STARTED,
    (EventStatus.SCHEDULED, Signal.CANCELLED): EventStatus.GONE,
    # approving what has started is allowed and changes nothing.
    (EventStatus.STARTED, Signal.APPROVED): EventStatus.STARTED,
    (EventStatus.STARTED, Signal.FINISHED): EventStatus.GONE,
    # An impact that failed is tried again; it never completes the event silently.
    (EventStatus.STARTED, Signal.FAILED): EventStatus.STARTED,
}


def advance(event: Event, signal: Signal, now: datetime) -> Event:
    """Return the event as it is after ``signal``, or refuse.

    Raises:
        IllegalTransition: the table has no row for this status and signal.
    """
    status = TRANSITIONS.get((event.status, signal))
    if status is None:
        raise IllegalTransitionError(event, signal)
    if signal is Signal.RELEASED:
        return replace(event, status=status, started_at=now)
    return event if status is event.status else replace(event, status=status)
