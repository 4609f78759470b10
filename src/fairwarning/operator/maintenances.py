"""Maintenances, hosts and holds."""

from collections.abc import Iterable
from datetime import datetime

from fairwarning.control.hosts import Host, Tenant
from fairwarning.control.maintenance import Maintained
from fairwarning.core.errors import InvalidError, UnknownMaintenanceError
from fairwarning.core.inputs import check_visible, parse_duration
from fairwarning.core.maintenance.values import Hold, Maintenance
from fairwarning.core.model import OPERATOR, BarrierId, Event
from fairwarning.formats.instants import for_people, parse_instant
from fairwarning.operator import schemas
from fairwarning.operator.context import OperatorContext
from fairwarning.operator.events import event_bodies
from fairwarning.operator.maintenance_schemas import (
    CompleteHostRequest,
    HoldBody,
    HoldRequest,
    HostBody,
    HostsBody,
    HostsRequest,
    MaintenanceBody,
    MaintenanceRequest,
    MaintenancesBody,
    MaintenancesRequest,
    PostponeRequest,
    TenantBody,
)


async def announce(context: OperatorContext, _: str, request: MaintenanceRequest) -> MaintenanceBody:
    """Announce a maintenance; the response is sent once guests can see its events."""
    check_visible(request.key, "key")
    return _maintained_body(
        context,
        await context.control.maintenances.announce(
            OPERATOR,
            request.cause,
            request.machines,
            host=request.host,
            notice=None if request.notice is None else parse_duration(request.notice, "notice"),
            opens=None if request.at is None else _instant(context, request.at, "at"),
            closes=None if request.until is None else _instant(context, request.until, "until"),
            key=request.key,
            on_silence=request.on_silence,
            over_budget=request.over_budget,
            dry_run=request.dry_run,
        ),
    )


async def maintenances(context: OperatorContext, _: str, request: MaintenancesRequest) -> MaintenancesBody:
    """Return the maintenances that are not over, or all, of a host or of all hosts."""
    found = [
        maintenance
        for maintenance in context.control.maintenances.all()
        if request.host in (None, maintenance.host) and (request.over or not maintenance.phase.over)
    ]
    found.sort(key=lambda maintenance: (maintenance.created_at, maintenance.id))
    return MaintenancesBody(maintenances=[_body(context, maintenance) for maintenance in found])


