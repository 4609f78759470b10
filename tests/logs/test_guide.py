"""The guide lists every line of the log, and no other, and its commands log as shown."""

import ast
import contextlib
import os
import pty
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import fairwarning
from fairwarning.core.changes import EventMilestone
from fairwarning.logs.journal import ACTION_EVENTS
from tests.cli.server import until, up
from tests.forked import Forked
from tests.pages import Page

GUIDE = Page("docs/guides/logs.md")
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
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", GUIDE.text, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"\w+", row)]

    sources = (path for path in PACKAGE.rglob("*.py") if "agent" not in path.parts)
    names = {name for source in sources for name in logged_names(source)}
    assert sorted(listed) == sorted({*names, *STEPS, *ACTION_EVENTS.values(), "message"})


class Terminal:
    """A terminal in which a server writes its stderr."""

    def __init__(self) -> None:
        self._screen, self._line = pty.openpty()
        self._text = b""
        os.set_blocking(self._screen, False)

    def start(self, words: Sequence[str], stdout: Path, stderr: Path) -> Forked:
        """Start a server in the terminal."""
        return Forked(words, stdout, Path(os.ttyname(self._line)))

    def shows(self, pattern: str) -> bool:
        """Whether the terminal shows a line that matches."""
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self._screen, 1 << 16)
        return re.search(pattern, self._text.decode(), re.MULTILINE) is not None

    def close(self) -> None:
        os.close(self._screen)
        os.close(self._line)


@pytest.mark.runs("docs/guides/logs.md")
def test_the_commands_of_the_guide_log_text_on_a_terminal_and_json_in_a_file(tmp_path: Path) -> None:
    on_terminal, to_file = GUIDE.commands()

    with contextlib.closing(Terminal()) as terminal, on_terminal.running() as command:
        words = command.removeprefix("fairwarning up ").split()
        with up(tmp_path, "--no-arm", "--start-enabled", *words, start=terminal.start) as server:
            server.cause("restart", "web_0")
            until(lambda: terminal.shows(r"^\S+Z info event_scheduled .*type=Reboot scope=web"), "the text")
    with to_file.running() as command:
        assert command == "fairwarning up 2> up.log"  # as every server of the tests is started
        with up(tmp_path, "--no-arm", "--start-enabled") as server:
            server.cause("restart", "web_0")
            until(lambda: '"event":"event_scheduled"' in server.complained(), "the JSON")
