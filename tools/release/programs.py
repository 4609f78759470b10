"""Finds and runs the programs that build artefacts."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.release import ROOT, Release, ReleaseError

#: A program and its arguments.
Command = list[str | Path]

#: What builders run, and the Debian package that contains it; for one need there may be alternatives.
PACKAGES: Mapping[str, str] = {
    "conmon": "conmon",
    "crun or runc": "crun",
    "git": "git",
    "mmdebstrap": "mmdebstrap",
    "netavark": "netavark",
    "nsenter": "util-linux",
    "podman": "podman",
    "python3": "python3",
    "strip": "binutils",
    "unshare": "util-linux",
}
#: An ordinary user's path lacks the ``sbin`` folders; no path has those of the programs that podman runs.
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/libexec/podman", "/usr/lib/podman")

#: Enough of a failed program's output to see why it failed.
_LINES = 30


def missing(names: Iterable[str]) -> list[str]:
    """Return those of the programs that this machine lacks, each once."""
    return [name for name in sorted(set(names)) if not any(map(_find, name.split(" or ")))]


def program(name: str) -> str:
    """Return the path of a program, which was looked for before anything was built."""
    path = _find(name)
    if path is None:
        raise ReleaseError(f"{name} has vanished")
    return path


def _find(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_FOLDERS)))


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
