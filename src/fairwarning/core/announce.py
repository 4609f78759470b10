"""From "do this to those machines" to events: grouping, notice, barrier, and how each begins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairwarning.core import barrier
from fairwarning.core.blueprint import domain
from fairwarning.core.causes import CAUSES, Cause
from fairwarning.core.changes import Change, EventChanged, EventMilestone
from fairwarning.core.errors import (
    AlreadyUnderWayError,
    InvalidError,
    NotRunningError,
    NotSpotError,
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
    Machine,
    PowerState,
    Scope,
    ScopeId,
    ScopeProperties,
    derive_id,
)
from fairwarning.core.policy import LONGEST_NOTICE, NOTICE, Policy, whole_second


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What is to be announced."""

    id: EventId
    cause: str
    by: str
    notice: timedelta | None = None
    kind: EventType | None = None
    force: bool = False
    walk: str | None = None


def cause_named(name: str) -> Cause:
    """Return the cause of this name, or refuse."""
    if name not in CAUSES:
        raise InvalidError("cause", f"{name!r} is none of {', '.join(CAUSES)}")
    return CAUSES[name]


def announce(
    fleet: FleetState, request: Announcement, machines: Sequence[Machine], now: datetime
) -> Iterator[EventChanged]:
    """Yield one change per event that the request leads to."""
    cause = cause_named(request.cause)
    if not machines:
        raise InvalidError("machines", "name at least one machine")
    if request.notice is not None and not timedelta(0) <= request.notice <= LONGEST_NOTICE:
        raise InvalidError("notice", "must be between nothing and ten years")
    _check_kind(request, cause)
    _check(fleet, cause, machines)
    for number, group in enumerate(_groups(fleet, cause, machines)):
        scope = fleet.scope(group[0].scope)
        event_id = request.id if number == 0 else derive_id(request.id, str(number))
        event = _event(scope, cause, request, group, event_id, now, fleet.policy)
        what = EventMilestone.SCHEDULED if event.waiting else EventMilestone.STARTED
        yield EventChanged(scope=scope.id, event=event, what=what, by=request.by)


def _check_kind(request: Announcement, cause: Cause) -> None:
    """L-06: only a failure leaves a choice, and only between moving and rebooting."""
    if request.kind in (None, cause.kind):
        return
    if not cause.sudden:
        raise InvalidError("kind", f"a {request.cause} is always a {cause.kind}")
    if request.kind is not EventType.REBOOT:
        raise InvalidError(
            "kind", f"a {request.cause} is a {cause.kind} or a {EventType.REBOOT}, not a {request.kind}"
        )


def _check(fleet: FleetState, cause: Cause, machines: Sequence[Machine]) -> None:
    if len({machine.ref for machine in machines}) != len(machines):
        raise InvalidError("machines", "a machine is named twice")
    for machine in machines:
        if cause.spot_only and not machine.spot:
            raise NotSpotError(machine.name)
        if cause.operation and cause.kind is not EventType.TERMINATE and machine.power is PowerState.STOPPED:
            raise NotRunningError(machine.name)
        for event in fleet.scope(machine.scope).events.values():
            if cause.operation and event.kind is cause.kind and _touches(event, machine):
                raise AlreadyUnderWayError(machine.name, cause.kind, event)
    limit = fleet.policy.max_user_events
    if cause.source is not EventSource.USER or limit is None:
        return
    for scope_id in {machine.scope for machine in machines}:
        asked = sum(machine.scope == scope_id for machine in machines)
        events = fleet.scope(scope_id).events.values()
        if asked + sum(event.source is EventSource.USER for event in events) > limit:
            raise TooManyUserEventsError(scope_id, limit)


def _touches(event: Event, machine: Machine) -> bool:
    return machine.name in event.undone


def _groups(fleet: FleetState, cause: Cause, machines: Iterable[Machine]) -> list[list[Machine]]:
    """L-12, S-04: one event for what cannot be acted on separately, and never two update domains."""
    groups: dict[tuple[object, ...], list[Machine]] = {}
    for machine in machines:
        key: tuple[object, ...] = (machine.scope, machine.host)
        if cause.alone:
            key = machine.ref
        elif fleet.policy.one_update_domain:
            key = (*key, domain(fleet.scope(machine.scope).facts, machine))
        groups.setdefault(key, []).append(machine)
    return list(groups.values())


