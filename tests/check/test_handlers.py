"""The handlers in four languages are safe, and the guide that shows them is true."""

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest

from fairwarning.check.scenario import standard
from tests.check.sandboxed import skip_without_sandbox
from tests.pages import Page

ROOT = Path(__file__).parents[2]
PAGE = Page("docs/guides/write-a-handler.md")
HANDLERS = [ROOT / "examples" / "safe_handler.py", *sorted((ROOT / "examples" / "handlers").iterdir())]
LONGEST = {".cs": 135}
ASSEMBLIES = ("/usr/lib/mono/4.5/System.Net.Http.dll", "/usr/lib/mono/4.5/System.Runtime.Serialization.dll")


def run(command: str, folder: Path) -> str:
    """Run a command of the guide, which must succeed, and return its output."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    for _ in range(2):  # scenarios last a few real seconds, which a busy machine may take from a handler
        done = subprocess.run(
            shlex.split(command),
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        skip_without_sandbox(done.stdout)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(
            r"safe_handler\.py",
            id="Python",
            marks=pytest.mark.runs("docs/guides/write-a-handler.md", r"safe_handler\.py"),
        ),
        pytest.param(
            r"handler\.sh",
            id="shell",
            marks=[
                pytest.mark.runs("docs/guides/write-a-handler.md", r"handler\.sh"),
                pytest.mark.needs("curl", "jq"),
            ],
        ),
        pytest.param(
            r"handler\.mjs",
            id="Node",
            marks=[
                pytest.mark.runs("docs/guides/write-a-handler.md", r"handler\.mjs"),
                pytest.mark.needs("node"),
            ],
        ),
        pytest.param(
            r"Handler\.exe",
            id="C#",
            marks=[
                pytest.mark.runs("docs/guides/write-a-handler.md", r"Handler\.exe"),
                pytest.mark.needs("mcs", "mono", *ASSEMBLIES),
            ],
        ),
    ],
)
def test_a_handler_is_safe_in_every_scenario(handler: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    for command in PAGE.commands(handler):
        with command.running() as text:
            output = run(text, tmp_path)

    (last_line,) = PAGE.code("text")
    assert output.endswith(last_line)
    assert last_line == f"{len(standard())} scenarios: {len(standard())} safe\n"


@pytest.mark.parametrize("handler", [pytest.param(path, id=path.name) for path in HANDLERS])
def test_the_guide_shows_a_handler_as_it_is(handler: Path) -> None:
    assert PAGE.files()[handler.name] == handler.read_text()
    assert f"`{handler.relative_to(ROOT)}`" in PAGE.text


def test_the_guide_checks_every_handler() -> None:
    assert len(PAGE.commands("^fairwarning check")) == len(HANDLERS) == len(PAGE.files())


@pytest.mark.parametrize("handler", [pytest.param(path, id=path.name) for path in HANDLERS])
def test_a_handler_can_be_read_in_one_go(handler: Path) -> None:
    lines = handler.read_text().splitlines()

    assert sum(bool(line) for line in lines) <= LONGEST.get(handler.suffix, 65)


def test_the_guide_names_rules_that_exist() -> None:
    named = set(re.findall(r"\b[A-Z]-\d+\b", PAGE.text))
    rules = (ROOT / "docs" / "rules.md").read_text()

    assert len(named) > 10
    assert [rule for rule in sorted(named) if f"\n| {rule} |" not in rules] == []
