"""Events: what is pending, what to do to whom, approving and cancelling."""

from collections.abc import Iterable, Sequence

from fairwarning.core.announce import events_caused_by, unpolled_hint
from fairwarning.core.causes import CAUSES
from fairwarning.core.changes import Change, EventChanged
from fairwarning.core.commands import Approve, Cancel, DeleteScopes, Schedule
from fairwarning.core.errors import InvalidError, UnknownEventError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import Event, EventId, MachineRef, ScopeId
from fairwarning.engine.clock import new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.fleet import scopes_called
from fairwarning.operator.problems import field_context


async def events(desk: OperatorContext, _: str, asked: schemas.Nothing) -> schemas.EventsBody:
    """Return every pending event, scope by scope, in order of creation."""
    pending = (event for scope in desk.engine.scopes().values() for event in scope.events.values())
    return schemas.EventsBody(events=[event_shape(event) for event in pending])


async def event(desk: OperatorContext, name: str, asked: schemas.Nothing) -> schemas.EventBody:
    """Return one pending event."""
    scope_id, event_id = desk.engine.directory.event(name)
    return event_shape(_afterwards(desk.engine, scope_id, event_id, ()))


async def cause(desk: OperatorContext, _: str, asked: schemas.EventWanted) -> schemas.AnnouncedBody:
    """Do something to machines; the answer comes once guests can see it."""
    command = Schedule(
        id=new_event_id(),
        cause=asked.cause,
        machines=_machines(desk.engine, asked),
        notice=None if asked.notice is None else parse_duration(asked.notice, "notice"),
        kind=asked.kind,
        force=asked.force,
        by=asked.who,
    )
    return _announced(desk.engine, command.id, await desk.engine.handle(command))


async def delete_machine(desk: OperatorContext, name: str, asked: schemas.Removal) -> schemas.AnnouncedBody:
    """Delete a machine, with the notice its model calls for."""
    ref = desk.engine.directory.machine(name)
    command = Schedule(id=new_event_id(), cause="delete", machines=(ref,), force=asked.force, by=asked.who)
    return _announced(desk.engine, command.id, await desk.engine.handle(command))


async def delete_set(desk: OperatorContext, name: str, asked: schemas.Removal) -> schemas.AnnouncedBody:
    """Delete all machines of a set, with their notice, and then the set."""
    ids = scopes_called(desk.engine, name)
    command = DeleteScopes(id=new_event_id(), scopes=ids, force=asked.force, by=asked.who)
    return _announced(desk.engine, command.id, await desk.engine.handle(command))


async def approve(desk: OperatorContext, name: str, asked: schemas.Asker) -> schemas.EventBody:
    """Say that an event need not wait any longer, and return it as it is then."""
    scope_id, event_id = desk.engine.directory.event(name)
    changes = await desk.engine.handle(Approve(scope=scope_id, ids=(event_id,), by=asked.who))
    return event_shape(_afterwards(desk.engine, scope_id, event_id, changes))


async def cancel(desk: OperatorContext, name: str, asked: schemas.Asker) -> schemas.EventBody:
    """Withdraw an event that has not started, and return it as it was, Gone."""
    scope_id, event_id = desk.engine.directory.event(name)
    changes = await desk.engine.handle(Cancel(scope=scope_id, id=event_id, by=asked.who))
    return event_shape(_afterwards(desk.engine, scope_id, event_id, changes))


async def causes(desk: OperatorContext, _: str, asked: schemas.Nothing) -> schemas.CausesBody:
    """Return everything that can be done to a machine."""
    rows = [
        schemas.CauseBody(name=name, type=one.kind, source=one.source, summary=one.summary)
        for name, one in CAUSES.items()
    ]
    return schemas.CausesBody(causes=rows)


def event_shape(one: Event) -> schemas.EventBody:
    """Return an event as the operator sees it."""
    return schemas.EventBody(
        id=one.id,
        scope=one.scope,
        cause=one.cause,
        type=one.kind,
        source=one.source,
        status=one.status,
        resources=list(one.resources),
        description=one.description,
        duration=one.duration,
        created_at=one.created_at,
        not_before=one.not_before,
        started_at=one.started_at,
        approved_by=one.approved_by,
        seen=one.seen,
        attempt=one.attempt,
        retry_at=one.retry_at,
        walk=one.walk,
    )


def _machines(engine: Engine, asked: schemas.EventWanted) -> tuple[MachineRef, ...]:
    if asked.host is not None:
        if asked.machines:
            raise InvalidError("host", "name machines or a host, not both")
        with field_context("host"):
            return engine.directory.machines_on_host(asked.host)
    refs = []
    for number, name in enumerate(asked.machines):
        with field_context(f"machines[{number}]"):
            refs.append(engine.directory.machine(name))
    return tuple(refs)


def _afterwards(engine: Engine, scope_id: ScopeId, event_id: EventId, changes: Iterable[Change]) -> Event:
    """Return an event as ``changes`` left it, or as it stands if they do not speak of it."""
    scope = engine.scopes().get(scope_id)
    pending = None if scope is None else scope.events.get(event_id)
    found = _changed(changes).get(event_id, pending)
    if found is None:
        raise UnknownEventError(event_id)
    return found


def _changed(changes: Iterable[Change]) -> dict[EventId, Event]:
    return {change.event.id: change.event for change in changes if isinstance(change, EventChanged)}


def _announced(engine: Engine, first: EventId, changes: Sequence[Change]) -> schemas.AnnouncedBody:
    announced = events_caused_by(first, changes)
    return schemas.AnnouncedBody(
        events=[event_shape(one) for one in announced],
        warned=any(one.seen for one in announced),
        hint=unpolled_hint(engine.scopes(), announced),
    )
