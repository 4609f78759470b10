"""The maintenance page: rollouts of maintenance through a scope, domain by domain; the hold on the fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fairwarning.console.context import ConsoleContext
from fairwarning.console.event_timeline import EventTimeline, event_timelines
from fairwarning.console.formatting import count
from fairwarning.console.forms import ROLLOUT_DEFAULTS, Form, read_reason, read_rollout
from fairwarning.console.page import CONSOLE, FormError, FormResult, Fragment, PageRequest, PageView
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.blueprint import domain
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.model import Event, Rollout, Scope, ScopeId, VmName

PATH = "/maintenance"

#: How many finished rollouts the page lists.
MOST_FINISHED = 10


class DomainProgress(StrEnum):
    """The progress of a rollout in a domain."""

    DONE = "done"
    IN_PROGRESS = "in progress"
    PENDING = "pending"


#: A symbol for each, so that progress is never shown by colour alone.
SYMBOLS: Mapping[DomainProgress, str] = {
    DomainProgress.DONE: "✓",
    DomainProgress.IN_PROGRESS: "▶",
    DomainProgress.PENDING: "·",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A domain of a scope with a rollout."""

    label: str
    progress: DomainProgress
    machines: tuple[VmName, ...]

    @property
    def symbol(self) -> str:
        """The symbol of the domain's progress."""
        return SYMBOLS[self.progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRollout:
    """A rollout that has ended, as far as the cached journal reaches back."""

    scope: ScopeId
    timelines: tuple[EventTimeline, ...]

    @property
    def cancelled(self) -> int:
        """How many of the rollout's events were cancelled."""
        return sum(timeline.cancelled for timeline in self.timelines)


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the rollouts in progress, the finished ones, and the form that starts a rollout."""
    scopes = context.engine.scopes()
    form = Form(request.form or request.query, ROLLOUT_DEFAULTS)
    available = [scope for scope in scopes.values() if scope.facts.walk is None and scope.machines]
    values = {
        "form": form,
        "scopes": {str(scope.id): _option(scope) for scope in available},
        "causes": {name: f"{name} – {cause.summary}" for name, cause in MAINTENANCE.items()},
    }
    fragments = (_rollouts(context, request), _hold(context, request), await _finished(context, request))
    return PageView(title="Maintenance", template="maintenance.html", values=values, fragments=fragments)


async def start(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Start a rollout."""
    form = Form(request.form, ROLLOUT_DEFAULTS)
    rollout = read_rollout(form, context.engine.scopes())
    if form.errors:
        raise FormError(form.problems)
    announced = await context.control.start_rollout(CONSOLE, rollout.scope, rollout.cause, rollout.notice)
    flash = f"Started the {rollout.cause} rollout of {rollout.scope}"
    return FormResult(PATH, f"{flash}; {announced.hint}" if announced.hint else f"{flash}.")


async def stop(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Stop a rollout; its events that have not started are cancelled."""
    await context.control.stop_rollout(CONSOLE, request.name)
    return FormResult(
        PATH, f"Stopped the rollout of {request.name}; events that have started run to their end."
    )


async def hold(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Put the fleet on hold."""
    await context.control.maintenances.hold(CONSOLE, read_reason(request.form))
    return FormResult(PATH, "The fleet is on hold.")


async def unhold(context: ConsoleContext, request: PageRequest) -> FormResult:
    """End the hold on the fleet."""
    await context.control.maintenances.unhold(CONSOLE)
    return FormResult(PATH, "The hold has ended; what is ready starts.")


def _rollouts(context: ConsoleContext, request: PageRequest) -> Fragment:
    rollouts = [
        (scope, rollout, domains(scope, rollout), _events(scope, rollout))
        for scope in context.engine.scopes().values()
        if (rollout := scope.facts.walk) is not None
    ]
    waits_for = context.control.waits_for(event for *_, events in rollouts for event in events)
    return TemplateMacros("_maintenance.html", request).fragment(
        "rollouts", "rollouts", rollouts=rollouts, waits_for=waits_for
    )


def _hold(context: ConsoleContext, request: PageRequest) -> Fragment:
    held = context.control.maintenances.hold_of() is not None
    return TemplateMacros("_maintenance.html", request).fragment("hold", "hold", key=f"{held}", held=held)


async def _finished(context: ConsoleContext, request: PageRequest) -> Fragment:
    in_progress = {scope.facts.walk.id for scope in context.engine.scopes().values() if scope.facts.walk}
    by_rollout: dict[str, list[EventTimeline]] = {}
    for timeline in event_timelines(await context.journal.event_changes()):
        rollout_id = timeline.event.walk
        if rollout_id is not None and rollout_id not in in_progress:
            by_rollout.setdefault(rollout_id, []).append(timeline)
    finished = [
        FinishedRollout(scope=timelines[0].event.scope, timelines=tuple(timelines))
        for timelines in reversed(by_rollout.values())
    ]
    return TemplateMacros("_maintenance.html", request).fragment(
        "finished", "finished-rollouts", rollouts=finished[:MOST_FINISHED]
    )


def domains(scope: Scope, rollout: Rollout) -> tuple[Domain, ...]:
    """Return the domains of a scope with the progress of a rollout in each."""
    members: dict[int, list[VmName]] = {}
    for machine in scope.machines.values():
        members.setdefault(domain(scope.facts, machine), []).append(machine.name)
    label = "UD" if scope.facts.update_domains else "FD"
    numbers = sorted({*members, *rollout.domains})
    return tuple(
        Domain(
            label=f"{label} {number}",
            progress=_progress(rollout, number),
            machines=tuple(members.get(number, ())),
        )
        for number in numbers
    )


def _progress(rollout: Rollout, number: int) -> DomainProgress:
    if number == rollout.current:
        return DomainProgress.IN_PROGRESS
    return DomainProgress.PENDING if number in rollout.domains else DomainProgress.DONE


def _events(scope: Scope, rollout: Rollout) -> Sequence[Event]:
    return [event for event in scope.events.values() if event.walk == rollout.id]


def _option(scope: Scope) -> str:
    unpolled = "" if scope.enabled else ", not polled"
    return f"{scope.id} ({count(len(scope.machines), 'machine')}{unpolled})"
