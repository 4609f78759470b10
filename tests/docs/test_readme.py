"""Every command of the README is run, in order, as a newcomer would."""

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from tests.needs import lack

ROOT = Path(__file__).parents[2]
PORTS = (8080, 8101, 8443)
PATIENCE = 60.0

#: What runs until it is stopped.
ENDLESS = ("./dev up", "python3 examples/safe_handler.py")


def commands() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line[:2] == "$ "]


def environment() -> dict[str, str]:
    """Leave the address of any other server out, and put the tested package first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRWARNING")}
    path = os.pathsep.join((sysconfig.get_path("scripts"), kept["PATH"]))
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}


def literally(command: str) -> str:
    """Return the command as it stands; where ``./dev`` has not installed anything, without its first step."""
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
    """A command that goes on, and what it has said so far."""

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

    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, pattern: str) -> str:
        """Return what was said that fits the pattern, once it has been."""
        for _ in range(int(PATIENCE * 20)):
            if found := re.search(pattern, self.said(), re.MULTILINE):
                return found[0]
            assert self.process.poll() is None, self.said()
            Event().wait(0.05)
        raise AssertionError(f"still waiting; so far:\n{self.said()}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextmanager
def newcomer(folder: Path) -> Iterator[dict[str, Running]]:
    running: dict[str, Running] = {}
    try:
        yield running
    finally:
        for one in running.values():
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait()


def free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.needs("curl")
def test_the_readme_is_true_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    if taken := [port for port in PORTS if not free(port)]:
        lack(f"something listens on {taken}; the README's session needs its default ports")

    with newcomer(tmp_path) as running:
        for number, command in enumerate(commands()):
            if not command.startswith(ENDLESS):
                run(command)
            else:
                running[command] = Running(command, tmp_path / f"{number}.log")
            if command == "./dev up":
                running[command].wait_for("Ctrl-C stops")
            if command == "./dev cause restart web_0":
                run(running["./dev up"].wait_for(r"^curl .*StartRequests.*$"))
                running["./dev up"].wait_for("Reboot of web_0 is over")
            if command == "./dev cause restart web_1":
                running["./dev up"].wait_for("Reboot of web_1 is approved by web_1")
        assert running["./dev up"].stop() == 0


def test_the_readme_has_commands_to_run() -> None:
    assert len(commands()) >= 10
    assert {"./dev demo", "./dev up"} <= set(commands())
