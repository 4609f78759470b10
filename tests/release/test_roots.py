"""A bare root has only what it was asked for, and ends with its context."""

import subprocess
import sys

import pytest

from tools.roots import REPOSITORY, bare_root

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("root", "mmdebstrap", "unshare"),
    pytest.mark.timeout(600),  # a busy machine may take minutes to make a root
]


def test_a_bare_root_shows_nothing_of_this_machine_and_leaves_nothing_behind() -> None:
    seen = "id -un; pwd; command -v python3 curl git; ls -d /outside; set -- /proc/[0-9]*; echo $#"

    with bare_root("python3", "python3-venv") as root:
        done = subprocess.run(root.command("sh", "-c", seen), capture_output=True, text=True)
        lasting = subprocess.Popen(root.command("sleep", "600"))

    assert done.stdout.split() == ["newcomer", "/home/newcomer", "/usr/bin/python3", "2"]
    assert lasting.wait(timeout=30) != 0
    assert not root.path.exists()


@pytest.mark.needs("git")
def test_a_command_runs_as_a_newcomer_in_a_fresh_clone() -> None:
    seen = "id -un; pwd; ls -d .git dev; test -w dev && echo writable; exit 3"

    command = [sys.executable, "-m", "tools.roots", "sh", "-c", seen]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)

    assert done.returncode == 3, done.stderr
    assert done.stdout.split() == ["newcomer", "/home/newcomer/fairwarning", ".git", "dev", "writable"]
