"""What the page of the examples says about them is true."""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.check.sandboxed import skip_without_sandbox
from tests.pages import Page

ROOT = Path(__file__).parents[2]
PAGE = Page("examples/README.md")


def run(command: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path}
    return subprocess.Popen(command.split(), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def verdicts(output: str) -> list[str]:
    """Return the scenarios with their verdicts, and the rules that were broken, without the times."""
    return sorted(re.findall(r"^\S+ +\w+|\([A-Z]-.*\)$", output, re.MULTILINE))


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.rule("C-05", "C-06")
@pytest.mark.runs("examples/README.md")
def test_the_safe_example_is_safe_and_the_unsafe_one_is_not() -> None:
    first, second = PAGE.commands()

    with first.running() as check_safe, second.running() as check_unsafe:
        safe, unsafe = run(check_safe), run(check_unsafe)
        passed, failed = safe.communicate(timeout=100)[0], unsafe.communicate(timeout=100)[0]

    skip_without_sandbox(passed)
    (shown,) = PAGE.code("text")
    assert (safe.returncode, verdicts(passed)) == (0, ["drain-fails    safe", "other-machine  safe"])
    assert (unsafe.returncode, verdicts(failed)) == (1, verdicts(shown))


def test_every_example_has_its_line_on_the_page() -> None:
    listed = set(re.findall(r"^\| \[`(.*?)/?`\]", PAGE.text, re.MULTILINE))
    examples = {path.name for path in (ROOT / "examples").iterdir()}

    assert listed == examples - {"README.md", "scenarios", "__pycache__"}


@pytest.mark.parametrize("name", ["safe_handler.py", "unsafe_handler.py"])
def test_an_example_can_be_read_in_one_go(name: str) -> None:
    lines = (ROOT / "examples" / name).read_text().splitlines()

    assert sum(bool(line) for line in lines) <= 61
