"""Runs the programs that build artefacts."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.release import ROOT, Release, ReleaseError

#: A program and its arguments.
Command = list[str | Path]

#: Enough of a failed program's output to see why it failed.
_LINES = 30


def program(name: str, package: str) -> str:
    """Return the path of a program; ``package`` is the Debian package that contains it."""
    path = shutil.which(
        name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    )
    if path is None:
        raise ReleaseError(f"{name} was not found (Debian, Ubuntu: apt-get install {package})")
    return path


def run(
    release: Release,
    command: Command,
    *,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program whose output must not depend on this machine, and return what it printed."""
    settings = {
        **os.environ,
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(release.epoch),
        "TZ": "UTC",
        **(environment or {}),
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        output = "\n".join(done.stdout.splitlines()[-_LINES:])
        raise ReleaseError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{output}")
    return done.stdout
