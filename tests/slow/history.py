"""Code of earlier releases, from the history of this repository."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cli.server import FAIRWARNING, Process
from tests.needs import lack

ROOT = Path(__file__).parents[2]

#: The commits of the releases: a clone need not have their tags.
FIRST_RELEASE = "b4bc1e3eb3c77fad57ed5951a6e445a2a1570e3e"
RELEASE_0_2 = "2d6cb9f45ac7ecec2074907b8a6be13fd81df7aa"


def git(*words: str) -> bytes:
    """Return the output of a git command; without the history, the test is skipped."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True)
    if done.returncode:
        lack(f"needs the history of the repository: {done.stderr.decode().strip()}")
    return done.stdout


def code_of(commit: str, folder: Path) -> Path:
    """Return a folder with the package, and what builds the agent, as they were at a commit."""
    archive = git("archive", commit, "src", "packaging")
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def environment(code: Path) -> dict[str, str]:
    """Return an environment in which Python finds the package in another tree."""
    return {**os.environ, "PYTHONPATH": str(code / "src")}


def started_from(code: Path) -> Callable[[Sequence[str], Path, Path], Process]:
    """Return what starts the program from another tree."""

    def start(words: Sequence[str], stdout: Path, stderr: Path) -> Process:
        with stdout.open("wb") as output, stderr.open("wb") as errors:
            return subprocess.Popen(
                [*FAIRWARNING, *words], stdout=output, stderr=errors, env=environment(code)
            )

    return start
