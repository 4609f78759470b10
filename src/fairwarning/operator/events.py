"""Events: listing, causing, approving and cancelling them, and reporting their impacts."""

from collections.abc import Iterable, Sequence

from fairwarning.control.control import Control
from fairwarning.core.announce import events_caused_by, unpolled_hint
from fairwarning.core.causes import CAUSES
from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.commands import Approve, Cancel, DeleteScopes, Schedule
from fairwarning.core.errors import InvalidError, UnknownEventError
from fairwarning.core.inputs import check_visible, parse_duration
from fairwarning.core.model import Event, EventId, MachineRef, Principal, PrincipalKind, ScopeId
from fairwarning.engine.clock import new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.fleet import scopes_of
from fairwarning.operator.problems import field_context


async def events(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.EventsBody:
    """Return every pending event, by scope and then in order of creation."""
    pending = (event for scope in context.engine.scopes().values() for event in scope.events.values())
    return schemas.EventsBody(events=[event_body(event) for event in pending])


async def event(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> schemas.EventBody:
    """Return one pending event."""
    scope_id, event_id = context.engine.directory.event(name)
    return event_body(_event_after(context.engine, scope_id, event_id, ()))


async def cause(context: OperatorContext, _: str, request: schemas.CauseRequest) -> schemas.AnnouncedBody:
    """Cause events on machines; the response is sent once guests can see them."""
    command = Schedule(
        id=new_event_id(),
        cause=request.cause,
        machines=_machines(context.engine, request),
        notice=None if request.notice is None else parse_duration(request.notice, "notice"),
        kind=request.kind,
        force=request.force,
        by=request.actor,
    )
    return _announced_body(context.engine, command.id, await context.engine.handle(command))


async def delete_machine(
    context: OperatorContext, name: str, request: schemas.DeleteRequest
) -> schemas.AnnouncedBody:
    """Delete a machine, with the notice that its model sets."""
    command = Schedule(
        id=new_event_id(),
        cause="delete",
        machines=(context.engine.directory.machine(name),),
        force=request.force,
        by=request.actor,
    )
    return _announced_body(context.engine, command.id, await context.engine.handle(command))


async def delete_set(
    context: OperatorContext, name: str, request: schemas.DeleteRequest
) -> schemas.AnnouncedBody:
    """Delete all machines of a set, with their notice, and then the set."""
    ids = scopes_of(context.engine, name)
    command = DeleteScopes(id=new_event_id(), scopes=ids, force=request.force, by=request.actor)
    return _announced_body(context.engine, command.id, await context.engine.handle(command))


async def approve(context: OperatorContext, name: str, request: schemas.ActorRequest) -> schemas.EventBody:
    """Approve an event, so that it may start before its notice ends, and return its new state."""
    scope_id, event_id = context.engine.directory.event(name)
    command = Approve(scope=scope_id, ids=(event_id,), by=request.actor)
    changes = await context.engine.handle(command)
    return event_body(_event_after(context.engine, scope_id, event_id, changes))


async def cancel(context: OperatorContext, name: str, request: schemas.ActorRequest) -> schemas.EventBody:
    """Cancel an event that has not started, and return it with the status Gone."""
    scope_id, event_id = context.engine.directory.event(name)
    changes = await context.engine.handle(Cancel(scope=scope_id, id=event_id, by=request.actor))
    return event_body(_event_after(context.engine, scope_id, event_id, changes))


async def complete(
    context: OperatorContext, name: str, request: schemas.CompleteRequest
) -> schemas.EventBody:
    """Report the impact of an event as done, on some of its machines or on all, and return the event."""
    scope_id, event_id = context.engine.directory.event(name)
    control = Control(context.engine)
    result = await control.complete(_principal(request), event_id, request.machines)
    return event_body(_event_after(context.engine, scope_id, event_id, result.changes))


async def fail(context: OperatorContext, name: str, request: schemas.FailRequest) -> schemas.EventBody:
    """Report the impact of an event as failed on a machine, and return the event."""
    check_visible(request.reason, "reason")
    scope_id, event_id = context.engine.directory.event(name)
    control = Control(context.engine)
    result = await control.fail(_principal(request), event_id, request.machine, request.reason)
    return event_body(_event_after(context.engine, scope_id, event_id, result.changes))


def _principal(request: schemas.ActorRequest) -> Principal:
    return Principal(PrincipalKind.OPERATOR, request.actor.partition(":")[2])


async def causes(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> schemas.CausesBody:
    """Return every cause of an event."""
    bodies = [
        schemas.CauseBody(name=name, type=cause.kind, source=cause.source, summary=cause.summary)
        for name, cause in CAUSES.items()
    ]
    return schemas.CausesBody(causes=bodies)


def event_body(event: Event) -> schemas.EventBody:
    """Return the body of an event."""
    return schemas.EventBody(
        id=event.id,
        scope=event.scope,
        cause=event.cause,
        type=event.kind,
        source=event.source,
        status=event.status,
        resources=list(event.resources),
        description=event.description,
        duration=event.duration,
        created_at=event.created_at,
        not_before=event.not_before,
        started_at=event.started_at,
        approved_by=event.approved_by,
        seen=event.seen,
        attempt=event.attempt,
        retry_at=event.retry_at,
        overdue=event.overdue,
        walk=event.walk,
    )


def _machines(engine: Engine, request: schemas.CauseRequest) -> tuple[MachineRef, ...]:
    if request.host is not None:
        if request.machines:
            raise InvalidError("host", "give machines or a host, not both")
        with field_context("host"):
            return engine.directory.machines_on_host(request.host)
    refs = []
    for number, name in enumerate(request.machines):
        with field_context(f"machines[{number}]"):
            refs.append(engine.directory.machine(name))
    return tuple(refs)


def _event_after(engine: Engine, scope_id: ScopeId, event_id: EventId, changes: Iterable[Change]) -> Event:
    """Return an event as ``changes`` left it, or its current state if ``changes`` do not contain it."""
    scope = engine.scopes().get(scope_id)
    pending = None if scope is None else scope.events.get(event_id)
    event = _changed_events(changes).get(event_id, pending)
    if event is None:
        raise UnknownEventError(event_id)
    return event


def _changed_events(changes: Iterable[Change]) -> dict[EventId, Event]:
    return {change.event.id: change.event for change in changes if isinstance(change, EventChanged)}


def _announced_body(engine: Engine, first: EventId, changes: Sequence[Change]) -> schemas.AnnouncedBody:
    announced = events_caused_by(first, changes)
    return schemas.AnnouncedBody(
        events=[event_body(event) for event in announced],
        warned=any(event.seen for event in announced),
        hint=unpolled_hint(engine.scopes(), announced),
    )
