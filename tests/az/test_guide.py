"""All commands of the guide, run in order in one shell."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.az.tool import PATIENCE, Trap, environment
from tests.cli.server import FAIRWARNING, call, until
from tests.needs import lack

pytestmark = [pytest.mark.az, pytest.mark.timeout(600)]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "use-az-cli.md"
PORTS = (8080, 8101, 8443)
OPERATOR = "http://127.0.0.1:8080"
SERVER = "fairwarning up "
OVER = "that was it:"


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), re.M | re.S)
    return found


def commands() -> list[str]:
    return [line[2:] for block in blocks("console") for line in block.splitlines() if line[:2] == "$ "]


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
def shell(variables: dict[str, str]) -> Iterator[Shell]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["bash"], env=variables, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield Shell(process)
        finally:
            process.kill()


@contextmanager
def server(command: str, ready: Path) -> Iterator[None]:
    """Run the server of the guide during the block."""
    words = [*FAIRWARNING, *command.split()[1:], "--ready-file", str(ready)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: ready.exists() or process.poll() is not None, "up is ready")
            assert process.poll() is None, "up has ended"
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def waiting() -> list[str]:
    """Return the ids of the events that are not approved."""
    events = json.loads(call("events", "--json", url=OPERATOR).stdout)
    return [str(event["id"]) for event in events if event["status"] == "Scheduled"]


def meant(command: str) -> str:
    """Return a command with the event id that a reader would type, once there is an event."""
    if "EVENT" not in command:
        return command
    until(lambda: len(waiting()) == 1, "the event is announced")
    return command.replace("EVENT", waiting()[0])


def test_the_guide_is_true_from_its_first_command_to_its_last(
    tmp_path: Path, programs: Path, proxy: Trap
) -> None:
    if taken := [port for port in PORTS if not free(port)]:
        lack(f"something listens on {taken}; the guide's session needs its default ports")
    first, *rest = commands()
    said: dict[str, str] = {}

    with server(first, tmp_path / "ready"), shell(environment(tmp_path, programs, proxy, OPERATOR)) as user:
        for command in rest:
            said[command] = user.type(meant(command))
        program = tmp_path / "program.py"
        program.write_text(blocks("python")[0])
        printed = user.type(f"{sys.executable} {program}")

    assert first.startswith(SERVER)
    assert "myScaleSet_0" in said["fairwarning vms"]
    left = next(text for command, text in said.items() if command.startswith("az vmss list-instances"))
    assert re.findall(r"myScaleSet_\d", left) == ["myScaleSet_1"]
    assert printed == "web"


def test_the_guide_has_commands_to_run() -> None:
    assert len(commands()) >= 15
