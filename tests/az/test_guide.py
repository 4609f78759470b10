"""All commands of the guide, run in order in one shell."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.az.tool import PATIENCE, Trap, environment
from tests.cli.server import FAIRWARNING, until
from tests.guides import shell, with_event
from tests.needs import lack
from tests.pages import Page

pytestmark = [pytest.mark.az, pytest.mark.timeout(600)]

GUIDE = Page("docs/guides/use-az-cli.md")
PORTS = (8080, 8101, 8443)
OPERATOR = "http://127.0.0.1:8080"
SERVER = "fairwarning up "


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


@pytest.mark.runs("docs/guides/use-az-cli.md")
def test_the_guide_is_true_from_its_first_command_to_its_last(
    tmp_path: Path, programs: Path, proxy: Trap
) -> None:
    if taken := [port for port in PORTS if not free(port)]:
        lack(f"something listens on {taken}; the guide's session needs its default ports")
    first, *rest = GUIDE.commands()
    said: dict[str, str] = {}

    with (
        first.running() as start,
        server(start, tmp_path / "ready"),
        shell(environment(tmp_path, programs, proxy, OPERATOR)) as user,
    ):
        for step in rest:
            with step.running() as command:
                said[command] = user.type(with_event(command, OPERATOR))
        program = tmp_path / "program.py"
        program.write_text(GUIDE.code("python")[0])
        printed = user.type(f"{sys.executable} {program}")

    assert start.startswith(SERVER)
    assert "myScaleSet_0" in said["fairwarning vms"]
    left = next(text for command, text in said.items() if command.startswith("az vmss list-instances"))
    assert re.findall(r"myScaleSet_\d", left) == ["myScaleSet_1"]
    assert printed == "web"


def test_the_guide_has_commands_to_run() -> None:
    assert len(GUIDE.commands()) >= 15
