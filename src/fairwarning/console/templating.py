"""From templates to HTML."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairwarning.console import formatting
from fairwarning.console.page import Fragment, Visit
from fairwarning.formats.hidden_characters import escape_hidden
from fairwarning.formats.timestamps import iso_milliseconds

TEMPLATES = Path(__file__).parent / "templates"


def _finalized(value: object) -> object:
    """Return what a page shows of a value: what people wrote may turn the page's own words around."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_hidden(value, keep="\t\n\r")
    return value


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        instant=formatting.instant,
        ago=formatting.ago,
        countdown=formatting.countdown,
        span=formatting.span,
        stamp=iso_milliseconds,
        time_of_day=formatting.time_of_day,
    )
    found.globals.update(
        called=formatting.called,
        count=formatting.count,
        icons=formatting.ICONS,
        live_query=_live_query,
        machine_path=formatting.machine_path,
        path_to=formatting.path_to,
        scope_path=formatting.scope_path,
    )
    return found


def page(template: str, values: Mapping[str, object]) -> str:
    """Return a whole page."""
    return _environment().get_template(template).render(values)


class TemplateMacros:
    """The macros of one template; they know the ``visit`` they are painted for, if there is one."""

    def __init__(self, template: str, visit: Visit | None = None) -> None:
        self._macros = _environment().get_template(template).make_module({"visit": visit})

    def paint(self, macro: str, /, **values: object) -> Markup:
        """Return what a macro makes of some values."""
        return Markup(str(getattr(self._macros, macro)(**values)))

    def fragment(
        self, macro: str, id: str, /, *, key: str | None = None, within: str | None = None, **values: object
    ) -> Fragment:
        """Return what a macro makes of some values, as the fragment with this id, which the macro is told."""
        return Fragment(id=id, html=self.paint(macro, id=id, **values), key=key, within=within)


def _live_query(visit: Visit, have: str) -> str:
    """Return what a page asks its stream for: its own address, and what it has already."""
    query = urlencode(visit.query.pairs)
    return urlencode({"page": f"{visit.path}?{query}" if query else visit.path, "have": have})
