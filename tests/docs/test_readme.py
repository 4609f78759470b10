"""Every command of the README runs, in order, and prints what the README shows."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from urllib.request import urlopen

import pytest

from tests.needs import lack
from tests.pages import Command, Page

ROOT = Path(__file__).parents[2]
PORTS = (8080, 8101, 8443)
PATIENCE = 60.0
HISTORY = "http://127.0.0.1:8080/fleet/v1/history"

#: Commands that run until they are stopped.
ENDLESS = ("./dev up", "python3 examples/safe_handler.py")


@dataclass(frozen=True)
class Step:
    """A command of the README, and the output that the README shows for it."""

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
        """Whether the README shows ``text``; three dots stand for anything."""
        return re.match(".*".join(map(re.escape, self.output.strip().split("…"))), text) is not None


def steps() -> list[Step]:
    page = Page("README.md")
    outputs = re.findall(r"^\$ .*\n((?:(?!\$ ).*\n)*)", "".join(page.code("console")), re.MULTILINE)
    return [Step(command, output) for command, output in zip(page.commands(), outputs, strict=True)]


def environment() -> dict[str, str]:
    """Return the environment without settings of other servers, with the tested package first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRWARNING")}
    path = os.pathsep.join((sysconfig.get_path("scripts"), kept["PATH"]))
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}


def literally(command: str) -> str:
    """Return the command as written; where ``./dev`` has installed nothing, run the package directly."""
    if (ROOT / ".venv/.stamp-test").exists():
        return command
    return command.replace("./dev", f"{sys.executable} -m fairwarning", 1)


def run(command: str) -> str:
    done = subprocess.run(
        literally(command),
        shell=True,
        cwd=ROOT,
        env=environment(),
        text=True,
        capture_output=True,
        timeout=90,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class Running:
    """A command that goes on, and its output so far."""

    def __init__(self, command: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                literally(command).split(),
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
@pytest.mark.runs("README.md")
@pytest.mark.runs("docs/index.md")
def test_the_readme_is_true_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    for _ in range(int(PATIENCE * 20)):  # another run of the tests may end soon
        if not (taken := [port for port in PORTS if not free(port)]):
            break
        Event().wait(0.05)
    else:
        lack(f"something listens on {taken}; the README's session needs its default ports")

    with running_commands() as running:
        for number, step in enumerate(steps()):
            with step.running() as command:
                if command.startswith(ENDLESS):
                    running[command] = Running(command, tmp_path / f"{number}.log")
                else:
                    assert step.printed(run(command))
            if command == "./dev up":
                running[command].wait_for("Ctrl-C")
            if '"EventType":"Reboot"' in step.output:
                run(running["./dev up"].wait_for(r"^curl .*StartRequests.*$"))
                wait_for_history("finished", "web_0")
            if command == "./dev cause restart web_1":
                wait_for_history("approved", "web_1")
        assert running["./dev up"].stop() == 0


def test_the_readme_shows_the_output_of_its_polls() -> None:
    polls = [step for step in steps() if "/metadata/scheduledevents" in step.text]

    assert [bool(step.output) for step in polls] == [True, True]


def test_the_readme_has_commands_to_run() -> None:
    assert len(steps()) >= 10
    assert {"./dev demo", "./dev up"} <= {step.text for step in steps()}
