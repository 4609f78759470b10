"""Maintenance that goes through a scope, domain by domain (S-04, S-05)."""

import msgspec

from fairwarning.core import durations
from fairwarning.core.commands import StartWalk, StopWalk
from fairwarning.core.errors import UnknownWalk
from fairwarning.core.model import Scope, ScopeId, Walk
from fairwarning.core.unwatched import hint
from fairwarning.engine.clock import new_event_id
from fairwarning.operator import shapes
from fairwarning.operator.desk import Desk
from fairwarning.operator.problems import naming


async def walks(desk: Desk, _: str, asked: shapes.Nothing) -> shapes.Walks:
    """Return the walks under way."""
    found = ((scope, scope.facts.walk) for scope in desk.engine.scopes().values())
    return shapes.Walks(walks=[walk_shape(scope, walk) for scope, walk in found if walk is not None])


async def start(desk: Desk, _: str, asked: shapes.WalkWanted) -> shapes.WalkBegun:
    """Start a walk and return it, its first domain announced."""
    with naming("scope"):
        scope_id = desk.engine.scope(ScopeId(asked.scope)).id
    notice = None if asked.notice is None else durations.parse(asked.notice, "notice")
    command = StartWalk(id=new_event_id(), scope=scope_id, cause=asked.cause, notice=notice, by=asked.who)
    await desk.engine.handle(command)
    scope = desk.engine.scope(scope_id)
    walk = scope.facts.walk
    if walk is None:
        raise UnknownWalk(scope_id)
    led_to = [event for event in scope.events.values() if event.walk == walk.id]
    begun = msgspec.structs.asdict(walk_shape(scope, walk))
    return shapes.WalkBegun(
        **begun, warned=any(one.seen for one in led_to), hint=hint(desk.engine.scopes(), led_to)
    )


async def stop(desk: Desk, name: str, asked: shapes.Asker) -> None:
    """End a walk; what it has announced and not started is withdrawn."""
    await desk.engine.handle(StopWalk(scope=ScopeId(name), by=asked.who))


def walk_shape(scope: Scope, walk: Walk) -> shapes.Walk:
    """Return a walk as the operator sees it."""
    return shapes.Walk(
        id=walk.id,
        scope=scope.id,
        cause=walk.cause,
        current=walk.current,
        remaining=list(walk.domains),
        notice=None if walk.notice is None else durations.spell(walk.notice),
        by=walk.by,
        events=[event.id for event in scope.events.values() if event.walk == walk.id],
    )
