"""Rollouts: maintenance of a scope, one domain after another (S-04, S-05)."""

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


async def rollouts(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.RolloutsBody:
    """Return the rollouts in progress."""
    pairs = ((scope, scope.facts.walk) for scope in context.engine.scopes().values())
    return schemas.RolloutsBody(
        walks=[rollout_body(scope, rollout) for scope, rollout in pairs if rollout is not None]
    )


async def start(
    context: OperatorContext, _: str, request: schemas.RolloutRequest
) -> schemas.RolloutBegunBody:
    """Start a rollout and return it with the events of its first domain."""
    engine = context.engine
    with field_context("scope"):
        scope_id = engine.scope(ScopeId(request.scope)).id
    notice = None if request.notice is None else parse_duration(request.notice, "notice")
    await engine.handle(
        StartRollout(id=new_event_id(), scope=scope_id, cause=request.cause, notice=notice, by=request.actor)
    )
    scope = engine.scope(scope_id)
    rollout = scope.facts.walk
    if rollout is None:
        raise UnknownRolloutError(scope_id)
    announced = [event for event in scope.events.values() if event.walk == rollout.id]
    return schemas.RolloutBegunBody(
        **msgspec.structs.asdict(rollout_body(scope, rollout)),
        warned=any(event.seen for event in announced),
        hint=unpolled_hint(engine.scopes(), announced),
    )


async def stop(context: OperatorContext, name: str, request: schemas.ActorRequest) -> None:
    """Stop a rollout and cancel its events that have not started."""
    await context.engine.handle(StopRollout(scope=ScopeId(name), by=request.actor))


def rollout_body(scope: Scope, rollout: Rollout) -> schemas.RolloutBody:
    """Return the body of a rollout."""
    return schemas.RolloutBody(
        id=rollout.id,
        scope=scope.id,
        cause=rollout.cause,
        current=rollout.current,
        remaining=list(rollout.domains),
        notice=None if rollout.notice is None else durations.for_people(rollout.notice),
        by=rollout.by,
        events=[event.id for event in scope.events.values() if event.walk == rollout.id],
    )
