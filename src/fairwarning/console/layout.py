"""What every page has around it: where one is, what time it is for the fleet, and how much is pending."""

from collections.abc import Mapping

from markupsafe import Markup

from fairwarning.console import templating
from fairwarning.console.context import ConsoleContext
from fairwarning.console.live import digest
from fairwarning.console.page import Fragment, PageView, Visit
from fairwarning.engine.clock import ManualClock

#: What there is to see, in the order of the menu.
MENU: Mapping[str, str] = {
    "/": "Fleet",
    "/events": "Events",
    "/create": "Create",
    "/maintenance": "Maintenance",
    "/history": "History",
    "/clock": "Clock",
}

#: Pages that have no entry of their own, and the entry they belong to.
_BELONGS: Mapping[str, str] = {"scopes": "/", "machines": "/"}


def fragments(room: ConsoleContext, visit: Visit, problem: str = "") -> tuple[Fragment, ...]:
    """Return what changes by itself around every page; a ``problem`` is why there is nothing inside."""
    engine, sheet = room.engine, templating.TemplateMacros("_frame.html", visit)
    manual, now = isinstance(engine.clock, ManualClock), engine.clock.now()
    pending = sum(len(scope.events) for scope in engine.scopes().values())
    mode, speed = "manual" if manual else "real", f"{engine.policy.speed:g}"
    return (
        # Real time passes by itself; only how it passes is news.
        sheet.fragment(
            "clock", "clock", key=f"{mode} {now if manual else speed}", now=now, mode=mode, speed=speed
        ),
        sheet.fragment("tally", "tally", pending=pending),
        sheet.fragment("proof", "proof"),
        sheet.fragment("notice", "notice", problem=problem or engine.trouble),
    )


def html(room: ConsoleContext, visit: Visit, view: PageView, *, said: str = "", leave: bool = False) -> str:
    """Return a view as a whole page; ``leave`` offers a way out to whoever had to log in."""
    around = fragments(room, visit)
    parts = (*around, *view.fragments)
    values = {
        **view.values,
        "title": view.title,
        "visit": visit,
        "menu": MENU,
        "here": _here(visit.path),
        "said": said,
        "leave": leave,
        "parts": {one.id: Markup(one.html) for one in parts},
        "have": digest(parts),
        "now": room.engine.clock.now(),
    }
    return templating.page(view.template, values)


def bare(template: str, title: str, visit: Visit, **values: object) -> str:
    """Return a page that says nothing about the fleet."""
    return templating.page(template, {"title": title, "visit": visit, **values})


def _here(path: str) -> str:
    first = path.split("/")[1]
    return _BELONGS.get(first, f"/{first}")
