"""A host update walks through a scope: a domain at a time, the next once the last has finished (S-05)."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from fairwarning.core.announce import Announcement, announce
from fairwarning.core.blueprint import domain
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.changes import Change, EventChanged, EventMilestone, ScopePropertiesChanged
from fairwarning.core.commands import StartRollout, StopRollout
from fairwarning.core.errors import InvalidError, RolloutUnderWayError, UnknownRolloutError
from fairwarning.core.fleet import FleetState
from fairwarning.core.lifecycle import Signal, advance
from fairwarning.core.model import Rollout, Scope, derive_id


def start_rollout(fleet: FleetState, command: StartRollout) -> Iterator[Change]:
    """Yield the walk; its first domain is announced when the fleet settles."""
    scope = fleet.scope(command.scope)
    if scope.facts.walk is not None:
        raise RolloutUnderWayError(scope.id)
    if command.cause not in MAINTENANCE:
        raise InvalidError("cause", f"a walk is one of {', '.join(MAINTENANCE)}, not {command.cause[:40]!r}")
    domains = sorted({domain(scope.facts, machine) for machine in scope.machines.values()})
    if not domains:
        raise InvalidError("scope", f"{scope.id} has no machines")
    walk = Rollout(
        id=command.id,
        cause=command.cause,
        domains=tuple(domains),
        notice=command.notice,
        by=command.by,
    )
    yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=walk), by=command.by)


def stop_rollout(fleet: FleetState, command: StopRollout, now: datetime) -> Iterator[Change]:
    """Yield the end of a walk and the withdrawal of what it announced."""
    scope = fleet.scope(command.scope)
    walk = scope.facts.walk
    if walk is None:
        raise UnknownRolloutError(scope.id)
    yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=None), by=command.by)
    for event in scope.events.values():
        if event.walk == walk.id and event.waiting:
            gone = advance(event, Signal.CANCELLED, now)
            yield EventChanged(scope=scope.id, event=gone, what=EventMilestone.CANCELLED, by=command.by)


def next_step(fleet: FleetState, scope: Scope, now: datetime) -> Iterator[Change]:
    """Yield what the scope's walk does next, once nothing of its last domain is pending."""
    walk = scope.facts.walk
    if walk is None or any(event.walk == walk.id for event in scope.events.values()):
        return
    if not walk.domains:
        yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=None), by=walk.by)
        return
    current, *later = walk.domains
    after = replace(walk, current=current, domains=tuple(later))
    yield ScopePropertiesChanged(scope=scope.id, facts=replace(scope.facts, walk=after), by=walk.by)
    machines = [m for m in scope.machines.values() if domain(scope.facts, m) == current]
    if machines:
        request = Announcement(
            id=derive_id(walk.id, str(current)),
            cause=walk.cause,
            by=walk.by,
            notice=walk.notice,
            walk=walk.id,
        )
        yield from announce(fleet, request, machines, now)
