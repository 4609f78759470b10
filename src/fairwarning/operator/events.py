"""Events: listing, causing, approving and cancelling them, and reporting their impacts."""

from collections.abc import Sequence

from fairwarning.control.results import Announced
from fairwarning.core.causes import CAUSES
from fairwarning.core.inputs import check_visible, parse_duration
from fairwarning.core.model import OPERATOR, Event
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext


async def events(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.EventsBody:
    """Return every pending event, by scope and then in order of creation."""
    pending = (event for scope in context.engine.scopes().values() for event in scope.events.values())
    return schemas.EventsBody(events=event_bodies(context, list(pending)))


async def event(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> schemas.EventBody:
    """Return one pending event."""
    scope_id, event_id = context.engine.directory.event(name)
    return _event_body(context, context.engine.scope(scope_id).events[event_id])


async def cause(context: OperatorContext, _: str, request: schemas.CauseRequest) -> schemas.AnnouncedBody:
    """Cause events on machines; the response is sent once guests can see them."""
    announced = await context.control.cause(
        OPERATOR,
        request.cause,
        request.machines,
        host=request.host,
        notice=None if request.notice is None else parse_duration(request.notice, "notice"),
        kind=request.kind,
        force=request.force,
    )
    return _announced_body(context, announced)


async def delete_machine(
    context: OperatorContext, name: str, request: schemas.DeleteRequest
) -> schemas.AnnouncedBody:
    """Delete a machine, with the notice that its model sets."""
    announced = await context.control.delete_machine(OPERATOR, name, force=request.force)
    return _announced_body(context, announced)


async def delete_set(
    context: OperatorContext, name: str, request: schemas.DeleteRequest
) -> schemas.AnnouncedBody:
    """Delete all machines of a set, with their notice, and then the set."""
    announced = await context.control.delete_set(OPERATOR, name, force=request.force)
    return _announced_body(context, announced)


async def approve(context: OperatorContext, name: str, request: schemas.ActorRequest) -> schemas.EventBody:
    """Approve an event, so that it may start before its notice ends, and return its new state."""
    (event,) = (await context.control.approve(OPERATOR, name)).events
    return _event_body(context, event)


async def cancel(context: OperatorContext, name: str, request: schemas.ActorRequest) -> schemas.EventBody:
    """Cancel an event that has not started, and return it with the status Gone."""
    return _event_body(context, await context.control.cancel(OPERATOR, name))


async def complete(
    context: OperatorContext, name: str, request: schemas.CompleteRequest
) -> schemas.EventBody:
    """Report the impact of an event as done, on some of its machines or on all, and return the event."""
    if request.moved_to is not None:
        check_visible(request.moved_to, "moved_to")
    event = await context.control.complete(OPERATOR, name, request.machines, request.moved_to)
    return _event_body(context, event)


async def fail(context: OperatorContext, name: str, request: schemas.FailRequest) -> schemas.EventBody:
    """Report the impact of an event as failed on a machine, and return the event."""
    check_visible(request.reason, "reason")
    event = await context.control.fail(OPERATOR, name, request.machine, request.reason)
    return _event_body(context, event)


async def causes(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.CausesBody:
    """Return every cause of an event."""
    bodies = [
        schemas.CauseBody(name=name, type=cause.kind, source=cause.source, summary=cause.summary)
        for name, cause in CAUSES.items()
    ]
    return schemas.CausesBody(causes=bodies)


def event_bodies(context: OperatorContext, events: Sequence[Event]) -> list[schemas.EventBody]:
    """Return the bodies of events."""
    waits_for = context.control.waits_for(events)
    return [_to_body(context, event, waits_for.get(event.id)) for event in events]


def _event_body(context: OperatorContext, event: Event) -> schemas.EventBody:
    (body,) = event_bodies(context, [event])
    return body


def _to_body(context: OperatorContext, event: Event, waits_for: str | None) -> schemas.EventBody:
    maintenance = context.control.maintenances.of(event)
    return schemas.EventBody(
        id=event.id,
        scope=event.scope,
        cause=event.cause,
        type=event.kind,
        source=event.source,
        status=event.status,
        resources=list(event.resources),
        undone=list(event.undone),
        description=event.description,
        duration=event.duration,
        created_at=event.created_at,
        not_before=event.not_before,
        started_at=event.started_at,
        approved_by=event.approved_by,
        waits_for=waits_for,
        host=_host(context, event),
        maintenance=None if maintenance is None else maintenance.id,
        opens=event.opens,
        closes=None if maintenance is None else maintenance.closes,
        blocked=event.blocked,
        shown=event.seen,
        read={name: at for name, at in context.engine.first_reads(event).items()},
        seen=event.seen,
        attempt=event.attempt,
        retry_at=event.retry_at,
        overdue=event.overdue,
        walk=event.walk,
    )


def _host(context: OperatorContext, event: Event) -> str | None:
    """Return the host that all machines of an event are on, as far as they exist."""
    scope = context.engine.scopes().get(event.scope)
    names = () if scope is None else (name for name in event.resources if name in scope.machines)
    hosts = set() if scope is None else {scope.machines.shared_fields(name).host for name in names}
    return hosts.pop() if len(hosts) == 1 else None


def _announced_body(context: OperatorContext, announced: Announced) -> schemas.AnnouncedBody:
    return schemas.AnnouncedBody(
        events=event_bodies(context, announced.events),
        warned=announced.warned,
        hint=announced.hint,
    )
