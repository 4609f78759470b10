"""The maintenance page: a host update on its way through a scope, domain by domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fairwarning.console.context import ConsoleContext
from fairwarning.console.event_timeline import EventTimeline, event_timelines
from fairwarning.console.formatting import count
from fairwarning.console.forms import ROLLOUT_DEFAULTS, Form, rollout_form
from fairwarning.console.page import CONSOLE, Done, FormError, Fragment, PageView, Visit
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.announce import unpolled_hint
from fairwarning.core.blueprint import domain
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.commands import StartRollout, StopRollout
from fairwarning.core.model import Event, Rollout, Scope, ScopeId, VmName
from fairwarning.engine.clock import new_event_id

HERE = "/maintenance"

#: How many walks that are over the page remembers.
MOST_OVER = 10


class DomainProgress(StrEnum):
    """How far maintenance is with a domain."""

    DONE = "done"
    UNDER_WAY = "under way"
    TO_COME = "to come"


#: A sign for each, so that nobody depends on its colour.
SIGNS: Mapping[DomainProgress, str] = {
    DomainProgress.DONE: "✓",
    DomainProgress.UNDER_WAY: "▶",
    DomainProgress.TO_COME: "·",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One domain of a scope that is being walked."""

    label: str
    progress: DomainProgress
    machines: tuple[VmName, ...]

    @property
    def sign(self) -> str:
        """The sign of how far maintenance is."""
        return SIGNS[self.progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRollout:
    """A walk that is over, as far as the journal at hand reaches."""

    scope: ScopeId
    stories: tuple[EventTimeline, ...]

    @property
    def cancelled(self) -> int:
        """How many of its events were withdrawn."""
        return sum(story.cancelled for story in self.stories)


async def show(room: ConsoleContext, visit: Visit) -> PageView:
    """Return what is being walked, and the form that starts a walk."""
    scopes = room.engine.scopes()
    form = Form(visit.form or visit.query, ROLLOUT_DEFAULTS)
    free = [scope for scope in scopes.values() if scope.facts.walk is None and scope.machines]
    values = {
        "form": form,
        "scopes": {str(scope.id): _offer(scope) for scope in free},
        "causes": {name: f"{name}: {cause.summary}" for name, cause in MAINTENANCE.items()},
    }
    fragments = (await _walks(room, visit), await _over(room, visit))
    return PageView(title="Maintenance", template="maintenance.html", values=values, fragments=fragments)


async def start(room: ConsoleContext, visit: Visit) -> Done:
    """Start a walk."""
    form = Form(visit.form, ROLLOUT_DEFAULTS)
    wish = rollout_form(form, room.engine.scopes())
    if form.errors:
        raise FormError(form.problems)
    walk_id = new_event_id()
    await room.engine.handle(
        StartRollout(id=walk_id, scope=wish.scope, cause=wish.cause, notice=wish.notice, by=CONSOLE)
    )
    begun = [event for event in room.engine.scope(wish.scope).events.values() if event.walk == walk_id]
    unseen = unpolled_hint(room.engine.scopes(), begun)
    return Done(HERE, f"{wish.cause} walks through {wish.scope}" + (f"; {unseen}" if unseen else ""))


async def stop(room: ConsoleContext, visit: Visit) -> Done:
    """End a walk; what it has announced and not started is withdrawn."""
    scope = ScopeId(visit.name)
    await room.engine.handle(StopRollout(scope=scope, by=CONSOLE))
    return Done(HERE, f"the walk through {scope} is stopped; what had started goes on to its end")


async def _walks(room: ConsoleContext, visit: Visit) -> Fragment:
    walks = [
        (scope, walk, domains(scope, walk), _events(scope, walk))
        for scope in room.engine.scopes().values()
        if (walk := scope.facts.walk) is not None
    ]
    return TemplateMacros("_maintenance.html", visit).fragment("walks", "walks", walks=walks)


async def _over(room: ConsoleContext, visit: Visit) -> Fragment:
    under_way = {scope.facts.walk.id for scope in room.engine.scopes().values() if scope.facts.walk}
    rounds: dict[str, list[EventTimeline]] = {}
    for story in event_timelines(await room.recent.entries()):
        if story.event.walk is not None and story.event.walk not in under_way:
            rounds.setdefault(story.event.walk, []).append(story)
    over = [
        FinishedRollout(scope=its[0].event.scope, stories=tuple(its)) for its in reversed(rounds.values())
    ]
    return TemplateMacros("_maintenance.html", visit).fragment("rounds", "rounds", rounds=over[:MOST_OVER])


def domains(scope: Scope, walk: Rollout) -> tuple[Domain, ...]:
    """Return the domains of a scope and how far a walk is with each."""
    members: dict[int, list[VmName]] = {}
    for machine in scope.machines.values():
        members.setdefault(domain(scope.facts, machine), []).append(machine.name)
    label = "UD" if scope.facts.update_domains else "FD"
    numbers = sorted({*members, *walk.domains})
    return tuple(
        Domain(
            label=f"{label} {number}",
            progress=_progress(walk, number),
            machines=tuple(members.get(number, ())),
        )
        for number in numbers
    )


def _progress(walk: Rollout, number: int) -> DomainProgress:
    if number == walk.current:
        return DomainProgress.UNDER_WAY
    return DomainProgress.TO_COME if number in walk.domains else DomainProgress.DONE


def _events(scope: Scope, walk: Rollout) -> Sequence[Event]:
    return [event for event in scope.events.values() if event.walk == walk.id]


def _offer(scope: Scope) -> str:
    unseen = "" if scope.enabled else ", nobody polls"
    return f"{scope.id} ({count(len(scope.machines), 'machine')}{unseen})"
