"""The history page: every line of the journal, filtered as one likes, to read here or to take away."""

from collections.abc import Mapping
from dataclasses import asdict
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from fairwarning.console.context import ConsoleContext
from fairwarning.console.export import FORMATS
from fairwarning.console.journal import KINDS, Wanted, everything
from fairwarning.console.page import PageView, Visit
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.errors import InvalidError
from fairwarning.engine.retention import first_complete_line


async def show(room: ConsoleContext, visit: Visit) -> PageView:
    """Return the newest lines that are wanted, or those before a line."""
    wanted = _wanted(visit)
    found = await room.recent.excerpt(wanted, _before(visit))
    query = {name: value for name, value in asdict(wanted).items() if value}
    begins = await first_complete_line(room.engine.store) if found.older is None else None
    lines = TemplateMacros("_history.html", visit).fragment(
        "lines",
        "lines",
        found=found,
        filtered=bool(query),
        older=_query(query, before=found.older),
        begins=begins,
    )
    values = {
        "wanted": wanted,
        "kinds_of_lines": {"": "everything", **{kind: f"{kind}: {words}" for kind, words in KINDS.items()}},
        "scopes": list(room.engine.scopes()),
        "query": _query(query),
        "first": "before" not in visit.query,
    }
    return PageView(title="History", template="history.html", values=values, fragments=(lines,))


async def export(room: ConsoleContext, visit: Visit) -> Response:
    """Return everything that is wanted, as a file, written while the journal is read."""
    # A path that names no format has no page.
    form = FORMATS[visit.path.rpartition(".")[2]]
    lines = everything(room.engine.store, _wanted(visit))
    name = visit.path.rpartition("/")[2]
    headers = {"Content-Disposition": f"attachment; filename={name}"}
    return StreamingResponse(form.write(lines), media_type=form.media_type, headers=headers)


def _wanted(visit: Visit) -> Wanted:
    get = visit.query.get
    return Wanted(
        scope=get("scope"),
        machine=get("machine"),
        event=get("event"),
        who=get("who"),
        kind=get("kind"),
        text=get("text"),
    )


def _before(visit: Visit) -> int | None:
    text = visit.query.get("before")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise InvalidError("before", f"must be the number of a line, not {text[:40]!r}")
    return int(text)


def _query(members: Mapping[str, str], before: int | None = None) -> str:
    more = {} if before is None else {"before": str(before)}
    return urlencode({**members, **more})
