"""The examples of the guides are run: files, command lines, and the CI steps in an empty environment."""

import re
import shlex
import subprocess
import venv
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairwarning.cli import cli
from fairwarning.testing import Fleet
from tests.pages import Page
from tests.plugin.projects import GUIDE, guide_files, run, write

ROOT = Path(__file__).parents[2]
ELSEWHERE = Page("docs/guides/macos-and-windows.md")


def test_the_files_of_the_guide_pass(tmp_path: Path) -> None:
    write(tmp_path, guide_files())

    done = run(tmp_path)

    assert set(guide_files()) == {"drainer.py", "test_drainer.py", "test_with_unittest.py"}
    assert "6 passed" in done.stdout, done.stdout


def test_the_example_without_pytest_needs_no_pytest(tmp_path: Path) -> None:
    write(tmp_path, guide_files())

    done = run(tmp_path, "test_with_unittest", module="unittest")

    assert done.returncode == 0, done.stderr


def test_the_guide_names_every_call() -> None:
    calls = {name for name in vars(Fleet) if not name.startswith("_")} - {"open", "close", "make"}

    assert {name for name in calls if f"`{name}" not in GUIDE.read_text()} == set()


@pytest.mark.fairwarning(scale_set=1)
@pytest.mark.needs("curl")
@pytest.mark.runs("docs/guides/macos-and-windows.md")
def test_the_proxy_line_is_answered(fairwarning: Fleet) -> None:
    (command,) = ELSEWHERE.commands()

    with command.running() as line:
        here = line.replace("http://127.0.0.1:8101", fairwarning.endpoint("web_0"))
        done = subprocess.run(here, shell=True, text=True, capture_output=True, timeout=30)

    assert done.stdout == '{"DocumentIncarnation":1,"Events":[]}', done.stderr


@pytest.mark.slow
def test_the_server_of_the_compose_network_takes_its_options() -> None:
    (words,) = re.findall(r"fairwarning (up .*?)\"", ELSEWHERE.text, re.DOTALL)

    # This address does not exist here; all options before it were accepted.
    done = CliRunner().invoke(cli, [*shlex.split(words), "--port-base", "0"])

    assert "cannot listen on 169.254.169.254:80" in done.output


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_steps_of_ci_pass_in_an_empty_environment(tmp_path: Path) -> None:
    install, test = re.findall(r"- run: python -m (.*)$", GUIDE.read_text(), re.MULTILINE)
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    write(project, {name: text for name, text in guide_files().items() if "unittest" not in name})
    (project / ".fairwarning").symlink_to(ROOT)
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    pins = ["--quiet", "--constraint", str(ROOT / "constraints.txt")]

    subprocess.run([python, "-m", *install.split(), *pins], cwd=project, check=True)
    done = run(project, python=python, module=test)

    assert "5 passed" in done.stdout, done.stdout