def _event(
    scope: Scope,
    cause: Cause,
    request: Announcement,
    machines: Sequence[Machine],
    event_id: EventId,
    now: datetime,
    policy: Policy,
) -> Event:
    kind = request.kind or cause.kind
    notice = policy.shorten(_notice(cause, kind, machines, request.notice))
    warned = _warned(scope, cause, machines, request, policy)
    at_once = not warned or cause.sudden or _approved_by_policy(scope.facts, cause)
    withdrawn = cause.withdrawn_after
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
        not_before=now if at_once else whole_second(now + notice),
        barrier=_barrier(scope.facts, kind, machines, request, event_id),
        status=EventStatus.STARTED if at_once else EventStatus.SCHEDULED,
        seen=scope.enabled and warned,
        started_at=now if at_once else None,
        withdraw_at=None if withdrawn is None else now + policy.shorten(withdrawn),
        walk=request.walk,
    )


def _warned(
    scope: Scope, cause: Cause, machines: Sequence[Machine], request: Announcement, policy: Policy
) -> bool:
    """R-23, T-06: whether this is announced at all, or simply done."""
    if cause.kind is EventType.TERMINATE:
        return deletion_warned(scope, machines, policy) and not request.force
    if cause.image_only and not all(machine.model.image_notice for machine in machines):
        return False  # T-20: a new image is announced only where that was asked for
    return cause.source is EventSource.PLATFORM or scope.enabled


def deletion_warned(scope: Scope, machines: Iterable[Machine], policy: Policy) -> bool:
    """Whether machines of a scope are warned of their deletion: it is configured, and somebody listens."""
    configured = all(machine.model.terminate_notice is not None for machine in machines)
    return configured and (scope.enabled or not policy.terminate_requires_enabled)


def _approved_by_policy(facts: ScopeProperties, cause: Cause) -> bool:
    """L-17: a scope may have waived the notice of its users' own restarts and redeploys."""
    waived = {
        EventType.REBOOT: facts.approvals.user_reboot,
        EventType.REDEPLOY: facts.approvals.user_redeploy,
    }
    return cause.source is EventSource.USER and waived.get(cause.kind, False)


def _notice(cause: Cause, kind: EventType, machines: Sequence[Machine], asked: timedelta | None) -> timedelta:
    configured = machines[0].model.terminate_notice if kind is EventType.TERMINATE else None
    for notice in (asked, configured, cause.notice):
        if notice is not None:
            return notice
    return NOTICE[kind]


def _barrier(
    facts: ScopeProperties,
    kind: EventType,
    machines: Sequence[Machine],
    request: Announcement,
    event_id: EventId,
) -> BarrierId:
    if kind is EventType.TERMINATE and facts.kind.scales:
        return barrier.of_deletes(facts.set_id)
    if CAUSES[request.cause].alone:
        return barrier.alone(event_id)
    return barrier.of_host(machines[0].host, request.id)


def events_caused_by(first: EventId, changes: Sequence[Change]) -> list[Event]:
    """Return the events that the request with this id led to, as ``changes`` left them."""
    # What else fell due in the same decision is not what this request led to.
    ids = (first, *(derive_id(first, str(number)) for number in range(1, len(changes))))
    changed = {change.event.id: change.event for change in changes if isinstance(change, EventChanged)}
    return [changed[one] for one in ids if one in changed]


def unpolled_hint(known: Mapping[ScopeId, Scope], events: Iterable[Event]) -> str | None:
    """Say which scopes nobody polls, of those that the events are about; None if all are looked after."""
    unseen = [one for one in events if not one.seen]
    unwatched = {one.scope: one for one in unseen if one.scope in known and not known[one.scope].enabled}
    if not unwatched:
        return None
    outcome = "will act unseen" if any(one.waiting for one in unwatched.values()) else "acted at once"
    return f"nobody polls {', '.join(unwatched)}: {outcome}; hint: poll first, or up --start-enabled"
