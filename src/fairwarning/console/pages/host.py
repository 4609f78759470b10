"""The page of a host: its machines, its maintenance and what blocks it, and the actions on the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairwarning.console.context import ConsoleContext
from fairwarning.console.formatting import count, host_path
from fairwarning.console.forms import ANNOUNCEMENT_DEFAULTS, SILENCE, Form, read_announcement, read_reason
from fairwarning.console.host_records import maintenances_over
from fairwarning.console.page import CONSOLE, FormError, FormResult, Fragment, PageRequest, PageView
from fairwarning.console.templating import TemplateMacros
from fairwarning.control.hosts import Host, Tenant
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.errors import UnknownHostError
from fairwarning.core.fleet import MachineState, machine_state
from fairwarning.core.maintenance.values import Maintenance, MaintenancePhase
from fairwarning.core.model import Event, HostId, Machine, Scope, ScopeId
from fairwarning.engine.ports import ReportedDriver
from fairwarning.formats import instants
from fairwarning.formats.counts import format_count

#: How many maintenances that are over the page lists.
MOST_OVER = 10


class Standing(StrEnum):
    """Whether a tenant is in the way of a maintenance."""

    SILENT = "silent"
    UNAPPROVED = "unapproved"
    APPROVED = "approved"
    STARTED = "started"


#: A symbol for each, so that it is never shown by colour alone.
SYMBOLS: Mapping[Standing, str] = {
    Standing.SILENT: "◌",
    Standing.UNAPPROVED: "▲",
    Standing.APPROVED: "✓",
    Standing.STARTED: "▶",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLine:
    """A tenant with its events of one maintenance, and what there is to say besides its answer."""

    tenant: Tenant
    standing: Standing
    detail: str = ""

    @property
    def symbol(self) -> str:
        """The symbol of the standing."""
        return SYMBOLS[self.standing]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMaintenance:
    """A maintenance that is not over."""

    maintenance: Maintenance
    tenants: tuple[TenantLine, ...]
    #: What all of its events wait for; empty if that differs, or if it has started.
    waits_for: str

    @property
    def scheduled(self) -> bool:
        """Whether nothing of it has started."""
        return self.maintenance.phase is MaintenancePhase.SCHEDULED


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachine:
    """A machine on the host."""

    machine: Machine
    scope: Scope
    state: MachineState
    polled_at: datetime | None


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the page of a host."""
    over, zone = maintenances_over(context, HostId(request.name)), context.control.zone
    host = _host(context, request.name, known=bool(over))
    pending = [_pending(context, maintenance) for maintenance in host.maintenances]
    macros = TemplateMacros("_host.html", request)
    fragments = (
        macros.fragment("head", "host-head", host=host),
        macros.fragment("pending", "host-pending", pending=pending, zone=zone, silence=SILENCE),
        _actions(context, macros, host, pending),
        macros.fragment("machines", "host-machines", machines=_machines(context, host)),
        macros.fragment("over", "host-over", maintenances=over[:MOST_OVER], total=len(over), zone=zone),
    )
    values = {"host": host.name}
    return PageView(title=f"Host {host.name}", template="host.html", values=values, fragments=fragments)


