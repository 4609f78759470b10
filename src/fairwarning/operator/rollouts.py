"""Maintenance that goes through a scope, domain by domain (S-04, S-05)."""

import msgspec

from fairwarning.core.announce import unpolled_hint
from fairwarning.core.commands import StartRollout, StopRollout
from fairwarning.core.errors import UnknownRolloutError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import Rollout, Scope, ScopeId
from fairwarning.engine.clock import new_event_id
from fairwarning.formats import durations
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.problems import field_context


async def walks(desk: OperatorContext, _: str, asked: schemas.Nothing) -> schemas.RolloutsBody:
    """Return the walks under way."""
    found = ((scope, scope.facts.walk) for scope in desk.engine.scopes().values())
    return schemas.RolloutsBody(walks=[walk_shape(scope, walk) for scope, walk in found if walk is not None])


async def start(desk: OperatorContext, _: str, asked: schemas.RolloutWanted) -> schemas.RolloutBegunBody:
    """Start a walk and return it, its first domain announced."""
    with field_context("scope"):
        scope_id = desk.engine.scope(ScopeId(asked.scope)).id
    notice = None if asked.notice is None else parse_duration(asked.notice, "notice")
    command = StartRollout(id=new_event_id(), scope=scope_id, cause=asked.cause, notice=notice, by=asked.who)
    await desk.engine.handle(command)
    scope = desk.engine.scope(scope_id)
    walk = scope.facts.walk
    if walk is None:
        raise UnknownRolloutError(scope_id)
    led_to = [event for event in scope.events.values() if event.walk == walk.id]
    begun = msgspec.structs.asdict(walk_shape(scope, walk))
    return schemas.RolloutBegunBody(
        **begun, warned=any(one.seen for one in led_to), hint=unpolled_hint(desk.engine.scopes(), led_to)
    )


async def stop(desk: OperatorContext, name: str, asked: schemas.Asker) -> None:
    """End a walk; what it has announced and not started is withdrawn."""
    await desk.engine.handle(StopRollout(scope=ScopeId(name), by=asked.who))


def walk_shape(scope: Scope, walk: Rollout) -> schemas.RolloutBody:
    """Return a walk as the operator sees it."""
    return schemas.RolloutBody(
        id=walk.id,
        scope=scope.id,
        cause=walk.cause,
        current=walk.current,
        remaining=list(walk.domains),
        notice=None if walk.notice is None else durations.for_people(walk.notice),
        by=walk.by,
        events=[event.id for event in scope.events.values() if event.walk == walk.id],
    )
