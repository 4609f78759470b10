"""Turns a request ("restart these machines") into events: machines, notice, barrier and first status."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from fairwarning.core import barrier
from fairwarning.core.blueprint import domain
from fairwarning.core.causes import CAUSES, Cause, unknown_cause
from fairwarning.core.changes import Change, EventChanged, EventMilestone
from fairwarning.core.errors import (
    AlreadyUnderWayError,
    InvalidError,
    NoImageNoticeError,
    NoTerminateNoticeError,
    NotRunningError,
    NotSpotError,
    SpotIsNotWarnedError,
    TooManyUserEventsError,
)
from fairwarning.core.fleet import FleetState
from fairwarning.core.model import (
    BarrierId,
    Event,
    EventId,
    EventSource,
    EventStatus,
    EventType,
    HostId,
    Machine,
    PowerState,
    Scope,
    ScopeId,
    ScopeProperties,
    derive_id,
)
from fairwarning.core.policy import LONGEST_NOTICE, NOTICE, Policy, whole_second


class Announcement(NamedTuple):
    """A request to do something to machines."""

    id: EventId
    cause: str
    by: str
    #: The host that the request names instead of machines.
    host: HostId | None = None
    notice: timedelta | None = None
    kind: EventType | None = None
    force: bool = False
    rollout: str | None = None
    #: The barrier of all events, if they are one maintenance; and its window.
    barrier: BarrierId | None = None
    opens: datetime | None = None
    closes: datetime | None = None
    consent: bool = False


def get_cause(name: str) -> Cause:
    """Return the cause of this name.

    Raises:
        InvalidError: there is no such cause.
    """
    if name not in CAUSES:
        raise InvalidError("cause", unknown_cause(name))
    return CAUSES[name]


def announce(
    fleet: FleetState, request: Announcement, machines: Sequence[Machine], now: datetime
) -> Iterator[EventChanged]:
    """Yield one change per event that the request causes."""
    cause = get_cause(request.cause)
    if not machines:
        raise InvalidError("machines", "name at least one machine")
    if request.notice is not None and not timedelta(0) <= request.notice <= LONGEST_NOTICE:
        raise InvalidError("notice", "must be between zero and ten years")
    _check_event_type(request, cause)
    _check_notice(request, cause, machines)
    _check_machines(fleet, cause, machines)
    _check_repetitions(fleet, request, cause, machines)
    for number, group in enumerate(_group_machines(fleet, cause, machines)):
        scope = fleet.scope(group[0].scope)
        event_id = request.id if number == 0 else derive_id(request.id, str(number))
        event = _build_event(scope, cause, request, group, event_id, now, fleet.policy)
        milestone = EventMilestone.SCHEDULED if event.waiting else EventMilestone.STARTED
        yield EventChanged(scope=scope.id, event=event, what=milestone, by=request.by)


def events_caused_by(first: EventId, changes: Sequence[Change]) -> list[Event]:
    """Return the events that the request with this id caused, as ``changes`` left them."""
    # The same decision may have changed other events that were due.
    ids = (first, *(derive_id(first, str(number)) for number in range(1, len(changes))))
    changed = {change.event.id: change.event for change in changes if isinstance(change, EventChanged)}
    return [changed[event_id] for event_id in ids if event_id in changed]


def unpolled_hint(scopes: Mapping[ScopeId, Scope], events: Iterable[Event], policy: Policy) -> str | None:
    """Return a hint that names the events' scopes without a polling guest; None if there are none."""
    unpolled = {
        event.scope: event
        for event in events
        if not event.seen and event.scope in scopes and not scopes[event.scope].enabled
    }
    if not unpolled:
        return None
    waits = any(event.waiting for event in unpolled.values())
    outcome = "will happen without warning" if waits else "happened at once"
    names = ", ".join(unpolled)
    hint = "poll first, or up --start-enabled" if policy.emulator else "poll first"
    return f"no guest polls {names}: the action {outcome}; hint: {hint}"


def _check_event_type(request: Announcement, cause: Cause) -> None:
    """L-06: only a failure leaves a choice of type, and only between Redeploy and Reboot."""
    if request.kind in (None, cause.kind):
        return
    if not cause.sudden:
        raise InvalidError("kind", f"a {request.cause} is always a {cause.kind}")
    if request.kind is not EventType.REBOOT:
        raise InvalidError(
            "kind", f"a {request.cause} is a {cause.kind} or a {EventType.REBOOT}, not a {request.kind}"
        )


def _check_notice(request: Announcement, cause: Cause, machines: Iterable[Machine]) -> None:
    """T-43: what would be ignored is refused."""
    if request.force and cause.kind is not EventType.TERMINATE:
        raise InvalidError("force", f"only a delete can be forced, not a {request.cause}")
    if not request.notice:
        return
    if request.force or cause.sudden:
        raise InvalidError("notice", f"a {'forced delete' if request.force else request.cause} has none")
    for machine in machines:
        model = machine.model
        if cause.kind is EventType.TERMINATE and model.terminate_notice is None:
            raise SpotIsNotWarnedError if machine.spot else NoTerminateNoticeError(machine.name)
        if cause.image_only and not model.image_notice:
            raise NoImageNoticeError(machine.name)


