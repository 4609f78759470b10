"""When an event may start.

Every event belongs to exactly one barrier, for its whole life. A barrier is a set of events that wait for
each other's approval:

* an event that concerns one machine alone has a barrier of its own;
* the events of one host's maintenance share a barrier, across all scopes with machines on the host (L-02);
* so do the events of a batch of machines that are maintained together (M-01);
* the pending deletes of a scale set share a barrier, across its zones (T-14).

One rule serves all. An approval alone starts nothing: an approved event waits until every other event
behind its barrier is approved, too, or has reached its NotBefore. No event waits longer than its own
NotBefore, so a guest that never approves cannot hold up the others for ever. In a maintenance with a window,
an approval counts from the instant at which the window opens (M-03).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from fairwarning.core.model import BarrierId, Event, EventId, HostId, derive_id
from fairwarning.formats.counts import format_count

#: The beginning of the barriers of single events.
_ALONE = "event:"


def of_event(event_id: EventId) -> BarrierId:
    """Return the barrier of an event that waits for no other event."""
    return BarrierId(f"{_ALONE}{event_id}")


def of_host(host: HostId, command: EventId) -> BarrierId:
    """Return the barrier of the events of one host's maintenance."""
    return BarrierId(f"host:{host}:{command}")


def of_batch(command: EventId) -> BarrierId:
    """Return the barrier of the events of machines that are maintained together."""
    return BarrierId(f"batch:{command}")


def by_key(host: HostId | None, key: str) -> BarrierId:
    """Return the barrier of the maintenance that a caller's key stands for (M-11)."""
    if host is None:
        return of_batch(derive_id("batch", key))
    return of_host(host, derive_id("host", host, key))


def command_of(barrier: BarrierId) -> EventId:
    """Return the id of the command that a barrier is named after."""
    return EventId(barrier.rpartition(":")[2])


def is_of_host(barrier: BarrierId, host: HostId) -> bool:
    """Whether events behind the barrier are maintenance of the host."""
    return barrier.rpartition(":")[0] == f"host:{host}"


def of_deletes(set_id: str) -> BarrierId:
    """Return the barrier of a scale set's pending deletes."""
    return BarrierId(f"deletes:{set_id}")


def shared_barriers(events: Iterable[Event]) -> set[BarrierId]:
    """Return the barriers of these events behind which events of other scopes may wait."""
    return {event.barrier for event in events if not event.barrier.startswith(_ALONE)}


def is_ready(event: Event, now: datetime) -> bool:
    """Whether the event is approved in its window, or its notice has ended and silence is consent."""
    if event.approved_by is not None and event.opens is None:
        return True
    return event.not_before <= now and (event.approved_by is not None or not event.consent)


def startable_events(events: Iterable[Event], now: datetime) -> tuple[Event, ...]:
    """Return the waiting events that start now.

    T-14: an event starts at its own NotBefore at the latest, and earlier as soon as it is approved and every
    other event that waits behind the same barrier is ready.
    """
    pending = tuple(events)
    ready = [event for event in pending if is_ready(event, now) and event.waiting]
    if not ready:
        return ()
    barriers = {event.barrier for event in ready}
    behind = [event for event in pending if event.barrier in barriers]
    held = {event.barrier for event in behind if event.waiting and not is_ready(event, now)}
    return tuple(event for event in ready if event.barrier not in held or event.not_before <= now)


def held_events(events: Iterable[Event], now: datetime) -> Iterator[tuple[EventId, str]]:
    """Yield the approved events that wait behind their barrier, and what each waits for (L-22).

    ``events`` are all events behind these barriers.
    """
    waiting = [event for event in events if event.waiting]
    unready = Counter(event.barrier for event in waiting if not is_ready(event, now))
    for event in waiting:
        if event.approved_by is not None and event.barrier in unready:
            yield event.id, _describe_others(event.barrier, unready[event.barrier])


def _describe_others(barrier: BarrierId, number: int) -> str:
    kind, _, name = barrier.partition(":")
    if kind == "deletes":
        return f"{format_count(number, 'other delete')} of {name}"
    if kind == "batch":
        return f"{format_count(number, 'other event')} of the same maintenance"
    return f"{format_count(number, 'other event')} on host {name.rpartition(':')[0]}"
