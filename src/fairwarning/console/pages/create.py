"""The create pages: a list of what can be created, and a form in steps for each.

Moving between the steps changes nothing, so the steps are GET requests with the input in the query. Only
the last button, Create, posts the form.
"""

from collections.abc import Mapping
from dataclasses import replace

from fairwarning.console.context import ConsoleContext
from fairwarning.console.formatting import count, enable_notification_command, lacks_notification, scope_path
from fairwarning.console.forms import CHOICES, Choice, SetDraft, read_draft
from fairwarning.console.page import (
    CONSOLE,
    Fields,
    FormError,
    FormResult,
    NoPageError,
    PageRequest,
    PageView,
)
from fairwarning.console.pages.create_fields import CREATE_FIELDS, CreateField, Tab
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.errors import NameTakenError

#: The command that is shown if no set lacks the notification, and the most commands that are shown.
EXAMPLE, MOST_COMMANDS = enable_notification_command("web"), 10

#: The titles of the steps.
TITLES: Mapping[Tab, str] = {
    Tab.BASICS: "Basics",
    Tab.MANAGEMENT: "Management",
    Tab.REVIEW: "Review + create",
}


async def show_choices(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the list of what can be created."""
    return PageView(title="Create", template="create.html", values={"choices": CHOICES})


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return a step of a form; a review of a form with errors shows the first step with an error."""
    choice = _choice(request)
    given = request.form or request.query
    draft = _checked_draft(context, choice, given)
    tab = _tab(choice, given.get("tab"))
    # Errors are shown only once the user asks for the review, not while the form is being filled in.
    if tab is Tab.REVIEW and draft.form.errors:
        tab = min(map(_tab_of, draft.form.errors), key=choice.tabs.index)
        request = replace(request, problems=draft.form.problems)
    form = TemplateMacros("_create.html", request).render(
        "form", name=request.name, choice=choice, tab=tab, titles=TITLES, draft=draft, fields=_fields(choice)
    )
    commands = _enable_commands(context) if tab is Tab.MANAGEMENT else []
    values = {"form": form, "choice": choice, "commands": commands}
    return PageView(title=f"Create {choice.title.lower()}", template="create_form.html", values=values)


async def create(context: ConsoleContext, request: PageRequest) -> FormResult:
    """Create what the form describes, and open the endpoints of its machines."""
    draft = _checked_draft(context, _choice(request), request.form)
    if draft.form.errors:
        raise FormError(draft.form.problems)
    created = await context.control.create_set(CONSOLE, draft.blueprint)
    (scope, *others) = created.scopes
    flash = f"Created {draft.blueprint.name} with {count(len(created.machines), 'machine')}."
    return FormResult("/" if others else scope_path(scope), flash)


def _choice(request: PageRequest) -> Choice:
    if request.name not in CHOICES:
        raise NoPageError(request.path)
    return CHOICES[request.name]


def _checked_draft(context: ConsoleContext, choice: Choice, given: Fields) -> SetDraft:
    """Return the draft of a form; a name that is taken is an error of the form."""
    draft = read_draft(choice, given, context.engine.clock.now())
    name = draft.blueprint.name
    if name and context.engine.directory.scopes_of_set(name):
        draft.form.add_refusal(NameTakenError(name), "name")
    return draft


def _tab(choice: Choice, name: str) -> Tab:
    return next((tab for tab in choice.tabs if tab == name), Tab.BASICS)


def _tab_of(field: str) -> Tab:
    return CREATE_FIELDS[field].tab if field in CREATE_FIELDS else Tab.BASICS


def _fields(choice: Choice) -> Mapping[str, CreateField]:
    return {field: CREATE_FIELDS[field] for field in choice.fields}


def _enable_commands(context: ConsoleContext) -> list[str]:
    """Return the az commands that turn on the termination notification of existing sets."""
    commands = {
        enable_notification_command(scope.facts.set_name, scope.facts.group)
        for scope in context.engine.scopes().values()
        if lacks_notification(scope)
    }
    return sorted(commands)[:MOST_COMMANDS] or [EXAMPLE]
