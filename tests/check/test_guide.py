"""The guide is true: its commands work, its files are read, its tables are those of the types."""

import os
import re
import shlex
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from fairwarning.check.scenario import parse_scenario
from tests.check.reference import tables
from tests.check.sandboxed import skip_without_sandbox
from tests.pages import Page

ROOT = Path(__file__).parents[2]
PAGE = Page("docs/guides/check-your-handler.md")
GUIDE = PAGE.text
AGENT, SCENARIO = PAGE.code("toml")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the guide in a folder with its agent's file and the examples."""
    (folder / "agent.toml").write_text(AGENT)
    (folder / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    done = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    skip_without_sandbox(done.stdout)
    return done


@pytest.mark.slow
@pytest.mark.runs("docs/guides/check-your-handler.md", "--list", "--show", "--explain", "preempt")
def test_the_quick_commands_of_the_guide_work(tmp_path: Path) -> None:
    for number, command in enumerate(PAGE.commands("--list", "--show", "--explain", "preempt")):
        folder = tmp_path / str(number)
        folder.mkdir()
        with command.running() as text:
            done = run(text, folder)
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.runs("docs/guides/check-your-handler.md", "--quick")
def test_our_own_agent_passes_the_whole_suite(tmp_path: Path) -> None:
    (command,) = PAGE.commands("--quick")

    with command.running() as text:
        done = run(text, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_step_of_a_build_works(tmp_path: Path) -> None:
    (command,) = re.findall(r"^  - run: (.*)$", GUIDE, re.MULTILINE)
    handler = tmp_path / "my-handler"
    handler.write_text(
        '#!/bin/sh\nFAIRWARNING_DRAIN="$2" FAIRWARNING_RECOVER="$4" '
        'exec fairwarning agent run --config agent.toml --state "$FAIRWARNING_WORK/state"\n'
    )
    handler.chmod(0o755)

    done = run(command.replace("check", "check preempt", 1), tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "handler.xml").read_text().startswith("<?xml")


def test_the_guide_shows_the_file_that_our_agent_is_checked_with() -> None:
    assert f"# agent.toml\n{(Path(__file__).with_name('agent.toml')).read_text()}" == AGENT


def test_the_scenario_of_the_guide_makes_sense() -> None:
    assert parse_scenario("the guide", tomllib.loads(SCENARIO)).name == "restart-under-load"


@pytest.mark.parametrize("table", tables())
def test_the_guide_lists_what_scenarios_may_say(table: str) -> None:
    assert table in GUIDE
