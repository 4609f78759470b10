"""Installs the distributions as users do, in empty environments, and tries what they promise there."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.release import ROOT, Release, ReleaseError
from tools.release.programs import Command, run

#: The oldest minor version of Python 3 that the package supports.
OLDEST = 11

#: A test as users write it: the plugin is there because the package is installed.
_TEST = """\
import urllib.request

import pytest


@pytest.mark.fairwarning(scale_set=2)
def test_a_restart_is_announced(fairwarning):
    event = fairwarning.restart("web_0")
    url = fairwarning.endpoint("web_0") + "/metadata/scheduledevents?api-version=2020-07-01"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Metadata": "true"})) as answer:
        assert event.id in answer.read().decode()
"""

_ENTRY_POINTS = """\
from importlib.metadata import distribution

print(*sorted(entry.name for entry in distribution("fairwarning").entry_points if entry.load()))
"""

#: The trial knows nothing of this checkout, and reaches its server without the proxy of this machine.
_SURROUNDINGS = {"PYTHONPATH": "", "NO_PROXY": "*", "no_proxy": "*"}


def pythons() -> dict[str, Path]:
    """Return the oldest Python that the package supports, and the newest on this machine, by version."""
    candidates = sorted(_candidates(), key=lambda candidate: candidate[0], reverse=True)
    newest = _first_that_works([path for minor, path in candidates if minor > OLDEST])
    oldest = _first_that_works([path for minor, path in candidates if minor == OLDEST])
    return {**oldest, **newest}


def obstacle() -> str | None:
    """Return which Python this machine lacks for trying the distributions out, if any."""
    if any(version.startswith(f"3.{OLDEST}.") for version in pythons()):
        return None
    return f"python3.{OLDEST} with venv (Debian 12: package python3-venv)"


def _candidates() -> Iterator[tuple[int, Path]]:
    """Yield the minor version and the path of each Python on the PATH and under pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in (*map(Path, os.get_exec_path()), *pyenv.glob("versions/3.*/bin")):
        for path in sorted(folder.glob("python3.*")):
            if match := re.fullmatch(r"python3\.(\d+)", path.name):
                yield int(match[1]), path


def _first_that_works(paths: list[Path]) -> dict[str, Path]:
    """Return the first Python that can make environments, by version; a shim of pyenv may not even run."""
    for path in paths:
        code = "import ensurepip, platform, venv; print(platform.python_version())"
        try:
            done = subprocess.run([path, "-c", code], capture_output=True, text=True)
        except OSError:
            continue
        if done.returncode == 0:
            return {done.stdout.strip(): path}
    return {}


def install(
    release: Release, folder: Path, distribution: Path | str, *more: str, base: Path = Path(sys.executable)
) -> Path:
    """Install a distribution and more packages into an empty environment; return its Python."""
    run(release, [base, "-m", "venv", "--without-pip", folder])
    python = folder / "bin" / "python"
    pip: Command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-input"]
    run(release, [*pip, "--constraint", ROOT / "constraints.txt", distribution, *more])
    return python


def try_out(release: Release, base: Path, distribution: Path) -> None:
    """Install a distribution, and try its commands, its entry points and its plugin for pytest."""
    with tempfile.TemporaryDirectory() as scratch:
        python = install(release, Path(scratch, "installed"), distribution, "pytest", base=base)
        program = python.with_name("fairwarning")
        promises: list[tuple[Command, str]] = [
            ([program, "--version"], f"fairwarning {release.version}\n"),
            ([python, "-m", "fairwarning", "--version"], f"fairwarning {release.version}\n"),
            ([program, "agent", "--version"], f"fairwarning-agent {release.version}\n"),
            ([python, "-c", _ENTRY_POINTS], "fairwarning fairwarning\n"),
        ]
        for command, expected in promises:
            printed = run(release, command, cwd=Path(scratch), environment=_SURROUNDINGS)
            if printed != expected:
                raise ReleaseError(f"{distribution.name} on {base}: {command[1:]} printed {printed!r}")
        Path(scratch, "test_plugin.py").write_text(_TEST)
        run(release, [python, "-m", "pytest", "-q"], cwd=Path(scratch), environment=_SURROUNDINGS)
