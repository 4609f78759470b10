"""The layout around every page: menu, fleet clock, number of pending events, messages."""

from collections.abc import Mapping

from markupsafe import Markup

from fairwarning.console import templating
from fairwarning.console.context import ConsoleContext
from fairwarning.console.live import digest
from fairwarning.console.page import Fragment, PageRequest, PageView
from fairwarning.engine.clock import ManualClock

#: The entries of the menu, in order.
MENU: Mapping[str, str] = {
    "/": "Fleet",
    "/hosts": "Hosts",
    "/events": "Events",
    "/create": "Create",
    "/maintenance": "Maintenance",
    "/history": "History",
    "/clock": "Clock",
}

#: The entries that only the emulator has.
EMULATOR_MENU = frozenset({"/create", "/clock"})

#: The menu entry of pages that have none of their own.
_MENU_ENTRIES: Mapping[str, str] = {"scopes": "/", "machines": "/"}


def fragments(context: ConsoleContext, request: PageRequest, problem: str = "") -> tuple[Fragment, ...]:
    """Return the live fragments of the layout; ``problem`` says why the page itself cannot be rendered."""
    engine, macros = context.engine, templating.TemplateMacros("_layout.html", request)
    manual, now = isinstance(engine.clock, ManualClock), engine.clock.now()
    pending = sum(len(scope.events) for scope in engine.scopes().values())
    mode, speed = "manual" if manual else "real", f"{engine.policy.speed:g}"
    return (
        # The browser counts real time by itself, so only a change of speed is sent.
        macros.fragment(
            "clock", "clock", key=f"{mode} {now if manual else speed}", now=now, mode=mode, speed=speed
        ),
        macros.fragment("tally", "tally", pending=pending),
        macros.fragment("csrf_token", "csrf-token"),
        macros.fragment("notice", "notice", problem=problem or engine.trouble),
        macros.fragment("hold", "fleet-hold", hold=context.control.maintenances.hold_of()),
    )


def render_page(
    context: ConsoleContext,
    request: PageRequest,
    view: PageView,
    *,
    flash: str = "",
    problem: str = "",
    can_log_out: bool = False,
) -> str:
    """Return a view as a complete page, with its layout; ``problem`` says why the page cannot be shown."""
    parts = (*fragments(context, request, problem), *view.fragments)
    values = {
        **view.values,
        "title": view.title,
        "request": request,
        "menu": {path: name for path, name in MENU.items() if request.emulator or path not in EMULATOR_MENU},
        "menu_entry": _menu_entry(request.path),
        "flash": flash,
        "can_log_out": can_log_out,
        "parts": {part.id: Markup(part.html) for part in parts},
        "have": digest(parts),
        "now": context.engine.clock.now(),
    }
    return templating.render(view.template, values)


def render_bare(template: str, title: str, request: PageRequest, **values: object) -> str:
    """Return a page without the layout, which shows nothing of the fleet."""
    return templating.render(template, {"title": title, "request": request, **values})


def _menu_entry(path: str) -> str:
    first = path.split("/")[1]
    return _MENU_ENTRIES.get(first, f"/{first}")
