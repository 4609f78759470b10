"""Every command of the README runs, in order, and prints what the README shows."""

import json
import os
import re
import signal
import socket
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from urllib.request import urlopen

import pytest

from tests.guides import shell
from tests.needs import lack
from tests.pages import Command, Page
from tests.plugin import projects

ROOT = Path(__file__).parents[2]
README, TRIGGER, TUTORIAL = (
    Page(path) for path in ("README.md", "docs/guides/trigger-events.md", "docs/tutorial.md")
)
PORTS = (8080, 8101, 8443)
PATIENCE = 60.0
HISTORY = "http://127.0.0.1:8080/fleet/v1/history"

#: Commands that run until they are stopped, in a terminal of their own.
ENDLESS = ("./dev up", "python3 examples/safe_handler.py")


@dataclass(frozen=True)
class Step:
    """A command of a page, and the output that the page shows for it."""

    command: Command
    output: str

    @property
    def text(self) -> str:
        """The command as a reader types it."""
        return self.command.text

    @contextmanager
    def running(self) -> Iterator[str]:
        """Yield the text to run, for this command and for the same command on the front page of the site."""
        with ExitStack() as stack:
            for command in (self.command, *Page("docs/index.md").commands()):
                if command.text == self.text:
                    stack.enter_context(command.running())
            yield self.text

    def printed(self, text: str) -> bool:
        """Whether the page shows ``text``; three dots stand for anything."""
        return re.search(".*".join(map(re.escape, self.output.strip().split("…"))), text) is not None


def steps(page: Page, *patterns: str) -> list[Step]:
    blocks = "".join(block.text for block in page.blocks if block.language == "console" and not block.not_run)
    outputs = re.findall(r"^\$ .*\n((?:(?!\$ ).*\n)*)", blocks, re.MULTILINE)
    wanted = page.commands(*patterns)
    return [
        Step(command, output)
        for command, output in zip(page.commands(), outputs, strict=True)
        if command in wanted
    ]


def environment() -> dict[str, str]:
    """Return the environment of a new terminal: without settings of other servers and without ``.venv``."""
    ours = ("FAIRWARNING", "PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    folders = [one for one in kept["PATH"].split(os.pathsep) if one != sysconfig.get_path("scripts")]
    return {**kept, "PATH": os.pathsep.join(folders), "PYTHONUNBUFFERED": "1"}


class Running:
    """A command that goes on, and its output so far."""

    def __init__(self, command: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command.split(),
                cwd=ROOT,
                env=environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self) -> str:
        return self.log.read_text()

    def wait_for(self, pattern: str) -> str:
        """Return the first match of a pattern in the output, once there is one."""
        for _ in range(int(PATIENCE * 20)):
            if match := re.search(pattern, self.output(), re.MULTILINE):
                return match[0]
            assert self.process.poll() is None, self.output()
            Event().wait(0.05)
        raise AssertionError(f"no {pattern!r} in the output:\n{self.output()}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextmanager
def running_commands() -> Iterator[dict[str, Running]]:
    """Give a place for commands that go on; those still running end with the block."""
    running: dict[str, Running] = {}
    try:
        yield running
    finally:
        for command in running.values():
            if command.process.poll() is None:
                command.process.kill()
                command.process.wait()


def free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def history(kind: str, machine: str) -> bool:
    """Whether the history of the default server has a line of this kind about a machine."""
    with urlopen(HISTORY, timeout=PATIENCE) as answer:
        lines = json.load(answer)["history"]
    return any(line["kind"] == kind and line["resources"] == [machine] for line in lines)


def wait_for_history(kind: str, machine: str) -> None:
    for _ in range(int(PATIENCE * 20)):
        if history(kind, machine):
            return
        Event().wait(0.05)
    raise AssertionError(f"{machine} has no line {kind!r} in the history")


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.needs("curl")
@pytest.mark.timeout(400)
@pytest.mark.runs("README.md", "^(?!pip |pytest )")
@pytest.mark.runs("docs/index.md")
@pytest.mark.runs("docs/guides/trigger-events.md")
def test_the_readme_is_true_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    if not (ROOT / ".venv/.stamp-test").exists():
        lack("needs the .venv that ./dev makes")
    for _ in range(int(PATIENCE * 20)):  # another run of the tests may end soon
        if not (taken := [port for port in PORTS if not free(port)]):
            break
        Event().wait(0.05)
    else:
        lack(f"something listens on {taken}; the README's session needs its default ports")

    with running_commands() as running, shell(environment(), ROOT) as second_terminal:
        for number, step in enumerate([*steps(README, "^(?!pip |pytest )"), *steps(TRIGGER)]):
            with step.running() as command:
                if command.startswith(ENDLESS):
                    running[command] = Running(command, tmp_path / f"{number}.log")
                else:
                    assert step.printed(second_terminal.type(command))
            if command == "./dev up":
                running[command].wait_for("Ctrl-C")
            if '"EventType":"Reboot"' in step.output:
                second_terminal.type(running["./dev up"].wait_for(r"^curl .*StartRequests.*$"))
                wait_for_history("finished", "web_0")
            if command == "fairwarning cause restart web_1":
                wait_for_history("approved", "web_1")
        assert running["./dev up"].stop() == 0


def test_the_readme_shows_the_output_of_its_polls() -> None:
    polls = [step for step in steps(README) if "/metadata/scheduledevents" in step.text]

    assert [bool(step.output) for step in polls] == [True, True]


def test_the_readme_ends_with_four_links() -> None:
    *_, end = README.text.split("\n## ")

    assert end.count("](") == 4


def test_the_two_commands_of_the_setup_come_first() -> None:
    first, second, *_ = (command.text for block in README.blocks for command in block.commands())

    assert (first, second) == ("./dev up", "./dev test")


def test_the_test_of_the_readme_passes_with_the_handler_of_the_tutorial(tmp_path: Path) -> None:
    projects.write(tmp_path, README.files() | {"handler.py": TUTORIAL.files()["handler.py"]})

    done = projects.run(tmp_path, "-q", "test_restart.py")

    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.runs("README.md", "^pip ", "^pytest ")
def test_the_fixture_is_installed_as_the_readme_says(tmp_path: Path) -> None:
    projects.write(tmp_path, README.files() | {"handler.py": TUTORIAL.files()["handler.py"]})
    venv.create(tmp_path / "home", with_pip=True)
    variables = {**environment(), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}

    with shell(variables, tmp_path) as terminal:
        terminal.type(". home/bin/activate")
        for step in steps(README, "^pip ", "^pytest "):
            with step.running() as command:
                assert step.printed(terminal.type(command.replace("/path/to/fairwarning", str(ROOT))))
