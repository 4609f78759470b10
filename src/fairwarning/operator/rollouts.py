"""Rollouts: maintenance of a scope, one domain after another (S-04, S-05)."""

import msgspec

from fairwarning.core.errors import UnknownRolloutError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import OPERATOR, Rollout, Scope, ScopeId
from fairwarning.formats import durations
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext


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
    notice = None if request.notice is None else parse_duration(request.notice, "notice")
    announced = await context.control.start_rollout(OPERATOR, request.scope, request.cause, notice)
    scope = context.engine.scope(ScopeId(request.scope))
    rollout = scope.facts.walk
    if rollout is None:
        raise UnknownRolloutError(scope.id)
    return schemas.RolloutBegunBody(
        **msgspec.structs.asdict(rollout_body(scope, rollout)), warned=announced.warned, hint=announced.hint
    )


async def stop(context: OperatorContext, name: str, request: schemas.ActorRequest) -> None:
    """Stop a rollout and cancel its events that have not started."""
    await context.control.stop_rollout(OPERATOR, name)


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