def _check_machines(fleet: FleetState, cause: Cause, machines: Sequence[Machine]) -> None:
    if len({machine.ref for machine in machines}) != len(machines):
        raise InvalidError("machines", "a machine is named twice")
    for machine in machines:
        if cause.spot_only and not machine.spot:
            raise NotSpotError(machine.name)
        if cause.running_only and machine.power is PowerState.STOPPED:
            raise NotRunningError(machine.name)
    limit = fleet.policy.max_user_events
    if cause.source is not EventSource.USER or limit is None:
        return
    for scope_id in {machine.scope for machine in machines}:
        requested = sum(machine.scope == scope_id for machine in machines)
        events = fleet.scope(scope_id).events.values()
        if requested + sum(event.source is EventSource.USER for event in events) > limit:
            raise TooManyUserEventsError(scope_id, limit)


def _check_repetitions(
    fleet: FleetState, request: Announcement, cause: Cause, machines: Iterable[Machine]
) -> None:
    """L-21: an operation on a machine, and what happens to a host, is announced once until it is done."""
    for machine in machines:
        for event in fleet.scope(machine.scope).events.values():
            what = _repeated(event, request, cause)
            if what is not None and machine.name in event.undone:
                raise AlreadyUnderWayError(machine.name, what, event)


def _repeated(event: Event, request: Announcement, cause: Cause) -> str | None:
    """Return what of an unfinished event the request would repeat; None if nothing."""
    if cause.operation:
        return event.kind if event.kind is cause.kind else None
    if request.host is None or event.cause != request.cause:
        return None
    return (
        f"{request.cause} of host {request.host}" if barrier.is_of_host(event.barrier, request.host) else None
    )


def _group_machines(fleet: FleetState, cause: Cause, machines: Iterable[Machine]) -> list[list[Machine]]:
    """L-12, S-04: machines of one scope on one host share an event, which never spans two update domains."""
    groups: dict[tuple[object, ...], list[Machine]] = {}
    for machine in machines:
        key: tuple[object, ...] = (machine.scope, machine.host)
        if cause.alone:
            key = machine.ref
        elif fleet.policy.one_update_domain:
            key = (*key, domain(fleet.scope(machine.scope).facts, machine))
        groups.setdefault(key, []).append(machine)
    return list(groups.values())


def _build_event(
    scope: Scope,
    cause: Cause,
    request: Announcement,
    machines: Sequence[Machine],
    event_id: EventId,
    now: datetime,
    policy: Policy,
) -> Event:
    kind = request.kind or cause.kind
    notice = policy.shorten(_choose_notice(cause, kind, machines, request.notice))
    announced = _is_announced(scope, cause, machines, request, policy)
    at_once = not announced or cause.sudden or _is_approved_by_scope(scope.facts, cause)
    withdrawn = cause.withdrawn_after
    opens = request.opens if request.opens is not None and request.opens > now else None
    return Event(
        id=event_id,
        scope=scope.id,
        cause=request.cause,
        kind=kind,
        source=cause.source,
        resources=tuple(machine.name for machine in machines),
        description=cause.text,
        duration=cause.duration,
        created_at=now,
        not_before=now if at_once else whole_second(max(now + notice, opens or now)),
        barrier=request.barrier or _choose_barrier(scope.facts, kind, machines, request, event_id),
        status=EventStatus.STARTED if at_once else EventStatus.SCHEDULED,
        seen=scope.enabled and announced,
        started_at=now if at_once else None,
        withdraw_at=request.closes if withdrawn is None else now + policy.shorten(withdrawn),
        walk=request.rollout,
        opens=opens,
        consent=request.consent,
    )


def _is_announced(
    scope: Scope, cause: Cause, machines: Sequence[Machine], request: Announcement, policy: Policy
) -> bool:
    """R-23, T-06: whether guests get a notice, or the action happens at once."""
    if cause.kind is EventType.TERMINATE:
        return is_deletion_announced(scope, machines, policy) and not request.force
    if cause.image_only and not all(machine.model.image_notice for machine in machines):
        return False  # T-20: a reimage is announced only if the model of every machine says so
    return cause.source is EventSource.PLATFORM or scope.enabled


def is_deletion_announced(scope: Scope, machines: Iterable[Machine], policy: Policy) -> bool:
    """Whether a deletion of the machines is announced: they have a terminate notice, and a guest polls."""
    configured = all(machine.model.terminate_notice is not None for machine in machines)
    return configured and (scope.enabled or not policy.terminate_requires_enabled)


def _is_approved_by_scope(properties: ScopeProperties, cause: Cause) -> bool:
    """L-17: a scope may approve its users' own restarts and redeploys in advance."""
    approved = {
        EventType.REBOOT: properties.approvals.user_reboot,
        EventType.REDEPLOY: properties.approvals.user_redeploy,
    }
    return cause.source is EventSource.USER and approved.get(cause.kind, False)


def _choose_notice(
    cause: Cause, kind: EventType, machines: Sequence[Machine], requested: timedelta | None
) -> timedelta:
    configured = machines[0].model.terminate_notice if kind is EventType.TERMINATE else None
    for notice in (requested, configured, cause.notice):
        if notice is not None:
            return notice
    return NOTICE[kind]


def _choose_barrier(
    properties: ScopeProperties,
    kind: EventType,
    machines: Sequence[Machine],
    request: Announcement,
    event_id: EventId,
) -> BarrierId:
    if kind is EventType.TERMINATE and properties.kind.scales:
        return barrier.of_deletes(properties.set_id)
    if CAUSES[request.cause].alone:
        return barrier.of_event(event_id)
    return barrier.of_host(machines[0].host, request.id)
