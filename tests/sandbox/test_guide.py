"""The commands of the guide work as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from tests.needs import PACKAGES, need
from tests.sandbox.programs import Exec, program_user

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "try-your-own-software.md"
COMMANDS = re.findall(r"^\$ fairwarning (exec .*)$", GUIDE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_works(redirecting: Exec, command: str) -> None:
    _, vm, name, *rest = shlex.split(command)
    program = rest[rest.index("--") + 1 :]
    need(*(word for word in program if word in PACKAGES))
    program = [program_user().interpreter if word == "python3" else word for word in program]

    done = redirecting.run(*program, isolate="--isolate" in rest, vm=name)

    assert (done.code, vm) == (0, "--vm"), done.stderr


def test_the_guide_shows_commands() -> None:
    assert len(COMMANDS) == 3
