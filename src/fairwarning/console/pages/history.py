"""The history page: the lines of the journal with a filter, and their export."""

from collections.abc import Mapping
from dataclasses import asdict
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from fairwarning.console.context import ConsoleContext
from fairwarning.console.export import FORMATS
from fairwarning.console.journal import KINDS, HistoryFilter, read_all
from fairwarning.console.page import PageRequest, PageView
from fairwarning.console.templating import TemplateMacros
from fairwarning.core.errors import InvalidError
from fairwarning.engine.retention import first_complete_line


async def show(context: ConsoleContext, request: PageRequest) -> PageView:
    """Return the newest matching lines, or those before a given line."""
    criteria = _filter(request)
    excerpt = await context.journal.excerpt(criteria, _before(request))
    query = {name: value for name, value in asdict(criteria).items() if value}
    begins = await first_complete_line(context.engine.store) if excerpt.older is None else None
    lines = TemplateMacros("_history.html", request).fragment(
        "lines",
        "lines",
        excerpt=excerpt,
        filtered=bool(query),
        older=_query(query, before=excerpt.older),
        begins=begins,
    )
    values = {
        "criteria": criteria,
        "kinds": {"": "everything", **{kind: f"{kind}: {meaning}" for kind, meaning in KINDS.items()}},
        "scopes": list(context.engine.scopes()),
        "query": _query(query),
        "first": "before" not in request.query,
    }
    return PageView(title="History", template="history.html", values=values, fragments=(lines,))


async def export(context: ConsoleContext, request: PageRequest) -> Response:
    """Return all matching lines as a file, written while the journal is read."""
    # The routes allow only paths with a known format.
    file_format = FORMATS[request.path.rpartition(".")[2]]
    entries = read_all(context.engine.store, _filter(request))
    name = request.path.rpartition("/")[2]
    headers = {"Content-Disposition": f"attachment; filename={name}"}
    return StreamingResponse(file_format.write(entries), media_type=file_format.media_type, headers=headers)


def _filter(request: PageRequest) -> HistoryFilter:
    get = request.query.get
    return HistoryFilter(
        scope=get("scope"),
        machine=get("machine"),
        event=get("event"),
        who=get("who"),
        kind=get("kind"),
        text=get("text"),
    )


def _before(request: PageRequest) -> int | None:
    text = request.query.get("before")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise InvalidError("before", f"must be a line number, not {text[:40]!r}")
    return int(text)


def _query(members: Mapping[str, str], before: int | None = None) -> str:
    more = {} if before is None else {"before": str(before)}
    return urlencode({**members, **more})
