"""The guide lists every line of the log, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import fairwarning
from fairwarning.core.changes import EventMilestone
from fairwarning.logs.journal import ACTION_EVENTS

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "logs.md"
PACKAGE = Path(fairwarning.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception"}

#: A failed or overdue impact has a name of its own.
STEPS = {f"event_{step.value}" for step in EventMilestone} - {"event_failed", "event_overdue"}


def logged_names(source: Path) -> Iterator[str]:
    """Yield the event names in the log calls of a file."""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Call(func=ast.Name("LogMessage" | "_Fact"), args=[name, *_]):
                yield from words(name)
            case ast.Call(func=ast.Attribute(value=ast.Name("log"), attr=level), args=[name, *_]) if (
                level in LEVELS
            ):
                yield from words(name)
            case _:
                pass


def words(name: ast.expr) -> Iterator[str]:
    """Yield the first word of each constant text: both, if a condition chooses between two."""
    match name:
        case ast.Constant(str(text)):
            yield text.split()[0]
        case ast.IfExp(body=body, orelse=orelse):
            yield from words(body)
            yield from words(orelse)
        case _:
            pass


def test_the_guide_lists_every_line_of_the_log_and_no_other() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", GUIDE.read_text(), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"\w+", row)]

    sources = (path for path in PACKAGE.rglob("*.py") if "agent" not in path.parts)
    names = {name for source in sources for name in logged_names(source)}
    assert sorted(listed) == sorted({*names, *STEPS, *ACTION_EVENTS.values(), "message"})
