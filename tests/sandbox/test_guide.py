"""The commands of the guide work as they stand."""

import shlex

import pytest

from tests.needs import PACKAGES, need
from tests.pages import Page
from tests.sandbox.programs import Exec, program_user

COMMANDS = Page("docs/guides/try-your-own-software.md").commands()


def run(redirecting: Exec, command: str) -> None:
    """Run a command of the guide, which must succeed."""
    _, _, vm, name, *rest = shlex.split(command)
    program = rest[rest.index("--") + 1 :]
    need(*(word for word in program if word in PACKAGES))
    program = [program_user().interpreter if word == "python3" else word for word in program]
    done = redirecting.run(*program, isolate="--isolate" in rest, vm=name)
    assert (done.code, vm) == (0, "--vm"), done.stderr


@pytest.mark.slow
@pytest.mark.runs("docs/guides/try-your-own-software.md")
def test_the_commands_of_the_guide_work(redirecting: Exec) -> None:
    for command in COMMANDS:
        with command.running() as text:
            run(redirecting, text)

    assert len(COMMANDS) == 3