async def announce(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Announce a maintenance of the host."""
    form = Form(request.form, ANNOUNCEMENT_DEFAULTS)
    asked = read_announcement(form, context.engine.clock.now(), context.control.zone)
    if form.errors:
        raise FormError(form.problems)
    maintained = await context.control.maintenances.announce(
        CONSOLE,
        asked.cause,
        host=request.name,
        opens=asked.opens,
        closes=asked.closes,
        on_silence=asked.on_silence,
    )
    not_before = instants.for_people(maintained.maintenance.not_before, context.control.zone)
    flash = f"Announced a {asked.cause} of host {request.name}, not before {not_before}"
    return _done(request, f"{flash}; {maintained.hint}" if maintained.hint else f"{flash}.")


async def cancel(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Cancel the maintenance of the host if it has not started."""
    events = await context.control.maintenances.cancel(CONSOLE, request.name)
    return _done(request, f"Cancelled {count(len(events), 'event')}; no machine is affected.")


async def postpone(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Give the maintenance of the host a later NotBefore."""
    form = Form(request.form, {"until": ""})
    until = form.required_instant("until", context.engine.clock.now(), context.control.zone)
    if form.errors:
        raise FormError(form.problems)
    events = await context.control.maintenances.postpone(CONSOLE, request.name, until)
    not_before = max((event.not_before for event in events), default=until)
    return _done(
        request, f"Postponed until {instants.for_people(not_before, context.control.zone)}; approvals stay."
    )


async def complete(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Report the maintenance of the host as done."""
    form = Form(request.form, {"moved": ""})
    moved = dict(form.pairs("moved"))
    if form.errors:
        raise FormError(form.problems)
    events = await context.control.maintenances.complete(CONSOLE, request.name, moved)
    return _done(request, f"Completed {count(len(events), 'event')}.")


async def hold(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Put the host on hold."""
    await context.control.maintenances.hold(CONSOLE, read_reason(request.form), request.name)
    return _done(request, f"Host {request.name} is on hold: no scheduled event of the platform starts there.")


async def unhold(context: ConsoleContext, request: PageRequest) -> FormResult:
    """End the hold on the host."""
    await context.control.maintenances.unhold(CONSOLE, request.name)
    return _done(request, f"The hold on host {request.name} has ended; what is ready starts.")


def _done(request: PageRequest, flash: str) -> FormResult:
    return FormResult(host_path(request.name), flash)


def _host(context: ConsoleContext, name: str, *, known: bool) -> Host:
    """Return a host; one that is ``known`` for something else may have no machines."""
    try:
        return context.control.maintenances.host(name)
    except UnknownHostError:
        if not known:
            raise
        return Host(HostId(name), ())


def _machines(context: ConsoleContext, host: Host) -> list[HostMachine]:
    machines = []
    for tenant in host.tenants:
        scope = context.engine.scope(tenant.scope)
        polled_at = context.seen_at(scope)
        machines += [
            HostMachine(
                machine=machine, scope=scope, state=machine_state(scope, machine), polled_at=polled_at
            )
            for machine in tenant.machines
        ]
    return machines


def _actions(
    context: ConsoleContext, macros: TemplateMacros, host: Host, pending: Sequence[PendingMaintenance]
) -> Fragment:
    """Return the actions on the host; the key keeps what is being typed until other actions are possible."""
    scheduled = [each for each in pending if each.scheduled]
    reports = isinstance(context.engine.reconciler.driver, ReportedDriver)
    offered = {
        "announce": not pending,
        "cancel": bool(scheduled),
        "postpone": len(scheduled) == len(pending) == 1,
        "complete": reports and len(scheduled) < len(pending),
    }
    return macros.fragment(
        "actions", "host-actions", key=f"{offered} {host.hold}", here=host_path(host.name), offered=offered,
        hold=host.hold, silence=SILENCE, zone=context.control.zone, defaults=ANNOUNCEMENT_DEFAULTS,
        causes={name: f"{name} – {cause.summary}" for name, cause in MAINTENANCE.items()},
    )  # fmt: skip


def _pending(context: ConsoleContext, maintenance: Maintenance) -> PendingMaintenance:
    found, now = context.control.maintenances.find(maintenance.id), context.engine.clock.now()
    by_scope: dict[ScopeId, list[Event]] = {}
    for event in () if found is None else found.events:
        by_scope.setdefault(event.scope, []).append(event)
    # A tenant whose machines have left the host may still have an event.
    tenants = (
        Tenant(scope_id, (), context.engine.scope(scope_id).enabled, tuple(events))
        for scope_id, events in sorted(by_scope.items())
    )
    waiting = [event for events in by_scope.values() for event in events if event.waiting]
    waits = context.control.waits_for(waiting)
    sentences = {waits.get(event.id, "") for event in waiting}
    return PendingMaintenance(
        maintenance=maintenance,
        tenants=tuple(_tenant_line(tenant, now) for tenant in tenants),
        waits_for=sentences.pop() if len(sentences) == 1 else "",
    )


def _tenant_line(tenant: Tenant, now: datetime) -> TenantLine:
    events = tenant.events
    waiting = [event for event in events if event.waiting]
    if not waiting:
        machines = sum(len(event.resources) for event in events)
        done = machines - sum(len(event.undone) for event in events)
        detail = f", {done} of {format_count(machines, 'machine')} done"
        return TenantLine(tenant=tenant, standing=Standing.STARTED, detail=detail)
    unapproved = [event for event in waiting if event.approved_by is None]
    if not unapproved:
        names = dict.fromkeys(event.approved_by for event in waiting if event.approved_by)
        return TenantLine(tenant=tenant, standing=Standing.APPROVED, detail=f" by {', '.join(names)}")
    # M-13: at NotBefore, silence is consent unless the maintenance says otherwise.
    if all(event.not_before <= now and not event.consent for event in unapproved):
        detail = "; since NotBefore, silence is consent"
        return TenantLine(tenant=tenant, standing=Standing.APPROVED, detail=detail)
    return TenantLine(tenant=tenant, standing=Standing.UNAPPROVED if tenant.polls else Standing.SILENT)
