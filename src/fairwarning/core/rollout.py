"""Rollouts: maintenance of a scope, one domain after another (S-05).

The rollout is part of the scope's properties (``facts.walk``, its name in stored data) and its events carry
its id. A domain is announced when no event of the rollout is pending: ``next_step`` is one of the
consequences that ``decide`` applies, so no timer drives a rollout.
"""

from collections.abc import Iterator
from datetime import datetime

from fairwarning.core.announce import Announcement, announce
from fairwarning.core.blueprint import domain
from fairwarning.core.causes import MAINTENANCE, unknown_cause
from fairwarning.core.changes import Change, EventChanged, EventMilestone, ScopePropertiesChanged
from fairwarning.core.commands import StartRollout, StopRollout
from fairwarning.core.errors import InvalidError, RolloutUnderWayError, UnknownRolloutError
from fairwarning.core.fleet import FleetState
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.model import Rollout, Scope, derive_id, replace


def start_rollout(fleet: FleetState, command: StartRollout) -> Iterator[Change]:
    """Yield the rollout; its first domain is announced as a consequence."""
    scope = fleet.scope(command.scope)
    if scope.facts.walk is not None:
        raise RolloutUnderWayError(scope.id)
    if command.cause not in MAINTENANCE:
        raise InvalidError("cause", unknown_cause(command.cause, MAINTENANCE))
    domains = sorted({domain(scope.facts, machine) for machine in scope.machines.values()})
    if not domains:
        raise InvalidError("scope", f"{scope.id} has no machines")
    rollout = Rollout(
        id=command.id,
        cause=command.cause,
        domains=tuple(domains),
        notice=command.notice,
        by=command.by,
    )
    yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=rollout), by=command.by)


def stop_rollout(fleet: FleetState, command: StopRollout, now: datetime) -> Iterator[Change]:
    """Yield the end of a rollout and the cancellation of its waiting events."""
    scope = fleet.scope(command.scope)
    rollout = scope.facts.walk
    if rollout is None:
        raise UnknownRolloutError(scope.id)
    yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=None), by=command.by)
    for event in scope.events.values():
        if event.walk == rollout.id and event.waiting:
            gone = advance(event, Signal.CANCELLED, now)
            yield EventChanged(scope=scope.id, event=gone, what=EventMilestone.CANCELLED, by=command.by)


def next_step(fleet: FleetState, scope: Scope, now: datetime) -> Iterator[Change]:
    """Yield the next domain of the scope's rollout, or its end, once none of its events is pending."""
    rollout = scope.facts.walk
    if rollout is None or any(event.walk == rollout.id for event in scope.events.values()):
        return
    if not rollout.domains:
        yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=None), by=rollout.by)
        return
    current, *later = rollout.domains
    after = replace(rollout, current=current, domains=tuple(later))
    yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=after), by=rollout.by)
    machines = [machine for machine in scope.machines.values() if domain(scope.facts, machine) == current]
    if machines:
        request = Announcement(
            id=derive_id(rollout.id, str(current)),
            cause=rollout.cause,
            by=rollout.by,
            notice=rollout.notice,
            rollout=rollout.id,
        )
        yield from announce(fleet, request, machines, now)
