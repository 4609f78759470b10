"""The state machine of one event, as a table.

                    approved ↻            approved, failed ↻
    (announced) ─► Scheduled ── released ──► Started ── finished ──► Gone
                        └───────────────── cancelled ─────────────────┘

Every transition is a row of ``TRANSITIONS``, and nothing outside this module changes the status of an event
that exists. A signal that has no row for the current status is refused.

An approval changes no status: it is remembered in ``approved_by``, and ``barrier`` decides when the event is
released. A failed impact changes no status either: the event stays Started and the impact is tried again.
An event that gets no notice is announced as Started.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from fairwarning.core.errors import IllegalTransitionError
from fairwarning.core.model import Event, EventStatus, replace


class Signal(StrEnum):
    """An input of the state machine."""

    APPROVED = "approved"
    RELEASED = "started"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FAILED = "failed"


TRANSITIONS: Mapping[tuple[EventStatus, Signal], EventStatus] = {
    # an approval alone changes nothing that a guest can see.
    (EventStatus.SCHEDULED, Signal.APPROVED): EventStatus.SCHEDULED,
    (EventStatus.SCHEDULED, Signal.RELEASED): EventStatus.STARTED,
    (EventStatus.SCHEDULED, Signal.CANCELLED): EventStatus.GONE,
    # approving a started event is allowed and changes nothing.
    (EventStatus.STARTED, Signal.APPROVED): EventStatus.STARTED,
    (EventStatus.STARTED, Signal.FINISHED): EventStatus.GONE,
    # A failed impact is tried again; it never finishes the event silently.
    (EventStatus.STARTED, Signal.FAILED): EventStatus.STARTED,
}


def advance(event: Event, signal: Signal, now: datetime) -> Event:
    """Return the event as it is after ``signal``.

    Raises:
        IllegalTransitionError: the table has no row for this status and signal.
    """
    status = TRANSITIONS.get((event.status, signal))
    if status is None:
        raise IllegalTransitionError(event, signal)
    if signal is Signal.RELEASED:
        return replace(event, status=status, started_at=now)
    return event if status is event.status else replace(event, status=status)
