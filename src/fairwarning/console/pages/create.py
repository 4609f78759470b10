"""The create pages: what there is to choose from, and a form for each, step by step.

Going from step to step changes nothing, so it is done by addresses; only the last button sends a form.
"""

from collections.abc import Mapping
from dataclasses import replace

from fairwarning.console.context import ConsoleContext
from fairwarning.console.formatting import count, scope_path
from fairwarning.console.forms import CHOICES, Choice, Draft, draft
from fairwarning.console.notification import command, enabling, lacks
from fairwarning.console.page import CONSOLE, Done, FormError, NoPageError, PageView, Visit
from fairwarning.console.pages.create_fields import CREATE_FIELDS, CreateField, Tab
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.changes import MachineChanged, ScopeMade
from fairwarning.core.commands import CreateSet
from fairwarning.core.errors import NameTakenError
from fairwarning.core.model import HOME_GROUP
from fairwarning.engine.clock import new_event_id

#: What is written where no set lacks the notification, and how many that do are named at the most.
EXAMPLE, MOST_COMMANDS = command(HOME_GROUP, "web"), 10

#: The steps as they are called.
TITLES: Mapping[Tab, str] = {
    Tab.BASICS: "Basics",
    Tab.MANAGEMENT: "Management",
    Tab.REVIEW: "Review + create",
}


async def choose(room: ConsoleContext, visit: Visit) -> PageView:
    """Return what can be made."""
    return PageView(title="Create", template="create.html", values={"choices": CHOICES})


async def show(room: ConsoleContext, visit: Visit) -> PageView:
    """Return one step of a form; to review it is to check it first."""
    choice = _choice(visit)
    given = visit.form or visit.query
    found = _checked(room, draft(choice, given, room.engine.clock.now()))
    tab = _tab(choice, given.get("tab"))
    # Nobody is told of mistakes before they say that they are done.
    if tab is Tab.REVIEW and found.form.errors:
        tab = min(map(_place, found.form.errors), key=choice.tabs.index)
        visit = replace(visit, problems=found.form.problems)
    painted = TemplateMacros("_create.html", visit).paint(
        "form", name=visit.name, choice=choice, tab=tab, titles=TITLES, draft=found, questions=_asked(choice)
    )
    values = {"form": painted, "choice": choice, "commands": _commands(room) if tab is Tab.MANAGEMENT else []}
    return PageView(title=f"Create {choice.title.lower()}", template="create_form.html", values=values)


async def make(room: ConsoleContext, visit: Visit) -> Done:
    """Make what the form asks for, and let its machines be reached."""
    found = _checked(room, draft(_choice(visit), visit.form, room.engine.clock.now()))
    if found.form.errors:
        raise FormError(found.form.problems)
    changes = await room.engine.handle(CreateSet(seed=new_event_id(), blueprint=found.blueprint, by=CONSOLE))
    machines = [change.machine.ref for change in changes if isinstance(change, MachineChanged)]
    await room.welcome(machines)
    (scope, *more) = [change.scope for change in changes if isinstance(change, ScopeMade)]
    said = f"{found.blueprint.name} is there, with {count(len(machines), 'machine')}"
    return Done("/" if more else scope_path(scope), said)


def _choice(visit: Visit) -> Choice:
    if visit.name not in CHOICES:
        raise NoPageError(visit.path)
    return CHOICES[visit.name]


def _checked(room: ConsoleContext, found: Draft) -> Draft:
    name = found.blueprint.name
    if name and room.engine.directory.scopes_of_set(name):
        found.form.refuse(NameTakenError(name), "name")
    return found


def _tab(choice: Choice, asked: str) -> Tab:
    return next((tab for tab in choice.tabs if tab == asked), Tab.BASICS)


def _place(field: str) -> Tab:
    return CREATE_FIELDS[field].tab if field in CREATE_FIELDS else Tab.BASICS


def _asked(choice: Choice) -> Mapping[str, CreateField]:
    return {field: CREATE_FIELDS[field] for field in choice.fields}


def _commands(room: ConsoleContext) -> list[str]:
    """Return how az gives the notification to sets that are there already."""
    lacking = {enabling(scope.facts) for scope in room.engine.scopes().values() if lacks(scope)}
    return sorted(lacking)[:MOST_COMMANDS] or [EXAMPLE]
