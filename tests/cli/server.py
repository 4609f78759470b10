"""``fairwarning up`` in a process of its own, and the commands that use it."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol, TypedDict

from click.testing import CliRunner

from fairwarning.cli import cli
from tests.forked import Forked

FAIRWARNING = (sys.executable, "-W", "error", "-m", "fairwarning")

#: Nothing listens on this port.
NOWHERE = "http://127.0.0.1:1"

#: How often a condition is looked at, and how many times.
LOOK, LOOKS = 0.05, 1200


class Row(TypedDict):
    """A line of ``history --json``."""

    at: str
    kind: str
    event: str
    type: str
    by: str
    resources: list[str]
    reason: str


class Shown(TypedDict):
    """An event as a guest or an operator reads it."""

    id: str
    type: str
    status: str
    resources: list[str]


class Ready(TypedDict):
    """The content of ``--ready-file``."""

    operator: str
    arm: str
    ca: str
    metadata: dict[str, str]
    shared: list[str]
    alternatives: dict[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The exit code and the output of a command."""

    code: int
    stdout: str
    stderr: str


class Process(Protocol):
    """The part of a process that tests use."""

    @property
    def pid(self) -> int:
        """Return its number."""

    def poll(self) -> int | None:
        """Return the exit code, if it has ended."""

    def send_signal(self, sig: int, /) -> None:
        """Send a signal, unless it has ended."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, once it has ended."""


def fresh(words: Sequence[str], stdout: Path, stderr: Path) -> Process:
    """Start a command as from a terminal, with an interpreter of its own."""
    with stdout.open("wb") as out, stderr.open("wb") as err:
        return subprocess.Popen([*FAIRWARNING, *words], stdout=out, stderr=err)


def run(*words: str, url: str = NOWHERE) -> Done:
    """Run a command to its end, in a process of its own."""
    environment = {**os.environ, "FAIRWARNING_URL": url}
    done = subprocess.run([*FAIRWARNING, *words], capture_output=True, text=True, timeout=60, env=environment)
    return Done(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def call(*words: str, url: str = NOWHERE) -> Done:
    """Run a command to its end, in this process: quicker, and with the same outcome."""
    done = CliRunner().invoke(cli, words, env={"FAIRWARNING_URL": url}, prog_name="fairwarning")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(code=done.exit_code, stdout=done.stdout, stderr=done.stderr)


def free_port(span: int = 1) -> int:
    """Return the first of ``span`` consecutive free ports of loopback.

    The system gives none of them to clients, so that no test that runs at the same time takes one by chance.
    """
    chance = random.SystemRandom()
    for _ in range(100):
        base = chance.randrange(20_000, 32_000 - span)
        if all(map(_free, range(base, base + span))):
            return base
    raise AssertionError(f"no {span} free ports in a row")


def _free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def until(holds: Callable[[], bool], what: str, looks: int = LOOKS) -> None:
    """Return once ``holds`` is true; give up after twenty seconds, or so many looks."""
    for _ in range(looks):
        if holds():
            return
        Event().wait(LOOK)
    raise AssertionError(f"not in time: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server, from outside."""

    process: Process
    ready: Ready
    scratch: Path

    def command(self, *words: str) -> Done:
        """Run a command against this server."""
        return call(*words, url=self.ready["operator"])

    def tell(self, *words: str) -> str:
        """Return what a command prints; it must succeed."""
        done = self.command(*words)
        assert done.code == 0, done.stderr
        return done.stdout

    def cause(self, *words: str) -> list[Shown]:
        """Cause something and return its events."""
        events: list[Shown] = json.loads(self.tell("cause", *words, "--json"))
        return events

    def history(self) -> list[Row]:
        """Return what has happened so far."""
        rows: list[Row] = json.loads(self.tell("history", "--json"))
        return rows

    def printed(self) -> str:
        """Return what ``up`` has printed on stdout so far."""
        return (self.scratch / "stdout").read_text()

    def complained(self) -> str:
        """Return what ``up`` has printed on stderr so far."""
        return (self.scratch / "stderr").read_text()

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """Ask the server to stop and return its exit code."""
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


@contextmanager
def up(
    scratch: Path, *words: str, start: Callable[[Sequence[str], Path, Path], Process] = Forked
) -> Iterator[Server]:
    """Give a server on free ports; ends it if the test did not."""
    ready = scratch / "ready.json"
    ready.unlink(missing_ok=True)  # a server that was killed has left it behind
    ports = () if "--port-base" in words else ("--port-base", "0")
    arguments = ["up", *ports, "--ready-file", str(ready), *words]
    process = start(arguments, scratch / "stdout", scratch / "stderr")
    try:
        until(lambda: ready.exists() or process.poll() is not None, "up is ready")
        assert process.poll() is None, (scratch / "stderr").read_text()
        said: Ready = json.loads(ready.read_text())
        yield Server(process=process, ready=said, scratch=scratch)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
