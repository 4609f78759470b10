"""The page about installation is true: what it builds can be installed, upgraded and removed as it says."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import fairwarning
from tests.pages import Command, Page
from tools.environments import environment

ROOT = Path(__file__).parents[2]
PAGE = Page("docs/installation.md")
INSTALLERS = Path(__file__).with_name("installers.txt")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

#: Commands that run in the checkout; what they build goes to another folder, where the other commands run.
CHECKOUT = ("./dev", "python3 packaging/")
#: ``./dev`` would install the checkout, which the tests have installed already.
REPLACED = {
    "./dev release": f"{sys.executable} -m tools.release --dist DIST",
    "build_agent.py": "build_agent.py DIST/fairwarning-agent.pyz",
    "/path/to/fairwarning/dist": "DIST",
}


class Reader:
    """Somebody who types the commands of the page, with a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.programs = [environment(INSTALLERS), self.home / ".local" / "bin"]

    def type(self, command: Command) -> str:
        """Run a command of the page, which must succeed; return its output."""
        with command.running() as text:
            if text == ". .venv/bin/activate":
                self.programs.append(Path(sysconfig.get_path("scripts")))
                return ""
            return self.run(text)

    def run(self, text: str) -> str:
        """Run a command that must succeed; return its output."""
        in_checkout = text.startswith(CHECKOUT)
        for name, here in {**REPLACED, "DIST": str(self.folder / "dist")}.items():
            text = text.replace(name, here)
        done = subprocess.run(
            text,
            shell=True,
            cwd=ROOT if in_checkout else self.folder,
            env=self._environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        ours = ("PYTHON", "VIRTUAL_ENV", "FAIRWARNING", "PIPX", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        path = os.pathsep.join((*map(str, self.programs), kept["PATH"]))
        # What is published today must not break this test.
        pins = str(ROOT / "constraints.txt")
        own = {"HOME": str(self.home), "PATH": path, "PIP_CONSTRAINT": pins, "UV_CONSTRAINT": pins}
        # uv brings authorities of its own; the machine may reach the index through another one.
        return {"SSL_CERT_FILE": CERTIFICATES} | kept | own


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.needs("git")
@pytest.mark.runs("docs/installation.md")
def test_what_the_page_builds_can_be_installed_upgraded_and_removed(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    (pytest_line,) = PAGE.commands("^pip install pytest")
    rest = [command for command in PAGE.commands() if command != pytest_line]

    outputs = {command.text: reader.type(command) for command in rest}
    venv.create(tmp_path / "project", with_pip=True)
    reader.programs.insert(0, tmp_path / "project" / "bin")
    reader.type(pytest_line)

    assert fairwarning.__version__ in outputs["fairwarning --version"]
    assert fairwarning.__version__ in outputs["~/fairwarning/bin/fairwarning --version"]
    assert fairwarning.__version__ in outputs["dist/fairwarning-agent.pyz --version"]
    assert "fixtures defined from fairwarning_pytest" in reader.run("pytest --fixtures")
    assert not list((tmp_path / "home" / ".local" / "bin").iterdir())


def test_the_page_names_the_oldest_python() -> None:
    project = (ROOT / "pyproject.toml").read_text()

    assert 'requires-python = ">=3.11"' in project
    assert "Python 3.11 or newer" in PAGE.text
