"""The pages of the documentation: their blocks, their files, and the commands that readers type.

A test that runs commands of a page says so with a mark, and takes each command from ``Page.commands``:

    @pytest.mark.runs("docs/guides/long-poll.md")
    def test_the_page_is_true() -> None:
        for command in Page("docs/guides/long-poll.md").commands():
            with command.running() as text:
                subprocess.run(text, shell=True, check=True)

The mark claims every command of the page; with patterns after the page, only the commands that match one of
them. The test fails unless it has run every command that its mark claims. ``tests/docs/test_commands.py``
demands that every command of every page is claimed by a test, or that a comment before its block gives a
reason:

    <!-- not run: needs a cluster -->
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Blocks in these languages are scripts: each is one command.
SCRIPTS = {"sh", "bash", "zsh", "fish", "shell", "powershell"}

_BLOCK = re.compile(
    r"(?:^[^\n]*`(?P<name>[\w.-]+)`:\n\n)?"
    r"(?:^[ ]*<!--\s*not run:(?P<reason>[^>]*)-->\s*?\n\s*?)?"
    r"^(?P<indent>[ ]*)(?P<fence>`{3,})(?P<language>[^\s`]*)[^\n`]*\n"
    r"(?P<text>.*?)"
    r"^[ ]*(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a page tells a reader to type."""

    page: str
    line: int
    text: str

    @contextmanager
    def running(self) -> Iterator[str]:
        """Yield the text to run; the command counts as run if the block ends without an exception."""
        yield self.text
        _RUN.add(self)


#: The commands that the current test has run.
_RUN: set[Command] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code: its language, and the name of the file that it is, if any."""

    page: str
    line: int
    language: str
    text: str
    name: str | None
    not_run: str | None
    """The reason why no test runs the block."""

    def commands(self) -> Iterator[Command]:
        """Yield the commands of a block that somebody types."""
        if self.language == "console":
            for match in _COMMAND.finditer(self.text):
                line = self.line + 1 + self.text.count("\n", 0, match.start())
                yield Command(self.page, line, match[1])
        elif self.language in SCRIPTS:
            yield Command(self.page, self.line + 1, self.text)


@dataclass(frozen=True)
class Page:
    """A page, by its path in the repository."""

    path: str

    @property
    def text(self) -> str:
        """The text of the page."""
        return (ROOT / self.path).read_text()

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks of the page, in order."""
        text = self.text
        return [
            Block(
                page=self.path,
                line=text.count("\n", 0, match.start("indent")) + 1,
                language=match["language"],
                text=re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
                name=match["name"],
                not_run=match["reason"] and " ".join(match["reason"].split()),
            )
            for match in _BLOCK.finditer(text)
        ]

    def commands(self, *patterns: str) -> list[Command]:
        """Return the commands that tests run: all, or those that match one of the patterns.

        A script that is a file of the page is run by the command that names the file.
        """
        blocks = [block for block in self.blocks if block.not_run is None]
        commands = [command for block in blocks if block.name is None for command in block.commands()]
        for block in blocks:
            if block.name is not None and not any(block.name in command.text for command in commands):
                commands += block.commands()
        return [
            command
            for command in commands
            if not patterns or any(re.search(pattern, command.text) for pattern in patterns)
        ]

    def code(self, language: str) -> list[str]:
        """Return the texts of the blocks in a language."""
        return [block.text for block in self.blocks if block.language == language]

    def files(self) -> dict[str, str]:
        """Return the files of the page by name: blocks after a line that ends with a name and a colon."""
        return {block.name: block.text for block in self.blocks if block.name is not None}


def pages() -> list[Page]:
    """Return every page of the repository."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    return [Page(str(file.relative_to(ROOT))) for file in sorted(files)]


def missed(claims: Iterable[Sequence[str]]) -> list[str]:
    """Return the commands that the current test claims, by page and patterns, and has not run yet."""
    claimed = [command for page, *patterns in claims for command in Page(page).commands(*patterns)]
    return [command.text for command in claimed if command not in _RUN]


class CommandsAreRun:
    """Fails a test that has not run every command that its marks claim."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        _RUN.clear()
        yield
        unrun = missed(mark.args for mark in item.iter_markers("runs"))
        assert not unrun, f"the test claims commands that it did not run: {unrun}"
