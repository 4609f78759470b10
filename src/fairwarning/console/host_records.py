"""What is known of hosts besides their machines: maintenances that are pending or over, and holds."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from fairwarning.console.context import ConsoleContext
from fairwarning.core import barrier
from fairwarning.core.maintenance.values import Hold, Maintenance
from fairwarning.core.model import BarrierId, Event, EventId, HostId
from fairwarning.core.stored.kinds import HOLD_OF_HOST, MAINTENANCE, PENDING


def pending_ids(context: ConsoleContext) -> Mapping[HostId, tuple[BarrierId, ...]]:
    """Return the ids of the maintenances that are not over, by host."""
    return PENDING.find(context.engine.stored) or {}


def find_maintenances(context: ConsoleContext, ids: Iterable[BarrierId]) -> tuple[Maintenance, ...]:
    """Return the maintenances with these ids; an id without a maintenance is left out."""
    text = context.engine.stored
    return tuple(found for id in dict.fromkeys(ids) if (found := MAINTENANCE.find(text, id)) is not None)


def maintenances_behind(context: ConsoleContext, events: Iterable[Event]) -> Mapping[BarrierId, Maintenance]:
    """Return the maintenances that events are part of, over or not, by the barriers of the events."""
    found = find_maintenances(context, (event.barrier for event in events))
    return {maintenance.id: maintenance for maintenance in found}


def maintenances_over(context: ConsoleContext, host: HostId) -> tuple[Maintenance, ...]:
    """Return the maintenances of a host that are over, newest first."""
    # The name of another host may begin with this one and a colon.
    below = context.engine.view().keys_under(MAINTENANCE.key(barrier.of_host(host, EventId(""))))
    ids = (BarrierId(key.removeprefix(MAINTENANCE.prefix)) for key in below)
    own = find_maintenances(context, (id for id in ids if barrier.is_of_host(id, host)))
    over = (maintenance for maintenance in own if maintenance.phase.over)
    return tuple(sorted(over, key=_when, reverse=True))


def held_hosts(context: ConsoleContext) -> Mapping[HostId, Hold]:
    """Return the hosts that are on hold alone."""
    text, holds = context.engine.stored, {}
    for key in context.engine.view().keys_under(HOLD_OF_HOST.prefix):
        host = HostId(key.removeprefix(HOLD_OF_HOST.prefix))
        if (hold := HOLD_OF_HOST.find(text, host)) is not None:
            holds[host] = hold
    return holds


def _when(maintenance: Maintenance) -> tuple[datetime, datetime]:
    return maintenance.ended_at or maintenance.created_at, maintenance.created_at
