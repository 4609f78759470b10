"""Whether this node is alive and may be sent traffic, and the nodes that share its store."""

from datetime import timedelta

from msgspec import UNSET

from fairwarning.engine.ports import Member, NodeReport
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.problems import NotReadyError


async def health(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> schemas.HealthBody:
    """Return that the process works, and what is worth knowing about it."""
    engine = context.engine
    return schemas.HealthBody(warnings=[engine.trouble] if engine.trouble else UNSET)


async def readiness(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> schemas.ReadyBody:
    """Return that the node may be sent traffic.

    Raises:
        NotReadyError: it should not be.
    """
    await context.engine.check_health()
    problems = tuple(context.engine.problems())
    if problems:
        raise NotReadyError(problems)
    return schemas.ReadyBody(inventory=context.engine.membership.inventory or UNSET)


async def nodes(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> schemas.NodesBody:
    """Return the nodes that are alive, with this one, by name."""
    membership = context.engine.membership
    others = [member for member in membership.members if member.report.id != membership.id]
    members = [Member(membership.report(), membership.store_time()), *others]
    newest = max(member.report.position for member in members)
    bodies = [_body(member, newest, is_this=index == 0) for index, member in enumerate(members)]
    bodies.sort(key=lambda body: (body.name, body.id))
    return schemas.NodesBody(nodes=bodies, writes=str(context.engine.store.oldest_reader))


def _body(member: Member, newest: int, *, is_this: bool) -> schemas.NodeBody:
    report: NodeReport = member.report
    return schemas.NodeBody(
        id=report.id,
        name=report.name,
        address=report.address,
        this=is_this,
        position=report.position,
        lag=newest - report.position,
        clock_offset=report.offset / timedelta(seconds=1),
        release=report.release,
        inventory=report.inventory,
        reads=str(member.reads),
        seen_at=member.beat_at,
    )