async def maintenance(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> MaintenanceBody:
    """Return one maintenance, over or not."""
    found = context.control.maintenances.find(BarrierId(name))
    if found is None:
        raise UnknownMaintenanceError(name)
    return _maintained_body(context, found)


async def hosts(context: OperatorContext, _: str, request: HostsRequest) -> HostsBody:
    """Return the hosts with a label, or all hosts."""
    found = context.control.maintenances.hosts()
    if request.label is not None:
        name, equals, value = request.label.partition("=")
        if not name or not equals:
            raise InvalidError("label", "must be a name and a value, like rack=B")
        found = (host for host in found if host.labels.get(name) == value)
    return HostsBody(hosts=[_host_body(context, host) for host in found])


async def host(context: OperatorContext, name: str, request: schemas.EmptyRequest) -> HostBody:
    """Return one host."""
    return _host_body(context, context.control.maintenances.host(name))


async def complete_host(
    context: OperatorContext, name: str, request: CompleteHostRequest
) -> schemas.EventsBody:
    """Report all that has started on a host as done, and return these events."""
    events = await context.control.maintenances.complete(OPERATOR, name, request.moved)
    return schemas.EventsBody(events=event_bodies(context, events))


async def cancel_host(
    context: OperatorContext, name: str, request: schemas.ActorRequest
) -> schemas.EventsBody:
    """Cancel what is scheduled for a host, and return these events."""
    events = await context.control.maintenances.cancel(OPERATOR, name)
    return schemas.EventsBody(events=event_bodies(context, events))


async def postpone(context: OperatorContext, name: str, request: PostponeRequest) -> schemas.EventsBody:
    """Give what is scheduled for a host, or behind the barrier of an event, a later NotBefore."""
    until = _instant(context, request.until, "until")
    events = await context.control.maintenances.postpone(OPERATOR, name, until)
    return schemas.EventsBody(events=event_bodies(context, events))


async def hold_of_fleet(context: OperatorContext, _: str, request: schemas.EmptyRequest) -> HoldBody:
    """Return the hold on the fleet."""
    return _hold_body(context.control.maintenances.hold_of())


async def hold_fleet(context: OperatorContext, _: str, request: HoldRequest) -> HoldBody:
    """Let nothing of the platform start in the fleet."""
    check_visible(request.reason, "reason")
    return _hold_body(await context.control.maintenances.hold(OPERATOR, request.reason))


async def unhold_fleet(context: OperatorContext, _: str, request: schemas.ActorRequest) -> None:
    """End the hold on the fleet."""
    await context.control.maintenances.unhold(OPERATOR)


async def hold_host(context: OperatorContext, name: str, request: HoldRequest) -> HoldBody:
    """Let nothing of the platform start on a host."""
    check_visible(request.reason, "reason")
    return _hold_body(await context.control.maintenances.hold(OPERATOR, request.reason, name))


async def unhold_host(context: OperatorContext, name: str, request: schemas.ActorRequest) -> None:
    """End the hold on a host."""
    await context.control.maintenances.unhold(OPERATOR, name)


def _instant(context: OperatorContext, text: str, field: str) -> datetime:
    try:
        return parse_instant(text, context.engine.clock.now(), context.zone)
    except ValueError as problem:
        raise InvalidError(field, str(problem)) from None


def _maintained_body(context: OperatorContext, maintained: Maintained) -> MaintenanceBody:
    return _body(context, maintained.maintenance, maintained.events, maintained.hint)


def _body(
    context: OperatorContext,
    maintenance: Maintenance,
    events: Iterable[Event] | None = None,
    hint: str | None = None,
) -> MaintenanceBody:
    if events is None:
        found = context.control.maintenances.find(maintenance.id)
        events = () if found is None else found.events
    return MaintenanceBody(
        id=maintenance.id,
        host=maintenance.host,
        cause=maintenance.cause,
        phase=maintenance.phase,
        reason=maintenance.reason,
        by=maintenance.by,
        created_at=maintenance.created_at,
        not_before=maintenance.not_before,
        opens=maintenance.opens,
        closes=maintenance.closes,
        ended_at=maintenance.ended_at,
        on_silence=maintenance.on_silence,
        over_budget=maintenance.over_budget,
        machines=list(maintenance.machines),
        when=_when(context, maintenance),
        events=event_bodies(context, list(events)),
        hint=hint,
    )


def _when(context: OperatorContext, maintenance: Maintenance) -> str:
    not_before = f"not before {for_people(maintenance.not_before, context.zone)}"
    if maintenance.closes is None:
        return not_before
    return f"{not_before}, until {for_people(maintenance.closes, context.zone)}"


def _host_body(context: OperatorContext, host: Host) -> HostBody:
    return HostBody(
        name=host.name,
        state=host.state,
        machines=host.machines,
        tenants=[_tenant_body(tenant) for tenant in host.tenants],
        hold=_hold_body(host.hold),
        labels=dict(host.labels),
        maintenances=[_body(context, maintenance) for maintenance in host.maintenances],
    )


def _tenant_body(tenant: Tenant) -> TenantBody:
    machines = [machine.name for machine in tenant.machines]
    return TenantBody(scope=tenant.scope, machines=[*machines], polls=tenant.polls, answer=tenant.answer)


def _hold_body(hold: Hold | None) -> HoldBody:
    if hold is None:
        return HoldBody(held=False)
    return HoldBody(held=True, reason=hold.reason, by=hold.by, since=hold.since)
