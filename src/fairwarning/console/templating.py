"""Renders Jinja2 templates."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairwarning.console import formatting
from fairwarning.console.page import Fragment, PageRequest
from fairwarning.formats.hidden_characters import escape_hidden
from fairwarning.formats.timestamps import iso_milliseconds

TEMPLATES = Path(__file__).parent / "templates"


def _escape_value(value: object) -> object:
    """Escape hidden characters: in a text from outside they could reorder the text around it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_hidden(value, keep="\t\n\r")
    return value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=_escape_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        instant=formatting.instant,
        ago=formatting.ago,
        countdown=formatting.countdown,
        in_zone=formatting.in_zone,
        span=formatting.span,
        stamp=iso_milliseconds,
        time_of_day=formatting.time_of_day,
    )
    environment.globals.update(
        count=formatting.count,
        host_path=formatting.host_path,
        host_states=formatting.HOST_STATES,
        icons=formatting.ICONS,
        live_query=_live_query,
        machine_path=formatting.machine_path,
        path_to=formatting.path_to,
        scope_kind=formatting.scope_kind,
        window=formatting.window,
        scope_path=formatting.scope_path,
    )
    return environment


def render(template: str, values: Mapping[str, object]) -> str:
    """Return a rendered template."""
    return _environment().get_template(template).render(values)


class TemplateMacros:
    """The macros of a template, which can use the ``request`` of the page, if there is one."""

    def __init__(self, template: str, request: PageRequest | None = None) -> None:
        self._macros = _environment().get_template(template).make_module({"request": request})

    def render(self, macro: str, /, **values: object) -> Markup:
        """Return the HTML of a macro."""
        return Markup(str(getattr(self._macros, macro)(**values)))

    def fragment(
        self, macro: str, id: str, /, *, key: str | None = None, within: str | None = None, **values: object
    ) -> Fragment:
        """Return the HTML of a macro as the fragment ``id``; the macro receives the id."""
        return Fragment(id=id, html=self.render(macro, id=id, **values), key=key, within=within)


def _live_query(request: PageRequest, have: str) -> str:
    """Return the query of a page's live stream: the page's address, and the digest of what it shows."""
    query = urlencode(request.query.pairs)
    return urlencode({"page": f"{request.path}?{query}" if query else request.path, "have": have})
