"""A reader who follows the page of a tool: one server, one shell, all files and commands of the page."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.az.tool import environment as shell_variables
from tests.az.tool import trap
from tests.cli.server import Row, up
from tests.guides import shell, with_event
from tests.pages import Page
from tools.environments import environment

SERVER = "fairwarning up "
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The output of each command, and the fleet after the last one."""

    printed: list[tuple[str, str]]
    history: list[Row]
    machines: list[str]

    def output(self, words: str) -> str:
        """Return the output of the last command with these words."""
        return next(text for command, text in reversed(self.printed) if words in command)

    def steps(self, kind: str) -> list[tuple[str, str, list[str]]]:
        """Return the steps of a kind in the history: type, who, and the machines."""
        return [(row["type"], row["by"], row["resources"]) for row in self.history if row["kind"] == kind]


def programs(name: str) -> Path:
    """Return the folder of a tool's programs, which are installed once per set of versions."""
    return environment(HERE / f"{name}.txt")


def follow(page: Page, home: Path, programs: Path, replaced: Mapping[str, str] | None = None) -> Session:
    """Run the commands of a page in order, each of which must succeed; nothing may leave this machine."""
    for name, text in page.files().items():
        (home / name).write_text(text)
    start, *commands = page.commands()
    printed: list[tuple[str, str]] = []
    with (
        trap() as proxy,
        start.running() as first,
        up(home, *first.removeprefix(SERVER).split()) as server,
    ):
        operator = server.ready["operator"]
        with shell(shell_variables(home, programs, proxy, operator), home) as user:
            for step in commands:
                try:
                    with step.running() as command:
                        for words, others in (replaced or {}).items():
                            command = command.replace(words, others)
                        printed.append((command, user.type(with_event(command, operator))))
                except AssertionError as problem:
                    so_far = "\n".join(f"$ {line}\n{text}" for line, text in printed)
                    raise AssertionError(f"{so_far}\n{problem}\n{user.type('true')}") from problem
        machines = [machine["name"] for machine in json.loads(server.tell("vms", "--json"))]
        session = Session(printed=printed, history=server.history(), machines=machines)
    assert proxy.called == []
    return session
