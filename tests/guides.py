"""Guides: their commands and files, and a shell that runs the commands as a reader would."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.server import LOOKS, call, until

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
OVER = "that was it:"


@dataclass(frozen=True)
class Page:
    """A guide, by its path below ``docs/guides``."""

    path: str

    @property
    def text(self) -> str:
        """The text of the page."""
        return (GUIDES / self.path).read_text()

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of code in a language."""
        found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", self.text, re.M | re.S)
        return found

    def commands(self) -> list[str]:
        """Return the commands that the page tells a reader to type."""
        return [
            line[2:] for block in self.blocks("console") for line in block.splitlines() if line[:2] == "$ "
        ]

    def files(self) -> dict[str, str]:
        """Return the files of the page by name: blocks after a line that ends with a name and a colon."""
        found = re.findall(r"`([\w.-]+)`:\n\n```\w+\n(.*?)^```", self.text, re.M | re.S)
        return dict(found)


class Shell:
    """An interactive shell."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def type(self, command: str) -> str:
        """Run a command, which must succeed, and return its output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{\n{command}\n}} </dev/null; printf '\\n{OVER} %s\\n' $?\n")
        self._process.stdin.flush()
        said: list[str] = []
        for line in self._process.stdout:
            if line.startswith(OVER):
                assert line == f"{OVER} 0\n", f"{command}\n{''.join(said)}"
                return "".join(said).rstrip("\n")
            said.append(line)
        raise AssertionError(f"the shell has ended: {''.join(said)}")


@contextmanager
def shell(variables: Mapping[str, str], folder: Path | None = None) -> Iterator[Shell]:
    """Run a shell during the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["bash"], cwd=folder, env=variables, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield Shell(process)
        finally:
            process.kill()


def pending(operator: str) -> list[str]:
    """Return the ids of the events that are not approved."""
    events = json.loads(call("events", "--json", url=operator).stdout)
    return [str(event["id"]) for event in events if event["status"] == "Scheduled"]


def with_event(command: str, operator: str) -> str:
    """Return a command with the event id that a reader would type, once there is an event."""
    if "EVENT" not in command:
        return command
    # The tool may have to load a hundred libraries first.
    until(lambda: len(pending(operator)) == 1, "the event is announced", 5 * LOOKS)
    return command.replace("EVENT", pending(operator)[0])
