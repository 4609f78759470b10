"""Answers the commands about maintenance: announce it, postpone it, hold it."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from fairwarning.core import barrier
from fairwarning.core.announce import Announcement, announce
from fairwarning.core.causes import MAINTENANCE as PLANNED
from fairwarning.core.changes import EventChanged, EventMilestone, TextChanged
from fairwarning.core.commands import ForgetMaintenances, Maintain, Postpone, SetHold
from fairwarning.core.errors import HostMaintainedError, InvalidError
from fairwarning.core.fleet import FleetState
from fairwarning.core.maintenance.budgets import check_budgets
from fairwarning.core.maintenance.values import Maintenance, OnSilence
from fairwarning.core.model import Event, HostId, replace
from fairwarning.core.policy import LONGEST_NOTICE, whole_second
from fairwarning.core.stored.kinds import HOLD, HOLD_OF_HOST, MAINTENANCE, PENDING
from fairwarning.formats.timestamps import for_people


def maintain(fleet: FleetState, command: Maintain, now: datetime) -> Iterator[EventChanged | TextChanged]:
    """Yield a maintenance and its events; nothing if it is known, over or not (M-11)."""
    if (known := MAINTENANCE.find(fleet.text, command.id)) is not None:
        if known.cause != command.cause:
            raise InvalidError("key", f"stands for a {known.cause} of {known.subject}: {known.id}")
        return
    if command.cause not in PLANNED:
        raise InvalidError("cause", f"a {command.cause} is no planned maintenance")
    _check_window(command, now)
    _check_pending(fleet, command)
    machines = [fleet.machine(ref) for ref in command.machines]
    request = Announcement(
        id=barrier.command_of(command.id),
        cause=command.cause,
        by=command.by,
        host=command.host,
        notice=command.notice,
        barrier=command.id,
        opens=command.opens,
        closes=command.closes,
        consent=command.on_silence is not OnSilence.PROCEED,
    )
    announced = list(announce(fleet, request, machines, now))
    not_before = max(change.event.not_before for change in announced)
    _check_notice_fits(command.closes, not_before)
    if not command.over_budget:
        check_budgets(fleet, [change.event for change in announced])
    yield from announced
    maintenance = Maintenance(
        id=command.id,
        host=command.host,
        cause=command.cause,
        by=command.by,
        created_at=now,
        not_before=not_before,
        opens=command.opens,
        closes=command.closes,
        on_silence=command.on_silence,
        over_budget=command.over_budget,
        machines=tuple(machine.ref.full for machine in machines),
    )
    yield TextChanged(key=MAINTENANCE.key(command.id), text=MAINTENANCE.encode(maintenance))
    if command.host is not None:
        pending = PENDING.find(fleet.text) or {}
        of_host = (*pending.get(command.host, ()), command.id)
        yield TextChanged(key=PENDING.key(), text=PENDING.encode({**pending, command.host: of_host}))


def postpone(fleet: FleetState, command: Postpone, now: datetime) -> Iterator[EventChanged | TextChanged]:
    """Yield the events behind a barrier with a later NotBefore; approvals stay (M-10)."""
    waiting = [event for event in fleet.events() if event.barrier == command.barrier and event.waiting]
    maintenance = MAINTENANCE.find(fleet.text, command.barrier)
    until = whole_second(command.until)
    _check_postponement(waiting, until, now)
    for event in waiting:
        moved = replace(event, not_before=until, opens=None if maintenance is None else until, blocked=False)
        yield EventChanged(scope=event.scope, event=moved, what=EventMilestone.POSTPONED, by=command.by)
    if maintenance is not None:
        after = replace(maintenance, not_before=until, opens=until)
        yield TextChanged(key=MAINTENANCE.key(maintenance.id), text=MAINTENANCE.encode(after))


def set_hold(command: SetHold) -> Iterator[TextChanged]:
    """Yield the hold on the fleet or on a host, or its end (M-08)."""
    key = HOLD.key() if command.host is None else HOLD_OF_HOST.key(command.host)
    yield TextChanged(key=key, text=None if command.hold is None else HOLD.encode(command.hold))


def forget(fleet: FleetState, command: ForgetMaintenances) -> Iterator[TextChanged]:
    """Yield the removal of maintenances that have been over for long."""
    for id in command.ids:
        maintenance = MAINTENANCE.find(fleet.text, id)
        ended_at = None if maintenance is None else maintenance.ended_at
        if ended_at is not None and ended_at < command.before:
            yield TextChanged(key=MAINTENANCE.key(id), text=None)


def _check_window(command: Maintain, now: datetime) -> None:
    opens, closes = command.opens, command.closes
    for field, instant in (("at", opens), ("until", closes)):
        if instant is not None and instant <= now:
            raise InvalidError(field, f"{for_people(instant)} is over")
        if instant is not None and instant - now > LONGEST_NOTICE:
            raise InvalidError(field, "must be within ten years")
    if opens is not None and closes is not None and closes <= opens:
        raise InvalidError("until", "the window must close after it opens")
    if closes is not None and PLANNED[command.cause].withdrawn_after is not None:
        raise InvalidError("until", f"a {command.cause} is withdrawn by itself")


def _check_notice_fits(closes: datetime | None, not_before: datetime) -> None:
    """M-04: what cannot be warned in time is refused."""
    if closes is not None and not_before >= closes:
        notice = for_people(not_before)
        raise InvalidError("until", f"the notice ends at {notice}, when the window is closed already")


def _check_pending(fleet: FleetState, command: Maintain) -> None:
    """M-01: a host with a dated maintenance has no other, and a dated maintenance no other beside it."""
    pending = PENDING.find(fleet.text) or {}
    for id in pending.get(command.host or HostId(""), ()):
        other = MAINTENANCE.find(fleet.text, id)
        dated = command.opens is not None or command.closes is not None
        if other is not None and (dated or other.dated):
            raise HostMaintainedError(other)


def _check_postponement(waiting: Sequence[Event], until: datetime, now: datetime) -> None:
    if not waiting:
        raise InvalidError("until", "nothing waits that could be postponed")
    latest = max(event.not_before for event in waiting)
    if until <= max(latest, now):
        raise InvalidError("until", f"must be later than NotBefore, {for_people(latest)}")
    if until - now > LONGEST_NOTICE:
        raise InvalidError("until", "must be within ten years")
    for event in waiting:
        if event.withdraw_at is not None and until >= event.withdraw_at:
            raise InvalidError("until", f"must be before the window closes, {for_people(event.withdraw_at)}")
